// The live page: rows that the feed sends, drawn once a frame, and forms that call the control API.

(() => {
  /** @typedef {Record<string, any>} Row */

  const API = "/leveret/v1";
  const SHOWN_MESSAGES = 50;
  const FAULTS = {
    reset_peer: "basic.ack",
    close_channel: "basic.publish",
    close_connection: "basic.publish",
    nack_publishes: "",
    withhold_confirms: "",
    drop: "basic.publish",
    duplicate: "",
    redeliver: "",
    cancel_consumers: "",
    block_publishers: "",
    refuse_connections: "",
  };

  /** @type {Record<string, Map<string, Row>>} */
  const sections = { head: new Map(), queues: new Map(), exchanges: new Map(), connections: new Map(), faults: new Map() };
  /** What must be drawn again. @type {Set<string>} */
  const stale = new Set();
  /** @type {{queue: Row | null, events: string[], rates: Row, halted: string | null, isConnected: boolean}} */
  const live = { queue: null, events: [], rates: {}, halted: null, isConnected: false };
  let isDrawing = false;
  let isLooking = false;

  const parts = {
    title: el("h1", {}, "leveret"),
    line: el("p", { class: "line", role: "status" }),
    halted: el("p", { class: "halted", role: "alert", hidden: true }),
    queues: div(""),
    exchanges: div(""),
    connections: div(""),
    faults: div(""),
    events: el("ol", { class: "events", role: "log", "aria-label": "Last events", "aria-live": "off" }),
    messages: div(""),
    answer: el("p", { class: "answer", role: "status", "aria-label": "Answer" }),
  };

  /**
   * Call the control API, and show what it refuses.
   * @param {string} method
   * @param {string} place
   * @param {Row} [body]
   */
  async function call(method, place, body) {
    const options = { method, body: body && JSON.stringify(body) };
    try {
      const response = await fetch(API + place, options);
      const text = await response.text();
      const answer = text ? JSON.parse(text) : {};
      say(response.ok ? "" : answer.reason);
      return response.ok ? answer : null;
    } catch (error) {
      say(`the broker does not answer: ${error}`);
      return null;
    }
  }

  /**
   * @param {string} text
   * @param {boolean} [isFine]
   */
  function say(text, isFine) {
    parts.answer.className = isFine ? "answer fine" : "answer";
    refill(parts.answer, text);
  }

  /** @param {Row} queue */
  function placeOf(queue) {
    return `/vhosts/${encodeURIComponent(queue.vhost)}/queues/${encodeURIComponent(queue.name)}`;
  }

  /** @param {string[]} key */
  function rowKey(key) {
    return JSON.stringify(key.slice(1));
  }

  /** @param {MessageEvent} message */
  function take(message) {
    const news = JSON.parse(message.data);
    for (const entry of news.rows) {
      const row = entry.pop();
      sections[entry[0]].set(rowKey(entry), row);
      stale.add(entry[0]);
    }
    for (const key of news.gone) {
      sections[key[0]].delete(rowKey(key));
      stale.add(key[0]);
    }
    if (news.events) live.events = news.events;
    live.rates = news.rates ?? {};
    if ("halted" in news) live.halted = news.halted;
    stale.add("events");
    stale.add("head");
    draw();
  }

  function draw() {
    if (isDrawing) return;
    isDrawing = true;
    requestAnimationFrame(() => {
      isDrawing = false;
      for (const name of stale) drawings[name]();
      stale.clear();
    });
  }

  /** @type {Record<string, () => void>} */
  const drawings = {
    head: drawHead,
    queues: drawQueues,
    exchanges: drawExchanges,
    connections: drawConnections,
    faults: drawFaults,
    events: drawEvents,
  };

  function drawHead() {
    const head = sections.head.get("[]");
    if (!head) return;
    refill(parts.title, head.title);
    const time = head.is_held ? `time is held at ${new Date(head.now).toISOString()}` : "time runs";
    const rates = ["published", "delivered", "acked"].map((name) => `${live.rates[name] ?? 0} ${name}`).join(", ");
    const where = live.isConnected ? "live" : "not connected: this is the last that was seen";
    const jumping = head.is_jumping ? " and jumps" : "";
    refill(parts.line, `RabbitMQ ${head.rabbitmq}; ${where}; ${time}${jumping}; a second: ${rates}`);
    parts.halted.hidden = live.halted === null;
    refill(parts.halted, live.halted === null ? "" : `A debugger holds the test at ${live.halted}. The broker goes on.`);
  }

  /** @param {string} name */
  function sorted(name) {
    return [...sections[name].entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
  }

  /**
   * @param {string} vhost
   * @param {string} name
   */
  function inVhost(vhost, name) {
    return vhost === "/" ? name : `${name} in ${vhost}`;
  }

  function drawQueues() {
    const rows = sorted("queues").map((queue) => [
      button(inVhost(queue.vhost, queue.name), () => look(queue), { class: "name" }),
      queue.type,
      queue.ready,
      queue.unacked,
      queue.consumers,
      button("Purge", () => call("POST", `${placeOf(queue)}/purge`), { "aria-label": `Purge ${queue.name}` }),
    ]);
    const titles = ["queue", "type", "ready", "unacked", "consumers", ""];
    refill(parts.queues, rows.length ? plainTable("Queues", titles, rows) : div("note", "No queue is declared."));
    refresh();
  }

  function drawExchanges() {
    const rows = sorted("exchanges").map((exchange) => [
      inVhost(exchange.vhost, exchange.name),
      exchange.type,
      el(
        "ul",
        {},
        ...exchange.bindings.map((/** @type {string[]} */ pair) => el("li", {}, `${pair[0]} → ${pair[1]}`)),
        exchange.more ? el("li", {}, `and ${exchange.more} more`) : null,
      ),
    ]);
    const note = div("note", "No exchange is declared.");
    refill(parts.exchanges, rows.length ? plainTable("Exchanges", ["exchange", "type", "bindings"], rows) : note);
  }

  function drawConnections() {
    const rows = sorted("connections").map((one) => [
      `${one.name}${one.is_blocked ? " (blocked)" : ""}`,
      one.user,
      one.vhost,
      one.channels,
      one.unacked,
    ]);
    const titles = ["client", "user", "virtual host", "channels", "unacked"];
    const note = div("note", "No client is connected.");
    refill(parts.connections, rows.length ? plainTable("Connections", titles, rows) : note);
  }

  function drawFaults() {
    const rows = sorted("faults")
      .filter((fault) => !fault.is_spent || fault.fired)
      .map((fault) => [
        fault.text,
        `fired ${counted(fault.fired, "time")}`,
        fault.is_spent ? "spent" : button("Remove", () => call("DELETE", `/faults/${fault.id}`)),
      ]);
    refill(parts.faults, rows.length ? plainTable("Faults", ["fault", "fired", ""], rows) : null);
  }

  function drawEvents() {
    refill(parts.events, ...live.events.map((text) => el("li", { title: text }, text)).reverse());
  }

  /** @param {Row} queue */
  function look(queue) {
    live.queue = queue;
    refill(parts.messages, el("p", { class: "note" }, `Reading ${queue.name} ...`));
    refresh();
  }

  /** Read the open queue again, one request at a time. */
  async function refresh() {
    if (!live.queue || isLooking) return;
    isLooking = true;
    const asked = live.queue;
    const seen = sections.queues.get(JSON.stringify([asked.vhost, asked.name]));
    const found = seen ? await call("GET", `${placeOf(asked)}?limit=${SHOWN_MESSAGES}`) : null;
    isLooking = false;
    if (live.queue !== asked) {
      refresh();
      return;
    }
    if (found) showMessages(found);
    else refill(parts.messages, el("p", { class: "note" }, `${asked.name} is gone.`));
  }

  /** @param {Row} queue */
  function showMessages(queue) {
    const left = queue.ready_count - queue.ready.length;
    refill(
      parts.messages,
      el("h2", {}, `${queue.name}: ${queue.ready_count} ready, ${queue.unacked_count} unacked`),
      ...queue.unacked.map((/** @type {Row} */ message) => messageOf(message, `held by ${message.connection}`)),
      ...queue.ready.map((/** @type {Row} */ message) => messageOf(message, "ready")),
      left > 0 ? el("p", { class: "note" }, `and ${counted(left, "more message")}`) : null,
    );
  }

  /**
   * @param {Row} message
   * @param {string} what
   */
  function messageOf(message, what) {
    const deaths = message.deaths.map((/** @type {Row} */ death) => `died in ${death.queue} (${death.reason})`);
    return div(
      "message",
      el("p", {}, `#${message.id} ${message.routing_key} `, el("small", {}, [what, ...deaths].join(", "))),
      el("pre", {}, message.body ?? `${message.body_base64} (base64)`),
      Object.keys(message.headers).length ? el("p", {}, el("small", {}, JSON.stringify(message.headers))) : null,
    );
  }

  /**
   * @param {string} label
   * @param {(values: Record<string, string>) => Promise<void>} act
   * @param {...Child} children
   */
  function form(label, act, ...children) {
    const element = el("form", { "aria-label": label }, ...children);
    element.addEventListener("submit", (event) => {
      event.preventDefault();
      act(/** @type {Record<string, string>} */ (Object.fromEntries(new FormData(element))));
    });
    return element;
  }

  /**
   * @param {string} name
   * @param {string} label
   * @param {Record<string, unknown>} [attributes]
   */
  function field(name, label, attributes) {
    return el("input", { type: "text", name, "aria-label": label, placeholder: label, ...attributes });
  }

  const publishing = form(
    "Publish",
    async (values) => {
      const body = { exchange: values.exchange, routing_key: values.routing_key, body: values.body };
      const answer = await call("POST", `/vhosts/${encodeURIComponent(values.vhost || "/")}/publish`, body);
      if (answer) say(answer.routed ? "The message was routed." : "The message reached no queue.", answer.routed);
    },
    field("vhost", "virtual host", { value: "/" }),
    field("exchange", "exchange"),
    field("routing_key", "routing key", { class: "wide" }),
    el("textarea", { name: "body", "aria-label": "body", placeholder: "body" }),
    el("button", {}, "Publish"),
  );

  const advancing = form(
    "Time",
    async (values) => {
      await call("POST", "/clock/advance", { seconds: Number(values.seconds) });
    },
    button("Hold time", () => call("POST", "/clock/hold")),
    button("Let time run", () => call("POST", "/clock/release")),
    field("seconds", "seconds", { type: "number", value: "60", min: "0", step: "any" }),
    el("button", {}, "Advance"),
  );

  const on = field("on", "on which method or event", { value: "basic.ack", class: "wide" });
  const faulting = form(
    "Add a fault",
    async (values) => {
      await call("POST", "/faults", { fault: values.fault, optional: true, ...(values.on ? { on: values.on } : {}) });
    },
    el(
      "select",
      {
        name: "fault",
        "aria-label": "fault",
        onchange: (/** @type {Event} */ event) => {
          const chosen = /** @type {keyof typeof FAULTS} */ (/** @type {HTMLSelectElement} */ (event.target).value);
          on.value = FAULTS[chosen];
        },
      },
      ...Object.keys(FAULTS).map((name) => el("option", { value: name }, name)),
    ),
    on,
    el("button", {}, "Add"),
  );

  /**
   * @param {string} title
   * @param {...Child} children
   */
  function section(title, ...children) {
    return el("section", { "aria-label": title }, el("h2", {}, title), ...children);
  }

  document.body.append(
    el(
      "header",
      { class: "head" },
      div("title", parts.title, span("spring"), el("a", { href: `${API}/page` }, "The page of what has happened")),
      parts.line,
      parts.halted,
      parts.answer,
    ),
    el(
      "main",
      { class: "live", style: null },
      div(
        "",
        section("Queues", parts.queues),
        section("Exchanges", parts.exchanges),
        section("Connections", parts.connections),
        section("Events", parts.events),
      ),
      div(
        "",
        section("Messages", parts.messages, div("note", "Choose a queue to look into it.")),
        section("Publish", publishing),
        section("Time", advancing),
        section("Faults", faulting, parts.faults),
      ),
    ),
  );

  const stream = new EventSource("/live");
  stream.onopen = () => {
    live.isConnected = true;
    // The feed sends everything anew.
    for (const rows of Object.values(sections)) rows.clear();
  };
  stream.onmessage = take;
  stream.onerror = () => {
    live.isConnected = false;
    stale.add("head");
    draw();
  };
})();
