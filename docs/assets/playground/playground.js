// The playground: forms whose steps a worker runs on a broker, and what became of each message.

(() => {
  /** @typedef {[string, ...(string | number)[]]} Step */
  /** @typedef {{title: string, about: string, publish: string[], definitions: unknown}} Story */
  /** @typedef {{number: number, label: string, body: string, outcome: string, way: string[]}} Told */
  /**
   * @typedef {{
   *   name: string, type: string, ready: number, unacked: number, settings: Record<string, unknown>
   * }} Queue
   */
  /**
   * @typedef {{
   *   error: string, output: string, program: string, is_ready: boolean, is_empty: boolean, vhost: string,
   *   vhosts?: string[], plugins?: string[][], exchanges?: string[], queues?: Queue[], messages?: Told[],
   *   message_count?: number, touched?: [number, string][], noticed?: string[],
   *   held?: {name: string, number: number, redelivered: boolean}[], page?: string, failed?: string,
   *   times: {started: number, loaded: number, took: number}
   * }} Report
   */

  const place = /** @type {HTMLElement} */ (document.getElementById("play"));
  const files = new URL("../assets/playground/", location.href);
  const LINK = "#play=";
  const SPANS = { "10 seconds": 10, "1 minute": 60, "1 hour": 3600, "1 day": 86400 };

  // What the box says at most of one message, and of how many messages.
  const OUTCOME_MAX = 300;
  const TOUCHED_MAX = 3;

  /** @type {Worker | null} */
  let worker = null;
  let isLoaded = false;
  /** What was done so far; a link repeats it. @type {Step[]} */
  let steps = [];
  /** @type {Story[]} */
  let stories = [];
  /** @type {((report: Report) => void) | null} */
  let answered = null;
  let drawn = "";

  /**
   * What the page shows. It is "busy" while the worker does a step, and "slow" once that takes long. A notice is said
   * instead of what the report has, until the next step.
   * @type {{phase: "idle" | "busy" | "slow", step: Step, report: Report, notice: string}}
   */
  const state = { phase: "idle", step: ["begin"], report: nothing(), notice: "" };

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
    vhost: el("select", {}),
    why: el("p", { hidden: true }, "Steps 2 to 4 need a broker and a channel. Import definitions, choose a story, or run a program that has them."),
    steps: el("fieldset", { class: "play-steps", disabled: true }),
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
   * Let the worker do steps, and show the last report.
   * @param {...Step} wanted
   */
  async function act(...wanted) {
    if (state.phase !== "idle") return;
    state.notice = "";
    enter(isLoaded ? "busy" : "slow");
    const patience = setTimeout(() => enter("slow"), 500);
    for (const step of wanted) {
      if (step[0] === "begin" || step[0] === "run") steps = [];
      steps.push(step);
      state.step = step;
      state.report = await ask(step);
      if (!state.report.is_ready) break;
    }
    clearTimeout(patience);
    state.notice = state.report.failed ?? "";
    if (state.notice) steps = [];
    show();
    const link = steps.length ? `${LINK}${await packed(JSON.stringify(steps))}` : location.pathname;
    history.replaceState(null, "", link);
    enter("idle");
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
      (worker ?? begin()).postMessage(step);
    });
  }

  function begin() {
    worker = new Worker(new URL("worker.js", files), { type: "module" });
    isLoaded = false;
    worker.onmessage = ({ data }) => {
      if (data.isLoaded) {
        isLoaded = true;
        enter(state.phase);
      } else if (data.failed) fail(`${data.failed} Import definitions, or choose a story, to begin again.`);
      else answered?.(data);
    };
    worker.onerror = () => fail("The worker could not be started. Load this page again.");
    return worker;
  }

  /** @returns {Report} */
  function nothing() {
    const times = { started: 0, loaded: 0, took: 0 };
    return { error: "", output: "", program: "", is_ready: false, is_empty: false, vhost: "/", times };
  }

  /**
   * End the worker, and its broker with it. The next step has another one.
   * @param {string} failed
   */
  function fail(failed) {
    worker?.terminate();
    worker = null;
    answered?.({ ...nothing(), failed });
  }

  /** Stop a program that runs for too long, and load Python again. */
  function stop() {
    fail("Stopped. The broker has ended with its program. Import definitions, choose a story or run a program to begin again.");
    begin();
    (state.step[0] === "run" ? parts.program : parts.story).focus();
  }

  /**
   * Say what the page does, or what the last step did.
   * @returns {string}
   */
  function sentence() {
    const { phase, step, report, notice } = state;
    if (phase === "slow") return isLoaded ? "Running ..." : "Starting Python and the broker ...";
    if (notice) return notice;
    const { touched = [], vhosts = [] } = report;
    const said = [];
    if (report.error) said.push("RabbitMQ, or Python, refused that.");
    if (report.is_empty) said.push(`'${step[1]}' has no message that is ready.`);
    for (const [number, outcome] of touched.slice(0, TOUCHED_MAX)) {
      said.push(`#${number}: ${outcome.length > OUTCOME_MAX ? `${outcome.slice(0, OUTCOME_MAX)}...` : outcome}.`);
    }
    if (touched.length > TOUCHED_MAX) said.push(`${touched.length - TOUCHED_MAX} more are in the list.`);
    if (said.length) return said.join(" ");
    if (step[0] === "advance") return "No message has moved in that time.";
    if (step[0] === "disconnect") return "The connection was broken. It held no message.";
    if (step[0] === "use") return `This is the virtual host '${report.vhost}'.`;
    if (!report.is_ready) return "The program has ended.";
    const others = vhosts.length > 1 && `This is the virtual host '${report.vhost}', one of ${vhosts.length}: choose another below the definitions.`;
    return ["The broker is ready.", others, ...needs(report)].filter(Boolean).join(" ");
  }

  /** @param {Report} report */
  function needs({ plugins = [] }) {
    return plugins.map(
      ([name, type, plugin]) => `RabbitMQ refuses the exchange '${name}' of type ${type} if its plugin ${plugin} is not enabled.`,
    );
  }

  /** @param {"idle" | "busy" | "slow"} phase */
  function enter(phase) {
    state.phase = phase;
    if (phase === "idle") place.removeAttribute("aria-busy");
    else place.setAttribute("aria-busy", "true");
    parts.stop.hidden = phase !== "slow" || !isLoaded;
    if (phase === "busy") return;
    const { error, output, is_ready } = state.report;
    refill(parts.line, sentence());
    showText(parts.error, phase === "idle" ? error : "");
    showText(parts.output, phase === "idle" ? output : "");
    parts.why.hidden = phase !== "idle" || is_ready;
  }

  /** Show what the last report has. */
  function show() {
    const { step, report } = state;
    place.dataset.started = String(Math.round(report.times.started));
    place.dataset.loaded = String(Math.round(report.times.loaded));
    place.dataset.took = String(Math.round(report.times.took));
    if (step[0] !== "run" && !report.failed) parts.program.value = report.program;
    parts.steps.disabled = !report.is_ready;
    const { vhosts = [], exchanges = [], queues = [], messages = [], held = [], page } = report;
    choose(parts.vhost, vhosts.map((name) => [name, name]));
    parts.vhost.value = report.vhost;
    hideAround(parts.vhost, vhosts.length < 2);
    refill(parts.noticed, ...[...needs(report), ...(report.noticed ?? [])].map((text) => el("li", {}, text)));
    choose(parts.exchange, exchanges.map((name) => [name, name || "(default exchange)"]));
    choose(parts.queue, queues.map(({ name, ready }) => [name, `${name} (${ready} ready)`]));
    refill(parts.held, ...held.map(heldItem));
    refill(parts.queues, queuesTable(queues));
    const left = (report.message_count ?? 0) - messages.length;
    refill(parts.messages, ...messages.map(messageItem).reverse(), left > 0 && el("li", {}, `${counted(left, "earlier message")}, not shown`));
    hideAround(parts.drawing, !page);
    if (page) draw(page);
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
   * Hide an element with its label or title, or show them.
   * @param {HTMLElement} element
   * @param {boolean} isHidden
   */
  function hideAround(element, isHidden) {
    if (element.parentElement) element.parentElement.hidden = isHidden;
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

  /** @param {{name: string, number: number, redelivered: boolean}} held */
  function heldItem({ name, number, redelivered }) {
    const settle = (/** @type {string} */ label, /** @type {string} */ how) =>
      button(label, () => act(["settle", name, how]).then(() => parts.queue.focus()), { "aria-label": `${label} #${number} (${name})` });
    const again = redelivered && " (redelivered)";
    return el("li", {}, `#${number} `, el("code", {}, name), again, " ", settle("Ack", "ack"), settle("Reject", "reject"), settle("Requeue", "requeue"));
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
  function messageItem({ number, label, body, outcome, way }) {
    const title = el("strong", {}, `#${number} `, label && `${label} `, el("code", {}, body || "(no body)"), `: ${outcome}`);
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
    parts.vhost.addEventListener("change", () => act(["use", parts.vhost.value]));
    const { line, error, output, stop } = parts;
    const moves = Object.entries(SPANS).map(([label, seconds]) => button(label, () => act(["advance", seconds])));
    refill(
      parts.steps,
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
    );
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
            field("Virtual host", parts.vhost),
            parts.why,
          ),
          parts.steps,
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
    show();
  }

  async function copyLink() {
    const isCopied = navigator.clipboard?.writeText(location.href).then(() => true, () => false);
    state.notice = (await isCopied) ? "The link is in the clipboard." : "This browser lets no page copy. The link is the address of this page.";
    enter(state.phase);
  }

  /** @param {string} text */
  async function packed(text) {
    const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
    const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
    const letters = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
    return btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  }

  /**
   * Return the steps of the address, none if they cannot be read.
   * @returns {Promise<Step[]>}
   */
  async function linked() {
    const letters = atob(location.hash.slice(LINK.length).replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    const read = JSON.parse(await new Response(stream).text());
    const isWhole = Array.isArray(read) && read.every((step) => Array.isArray(step)) && ["begin", "run"].includes(read[0]?.[0]);
    return isWhole ? /** @type {Step[]} */ (read) : [];
  }

  async function start() {
    begin();
    refill(place, el("p", { role: "status" }, "Starting Python and the broker ..."));
    stories = await (await fetch(new URL("stories.json", files))).json();
    const isLinked = location.hash.startsWith(LINK);
    const before = isLinked ? await linked().catch(() => []) : [];
    layOut();
    parts.story.focus();
    if (!before.length) {
      await tell(0);
      if (isLinked) state.notice = "The link was cut or changed, so that its steps are lost. This is the first story.";
      enter("idle");
      return;
    }
    parts.story.value = String(stories.length);
    refill(parts.about, "This is the state of the link.");
    if (before[0][0] === "begin") parts.definitions.value = String(before[0][1]);
    if (before[0][0] === "run") parts.program.value = String(before[0][1]);
    await act(...before);
  }

  const isLink = location.hash.startsWith(LINK);
  const label = isLink ? "Start, and repeat the steps of the link" : "Start the broker";
  const load = "This loads Python for browsers from this site: 7 MB if the server compresses it, else 15 MB.";
  const about = isLink ? "A link may hold a program, which then runs in this page." : "Nothing that you enter leaves this page.";
  refill(place, button(label, start, { class: "md-button md-button--primary" }), el("p", {}, `${load} ${about}`));
})();
