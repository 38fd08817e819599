// Unpacks the story that the page carries. The rest of the script runs once it is there.

/** The story as JSON. */
let storyText = "{}";

async function unpackStory() {
  const packed = document.getElementById("story")?.textContent;
  if (!packed) return;
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  storyText = await new Response(unpacked).text();
}
