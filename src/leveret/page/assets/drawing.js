// The drawing of exchanges with their bindings, and of the queues these lead to. A binding is a line of its exchange's
// box, so that no label lies on an edge.

/**
 * What to draw. further: the lines of a box below its edges. isCounted: edges have counts. isSmall: it must fit on
 * paper. heading: the element for the name of a box.
 * @typedef {{
 *   nodes: GraphNode[], edges: GraphEdge[], further: (node: GraphNode) => Element[],
 *   isCounted: boolean, isSmall: boolean, heading?: "h2" | "h3"
 * }} Topology
 */

/**
 * Draw the boxes, measure them, place them, and join them by edges.
 * @param {HTMLElement} content
 * @param {Topology} topology
 */
function drawGraph(content, topology) {
  const { nodes } = topology;
  const graph = div("graph");
  fill(content, graph);
  const edges = topology.edges.filter((edge) => nodes.some((node) => node.id === edge.from));
  const elements = new Map(
    nodes.map((node) => [
      node.id,
      nodeBox(
        topology,
        node,
        edges.filter((edge) => edge.from === node.id),
      ),
    ]),
  );
  fill(graph, ...elements.values());
  /** @type {Map<string, Box>} */
  const boxes = new Map();
  const hasExchanges = nodes.some((node) => node.kind === "exchange");
  for (const [id, element] of elements) {
    const isTarget = edges.some((edge) => edge.to === id);
    const column = hasExchanges && !isTarget && element.classList.contains("queue") ? 1 : 0;
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
  graph.prepend(drawEdges(topology, drawn, size, height));
  if (topology.isSmall || size.width > 1000)
    graph.style.setProperty("--paper-zoom", String(Math.min(1, 980 / (size.width + 32))));
}

/**
 * @param {Topology} topology
 * @param {{arc: Arc, edge: GraphEdge}[]} drawn
 * @param {{width: number, height: number}} size
 * @param {number} height
 */
function drawEdges(topology, drawn, size, height) {
  const picture = svg("svg", { class: "edges", width: size.width + 32, height: height + 12, "aria-hidden": "true" });
  let below = size.height + 18;
  let turn = 0;
  for (const { arc, edge } of drawn) {
    const kind = `edge ${kindClass(edge)}${edge.count || !topology.isCounted ? "" : " unused"}`;
    const end = arc.to.y + INLET;
    const line = path(kind, arcPath(arc, below, turn));
    if (edge.width) line.style.strokeWidth = `${edge.width}px`;
    const half = Math.max(4.5, (edge.width ?? 0) / 2 + 3);
    fill(picture, line, path(`${kind} tip`, `M${arc.to.x} ${end}l-8-${half}v${2 * half}z`));
    if (!arc.isBack) continue;
    below += 10;
    turn += 6;
  }
  return picture;
}

/** @param {GraphEdge} edge */
function kindClass(edge) {
  return (edge.kind ?? "binding").replaceAll(" ", "-");
}

/** The line of each edge within the box that it leaves. @type {Map<GraphEdge, HTMLElement>} */
const lineOf = new Map();

/**
 * Return the box of an exchange or a queue, with a line for each edge that leaves it.
 * @param {Topology} topology
 * @param {GraphNode} node
 * @param {GraphEdge[]} edges
 */
function nodeBox(topology, node, edges) {
  const further = topology.further(node);
  const name = node.label || "(default)";
  return el(
    "section",
    { class: `node ${node.kind}`, "aria-label": `${node.kind} ${name}` },
    el(
      topology.heading ?? "h2",
      { class: "name" },
      span("kind", [node.type, node.kind].filter(Boolean).join(" ")),
      el("span", { class: "label", title: name }, name),
    ),
    node.note && el("p", { class: "note" }, node.note),
    (edges.length > 0 || further.length > 0) &&
      el("ul", {}, ...edges.map((edge) => edgeLine(topology, node, edge)), ...further),
  );
}

/**
 * @param {Topology} topology
 * @param {GraphNode} node
 * @param {GraphEdge} edge
 */
function edgeLine(topology, node, edge) {
  const count = edge.count ?? 0;
  const target = labelOf(topology.nodes, edge.to);
  const line = el(
    "li",
    { class: count || !topology.isCounted ? kindClass(edge) : "unused" },
    el("span", { class: "label", title: `${edgeWords(node, edge)} → ${target}` }, edgeWords(node, edge)),
    span("unseen", ` to ${target}${topology.isCounted ? ": " : ""}`),
    topology.isCounted && span("count", count || "unused", span("unseen", count ? ` ${count === 1 ? "message" : "messages"}` : "")),
  );
  lineOf.set(edge, line);
  return line;
}

/**
 * @param {GraphNode[]} nodes
 * @param {string} id
 */
function labelOf(nodes, id) {
  return nodes.find((node) => node.id === id)?.label || "(default)";
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
