// Puts the page together.

/** What takes the focus in each view. @type {Record<string, HTMLElement>} */
const focusOf = {};

function focusView() {
  focusOf[state.view].focus({ preventScroll: true });
}

/** @param {string} view */
function showView(view) {
  change({ view });
  focusView();
}

/** @param {Record<string, HTMLElement>} panels */
function tabList(panels) {
  const tabs = VIEWS.map((view) =>
    button(TITLES[view], () => change({ view }), { role: "tab", id: `tab-${view}`, "aria-controls": `panel-${view}` }),
  );
  const list = el("div", { class: "tabs", role: "tablist", "aria-label": "Views" }, ...tabs);
  list.addEventListener("keydown", (event) => {
    const at = VIEWS.indexOf(state.view);
    /** @type {Record<string, number>} */
    const places = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: VIEWS.length - 1 };
    if (!(event.key in places)) return;
    event.preventDefault();
    const place = (places[event.key] + VIEWS.length) % VIEWS.length;
    change({ view: VIEWS[place] });
    tabs[place].focus();
  });
  const show = () => {
    VIEWS.forEach((view, index) => {
      const isShown = view === state.view;
      tabs[index].setAttribute("aria-selected", String(isShown));
      tabs[index].tabIndex = isShown ? 0 : -1;
      panels[view].hidden = !isShown && !state.isPrinting;
    });
  };
  // The first to hear of a change, so that the views are measured while they are shown.
  listeners.unshift((changed) => (changed.has("view") || changed.has("isPrinting")) && show());
  show();
  return list;
}

function start() {
  const sequence = new Sequence();
  const messages = messagesPanel();
  const queues = queuesPanel();
  const topology = topologyPanel();
  const events = eventsPanel();
  const panels = {
    sequence: sequence.element,
    messages: messages.panel,
    queues: queues.panel,
    topology: topology.panel,
    events: events.panel,
  };
  Object.assign(focusOf, {
    sequence: sequence.list,
    messages: messages.focus,
    queues: queues.focus,
    topology: topology.focus,
    events: events.focus,
  });
  const { pane, title } = detailsPane();
  const rows = { sequence: sequence.rows, messages: messages.rows, events: events.rows };
  fill(
    document.body,
    pageHead(),
    el("main", {}, div("bar", tabList(panels), filterBar(), sequence.laneSwitch), div("work", div("views", ...Object.values(panels)), pane)),
  );
  // On a narrow screen the details cover the page, so they take the focus.
  listeners.push(
    (changed) => changed.has("isOpen") && state.isOpen && !isReading && title.focus({ preventScroll: true }),
  );
  listenToKeys({ rows, sequence });
  followLinks();
  addEventListener("popstate", () => readAddress());
  preparePrinting({ rows, sequence });
  readAddress();
  if (state.event < 0 && state.view === "sequence" && !isFiltered()) sequence.openAtProblem();
}

start();
