// What the reader looks at, and the address that leads there again. Views listen for changes; only `change` makes them.

/** @type {Record<string, string>} */
const TITLES = { sequence: "Sequence", messages: "Messages", queues: "Queues", topology: "Topology", events: "Events" };
const VIEWS = Object.keys(TITLES);
const FILTERS = /** @type {const} */ (["text", "client", "queue", "kind", "message"]);

/** @typedef {Record<typeof FILTERS[number], string>} Filter */

/** @returns {Filter} */
function noFilter() {
  return { text: "", client: "", queue: "", kind: "", message: "" };
}

/**
 * event and message: what is selected, -1 and 0 for nothing. isOpen: the details are shown.
 * @type {{
 *   view: string, event: number, message: number, isOpen: boolean, clock: "broker" | "real", filter: Filter,
 *   isPrinting: boolean
 * }}
 */
const state = {
  view: "sequence",
  event: -1,
  message: 0,
  isOpen: false,
  clock: "broker",
  filter: noFilter(),
  isPrinting: false,
};

/** @typedef {Set<keyof typeof state>} Changed */

/** @type {((changed: Changed) => void)[]} */
const listeners = [];

/**
 * Change what the reader looks at, and tell the views.
 * @param {Partial<typeof state>} changes
 * @param {{isNewPlace?: boolean}} [options] isNewPlace: the browser's Back returns to where the reader was.
 */
function change(changes, options) {
  /** @type {Changed} */
  const changed = new Set();
  for (const name of /** @type {(keyof typeof state)[]} */ (Object.keys(changes))) {
    if (state[name] !== changes[name]) changed.add(name);
  }
  if (!changed.size) return;
  Object.assign(state, changes);
  writeAddress(options?.isNewPlace ?? (changed.has("view") || changed.has("isOpen")));
  for (const listener of listeners) listener(changed);
}

/**
 * Select an event and with it its message.
 * @param {number} index
 * @param {boolean} [isOpen] Show the details too.
 */
function selectEvent(index, isOpen) {
  change({ event: index, message: eventAt(index)?.message ?? 0, isOpen: isOpen ?? state.isOpen });
}

/**
 * Show the life of a message.
 * @param {number} number
 */
function openMessage(number) {
  const isSelected = eventAt(state.event)?.message === number;
  change(
    { message: number, event: isSelected ? state.event : (eventsOf.get(number)?.[0] ?? -1), isOpen: true },
    { isNewPlace: true },
  );
}

/** @param {Partial<Filter>} changes */
function changeFilter(changes) {
  const filter = { ...state.filter, ...changes };
  if (FILTERS.some((name) => filter[name] !== state.filter[name])) change({ filter });
}

function isFiltered() {
  return FILTERS.some((name) => state.filter[name] !== "");
}

/** Return the address of what is shown: `#events?kind=returned`, `#message-3?view=queues`. */
function address() {
  const parameters = new URLSearchParams();
  let place = state.view;
  if (state.isOpen && state.message) place = `message-${state.message}`;
  else if (state.isOpen && state.event >= 0) place = `event-${state.event}`;
  if (place !== state.view && state.view !== "sequence") parameters.set("view", state.view);
  for (const name of FILTERS) if (state.filter[name]) parameters.set(name, state.filter[name]);
  const text = parameters.toString();
  return `#${place}${text && "?"}${text}`;
}

// While the address is read, it is only put in order.
let isReading = false;

/** @param {boolean} isNewPlace */
function writeAddress(isNewPlace) {
  const here = address();
  if (here === location.hash || state.isPrinting) return;
  if (isNewPlace && !isReading) history.pushState(null, "", here);
  else history.replaceState(null, "", here);
}

/** Show what the address says. */
function readAddress() {
  const [place, query] = location.hash.slice(1).split("?");
  const parameters = new URLSearchParams(query ?? "");
  const [, what, digits] = place.match(/^(message|event)-(\d+)$/) ?? [];
  const number = Number(digits);
  const filter = noFilter();
  for (const name of FILTERS) filter[name] = parameters.get(name) ?? "";
  const view = what ? (parameters.get("view") ?? "") : place;
  isReading = true;
  change({ view: VIEWS.includes(view) ? view : "sequence", filter, isOpen: false });
  if (what === "message" && messageOf.has(number)) openMessage(number);
  else if (what === "event" && eventAt(number)) selectEvent(number, true);
  isReading = false;
}

/** Open what a link within the page names, and stay in the current view. */
function followLinks() {
  document.addEventListener("click", (event) => {
    const link = /** @type {Element} */ (event.target).closest("a[href^='#']");
    const [, what, digits] = link?.getAttribute("href")?.match(/^#(message|event)-(\d+)$/) ?? [];
    if (!what || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    if (what === "message") openMessage(Number(digits));
    else selectEvent(Number(digits), true);
  });
}
