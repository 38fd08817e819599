// The tables of events and of messages: long lists, of which only the rows in sight exist.

/**
 * @template T
 * @typedef {{title: string, name: string, cell: (item: T) => Child | Child[]}} Column
 */

/**
 * Return the parts of a long table. The caller fills `rows.options` when its items change.
 * @template T
 * @param {{
 *   id: string, label: string, columns: Column<T>[], itemAt: (index: number) => T, toneOf: (item: T) => string,
 *   onActive: (index: number) => void, onOpen: (index: number) => void
 * }} options
 */
function longTable(options) {
  const body = el("div", { role: "rowgroup" });
  const head = el(
    "div",
    { role: "rowgroup", class: "table-head" },
    el(
      "div",
      { role: "row", "aria-rowindex": 1 },
      ...options.columns.map((column) => el("div", { role: "columnheader", class: column.name }, column.title)),
    ),
  );
  const grid = el("div", { role: "grid", "aria-label": options.label, class: `grid ${options.id}` }, head, body);
  const empty = el("p", { class: "empty", hidden: true });
  const scroller = div("scroller table", grid, empty);
  const rows = new Rows({
    scroller,
    list: body,
    id: options.id,
    rowHeight: 30,
    count: 0,
    onActive: options.onActive,
    onOpen: options.onOpen,
    headHeight: () => head.offsetHeight,
    make: (index) => {
      const item = options.itemAt(index);
      return el(
        "div",
        { role: "row", "aria-rowindex": index + 2, "aria-selected": "false", class: options.toneOf(item) },
        ...options.columns.map((column) =>
          el("div", { role: "gridcell", class: column.name }, .../** @type {Child[]} */ ([column.cell(item)].flat())),
        ),
      );
    },
    focus: grid,
  });
  return { scroller, rows, grid, empty };
}

/** @param {StoryEvent} event */
function eventCell(event) {
  const run = state.filter.kind === PROBLEMS && roundsOf.get(event.fold ?? -1);
  return el("span", { title: event.text }, ...linked(run ? roundWords(run) : shortText(event), chip));
}

/** Return the panel with the table of events. */
function eventsPanel() {
  const at = (/** @type {number} */ index) => eventAt(shownEvents()[index]);
  const { scroller, rows, grid, empty } = longTable({
    id: "event-row",
    label: "Events",
    itemAt: at,
    toneOf: (event) => toneOf(event),
    onActive: (index) => selectEvent(at(index).i),
    onOpen: (index) => selectEvent(at(index).i, true),
    columns: /** @type {Column<StoryEvent>[]} */ ([
      { title: "Time", name: "when", cell: (event) => timeElement(event) },
      { title: "Event", name: "what", cell: (event) => [eventIcon(event), kindWord(event.kind)] },
      { title: "Message", name: "which", cell: (event) => event.message !== undefined && chip(event.message) },
      { title: "Text", name: "text", cell: eventCell },
      { title: "From", name: "lane", cell: (event) => laneName(event.from) },
      { title: "To", name: "lane", cell: (event) => laneName(event.to) },
      { title: "Line", name: "line", cell: (event) => event.line },
    ]),
  });
  const build = () => {
    rows.options.count = shownEvents().length;
    rows.active = shownEvents().indexOf(state.event);
    grid.setAttribute("aria-rowcount", String(rows.options.count + 1));
    empty.hidden = rows.options.count > 0;
    empty.textContent = emptyWords();
    rows.refresh();
    rows.reveal();
  };
  listeners.push((changed) => {
    if (changed.has("filter") || changed.has("clock")) build();
    else if (changed.has("event")) rows.activate(shownEvents().indexOf(state.event));
    if (changed.has("view") && state.view === "events") rows.reveal();
  });
  build();
  return { panel: panelOf("events", scroller), rows, focus: grid };
}

/** Return the panel with the table of messages. */
function messagesPanel() {
  const at = (/** @type {number} */ index) => story.messages[index];
  const { scroller, rows, grid, empty } = longTable({
    id: "message-row",
    label: "Messages",
    itemAt: at,
    toneOf: (message) => message.tone ?? "plain",
    onActive: (index) => change({ message: at(index).number, event: eventsOf.get(at(index).number)?.[0] ?? -1 }),
    onOpen: (index) => openMessage(at(index).number),
    columns: /** @type {Column<Message>[]} */ ([
      { title: "Message", name: "which", cell: (message) => chip(message.number) },
      { title: "What", name: "text", cell: (message) => el("span", { title: message.label }, message.label) },
      { title: "Exchange", name: "lane", cell: (message) => message.exchange || "(default)" },
      { title: "Routing key", name: "lane", cell: (message) => message.routing_key },
      {
        title: "Outcome",
        name: "outcome",
        cell: (message) => [markIcon(outcomeMark(message), message.tone ?? "plain"), ` ${message.outcome ?? ""}`],
      },
      { title: "Line", name: "line", cell: (message) => message.line },
    ]),
  });
  // "#1 of rome" needs more room than "#1".
  const longest = Math.max(0, ...story.messages.map((message) => message.name?.length ?? 0));
  if (longest) grid.style.setProperty("--which", `${24 + 8 * longest}px`);
  rows.options.count = story.messages.length;
  grid.setAttribute("aria-rowcount", String(story.messages.length + 1));
  empty.hidden = story.messages.length > 0;
  empty.textContent = "No message was published.";
  rows.refresh();
  listeners.push((changed) => {
    if (changed.has("message")) rows.activate(story.messages.findIndex((message) => message.number === state.message));
    if (changed.has("view") && state.view === "messages") rows.reveal();
  });
  return { panel: panelOf("messages", scroller), rows, focus: grid };
}

/** @param {Message} message */
function outcomeMark(message) {
  return { good: MARKS.acked, bad: MARKS.dropped }[message.tone ?? ""] ?? PLAIN;
}
