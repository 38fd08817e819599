// The queues: what each holds over time, its settings and its bindings.

/** Return the panel with a card for each queue. */
function queuesPanel() {
  const list = div("cards");
  const focus = region("Queues", "scroller", list);
  let isDrawn = false;
  const draw = () => {
    isDrawn = true;
    const axis = timeAxis(story.queues.flatMap((queue) => queue.series ?? []));
    refill(list, ...story.queues.map((queue) => queueCard(queue, axis)));
    if (!story.queues.length) list.append(el("p", { class: "empty" }, "The test declared no queue."));
  };
  listeners.push((changed) => {
    const isSeen = state.view === "queues" || state.isPrinting;
    if (isSeen && (!isDrawn || changed.has("clock"))) draw();
    else if (changed.has("clock")) isDrawn = false;
  });
  return { panel: panelOf("queues", focus), focus };
}

/**
 * @param {Queue} queue
 * @param {Axis} axis
 */
function queueCard(queue, axis) {
  const about = [
    queue.type ?? "classic",
    queue.durable ? "durable" : "not durable",
    queue.deleted && "deleted",
    queue.deleted_by && `by ${queue.deleted_by}`,
    queue.deleted_at && `at ${spanText(queue.deleted_at)}`,
    queue.vhost && queue.vhost !== "/" ? `virtual host ${queue.vhost}` : "",
    hasManyBrokers ? brokerTitle(laneOf.get(queue.lane)?.broker ?? "") : "",
  ].filter(Boolean);
  const bindings = queue.bindings ?? [];
  return el(
    "article",
    { class: "card", id: `queue-${queue.lane}`, "aria-label": `Queue ${queue.name}` },
    el("h2", {}, queue.name, " ", el("small", {}, about.join(" · "))),
    chart(queue.series ?? [], axis),
    button("Show its events", () => change({ view: "events", filter: { ...noFilter(), queue: queue.lane } }), {
      class: "screen",
    }),
    settings("Arguments", queue.arguments),
    queue.policy && settings(`Policy ${queue.policy}`, queue.policy_keys),
    bindings.length > 0 &&
      plainTable(
        `Bindings of ${queue.name}`,
        ["Exchange", "Binding key", "Messages"],
        bindings.map((binding) => [
          binding.exchange || "(default)",
          span(
            "",
            el("code", {}, binding.key),
            Object.keys(binding.arguments ?? {}).length > 0 && ` ${JSON.stringify(binding.arguments)}`,
          ),
          binding.count ?? 0,
        ]),
      ),
  );
}

/**
 * @param {string} title
 * @param {Record<string, unknown> | undefined} values
 */
function settings(title, values) {
  const pairs = Object.entries(values ?? {});
  if (!pairs.length) return null;
  return div(
    "settings",
    el("h3", {}, title),
    facts(pairs.map(([name, value]) => [name, settingWords(name, value)])),
  );
}

/**
 * @param {string} name
 * @param {unknown} value
 */
function settingWords(name, value) {
  if (typeof value === "number" && name.match(/(ttl|expires)$/)) return `${value} (${spanText(value * 1e3)})`;
  if (value === "" && name.endsWith("exchange")) return "(default exchange)";
  return typeof value === "string" ? value : JSON.stringify(value);
}

/**
 * Where each real instant stands on the axis that all charts share, from 0 to 1. Long pauses are shortened; breaks are
 * the leaps of the broker's clock.
 * @typedef {{at: Map<number, number>, breaks: {x: number, text: string}[], ticks: {x: number, text: string}[]}} Axis
 */

/**
 * @param {Point[]} points
 * @returns {Axis}
 */
function timeAxis(points) {
  /** @type {Map<number, number>} */
  const brokerTimes = new Map();
  for (const [t, wall] of points) brokerTimes.set(wall, t);
  const instants = [...brokerTimes].sort(([a], [b]) => a - b);
  const at = new Map();
  /** @type {Axis["breaks"]} */
  const breaks = [];
  let x = 0;
  instants.forEach(([wall, t], index) => {
    if (index) {
      const [wallBefore, tBefore] = instants[index - 1];
      const leap = t - tBefore - (wall - wallBefore);
      x += 1 + Math.log1p(Math.max(0, wall - wallBefore) / 1000);
      if (leap > 1e5 && state.clock !== "real") {
        breaks.push({ x: x + 1.5, text: spanText(t - tBefore) });
        x += 3;
      }
    }
    at.set(wall, x);
  });
  const length = x + 1;
  for (const [wall, place] of at) at.set(wall, place / length);
  /** @type {Axis["ticks"]} */
  const ticks = [];
  for (const [wall, t] of instants) {
    const place = at.get(wall) ?? 0;
    if (!ticks.length || (place > ticks[ticks.length - 1].x + 0.2 && place < 0.9))
      ticks.push({ x: place, text: spanText(state.clock === "real" ? wall : t) });
  }
  return { at, ticks, breaks: breaks.map((each) => ({ ...each, x: each.x / length })) };
}

const SERIES = /** @type {const} */ ([
  [2, "ready"],
  [3, "unacked"],
  [4, "consumers"],
]);

/**
 * Return a chart of steps, its key, and its numbers as a table.
 * @param {Point[]} points
 * @param {Axis} axis
 */
function chart(points, axis) {
  if (!points.length) return el("p", { class: "note" }, "Nothing changed in it.");
  const most = Math.max(1, ...points.map((point) => Math.max(point[2], point[3], point[4])));
  const height = 60;
  const xOf = (/** @type {Point} */ point) => (axis.at.get(point[1]) ?? 0) * 1000;
  const yOf = (/** @type {number} */ value) => height - (value / most) * (height - 4);
  const steps = (/** @type {2 | 3 | 4} */ column) =>
    `M${xOf(points[0])} ${yOf(points[0][column])}` +
    points.map((point) => `H${xOf(point)}V${yOf(point[column])}`).join("") +
    "H1000";
  const area = `${steps(2)}V${height}H${xOf(points[0])}Z`;
  const last = points[points.length - 1];
  const readout = span("readout");
  const peaks = SERIES.map(
    ([column, name]) =>
      `${name} at most ${Math.max(...points.map((point) => point[column]))}, at the end ${last[column]}`,
  );
  const plot = el(
    "div",
    { class: "plot", role: "img", "aria-label": peaks.join("; ") },
    svg(
      "svg",
      { viewBox: `0 0 1000 ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" },
      path("area ready", area),
      ...SERIES.map(([column, name]) => path(`series ${name}`, steps(column))),
    ),
    span("most", most),
    ...axis.breaks.map((each) => placed(each, "break")),
  );
  plot.addEventListener("pointermove", (event) => {
    const x = ((event.clientX - plot.getBoundingClientRect().left) / plot.clientWidth) * 1000;
    const point = points.findLast((each) => xOf(each) <= x) ?? points[0];
    readout.textContent = `at ${pointTime(point)}: ${point[2]} ready, ${point[3]} unacked, ${counted(point[4], "consumer")}`;
  });
  plot.addEventListener("pointerleave", () => (readout.textContent = ""));
  return div(
    "chart",
    plot,
    el("div", { class: "ticks", "aria-hidden": "true" }, ...axis.ticks.map((each) => placed(each, "tick"))),
    div(
      "key",
      ...SERIES.map(([column, name]) => el("span", { class: name }, el("i", {}), `${name} ${last[column]}`)),
      span("spring"),
      readout,
    ),
    numbersOf(points),
  );
}

/**
 * @param {{x: number, text: string}} place
 * @param {string} className
 */
function placed({ x, text }, className) {
  const mark = span(className, span("", text));
  mark.style.left = `${x * 100}%`;
  return mark;
}

/** @param {Point} point */
function pointTime(point) {
  return spanText(state.clock === "real" ? point[1] : point[0]);
}

// More rows than this help less than the chart does.
const MOST_NUMBERS = 300;

/** @param {Point[]} points */
function numbersOf(points) {
  const box = el("details", { class: "screen" }, el("summary", {}, "Numbers"));
  box.addEventListener("toggle", () => {
    if (!box.open || box.childElementCount > 1) return;
    const shown = points.slice(-MOST_NUMBERS);
    fill(
      box,
      shown.length < points.length &&
        el("p", { class: "note" }, `The last ${shown.length} of ${counted(points.length, "change")}.`),
      plainTable(
        "Changes",
        ["Time", "Ready", "Unacked", "Consumers"],
        shown.map((point) => [pointTime(point), point[2], point[3], point[4]]),
      ),
    );
  });
  return box;
}
