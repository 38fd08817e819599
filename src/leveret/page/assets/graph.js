// Where the boxes of a graph stand: in columns from left to right, so that most edges lead to the right.

/**
 * A box, and the edges that leave it. A box without an element is a place that a long edge passes through.
 * @typedef {{
 *   id: string, width: number, height: number, x: number, y: number, column: number, rank: number, isBend?: boolean
 * }} Box
 * port: how far below the top of its box the edge leaves. bends: what it passes through. isBack: it leads to the left.
 * @typedef {{from: Box, to: Box, port: number, bends: Box[], isBack: boolean}} Arc
 */

const COLUMN_GAP = 84;
const BOX_GAP = 22;
const INLET = 17;

/**
 * Give each box its place, and each long arc its bends.
 * @param {Box[]} boxes
 * @param {Arc[]} arcs
 * @returns {{width: number, height: number}}
 */
function placeBoxes(boxes, arcs) {
  markBackArcs(boxes, arcs);
  const forward = arcs.filter((arc) => !arc.isBack);
  for (let round = 0; round < boxes.length; round++) {
    let isMoved = false;
    for (const arc of forward) {
      if (arc.to.column <= arc.from.column) {
        arc.to.column = arc.from.column + 1;
        isMoved = true;
      }
    }
    if (!isMoved) break;
  }
  const all = [...boxes, ...forward.flatMap(bendArc)];
  /** @type {Box[][]} */
  const columns = [];
  for (const box of all) (columns[box.column] ??= []).push(box);
  const filled = columns.filter(Boolean);
  filled.forEach((column) => column.forEach((box, rank) => (box.rank = rank)));
  const steps = forward.flatMap(stepsOf);
  for (let round = 0; round < 4; round++) {
    for (const column of filled.slice(1)) orderColumn(column, steps, false);
    for (const column of filled.slice(0, -1).reverse()) orderColumn(column, steps, true);
  }
  return stack(filled, steps);
}

/**
 * An arc that closes a circle leads back.
 * @param {Box[]} boxes
 * @param {Arc[]} arcs
 */
function markBackArcs(boxes, arcs) {
  /** @type {Map<Box, "open" | "done">} */
  const seen = new Map();
  const visit = (/** @type {Box} */ box) => {
    seen.set(box, "open");
    for (const arc of arcs) {
      if (arc.from !== box) continue;
      if (seen.get(arc.to) === "open") arc.isBack = true;
      else if (!seen.has(arc.to)) visit(arc.to);
    }
    seen.set(box, "done");
  };
  const targets = new Set(arcs.map((arc) => arc.to));
  for (const box of [...boxes.filter((each) => !targets.has(each)), ...boxes]) if (!seen.has(box)) visit(box);
}

/**
 * Return the places through which a long arc passes, one for each column between its ends.
 * @param {Arc} arc
 */
function bendArc(arc) {
  for (let column = arc.from.column + 1; column < arc.to.column; column++) {
    arc.bends.push({ id: "", width: 0, height: 2, x: 0, y: 0, column, rank: 0, isBend: true });
  }
  return arc.bends;
}

/** @typedef {{from: Box, to: Box, port: number}} Step */

/**
 * @param {Arc} arc
 * @returns {Step[]}
 */
function stepsOf(arc) {
  const stops = [arc.from, ...arc.bends, arc.to];
  return stops.slice(1).map((to, index) => ({ from: stops[index], to, port: index ? 0 : arc.port }));
}

/**
 * Order a column by the mean place of each box's neighbours.
 * @param {Box[]} column
 * @param {Step[]} steps
 * @param {boolean} isByTargets
 */
function orderColumn(column, steps, isByTargets) {
  /** @type {Map<Box, number>} */
  const means = new Map();
  for (const box of column) {
    const places = isByTargets
      ? steps.filter((step) => step.from === box).map((step) => step.to.rank)
      : steps.filter((step) => step.to === box).map((step) => step.from.rank + step.port / (step.from.height + 1));
    means.set(box, places.length ? places.reduce((sum, place) => sum + place, 0) / places.length : box.rank);
  }
  column.sort((a, b) => (means.get(a) ?? 0) - (means.get(b) ?? 0));
  column.forEach((box, rank) => (box.rank = rank));
}

/**
 * Stack the boxes of each column, each as near as possible to the height of what leads to it.
 * @param {Box[][]} columns
 * @param {Step[]} steps
 */
function stack(columns, steps) {
  let x = 0;
  let height = 0;
  for (const column of columns) {
    const width = Math.max(...column.map((box) => box.width));
    let bottom = 0;
    for (const box of column) {
      const heights = steps.filter((step) => step.to === box).map((step) => step.from.y + step.port);
      const wished = heights.length
        ? heights.reduce((sum, each) => sum + each, 0) / heights.length - (box.isBend ? 0 : INLET)
        : 0;
      box.x = x;
      box.y = Math.max(bottom, wished);
      bottom = box.y + box.height + BOX_GAP;
      if (box.isBend) box.width = width;
    }
    height = Math.max(height, bottom - BOX_GAP);
    x += width + COLUMN_GAP;
  }
  return { width: Math.max(0, x - COLUMN_GAP), height };
}

/**
 * Return the line of an arc, as the `d` of a path. Arcs that lead back pass below everything.
 * @param {Arc} arc
 * @param {number} below
 * @param {number} turn
 */
function arcPath(arc, below, turn) {
  const start = { x: arc.from.x + arc.from.width, y: arc.from.y + arc.port };
  const end = { x: arc.to.x, y: arc.to.y + INLET };
  if (arc.isBack) {
    return `M${start.x} ${start.y}h${10 + turn}q8 0 8 8V${below - 8}q0 8-8 8H${end.x - 18 - turn}q-8 0-8-8V${end.y + 8}q0-8 8-8H${end.x - 7}`;
  }
  let path = `M${start.x} ${start.y}`;
  let from = start;
  for (const stop of [...arc.bends, arc.to]) {
    const to = stop.isBend ? { x: stop.x, y: stop.y } : { x: end.x - 7, y: end.y };
    const middle = (from.x + to.x) / 2;
    path += `C${middle} ${from.y} ${middle} ${to.y} ${to.x} ${to.y}`;
    if (stop.isBend) path += `H${stop.x + stop.width}`;
    from = { x: to.x + (stop.isBend ? stop.width : 0), y: to.y };
  }
  return path;
}
