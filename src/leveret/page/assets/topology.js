// The topology of a test. Beside the bindings stand the keys that matched none of them.

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
      const nodes = story.topology.nodes.filter((node) => node.broker === broker);
      const isSmall = state.isPrinting;
      drawGraph(content, { nodes, edges: story.topology.edges, further: lostLines, isCounted: true, isSmall });
    }
    if (!brokers.length) fill(content, el("p", { class: "empty" }, "The test declared no exchange and no queue."));
  };
  listeners.push(() => draw());
  return { panel: panelOf("topology", focus), focus };
}

/** @param {GraphNode} node */
function lostLines(node) {
  return story.topology.unroutable.filter((each) => each.exchange === node.id).map(lostLine);
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
      el("p", {}, near.key === lost.key ? "" : "nearly ", el("code", {}, near.key || "(empty key)"), ` → ${labelOf(story.topology.nodes, near.to)}: ${near.why}`),
    ),
  );
}
