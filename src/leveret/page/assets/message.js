// The details beside the views: an event, and the whole life of its message.

/** Return the pane with the details of what is selected. */
function detailsPane() {
  const title = el("h2", { tabindex: -1, id: "details-title" });
  const close = button("Close", () => closeDetails(), { title: "Close (Esc)" });
  const back = button("‹", () => stepMessage(-1), { "aria-label": "Previous message" });
  const next = button("›", () => stepMessage(1), { "aria-label": "Next message" });
  const body = el("div", { class: "details-body", role: "region", "aria-labelledby": "details-title", tabindex: 0 });
  const pane = el(
    "aside",
    { class: "details", hidden: true, "aria-labelledby": "details-title" },
    div("details-head", title, span("spring"), back, next, close),
    body,
  );
  listeners.push((changed) => {
    if (!["event", "message", "isOpen", "clock"].some((name) => changed.has(/** @type {keyof typeof state} */ (name))))
      return;
    const message = messageOf.get(state.message);
    const event = eventAt(state.event);
    const isShown = state.isOpen && Boolean(message || event);
    pane.hidden = !isShown;
    document.body.classList.toggle("has-details", isShown);
    if (!isShown) return;
    const scrolled = changed.has("message") || changed.has("isOpen") ? 0 : body.scrollTop;
    back.hidden = next.hidden = !message;
    refill(title, ...(message ? messageTitle(message) : [kindWord(event.kind)]));
    refill(body, ...(message ? messageParts(message) : []), event && eventPart(event));
    body.scrollTop = scrolled;
  });
  return { pane, title };
}

function closeDetails() {
  change({ isOpen: false });
  focusView();
}

/** @param {number} by */
function stepMessage(by) {
  const at = story.messages.findIndex((message) => message.number === state.message);
  const message = story.messages[at + by];
  if (message) openMessage(message.number);
}

/**
 * @param {Message} message
 * @returns {Child[]}
 */
function messageTitle(message) {
  return [chip(message.number), ` ${message.label ?? message.routing_key ?? ""}`];
}

/**
 * @param {string} title
 * @param {...Child} children
 */
function part(title, ...children) {
  return el("section", { class: "part" }, el("h3", {}, title), ...children);
}

/**
 * Return what is known of one event.
 * @param {StoryEvent} event
 */
function eventPart(event) {
  /** @type {[string, Child][]} */
  const pairs = [["broker time", spanText(event.t)]];
  for (const text of brokerClock(event)) pairs.push(["broker's clock", text]);
  if (event.wall !== undefined) pairs.push(["real time", spanText(event.wall)]);
  if (event.from) pairs.push(["from", laneName(event.from)]);
  if (event.to) pairs.push(["to", laneName(event.to)]);
  if (event.channel) pairs.push(["channel", event.channel]);
  if (event.line) pairs.push(["line", el("code", {}, event.line)]);
  pairs.push(.../** @type {[string, Child][]} */ (event.detail ?? []));
  if (event.caused_by !== undefined) pairs.push(["caused by", eventLink(event.caused_by)]);
  const causes = event.causes ?? [];
  return part(
    "Selected event",
    el("p", {}, eventIcon(event), " ", ...linked(event.text)),
    facts(pairs),
    queuesThen(event),
    causes.length > 0 && el("p", {}, "Led to:"),
    causes.length > 0 && el("ul", {}, ...causes.map((index) => el("li", {}, eventLink(index)))),
  );
}

/**
 * Return what the queues held after an event, those that held something.
 * @param {StoryEvent} event
 */
function queuesThen(event) {
  /** @type {[string, Child][]} */
  const pairs = story.queues.flatMap(({ name, series = [] }) => {
    const point = series.findLast(([t, wall]) => (event.wall === undefined ? t <= (event.t ?? 0) : wall <= event.wall));
    if (!point || !(point[2] || point[3] || point[4])) return [];
    return [[name, `${point[2]} ready, ${point[3]} unacked, ${counted(point[4], "consumer")}`]];
  });
  return pairs.length > 0 && div("part", el("h3", {}, "Queues then"), facts(pairs));
}

/** @param {number} index */
function eventLink(index) {
  const event = eventAt(index);
  return event ? el("a", { href: `#event-${index}` }, event.text) : `event ${index}`;
}

/**
 * Return the sections on a message.
 * @param {Message} message
 * @returns {Child[]}
 */
function messageParts(message) {
  return [
    message.outcome &&
      el(
        "p",
        { class: `verdict ${message.tone ?? "plain"}` },
        markIcon(outcomeMark(message), message.tone ?? "plain"),
        " ",
        message.outcome,
      ),
    facts(originOf(message)),
    lifePart(message),
    causesPart(message),
    copiesPart(message),
    deathsPart(message),
    message.summary &&
      message.summary.length > 0 &&
      part(message.framework ? `Read as ${message.framework}` : "Summary", facts(message.summary)),
    message.properties && message.properties.length > 0 && part("Properties", facts(message.properties)),
    headersPart(message),
    bodyPart(message),
  ];
}

/**
 * @param {Message} message
 * @returns {[string, Child][]}
 */
function originOf(message) {
  /** @type {[string, Child][]} */
  const pairs = [];
  if (message.publisher) pairs.push(["publisher", message.publisher]);
  if (message.line) pairs.push(["line", el("code", {}, message.line)]);
  pairs.push(["exchange", message.exchange || "(default)"], ["routing key", message.routing_key ?? ""]);
  if (message.vhost && message.vhost !== "/") pairs.push(["virtual host", message.vhost]);
  return pairs;
}

/** @param {Message} message */
function lifePart(message) {
  const runs = runsOf(eventsOf.get(message.number) ?? []);
  if (!runs.length) return null;
  const isFilteredTo = state.filter.message === String(message.number);
  return part(
    "Life",
    el(
      "ol",
      { class: "life" },
      ...runs.map((run) =>
        run.length > 1
          ? el(
              "li",
              {},
              el(
                "details",
                { open: run.includes(state.event) && run[0] !== state.event },
                el("summary", {}, roundWords(run)),
                el("ol", {}, ...run.map(lifeEntry)),
              ),
            )
          : lifeEntry(run[0]),
      ),
    ),
    !isFilteredTo &&
      button(
        `Show only the events of ${messageName(message.number)}`,
        () => change({ filter: { ...noFilter(), message: String(message.number) } }),
        { class: "screen" },
      ),
  );
}

/** @param {number} index */
function lifeEntry(index) {
  const event = eventAt(index);
  return el(
    "li",
    { class: toneOf(event) },
    button(
      span(
        "entry",
        timeElement(event),
        eventIcon(event),
        span("", `${event.text} ${afterWords(event)}`, event.line && el("small", {}, ` ${event.line}`)),
      ),
      () => selectEvent(index, true),
      { "aria-current": index === state.event ? "true" : null },
    ),
  );
}

/** @param {Message} message */
function causesPart(message) {
  const causes = message.causes ?? [];
  if (!causes.length && !message.caused_by) return null;
  return part(
    "Cause and effect",
    el(
      "ul",
      { class: "causes" },
      message.caused_by && el("li", {}, "caused by ", ...causeWords(message.caused_by)),
      ...causes.map((cause) => el("li", {}, "led to ", ...causeWords(cause))),
    ),
  );
}

/**
 * @param {Cause} cause
 * @returns {Child[]}
 */
function causeWords(cause) {
  return [
    messageOf.has(cause.message) ? chipLink(cause.message) : `#${cause.message}`,
    ` ${messageOf.get(cause.message)?.label ?? ""}: `,
    ...linked(cause.how),
    cause.guess
      ? el("span", { class: "guess", title: "leveret concludes this from the order of events" }, "a guess")
      : null,
  ];
}

/** @param {Message} message */
function copiesPart(message) {
  const copies = message.copies ?? [];
  if (!copies.length) return null;
  return part(
    "Copies",
    plainTable(
      "Copies of the message in queues",
      ["Copy", "Queue", "Deliveries", "How it ended"],
      copies.map((copy) => [
        copy.from_copy === undefined || copy.from_copy === null ? copy.copy : `${copy.copy}, from ${copy.from_copy}`,
        laneName(copy.queue),
        copy.deliveries ?? 0,
        copy.end ?? "",
      ]),
    ),
  );
}

/** @param {Message} message */
function deathsPart(message) {
  const deaths = message.deaths ?? [];
  if (!deaths.length) return null;
  return part(
    "Deaths (x-death)",
    plainTable(
      "Deaths of the message",
      ["Queue", "Reason", "Count", "Exchange", "Routing keys"],
      deaths.map((death) => [
        death.queue,
        death.reason,
        death.count,
        death.exchange || "(default)",
        (death.routing_keys ?? []).join(", "),
      ]),
    ),
  );
}

/** @param {Message} message */
function headersPart(message) {
  const redacted = message.redacted ?? [];
  const isEmpty =
    message.headers === undefined || message.headers === null || Object.keys(message.headers).length === 0;
  if (isEmpty && !redacted.length) return null;
  return part(
    "Headers",
    !isEmpty && code(JSON.stringify(message.headers, null, 2), true),
    redacted.length > 0 && el("p", { class: "note" }, `Redacted: ${redacted.join(", ")}`),
  );
}

/** @param {Message} message */
function bodyPart(message) {
  const body = message.body;
  if (!body) return null;
  /** @type {Record<string, () => Node>} */
  const forms = {};
  if (body.json !== undefined) forms.JSON = () => code(JSON.stringify(body.json, null, 2), true);
  if (body.text !== undefined && body.text !== null) forms.Text = () => code(body.text ?? "", false);
  if (body.hex) forms.Hex = () => code(hexLines(body.hex ?? ""), false);
  const names = Object.keys(forms);
  const view = div("");
  const buttons = names.map((name) => button(name, () => show(name)));
  /** @param {string} name */
  function show(name) {
    view.replaceChildren(forms[name]());
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.textContent === name));
  }
  if (names.length) show(names[0]);
  return part(
    "Body",
    el(
      "p",
      { class: "note" },
      counted(body.size, "byte"),
      body.cut ? `, cut after ${body.cut.toLocaleString("en")}` : "",
      names.length ? "" : body.size ? `; the content was ${story.cut.bodies ? "left out" : "not recorded"}` : "",
      body.hash ? `, hash ${body.hash}` : "",
    ),
    names.length > 1 &&
      el("div", { class: "forms screen", role: "group", "aria-label": "Form of the body" }, ...buttons),
    view,
    div(
      "forms screen",
      names.length > 0 && copyButton("Copy body", () => view.textContent ?? ""),
      copyButton("Copy as code", () => publishCode(message)),
    ),
  );
}

// A longer text is shown in one colour.
const MOST_COLOURED = 30000;

/**
 * Return text as it is written, with the tokens of JSON in colour.
 * @param {string} text
 * @param {boolean} isJson
 */
function code(text, isJson) {
  const block = el("pre", { class: "code", tabindex: 0, role: "group", "aria-label": "Content" });
  if (!isJson || text.length > MOST_COLOURED) block.textContent = visible(text);
  else {
    for (const token of text.split(/(\x22(?:[^\x22\\]|\\.)*\x22(?:\s*:)?)/)) {
      block.append(
        token.startsWith("\x22")
          ? el("span", { class: token.endsWith(":") ? "name" : "string" }, visible(token))
          : token,
      );
    }
  }
  return block;
}

/**
 * Return text whose control characters can be seen; tabs and line ends stay.
 * @param {string} text
 */
function visible(text) {
  // eslint-disable-next-line no-control-regex
  return text.replace(/[\u0000-\u0008\u000b-\u001f]/g, (character) =>
    String.fromCharCode(0x2400 + character.charCodeAt(0)),
  );
}

/**
 * Return bytes as lines of 16, with the printable ones beside them.
 * @param {string} hex
 */
function hexLines(hex) {
  const bytes = hex.match(/[0-9a-f]{2}/gi) ?? [];
  const lines = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const line = bytes.slice(at, at + 16);
    const characters = line
      .map((byte) => (byte >= "20" && byte < "7f" ? String.fromCharCode(parseInt(byte, 16)) : "·"))
      .join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${line.join(" ").padEnd(47)}  ${characters}`);
  }
  return lines.join("\n");
}
