// The code of the test: its function with the line that failed and those that published, and the traceback.

// Lines before and after the one that failed; the others open.
const LINES_BEFORE = 8;
const LINES_AFTER = 2;

/** Return the messages that each line of a file published, by its number. @param {string} file */
function publishedAt(file) {
  /** @type {Map<number, number[]>} */
  const found = new Map();
  for (const event of story.events) {
    if (event.kind !== "published" || event.message === undefined || !event.line) continue;
    for (const [, name, line] of event.line.matchAll(/([^\s,]+):(\d+)/g)) {
      if (name !== file) continue;
      const numbers = found.get(Number(line)) ?? [];
      found.set(Number(line), [...numbers, event.message]);
    }
  }
  return found;
}

/** Return the code of the test, if the page has it. */
function codePart() {
  const { code } = story;
  if (!code || !(code.lines?.length || code.traceback?.length || code.stacks?.length)) return null;
  return el(
    "section",
    { class: "source", "aria-label": "Code" },
    functionPart(code),
    tracebackPart(code),
    ...(code.stacks ?? []).map((stack) => stackPart(code, stack.name, stack.frames)),
  );
}

/** @param {Code} code */
function functionPart(code) {
  const { file = "", first = 1, lines = [], failed } = code;
  if (!lines.length) return null;
  const published = publishedAt(file);
  const at = (failed ?? first) - first;
  const isNear = (/** @type {number} */ index) => index >= at - LINES_BEFORE && index <= at + LINES_AFTER;
  const rows = lines.map((text, index) => {
    const number = first + index;
    const messages = published.get(number) ?? [];
    return el(
      "li",
      { class: `${number === failed ? "failed" : ""}${isNear(index) ? "" : " far"}` },
      el("span", { class: "number", "aria-hidden": "true" }, number),
      el("code", {}, text || " "),
      ...messages.slice(0, MOST_ALIKE).map(chipLink),
      messages.length > MOST_ALIKE && el("small", {}, ` ${counted(messages.length, "message")}`),
      number === failed && span("bad word", "failed here"),
    );
  });
  const list = el("ol", { class: "lines", tabindex: 0, "aria-label": "The function of the test" }, ...rows);
  const hidden = lines.filter((_, index) => !isNear(index)).length;
  const more = button(`Show all ${lines.length} lines`, () => {
    list.classList.add("whole");
    more.remove();
  });
  return div("", div("where", placeLink(code, file, failed ?? first)), list, hidden > 0 && more);
}

/** @param {Code} code */
function tracebackPart(code) {
  const frames = code.traceback ?? [];
  if (frames.length < 2) return null;
  return framesPart(code, frames, `Traceback of ${frames.length} calls`);
}

/**
 * Return where a thread or a task stood when the test failed, unless the code shows it.
 * @param {Code} code
 * @param {string} name
 * @param {Frame[]} frames
 */
function stackPart(code, name, frames) {
  const at = frames.findLast((frame) => frame.is_yours) ?? frames[frames.length - 1];
  if (at.file === code.file && at.line === code.failed) return null;
  const stood = `${at.file}:${at.line} in ${at.function}`;
  return framesPart(code, frames, `${name[0].toUpperCase()}${name.slice(1)} stood at ${stood}`, at.code);
}

/**
 * @param {Code} code
 * @param {Frame[]} frames
 * @param {string} title
 * @param {string} [line]
 */
function framesPart(code, frames, title, line) {
  return el(
    "details",
    { class: "screen" },
    el("summary", {}, title, line && el("code", {}, `: ${line}`)),
    el(
      "ol",
      { class: "frames" },
      ...frames.map((frame) =>
        el("li", {}, placeLink(code, frame.file, frame.line), ` in ${frame.function}`, el("code", {}, frame.code)),
      ),
    ),
  );
}

/**
 * Return a link to a line of the user's code, with a button that copies it.
 * @param {Code} code
 * @param {string} file
 * @param {number} line
 */
function placeLink(code, file, line) {
  const path = file.startsWith("/") ? file : `${code.root}/${file}`;
  const place = `${file}:${line}`;
  return span(
    "place",
    el("a", { href: encodeURI(`file://${path}`), title: `${path}:${line}` }, place),
    copyButton("Copy", () => place, `Copy ${place}`),
  );
}

/**
 * Return a button that copies a text.
 * @param {string} label
 * @param {() => string} textOf
 * @param {string} [title]
 */
function copyButton(label, textOf, title) {
  const copy = button(
    label,
    () => {
      copyText(textOf());
      copy.textContent = "Copied";
      setTimeout(() => (copy.textContent = label), 1500);
    },
    { class: "copy screen", title, "aria-label": title },
  );
  return copy;
}

/** @param {string} text */
function copyText(text) {
  const field = el("textarea", { class: "unseen", "aria-hidden": "true" });
  field.value = text;
  document.body.append(field);
  field.select();
  // A page in a file may not use the newer way in every browser.
  document.execCommand("copy");
  field.remove();
}

/**
 * Return a value of JSON as Python writes it.
 * @param {unknown} value
 * @returns {string}
 */
function pythonOf(value) {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(pythonOf).join(", ")}]`;
  if (typeof value === "object") {
    return `{${Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${pythonOf(item)}`).join(", ")}}`;
  }
  return JSON.stringify(value);
}

/**
 * Return the call that publishes a message again.
 * @param {Message} message
 */
function publishCode(message) {
  const body = message.body;
  const text = body?.json === undefined ? body?.text : JSON.stringify(body.json);
  const octets = body?.hex ? `bytes.fromhex(${JSON.stringify(body.hex)})` : `${JSON.stringify(text ?? "")}.encode()`;
  const places = [message.exchange ?? "", message.routing_key ?? ""].map((name) => JSON.stringify(name));
  const hasHeaders = message.headers && Object.keys(message.headers).length > 0;
  return `leveret.publish(${[...places, octets, hasHeaders && `headers=${pythonOf(message.headers)}`].filter(Boolean).join(", ")})`;
}

/** Return the story as text: what went wrong, the error, and what happened. */
function storyAsText() {
  const { test } = story;
  return [
    `${test.id} ${test.outcome}`,
    ...story.causes.map((cause) => cause.sentence),
    test.error?.text,
    ...story.events
      .filter((event) => !event.setup)
      .map((event) => `${spanText(event.t)}  ${event.channel ? `${event.channel} ` : ""}${event.text}`),
  ]
    .filter(Boolean)
    .join("\n");
}
