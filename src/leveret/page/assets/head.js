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
      clockButton(), themeButton(),
      button("Help", () => showHelp(), { title: "Keys and legend (?)" }),
    ),
    el("p", { class: "line" }, ...between(testFacts(), " · ")),
    test.error && region(
      "Failure", "failure",
      el("pre", {}, ...linked(test.error.text)),
    ),
    ...story.brokers.map(brokerPart),
    cutPart(),
  );
}

/** @returns {string[]} */
function testFacts() {
  const { test } = story;
  return [
    test.seconds === undefined ? "" : `${spanText(test.seconds * 1e6)} real time`,
    test.broker_seconds === undefined ? "" : `${spanText(test.broker_seconds * 1e6)} broker time`,
    counted(story.messages.length, "message"),
    counted(story.events.length, "event"),
    story.source && story.source !== "memory" ? `recorded from ${story.source === "trace file" ? "a trace file" : story.source}` : "",
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
  const notes = [...(broker.checks ?? []).map(checkNote), ...(broker.faults ?? []).map(faultNote)];
  const dropped = broker.dropped_events ?? 0;
  if (dropped) notes.push(el("li", {}, `${counted(dropped, "earlier event")} had left the recorder's memory before the page was written.`));
  const words = [
    el("strong", {}, broker.title),
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

/** @param {Check} check */
function checkNote(check) {
  const tone = check.level === "error" ? "bad" : "warn";
  const named = (check.messages ?? []).filter((number) => !check.text.includes(`#${number}`));
  return el(
    "li",
    {},
    markIcon(MARKS.refused, tone), span(`word ${tone}`, `check ${check.name}`), " ", ...linked(check.text),
    ...named.flatMap((number) => [" ", chipLink(number)]),
  );
}

/** @param {Fault} fault */
function faultNote(fault) {
  const fired = fault.fired ?? 0;
  const [first] = fault.events ?? [];
  const times = fired === 1 ? "fired once" : `fired ${fired} times`;
  return el(
    "li",
    {},
    markIcon(MARKS.fault, fired ? "warn" : "bad"), span(`word ${fired ? "warn" : "bad"}`, "fault"), ` ${fault.text}: `,
    !fired ? el("strong", {}, "never fired")
      : first === undefined ? times
        : el("a", { href: `#event-${first}` }, times),
  );
}

function cutPart() {
  const { events, bodies } = story.cut;
  const parts = [events ? counted(events, "event") : "", bodies ? `the bodies of ${counted(bodies, "message")}` : ""].filter(Boolean);
  return parts.length > 0 && el("p", { class: "line" }, `Left out to keep the page small: ${parts.join(" and ")}.`);
}

function clockButton() {
  const words = () => (state.clock === "real" ? "Real time" : "Broker time");
  const choice = button(words(), () => toggleClock(), { title: "Which clock the times follow (c)" });
  listeners.push((changed) => {
    if (changed.has("clock")) choice.textContent = words();
  });
  return choice;
}

function themeButton() {
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  const choice = button("Dark", () => show(isDark() ? "light" : "dark"), { id: "theme" });
  /** @param {string | null} theme */
  function show(theme) {
    if (theme) {
      root.dataset.theme = theme;
      remember("leveret-theme", theme);
    }
    choice.setAttribute("aria-pressed", String(isDark()));
  }
  show(remembered("leveret-theme"));
  return choice;
}

/**
 * Keep a choice of the reader for other pages, if the browser lets a file do so.
 * @param {string} name
 * @param {string} value
 */
function remember(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // A page opened from a file may have no storage; the choice then lasts as long as the page.
  }
}

/** @param {string} name */
function remembered(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}
