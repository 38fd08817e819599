// The filter that the sequence and the table of events share: text, client, queue, kind and message.

/** A filter on kinds that keeps everything that went wrong. */
const PROBLEMS = "problems";

/** Return the indexes of the events that pass the filter, in order. */
function filteredEvents() {
  const { text, client, queue, kind, message } = state.filter;
  const number = Number(message.replace("#", ""));
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  // If nothing else went wrong, the messages that the failure names are the problem.
  const asked = new Set(story.events.some(isProblem) ? [] : (story.test.error?.messages ?? []));
  /** @type {number[]} */
  const found = [];
  for (const event of story.events) {
    if (message && event.message !== number) continue;
    if (client && event.from !== client && event.to !== client) continue;
    if (queue && event.from !== queue && event.to !== queue) continue;
    const isKept = kind === PROBLEMS ? isProblem(event) || asked.has(event.message ?? 0) : !kind || event.kind === kind;
    if (!isKept) continue;
    if (words.some((word) => !hasWord(event, word))) continue;
    found.push(event.i);
  }
  return kind === PROBLEMS ? runsOf(found).map(([first]) => first) : found;
}

/** @param {StoryEvent} event */
function isProblem(event) {
  const tone = toneOf(event);
  return tone === "bad" || tone === "warn";
}

/**
 * Return whether an event contains a word. "#3" is message 3 and not message 31.
 * @param {StoryEvent} event
 * @param {string} word
 */
function hasWord(event, word) {
  const [, number] = word.match(/^#(\d+)$/) ?? [];
  if (number) return event.message === Number(number);
  return haystackOf(event).includes(word);
}

/** Return the bar with the fields of the filter. */
function filterBar() {
  const kinds = countsOf([...story.events.keys()], (event) => event.kind);
  const lanes = (/** @type {string[]} */ ...wanted) =>
    story.lanes.filter((lane) => wanted.includes(lane.kind)).map((lane) => [lane.id, laneName(lane.id)]);
  const text = el("input", {
    type: "search",
    id: "search",
    placeholder: "Search events",
    "aria-label": "Search events",
    autocomplete: "off",
    spellcheck: "false",
    oninput: () => changeFilter({ text: text.value }),
  });
  const message = el("input", {
    type: "text",
    id: "filter-message",
    class: "short",
    placeholder: "#",
    "aria-label": "Message",
    inputmode: "numeric",
    autocomplete: "off",
    oninput: () => changeFilter({ message: message.value.trim() }),
  });
  const selects = {
    client: select("client", "All clients", lanes("client", "test", "server")),
    queue: select("queue", "All queues", [
      ...lanes("queue"),
      ...lanes("exchange").map(([id, name]) => [id, `exchange ${name}`]),
    ]),
    kind: select("kind", "All kinds", [
      [PROBLEMS, "problems only"],
      ...[...kinds].sort().map(([kind, count]) => [kind, `${kindWord(kind)} (${count})`]),
    ]),
  };
  const count = el("span", { class: "count", role: "status" });
  const clear = button("Clear", () => change({ filter: noFilter() }), { hidden: true });
  const bar = el(
    "div",
    { class: "filter", role: "search", "aria-label": "Filter events" },
    text,
    selects.client,
    selects.queue,
    selects.kind,
    el("label", { class: "field" }, "Message ", message),
    count,
    clear,
  );
  listeners.push((changed) => {
    if (changed.has("view")) bar.hidden = !["sequence", "events"].includes(state.view);
    if (!changed.has("filter")) return;
    if (text.value !== state.filter.text) text.value = state.filter.text;
    if (message.value.trim() !== state.filter.message) message.value = state.filter.message;
    for (const [name, field] of Object.entries(selects)) {
      field.value = state.filter[/** @type {keyof typeof selects} */ (name)];
      field.classList.toggle("used", field.value !== "");
    }
    clear.hidden = !isFiltered();
    count.textContent = isFiltered()
      ? `${shownEvents().length.toLocaleString("en")} of ${counted(story.events.length, "event")}`
      : "";
  });
  return bar;
}

/** Return why no event is shown. */
function emptyWords() {
  return story.events.length ? "No event passes the filter." : "Nothing happened on the broker during this test.";
}

/** @type {{filter: Filter | null, events: number[]}} */
const lastFiltered = { filter: null, events: [] };

/** Return the events that pass the filter, filtered once for each change of it. */
function shownEvents() {
  if (lastFiltered.filter !== state.filter)
    Object.assign(lastFiltered, { filter: state.filter, events: filteredEvents() });
  return lastFiltered.events;
}

/**
 * @param {"client" | "queue" | "kind"} name
 * @param {string} all
 * @param {string[][]} options
 */
function select(name, all, options) {
  const field = el(
    "select",
    {
      id: `filter-${name}`,
      "aria-label": name[0].toUpperCase() + name.slice(1),
      onchange: () => changeFilter({ [name]: field.value }),
    },
    el("option", { value: "" }, all),
    ...options.map(([value, label]) => el("option", { value }, label)),
  );
  return field;
}
