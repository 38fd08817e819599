// The topology: exchanges with their bindings, and the queues these lead to. A binding is a line of its exchange's box,
// so that no label lies on an edge. Beside the bindings stand the keys that matched none of them.

/** Return the panel with a graph for each broker. */
function topologyPanel() {
  const content = div("graphs");
  const focus = region("Topology", "scroller", content);
  let isDrawn = false;
  const draw = () => {
    if (isDrawn || !(state.view === "topology" || state.isPrinting)) return;
    isDrawn = true;
    const brokers = [...new Set(story.topology.nodes.map((node) => node.broker))];
    for (const broker of brokers) {
      if (brokers.length > 1) fill(content, el("h2", { class: "broker-name" }, brokerTitle(broker ?? "")));
      drawGraph(
        content,
        story.topology.nodes.filter((node) => node.broker === broker),
      );
    }
    if (!brokers.length) fill(content, el("p", { class: "empty" }, "The test declared no exchange and no queue."));
  };
  listeners.push(() => draw());
  return { panel: panelOf("topology", focus), focus };
}

/**
 * Draw the boxes, measure them, place them, and join them by edges.
 * @param {HTMLElement} content
 * @param {GraphNode[]} nodes
 */
function drawGraph(content, nodes) {
  const graph = div("graph");
  fill(content, graph);
  const edges = story.topology.edges.filter((edge) => nodes.some((node) => node.id === edge.from));
  const elements = new Map(
    nodes.map((node) => [
      node.id,
      nodeBox(
        node,
        edges.filter((edge) => edge.from === node.id),
      ),
    ]),
  );
  fill(graph, ...elements.values());
  /** @type {Map<string, Box>} */
  const boxes = new Map();
  for (const [id, element] of elements) {
    const isTarget = edges.some((edge) => edge.to === id);
    const column = !isTarget && element.classList.contains("queue") ? 1 : 0;
    boxes.set(id, { id, width: element.offsetWidth, height: element.offsetHeight, x: 0, y: 0, column, rank: 0 });
  }
  /** @type {{arc: Arc, edge: GraphEdge}[]} */
  const drawn = [];
  for (const edge of edges) {
    const [from, to] = [boxes.get(edge.from), boxes.get(edge.to)];
    const row = lineOf.get(edge);
    if (!from || !to || !row) continue;
    drawn.push({ arc: { from, to, port: row.offsetTop + row.offsetHeight / 2, bends: [], isBack: false }, edge });
  }
  const size = placeBoxes(
    [...boxes.values()],
    drawn.map(({ arc }) => arc),
  );
  const backs = drawn.filter(({ arc }) => arc.isBack).length;
  // Lines that lead back turn round beside the boxes.
  const beside = backs && 24 + backs * 6;
  size.width += beside;
  for (const [id, element] of elements) {
    const box = boxes.get(id);
    if (!box) continue;
    box.x += beside;
    element.style.left = `${box.x}px`;
    element.style.top = `${box.y}px`;
  }
  const height = size.height + (backs ? 20 + backs * 10 : 0);
  graph.style.width = `${size.width + 32 + beside}px`;
  graph.style.height = `${height + 12}px`;
  graph.prepend(drawEdges(drawn, size, height));
  if (state.isPrinting || size.width > 1000)
    graph.style.setProperty("--paper-zoom", String(Math.min(1, 980 / (size.width + 32))));
}

/**
 * @param {{arc: Arc, edge: GraphEdge}[]} drawn
 * @param {{width: number, height: number}} size
 * @param {number} height
 */
function drawEdges(drawn, size, height) {
  const picture = svg("svg", { class: "edges", width: size.width + 32, height: height + 12, "aria-hidden": "true" });
  let below = size.height + 18;
  let turn = 0;
  for (const { arc, edge } of drawn) {
    const kind = `edge ${(edge.kind ?? "binding").replaceAll(" ", "-")}${edge.count ? "" : " unused"}`;
    const end = arc.to.y + INLET;
    fill(
      picture,
      path(kind, arcPath(arc, below, turn)),
      path(`${kind} tip`, `M${arc.to.x} ${end}l-8-4.5v9z`),
    );
    if (!arc.isBack) continue;
    below += 10;
    turn += 6;
  }
  return picture;
}

/** The line of each edge within the box that it leaves. @type {Map<GraphEdge, HTMLElement>} */
const lineOf = new Map();

/**
 * Return the box of an exchange or a queue, with a line for each edge that leaves it.
 * @param {GraphNode} node
 * @param {GraphEdge[]} edges
 */
function nodeBox(node, edges) {
  const lost = story.topology.unroutable.filter((each) => each.exchange === node.id);
  const name = node.label || "(default)";
  return el(
    "section",
    { class: `node ${node.kind}`, "aria-label": `${node.kind} ${name}` },
    el(
      "h2",
      {},
      span("kind", [node.type, node.kind].filter(Boolean).join(" ")),
      el("span", { class: "label", title: name }, name),
    ),
    node.note && el("p", { class: "note" }, node.note),
    (edges.length > 0 || lost.length > 0) &&
      el("ul", {}, ...edges.map((edge) => edgeLine(node, edge)), ...lost.map(lostLine)),
  );
}

/**
 * @param {GraphNode} node
 * @param {GraphEdge} edge
 */
function edgeLine(node, edge) {
  const count = edge.count ?? 0;
  const target = laneLabel(edge.to);
  const line = el(
    "li",
    { class: count ? null : "unused" },
    el("span", { class: "label", title: `${edgeWords(node, edge)} → ${target}` }, edgeWords(node, edge)),
    span("unseen", ` to ${target}: `),
    span("count", count || "unused", span("unseen", count ? ` ${count === 1 ? "message" : "messages"}` : "")),
  );
  lineOf.set(edge, line);
  return line;
}

/** @param {string} id */
function laneLabel(id) {
  return story.topology.nodes.find((node) => node.id === id)?.label || "(default)";
}

/**
 * @param {GraphNode} node
 * @param {GraphEdge} edge
 */
function edgeWords(node, edge) {
  if (edge.label) return edge.label;
  if (edge.kind === "dead letter") return "dead letters";
  if (edge.kind === "alternate") return "alternate exchange";
  return node.type === "fanout" ? "every message" : "(empty key)";
}

/** @param {Unroutable} lost */
function lostLine(lost) {
  return el(
    "li",
    { class: "lost" },
    markIcon(MARKS.dropped, "bad"),
    el("code", {}, lost.key || "(empty key)"),
    span("bad", " matched nothing "),
    ...(lost.messages ?? []).slice(0, 5).flatMap((number) => [chipLink(number), " "]),
    (lost.messages ?? []).length > 5 && `and ${(lost.messages ?? []).length - 5} more`,
    ...(lost.near ?? []).map((near) =>
      el("p", {}, near.key === lost.key ? "" : "nearly ", el("code", {}, near.key || "(empty key)"), ` → ${laneLabel(near.to)}: ${near.why}`),
    ),
  );
}
