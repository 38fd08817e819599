// Instants and spans: microseconds since the start of the test, read by the broker's clock or in real time.

/**
 * Return a span as people say it: "850 µs", "1.2 ms", "3.25 s", "2 min 5 s", "1 h", "3 d 2 h".
 * A recording without times has none to show.
 * @param {number | undefined} us
 * @returns {string}
 */
function spanText(us) {
  if (us === undefined) return "";
  if (us < 0) return `−${spanText(-us)}`;
  if (us < 1) return "0";
  if (us < 1e3) return `${Math.round(us)} µs`;
  if (us < 1e6) return `${shortNumber(us / 1e3)} ms`;
  if (us < 6e7) return `${shortNumber(us / 1e6)} s`;
  const seconds = Math.round(us / 1e6);
  const parts = [
    [Math.floor(seconds / 86400), "d"],
    [Math.floor(seconds / 3600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "min"],
    [seconds % 60, "s"],
  ];
  return parts
    .filter(([count]) => count)
    .slice(0, 2)
    .map(([count, unit]) => `${count} ${unit}`)
    .join(" ");
}

/** @param {number} value */
function shortNumber(value) {
  return String(Number(value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)));
}

function toggleClock() {
  change({ clock: state.clock === "real" ? "broker" : "real" });
}

/**
 * Return when an event happened by the clock that the reader has chosen.
 * @param {StoryEvent} event
 */
function instantOf(event) {
  return state.clock === "real" ? (event.wall ?? event.t) : (event.t ?? event.wall);
}

/**
 * Return "after 151 ms" for what settles a delivery.
 * @param {StoryEvent} event
 */
function afterWords(event) {
  const delivery = deliveryOf.get(event.i);
  return delivery ? `after ${spanText(spanBetween(delivery, event))}` : "";
}

/**
 * @param {StoryEvent} first
 * @param {StoryEvent} last
 */
function spanBetween(first, last) {
  return (instantOf(last) ?? 0) - (instantOf(first) ?? 0);
}

/**
 * Return the time of an event as an element that gives the broker's clock and real time on hover.
 * @param {StoryEvent} event
 * @param {string} [className]
 */
function timeElement(event, className) {
  return el("span", { class: className ?? "time", title: clockTitle(event) }, spanText(instantOf(event)));
}

/** @param {StoryEvent} event */
function clockTitle(event) {
  return [
    ...brokerClock(event).map((text) => `broker's clock ${text}`),
    event.t !== undefined && `broker time ${spanText(event.t)}`,
    event.wall !== undefined && `real time ${spanText(event.wall)}`,
  ]
    .filter(Boolean)
    .join("\n");
}

/**
 * Return what the broker's clock showed at an event, if that is known.
 * @param {StoryEvent} event
 */
function brokerClock(event) {
  return story.start?.ts === undefined || event.t === undefined ? [] : [clockText(story.start.ts + event.t)];
}

/**
 * Return an instant of a clock as date and time with microseconds.
 * @param {number} us
 */
function clockText(us) {
  const date = new Date(Math.floor(us / 1e3));
  if (Number.isNaN(date.getTime())) return `${us} µs`;
  const micros = String(((us % 1e3) + 1e3) % 1e3).padStart(3, "0");
  return `${date.toISOString().replace("T", " ").replace("Z", "")}${micros} UTC`;
}
