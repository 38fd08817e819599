// The picture of where dead letters go, by the code that draws the topology of a test.

// The width of a page of A4 between its margins, in pixels of CSS.
const PAPER_WIDTH = 700;

/**
 * @param {HTMLElement} picture
 * @param {{nodes: GraphNode[], edges: GraphEdge[]}} graph
 */
function drawFlow(picture, graph) {
  drawGraph(picture, { ...graph, further: () => [], isCounted: true, isSmall: false, heading: "h3" });
  const drawn = /** @type {HTMLElement} */ (picture.lastElementChild);
  drawn.style.setProperty("--paper-zoom", String(Math.min(1, PAPER_WIDTH / drawn.offsetWidth)));
}

const flowData = document.getElementById("flow-data");
const flowPicture = document.getElementById("flow-picture");
if (flowData && flowPicture) drawFlow(flowPicture, JSON.parse(flowData.textContent ?? ""));
// Without the picture, the table is what there is to read, so it is open until here.
document.getElementById("flow-table")?.removeAttribute("open");
