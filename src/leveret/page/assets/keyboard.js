// What each key does, and the help that lists it. Keys that move within a list belong to the list.

/** @type {[string, string][]} */
const KEYS = [
  ["j  k  ↓  ↑", "next and previous event"],
  ["n  p", "next and previous event of the same message"],
  ["x", "next problem"],
  ["Enter", "open what is selected; open or fold a group"],
  ["Esc", "close the details, leave the search"],
  ["/", "search events"],
  ["1 … 5", "Sequence, Messages, Queues, Topology, Events"],
  ["s", "open or fold all set-up"],
  ["c", "show real time or broker time"],
  ["?", "this help"],
];

let hasSingleKeys = true;

/** @type {HTMLDialogElement | undefined} */
let helpDialog;

function showHelp() {
  helpDialog ??= document.body.appendChild(makeHelp());
  if (!helpDialog.open) helpDialog.showModal();
}

function makeHelp() {
  const choice = el("input", { type: "checkbox", checked: true, onchange: () => (hasSingleKeys = choice.checked) });
  const dialog = el(
    "dialog",
    { "aria-labelledby": "help-title" },
    el("h2", { id: "help-title" }, "Help"),
    el("h3", {}, "Keys"),
    el(
      "dl",
      { class: "keys" },
      ...KEYS.map(([keys, words]) =>
        div("", el("dt", {}, ...keys.split("  ").map((key) => el("kbd", {}, key))), el("dd", {}, words)),
      ),
    ),
    el("label", {}, choice, " Keys without Ctrl or Alt do something"),
    el("h3", {}, "Marks"),
    legend(),
    button("Close", () => dialog.close()),
  );
  return dialog;
}

function legend() {
  return el(
    "ul",
    { class: "legend" },
    ...[...LEGEND, ""].map((kind) => {
      const mark = kind === "redelivered" ? REDELIVERED : (MARKS[kind] ?? PLAIN);
      return el("li", {}, markIcon(mark, mark.tone ?? (kind ? "bad" : "plain")), mark.legend || mark.word || "anything else");
    }),
  );
}

/** @param {{rows: Record<string, Rows>, sequence: Sequence}} views */
function listenToKeys(views) {
  /** @type {Record<string, () => void>} */
  const actions = {
    j: () => moveRows(views.rows, 1),
    k: () => moveRows(views.rows, -1),
    ArrowDown: () => moveRows(views.rows, 1),
    ArrowUp: () => moveRows(views.rows, -1),
    n: () => moveInMessage(1),
    p: () => moveInMessage(-1),
    x: () => nextProblem(),
    Enter: () => state.event >= 0 && selectEvent(state.event, true),
    s: () => views.sequence.toggleAll(),
    c: () => toggleClock(),
    "?": () => showHelp(),
    "/": () => focusSearch(),
    ...Object.fromEntries(VIEWS.map((view, index) => [String(index + 1), () => showView(view)])),
  };
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || helpDialog?.open || event.defaultPrevented) return;
    const target = /** @type {Element} */ (event.target);
    const isTyping = target.matches("input:not([type=checkbox]), select, textarea");
    if (event.key === "Escape") onEscape(isTyping);
    else if (isTyping || (!hasSingleKeys && event.key.length === 1)) return;
    else if (["Enter", "ArrowDown", "ArrowUp"].includes(event.key) && target !== document.body) return;
    else if (actions[event.key]) {
      event.preventDefault();
      actions[event.key]();
    }
  });
}

/** @param {boolean} isTyping */
function onEscape(isTyping) {
  if (isTyping) {
    if (/** @type {HTMLElement} */ (document.activeElement).id === "search") changeFilter({ text: "" });
    focusView();
  } else if (state.isOpen) closeDetails();
}

/**
 * @param {Record<string, Rows>} rows
 * @param {number} by
 */
function moveRows(rows, by) {
  (rows[state.view] ?? rows.sequence).move(by);
}

/** @param {number} by */
function moveInMessage(by) {
  const indexes = eventsOf.get(state.message) ?? [];
  const next = indexes[indexes.indexOf(state.event) + by];
  if (next !== undefined) selectEvent(next);
}

/** Select the next event that went wrong, from the top again after the last. */
function nextProblem() {
  const problems = runsOf(shownEvents().filter((index) => isProblem(eventAt(index))));
  const [next] = problems.find(([index]) => index > state.event) ?? problems[0] ?? [];
  if (next !== undefined) selectEvent(next);
}

function focusSearch() {
  if (!["sequence", "events"].includes(state.view)) change({ view: "events" });
  const field = document.getElementById("search");
  if (field instanceof HTMLInputElement) {
    field.focus();
    field.select();
  }
}
