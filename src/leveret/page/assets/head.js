// The head of the page: the test, how it ended and why, and the brokers it used.

/** Return the head. */
function pageHead() {
  const { test } = story;
  const [file, ...names] = (test.id || "What happened on the broker").split("::");
  const isBad = test.outcome !== "passed" && test.outcome !== "skipped";
  const outcome = test.phase && test.phase !== "call" ? `${test.outcome} in ${test.phase}` : test.outcome;
  return el(
    "header",
    { class: "head" },
    div(
      "title",
      el("h1", {}, names.length ? span("file", `${file}::`) : "", names.length ? names.join("::") : file),
      outcome && span(`outcome ${isBad ? "bad" : "good"}`, outcome),
      span("spring"),
      ...pageLinks(),
      copyButton("Copy story", storyAsText),
      clockButton(),
      themeButton(),
      button("Help", () => showHelp(), { title: "Keys and legend (?)" }),
    ),
    el("p", { class: "line" }, ...between(testFacts(), " · ")),
    wrongPart(),
    div("evidence", test.error && failurePart(test.error.text), codePart()),
    noticedPart(),
    ...story.brokers.map(brokerPart),
    cutPart(),
  );
}

/** Return the links to the other pages of the run. Its index knows which come before and after this one. */
function pageLinks() {
  const { file } = story;
  if (!file) return [];
  const name = encodeURIComponent(file);
  return [
    el("nav", { "aria-label": "Pages of the run", class: "screen" },
      el("a", { href: `index.html#before=${name}` }, "Previous"),
      el("a", { href: "index.html" }, "All tests"),
      el("a", { href: `index.html#after=${name}` }, "Next"),
    ),
  ];
}

/** Return what went wrong, a sentence a cause. */
function wrongPart() {
  const { causes } = story;
  if (!causes.length) return null;
  return el(
    "section",
    { class: "wrong", "aria-label": "What went wrong" },
    el("h2", {}, "What went wrong"),
    el("ul", {}, ...causes.map((cause) => el("li", {}, ...causeSentence(cause)))),
  );
}

/** Return what else was noticed, folded: it need not be wrong. */
function noticedPart() {
  const { noticed } = story;
  if (!noticed.length) return null;
  return el(
    "details",
    { class: "noticed" },
    el("summary", {}, "Also noticed"),
    el("ul", {}, ...noticed.map((cause) => el("li", {}, ...causeSentence(cause)))),
  );
}

// Of the messages that share a cause, more than these are counted.
const MOST_ALIKE = 8;

/**
 * @param {Wrong} cause
 * @returns {Child[]}
 */
function causeSentence({ sentence, messages, events, broker }) {
  const named = linked(sentence, chipLink, broker);
  const others = messages.filter((number) => !sentence.match(new RegExp(`${plainName(number)}(?!\\d)`)));
  const more = others.length - MOST_ALIKE;
  const last = events[events.length - 1];
  return [
    span("", ...named),
    others.length > 0 && span("", " The same: ", ...between(others.slice(0, MOST_ALIKE).map(chipLink), " ")),
    more > 0 && ` and ${more} more`,
    " ",
    last !== undefined && el("a", { href: `#event-${last}`, class: "where" }, "show"),
  ];
}

// An error of more lines is folded.
const LINES_SHOWN = 12;

/** @param {string} text */
function failurePart(text) {
  const lines = text.trimEnd().split("\n");
  const rest = span("rest", ...linked(lines.slice(LINES_SHOWN).map((line) => `\n${line}`).join("")));
  const more = button(`Show all ${lines.length} lines`, () => {
    box.classList.add("whole");
    more.remove();
  });
  const box = div(
    "failure",
    el("pre", {}, ...linked(lines.slice(0, LINES_SHOWN).join("\n")), rest),
    lines.length > LINES_SHOWN && more,
  );
  return box;
}

/** @returns {string[]} */
function testFacts() {
  const { test } = story;
  return [
    test.seconds === undefined ? "" : `${spanText(test.seconds * 1e6)} real time`,
    test.broker_seconds === undefined ? "" : `${spanText(test.broker_seconds * 1e6)} broker time`,
    counted(story.messages.length, "message"),
    counted(story.events.length, "event"),
    story.source && story.source !== "memory"
      ? `recorded from ${story.source === "trace file" ? "a trace file" : story.source}`
      : "",
    story.leveret ? `leveret ${story.leveret}` : "",
    story.python ? `Python ${story.python}` : "",
  ].filter(Boolean);
}

/**
 * @param {Child[]} items
 * @param {string} separator
 * @returns {Child[]}
 */
function between(items, separator) {
  return items.flatMap((item, index) => (index ? [separator, item] : [item]));
}

/** @param {BrokerFacts} broker */
function brokerPart(broker) {
  const found = (broker.checks ?? []).map((check) => checkNote(check, broker.id));
  const notes = [...folded(found), ...(broker.faults ?? []).map(faultNote)];
  const dropped = broker.dropped_events ?? 0;
  if (dropped)
    notes.push(
      el("li", {}, `${counted(dropped, "earlier event")} had left the recorder's memory before the page was written.`),
    );
  const words = [
    el("strong", {}, broker.title),
    broker.place ?? "",
    broker.rabbitmq ? `as RabbitMQ ${broker.rabbitmq}` : "",
    broker.seed === undefined || broker.seed === null ? "" : `seed ${broker.seed}`,
    broker.clock === "held" ? "clock moved by the test" : "",
  ].filter(Boolean);
  return el(
    "section",
    { class: "broker", "aria-label": broker.title },
    el("p", { class: "line" }, ...between(words, " · ")),
    notes.length > 0 && el("ul", { class: "notes" }, ...notes),
  );
}

/**
 * Return the findings of checks. The causes above them say most of it, so that they fold below these.
 * @param {HTMLElement[]} found
 */
function folded(found) {
  if (!story.causes.length || !found.length) return found;
  const summary = el("summary", {}, `${counted(found.length, "finding")} of checks, and how to allow them`);
  return [el("li", {}, el("details", {}, summary, el("ul", { class: "notes" }, ...found)))];
}

/**
 * @param {Check} check
 * @param {string} broker
 */
function checkNote(check, broker) {
  const tone = check.level === "error" ? "bad" : "warn";
  const [first, ...rest] = check.text.split("\n");
  const line = span(
    "",
    markIcon(MARKS.refused, tone),
    span(`word ${tone}`, check.name),
    " ",
    ...linked(first.replace(`${check.name}: `, ""), chipLink, broker),
    ...(check.messages ?? []).slice(0, 5).flatMap((number) => [" ", chipLink(number)]),
  );
  return el(
    "li",
    {},
    line,
    rest.length > 0 && el("details", {}, el("summary", {}, "more"), el("pre", {}, ...linked(rest.join("\n"), chipLink, broker))),
  );
}

/** @param {Fault} fault */
function faultNote(fault) {
  const fired = fault.fired ?? 0;
  const [first] = fault.events ?? [];
  const times = fired > 1 ? `fired ${fired} times` : fired ? "fired once" : "never fired";
  return el(
    "li",
    {},
    span(
      "",
      markIcon(MARKS.fault, "bad"),
      span("word bad", "fault"),
      ` ${fault.text}: `,
      fired && first !== undefined ? el("a", { href: `#event-${first}` }, times) : el("strong", {}, times),
    ),
  );
}

function cutPart() {
  const { events, bodies } = story.cut;
  const parts = [
    events ? counted(events, "event") : "",
    bodies ? `the bodies of ${counted(bodies, "message")}` : "",
  ].filter(Boolean);
  return parts.length > 0 && el("p", { class: "line" }, `Left out to keep the page small: ${parts.join(" and ")}.`);
}

function clockButton() {
  const words = () => (state.clock === "real" ? "Show broker time" : "Show real time");
  const choice = button(words(), () => toggleClock(), { title: "Change the clock that times follow (c)" });
  listeners.push((changed) => {
    if (changed.has("clock")) choice.textContent = words();
  });
  return choice;
}

function themeButton() {
  const root = document.documentElement;
  const isDark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const choice = button("Dark", () => show(isDark() ? "light" : "dark"), { id: "theme" });
  /** @param {string | null} theme */
  function show(theme) {
    if (theme) root.dataset.theme = theme;
    choice.setAttribute("aria-pressed", String(isDark()));
  }
  show(null);
  return choice;
}
