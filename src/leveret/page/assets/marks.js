// How each kind of event looks: its icon, its line and its words. Also the chip that stands for a message.

/** Strokes around the centre of a circle with a radius of 7. @type {Record<string, string>} */
const STROKES = {
  check: "M-3.2.2-1 2.5 3.3-2.3",
  cross: "M-2.5-2.5 2.5 2.5M2.5-2.5-2.5 2.5",
  back: "M3.2 2.8C3.2-.6 1-1-2.8-1M-.5-3.4-3-1-.5 1.4",
  loop: "M2.7-1.9A3.3 3.3 0 1 0 3.2.9M3.1-4V-1.5H.6",
  hourglass: "M-2.5-3.5H2.5L-2.5 3.5H2.5L-2.5-3.5",
  dead: "M0-3.8V3.8M-2.5-1.4H2.5",
  bin: "M-3.2-2H3.2M-2.2-2-1.7 3.4H1.7L2.2-2M-1-2V-3.6H1V-2",
  bolt: "M1-4-2.4.6H.2L-1 4 2.4-.8H-.2Z",
  lost: "M-4 2.2-1.2 0-4-2.2M4 2.2 1.2 0 4-2.2",
  stop: "M-3 0H3",
  right: "M-3.2 0H3M.4-2.6 3.1 0 .4 2.6",
  dot: "",
};

/**
 * How a kind is drawn. icon: at the end of its line, or on its lane if it has none. tone: unless the event has its own.
 * line: "solid" for a message on its way, "answer" for what is said about one, "faint" for set-up. role: what it does
 * to a message. legend: its word in the legend, if that is another.
 * @typedef {{
 *   icon: string, line: string, word: string, tone?: string, isHollow?: boolean, at?: string, role?: string,
 *   legend?: string
 * }} Mark
 */

/** @type {Record<string, Mark>} */
const MARKS = {
  published: { icon: "right", line: "solid", word: "published", role: "publish" },
  enqueued: { icon: "right", line: "solid", word: "enqueued", role: "arrival" },
  delivered: { icon: "right", line: "solid", word: "delivered", role: "delivery" },
  got: { icon: "right", line: "solid", word: "fetched", role: "delivery" },
  confirmed: { icon: "check", line: "answer", word: "confirmed", tone: "good", isHollow: true, role: "answer" },
  nacked_confirm: { icon: "cross", line: "answer", word: "publish refused", tone: "bad", isHollow: true, role: "answer" },
  returned: { icon: "back", line: "answer", word: "returned", tone: "bad" },
  acked: { icon: "check", line: "answer", word: "acked", tone: "good", role: "settling" },
  nacked: { icon: "cross", line: "answer", word: "nacked", tone: "warn", role: "settling" },
  rejected: { icon: "cross", line: "answer", word: "rejected", tone: "warn", role: "settling" },
  requeued: { icon: "loop", line: "answer", word: "requeued", tone: "warn", role: "requeue" },
  expired: { icon: "hourglass", line: "answer", word: "expired", tone: "bad" },
  dropped: { icon: "cross", line: "answer", word: "dropped", tone: "bad", role: "loss" },
  dead_lettered: { icon: "dead", line: "solid", word: "dead-lettered", tone: "warn", at: "start", role: "death" },
  purged: { icon: "bin", line: "answer", word: "purged", tone: "warn" },
  fault: { icon: "bolt", line: "faint", word: "fault", tone: "bad" },
  refused: { icon: "stop", line: "faint", word: "refused", tone: "bad" },
  log: { icon: "dot", line: "faint", word: "log" },
  output: { icon: "dot", line: "faint", word: "output" },
  conn_close: { icon: "lost", line: "faint", word: "connection closed", legend: "connection lost" },
};

/** What a kind of set-up adds. @type {Record<string, string>} */
const NOUNS = {
  conn_open: "connection",
  chan_open: "channel",
  exchange_declare: "exchange",
  queue_declare: "queue",
  bind: "binding",
  consume: "consumer",
};

/** What the legend shows, in order. */
const LEGEND = [
  "confirmed",
  "returned",
  "redelivered",
  "acked",
  "nacked",
  "rejected",
  "requeued",
  "expired",
  "dead_lettered",
  "dropped",
  "fault",
  "refused",
  "conn_close",
];

/** @type {Mark} */
const PLAIN = { icon: "dot", line: "faint", word: "" };
/** @type {Mark} */
const REDELIVERED = { icon: "loop", line: "solid", word: "redelivered", tone: "warn", at: "start" };

/** Return what an event does to its message: "publish", "delivery", "settling". @param {StoryEvent} event */
function roleOf(event) {
  return MARKS[event.kind]?.role ?? "";
}

/** @param {StoryEvent} event */
function markOf(event) {
  if (roleOf(event) === "delivery" && event.tone === "warn") return REDELIVERED;
  return MARKS[event.kind] ?? PLAIN;
}

/** @param {StoryEvent} event */
function toneOf(event) {
  return event.tone ?? markOf(event).tone ?? "plain";
}

/**
 * Return the words for a kind: "queue declare", "dead-lettered".
 * @param {string} kind
 */
function kindWord(kind) {
  return MARKS[kind]?.word ?? kind.replaceAll("_", " ");
}

/**
 * Return how often events have each word.
 * @param {number[]} indexes
 * @param {(event: StoryEvent) => string} wordOf
 */
function countsOf(indexes, wordOf) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const index of indexes) {
    const word = wordOf(eventAt(index));
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  return counts;
}

/** Return what happens in a run of rounds, how often, and how long. @param {number[]} run */
function roundWords(run) {
  const counts = countsOf(run, (event) => markOf(event).word || kindWord(event.kind));
  const first = eventAt(run[0]);
  const span = spanBetween(first, eventAt(run[run.length - 1]));
  const words = [...counts.keys()].join(", ");
  return `${messageName(first.message ?? 0)} ${Math.min(...counts.values())} times in ${spanText(span)}: ${words}`;
}

/**
 * Return a mark as a group around a point of a drawing.
 * @param {Mark} mark
 * @param {string} tone
 * @param {number} x
 * @param {number} y
 */
function markGroup(mark, tone, x, y) {
  return svg(
    "g",
    { class: `mark ${tone}${mark.isHollow ? " hollow" : ""}`, transform: `translate(${x} ${y})` },
    svg("circle", { r: mark.icon === "dot" ? 3.5 : 7 }),
    svg("path", { d: STROKES[mark.icon] }),
  );
}

/**
 * Return a mark as an icon in text; the words beside it say the same.
 * @param {Mark} mark
 * @param {string} tone
 */
function markIcon(mark, tone) {
  return svg("svg", { class: "icon", viewBox: "-8 -8 16 16", "aria-hidden": "true" }, markGroup(mark, tone, 0, 0));
}

/** @param {StoryEvent} event */
function eventIcon(event) {
  return markIcon(markOf(event), toneOf(event));
}

/** @param {number | undefined} number */
function colourClass(number) {
  const message = number === undefined ? undefined : messageOf.get(number);
  return message ? `m${(message.colour ?? message.number) % 12}` : "m-none";
}

/**
 * Return "#3" in the message's colour.
 * @param {number} number
 */
function chip(number) {
  return span(`chip ${colourClass(number)}`, messageName(number));
}

/**
 * Return "#3" in the message's colour, as a link that opens the message.
 * @param {number} number
 */
function chipLink(number) {
  const label = messageOf.get(number)?.label;
  return el(
    "a",
    { class: `chip ${colourClass(number)}`, href: `#message-${number}`, title: label },
    messageName(number),
  );
}
