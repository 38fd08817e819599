// The playground: forms whose steps a worker runs on a broker, and what became of each message.

(() => {
  /** @typedef {[string, ...(string | number)[]]} Step */
  /** @typedef {{title: string, about: string, publish: string[], definitions: unknown}} Story */
  /** @typedef {{number: number, label: string, outcome: string, way: string[]}} Told */
  /**
   * @typedef {{
   *   name: string, type: string, ready: number, unacked: number, settings: Record<string, unknown>
   * }} Queue
   */
  /**
   * @typedef {{
   *   error: string, output: string, program: string, exchanges?: string[], queues?: Queue[], messages?: Told[],
   *   noticed?: string[],
   *   held?: {name: string, redelivered: boolean}[], page?: string, failed?: string,
   *   times: {started: number, loaded: number, took: number}
   * }} Report
   */

  const place = /** @type {HTMLElement} */ (document.getElementById("play"));
  const files = new URL("../assets/playground/", location.href);
  const LINK = "#play=";
  const SPANS = { "10 seconds": 10, "1 minute": 60, "1 hour": 3600, "1 day": 86400 };

  /** @type {Worker | null} */
  let worker = null;
  /** What was done so far; a link repeats it. @type {Step[]} */
  let steps = [];
  /** @type {Story[]} */
  let stories = [];
  /** @type {((report: Report) => void) | null} */
  let answered = null;
  let drawn = "";

  /**
   * @param {string} label
   * @param {HTMLElement} control
   */
  const field = (label, control) => el("label", { class: "play-field" }, span("", label), control);

  const parts = {
    line: el("p", { class: "play-line", role: "status" }),
    error: el("pre", { class: "play-error", role: "alert", hidden: true }),
    output: el("pre", { class: "play-output", hidden: true }),
    about: el("p", {}),
    story: el("select", {}),
    definitions: el("textarea", { rows: 8, spellcheck: "false" }),
    exchange: el("select", {}),
    key: el("input", { type: "text", autocomplete: "off", spellcheck: "false" }),
    body: el("input", { type: "text", autocomplete: "off", spellcheck: "false" }),
    expiration: el("input", { type: "text", inputmode: "numeric", placeholder: "none", autocomplete: "off" }),
    headers: el("input", { type: "text", placeholder: '{"name": "value"}', autocomplete: "off", spellcheck: "false" }),
    queue: el("select", {}),
    held: el("ul", { class: "play-held" }),
    queues: div("play-queues"),
    noticed: el("ul", { class: "play-noticed" }),
    messages: el("ol", { class: "play-messages" }),
    drawing: el("iframe", { title: "What happened, drawn", class: "play-drawing" }),
    program: el("textarea", { rows: 12, spellcheck: "false" }),
    stop: button("Stop", () => stop(), { hidden: true }),
  };

  /**
   * Let the worker do something, and show the report.
   * @param {...Step} wanted
   */
  async function act(...wanted) {
    if (answered) return;
    place.setAttribute("aria-busy", "true");
    const patience = setTimeout(() => (parts.stop.hidden = false), 2000);
    for (const step of wanted) {
      if (step[0] === "begin" || step[0] === "run") steps = [];
      steps.push(step);
      const report = await ask(step);
      if (report.failed) {
        say(report.failed);
        break;
      }
      show(report, step);
      if (report.error) break;
    }
    clearTimeout(patience);
    parts.stop.hidden = true;
    history.replaceState(null, "", `${LINK}${await packed(JSON.stringify(steps))}`);
    place.removeAttribute("aria-busy");
  }

  /**
   * @param {Step} step
   * @returns {Promise<Report>}
   */
  function ask(step) {
    return new Promise((resolve) => {
      answered = (report) => {
        answered = null;
        resolve(report);
      };
      worker?.postMessage(step);
    });
  }

  function begin() {
    worker = new Worker(new URL("worker.js", files), { type: "module" });
    worker.onmessage = ({ data }) => answered?.(data);
    worker.onerror = () => answered?.({ ...nothing(), failed: "The worker could not be started." });
  }

  /** @returns {Report} */
  function nothing() {
    return { error: "", output: "", program: "", times: { started: 0, loaded: 0, took: 0 } };
  }

  /** Stop a program that runs for too long, and begin again from the definitions. */
  function stop() {
    worker?.terminate();
    begin();
    answered?.({ ...nothing(), failed: "Stopped. Import definitions, or choose a story, to begin again." });
  }

  /** @param {string} text */
  function say(text) {
    refill(parts.line, text);
  }

  /**
   * @param {Report} report
   * @param {Step} step
   */
  function show(report, step) {
    place.dataset.started = String(Math.round(report.times.started));
    place.dataset.loaded = String(Math.round(report.times.loaded));
    place.dataset.took = String(Math.round(report.times.took));
    showText(parts.error, report.error);
    showText(parts.output, report.output);
    if (step[0] !== "run") parts.program.value = report.program;
    refill(parts.noticed, ...(report.noticed ?? []).map((text) => el("li", {}, text)));
    const messages = report.messages ?? [];
    const last = messages[messages.length - 1];
    say(report.error ? "RabbitMQ, or Python, refused that." : last ? `#${last.number}: ${last.outcome}.` : "The broker is ready.");
    choose(parts.exchange, (report.exchanges ?? []).map((name) => [name, name || "(default exchange)"]));
    choose(parts.queue, (report.queues ?? []).map(({ name, ready }) => [name, `${name} (${ready} ready)`]));
    refill(parts.held, ...(report.held ?? []).map(heldItem));
    refill(parts.queues, queuesTable(report.queues ?? []));
    refill(parts.messages, ...messages.map(messageItem).reverse());
    if (report.page) draw(report.page);
  }

  /**
   * @param {HTMLElement} element
   * @param {string} text
   */
  function showText(element, text) {
    refill(element, text);
    element.hidden = !text;
  }

  /**
   * Offer these values, and keep the choice.
   * @param {HTMLSelectElement} select
   * @param {string[][]} pairs
   */
  function choose(select, pairs) {
    const chosen = select.value;
    refill(select, ...pairs.map(([value, label]) => el("option", { value }, label)));
    if (pairs.some(([value]) => value === chosen)) select.value = chosen;
  }

  /** @param {{name: string, redelivered: boolean}} held */
  function heldItem({ name, redelivered }) {
    const settle = (/** @type {string} */ label, /** @type {string} */ how) =>
      button(label, () => act(["settle", name, how]).then(() => parts.queue.focus()), { "aria-label": `${label} ${name}` });
    const again = redelivered && " (redelivered)";
    return el("li", {}, el("code", {}, name), again, " ", settle("Ack", "ack"), settle("Reject", "reject"), settle("Requeue", "requeue"));
  }

  /** @param {Queue[]} queues */
  function queuesTable(queues) {
    const rows = queues.map((queue) => [
      el("code", {}, queue.name),
      queue.type,
      queue.ready,
      queue.unacked,
      Object.entries(queue.settings).map(([key, value]) => `${key}: ${JSON.stringify(value)}`).join(", "),
    ]);
    return plainTable("Queues", ["queue", "type", "ready", "unacked", "arguments and policy"], rows);
  }

  /** @param {Told} told */
  function messageItem({ number, label, outcome, way }) {
    const title = el("strong", {}, `#${number} ${label}: ${outcome}`);
    return el("li", {}, title, el("ol", {}, ...way.map((text) => el("li", {}, text))));
  }

  /**
   * Draw the page of what happened: the same as of a failed test, in the view that the reader has chosen there.
   * @param {string} page
   */
  function draw(page) {
    const view = parts.drawing.contentWindow?.location.hash || "#topology";
    if (drawn) URL.revokeObjectURL(drawn);
    drawn = URL.createObjectURL(new Blob([page], { type: "text/html" }));
    parts.drawing.contentWindow?.location.replace(`${drawn}${view}`);
  }

  function importDefinitions() {
    return act(["begin", parts.definitions.value || "{}"]);
  }

  /** @param {number} index */
  function tell(index) {
    const story = stories[index];
    refill(parts.about, story ? story.about : "Paste what rabbitmqctl export_definitions writes, and import it.");
    if (!story) {
      parts.definitions.value = "";
      parts.definitions.focus();
      return Promise.resolve();
    }
    parts.definitions.value = JSON.stringify(story.definitions, null, 1);
    const [exchange, key, body, expiration, headers] = story.publish;
    [parts.key.value, parts.body.value, parts.expiration.value, parts.headers.value] = [key, body, expiration ?? "", headers ?? ""];
    return importDefinitions().then(() => {
      parts.exchange.value = exchange;
    });
  }

  function publish() {
    const { exchange, key, body, expiration, headers } = parts;
    act(["publish", exchange.value, key.value, body.value, expiration.value, headers.value]);
  }

  /**
   * @param {string} title
   * @param {...Child} children
   */
  const group = (title, ...children) => el("section", { class: "play-group" }, el("h2", {}, title), ...children);

  /**
   * @param {() => void} send
   * @param {...Child} children
   */
  const form = (send, ...children) =>
    el("form", { onsubmit: (/** @type {Event} */ event) => (event.preventDefault(), send()) }, ...children);

  const submit = (/** @type {string} */ label) => el("button", { type: "submit" }, label);

  function layOut() {
    const options = [...stories.map((story) => story.title), "Your own definitions"];
    refill(parts.story, ...options.map((title, index) => el("option", { value: index }, title)));
    parts.story.addEventListener("change", () => tell(Number(parts.story.value)));
    const { line, error, output, stop } = parts;
    const moves = Object.entries(SPANS).map(([label, seconds]) => button(label, () => act(["advance", seconds])));
    refill(
      place,
      div(
        "play-columns",
        div(
          "",
          group(
            "1. Queues and exchanges",
            field("Story", parts.story),
            parts.about,
            form(importDefinitions, field("definitions.json", parts.definitions), submit("Import")),
          ),
          group(
            "2. Publish",
            form(
              publish,
              field("Exchange", parts.exchange),
              field("Routing key", parts.key),
              field("Body", parts.body),
              field("Expiration in ms", parts.expiration),
              field("Headers as JSON", parts.headers),
              submit("Publish"),
            ),
          ),
          group("3. Consume", form(() => act(["get", parts.queue.value]), field("Queue", parts.queue), submit("Get a message")), parts.held),
          group("4. Time and trouble", el("p", {}, "Move time by"), div("play-row", ...moves), button("Break the connection", () => act(["disconnect"]))),
        ),
        div(
          "",
          group("Where each message is", parts.queues, parts.noticed, parts.messages),
          group("Drawn", parts.drawing),
        ),
      ),
      group(
        "The same as Python",
        el("p", {}, "Each step above is a line here. Change the program as you like, and run it from its first line."),
        form(() => act(["run", parts.program.value]), field("Program", parts.program), submit("Run")),
      ),
      group("Keep it", el("p", {}, "The address of this page repeats every step."), button("Copy the link", copyLink)),
      div("play-said", line, stop, error, output),
    );
  }

  async function copyLink() {
    await navigator.clipboard?.writeText(location.href);
    say("The link is in the clipboard.");
  }

  /** @param {string} text */
  async function packed(text) {
    const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
    const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
    const letters = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
    return btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  }

  /**
   * Return the steps of an address; none if it has none.
   * @returns {Promise<Step[]>}
   */
  async function linked() {
    if (!location.hash.startsWith(LINK)) return [];
    const letters = atob(location.hash.slice(LINK.length).replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return JSON.parse(await new Response(stream).text());
  }

  async function start() {
    begin();
    refill(place, el("p", { role: "status" }, "Starting Python and the broker ..."));
    stories = await (await fetch(new URL("stories.json", files))).json();
    const before = await linked().catch(() => []);
    layOut();
    parts.story.focus();
    say("Starting Python and the broker ...");
    if (!before.length) {
      await tell(0);
      return;
    }
    parts.story.value = String(stories.length);
    refill(parts.about, "This is the state of the link.");
    if (before[0][0] === "begin") parts.definitions.value = String(before[0][1]);
    if (before[0][0] === "run") parts.program.value = String(before[0][1]);
    await act(...before);
  }

  const label = location.hash.startsWith(LINK) ? "Start, and repeat the steps of the link" : "Start the broker";
  refill(place, button(label, start, { class: "md-button md-button--primary" }), el("p", {}, "This loads Python for browsers, 7 MB, from this site. Nothing that you enter leaves this page."));
})();
