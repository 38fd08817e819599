// The live page: rows that the feed sends, drawn once a frame, and forms that call the control API.

(() => {
  /** @typedef {Record<string, any>} Row */

  const API = "/leveret/v1";
  // A picture of more boxes shows nothing.
  const DRAWN_MOST = 60;
  const FAULTS = {
    reset_peer: "basic.ack",
    close_channel: "basic.publish",
    close_connection: "basic.publish",
    nack_publishes: "",
    withhold_confirms: "",
    drop: "basic.publish",
    duplicate: "",
    redeliver: "",
    cancel_consumers: "now",
    block_publishers: "now",
    refuse_connections: "",
  };

  /** @type {Record<string, Map<string, Row>>} */
  const sections = {
    head: new Map(),
    queues: new Map(),
    exchanges: new Map(),
    connections: new Map(),
    faults: new Map(),
  };
  /** What must be drawn again. @type {Set<string>} */
  const stale = new Set();
  /**
   * @type {{
   *   queue: Row | null, events: string[], rate: number, halted: string | null, isConnected: boolean, drawing: string
   * }}
   */
  const live = { queue: null, events: [], rate: 0, halted: null, isConnected: false, drawing: "" };
  let isDrawing = false;
  let isLooking = false;
  let isStale = false;

  const parts = {
    title: el("h1", {}, "leveret"),
    line: el("p", { class: "line", role: "status" }),
    halted: el("p", { class: "halted", role: "alert", hidden: true }),
    events: el("ol", {}),
    topology: div(""),
    messages: div("", div("note", "Choose a queue to look into it.")),
    answer: el("p", { class: "answer", role: "status", "aria-label": "Answer" }),
  };

  /**
   * Call the control API, and show what it refuses, or what was done.
   * @param {string} method
   * @param {string} place
   * @param {Row} [body]
   * @param {(answer: Row) => string} [done]
   */
  async function call(method, place, body, done) {
    const options = { method, body: body && JSON.stringify(body) };
    try {
      const response = await fetch(API + place, options);
      const text = await response.text();
      const answer = text ? JSON.parse(text) : {};
      say(response.ok ? (done?.(answer) ?? "") : answer.reason, response.ok);
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
  function purge(queue) {
    const where = inVhost(queue.vhost, queue.name);
    return call("POST", `${placeOf(queue)}/purge`, undefined, (answer) => `${counted(answer.messages, "message")} purged from ${where}.`);
  }

  /** @param {Row} clock */
  function heldText(clock) {
    return `Time is held at ${new Date(clock.now * 1000).toISOString()}.`;
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
    live.rate = news.rate ?? live.rate;
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
    const where = live.isConnected ? "live" : "not connected: this is the last that was seen";
    const jumping = head.is_jumping ? " and jumps" : "";
    refill(parts.line, `RabbitMQ ${head.rabbitmq}; ${where}; ${time}${jumping}; ${live.rate} published a second`);
    parts.halted.hidden = live.halted === null;
    refill(parts.halted, live.halted === null ? "" : `A debugger holds the test at ${live.halted}. The broker goes on.`);
  }

  /**
   * @param {string} vhost
   * @param {string} name
   */
  function inVhost(vhost, name) {
    return vhost === "/" ? name : `${name} in ${vhost}`;
  }

  /**
   * A table whose rows stay while their texts change, so that a reader can hit a button in a busy broker.
   * make returns the cells of a new row; texts returns what changes, with null for a cell that stays.
   * @param {string} caption
   * @param {string[]} titles
   * @param {(row: Row) => Child[]} make
   * @param {(row: Row) => (string | number | null)[]} texts
   */
  function liveTable(caption, titles, make, texts) {
    const body = el("tbody", {});
    const head = el("tr", {}, ...titles.map((title) => el("th", { scope: "col" }, title)));
    const table = el("table", { class: "plain", hidden: true }, el("caption", { class: "unseen" }, caption), el("thead", {}, head), body);
    const note = div("note", `No ${caption.toLowerCase()}.`);
    /** @type {Map<string, HTMLTableRowElement>} */
    const lines = new Map();
    return {
      element: div("scroll-x", table, note),
      /** @param {[string, Row][]} entries */
      update(entries) {
        const kept = new Set(entries.map(([key]) => key));
        for (const [key, line] of lines) {
          if (kept.has(key)) continue;
          line.remove();
          lines.delete(key);
        }
        let isNew = false;
        for (const [key, row] of entries) {
          let line = lines.get(key);
          if (!line) {
            line = el("tr", {}, ...make(row).map((cell) => el("td", {}, cell)));
            lines.set(key, line);
            isNew = true;
          }
          texts(row).forEach((text, index) => {
            const cell = /** @type {HTMLTableRowElement} */ (line).cells[index];
            if (text !== null && cell.textContent !== String(text)) cell.textContent = String(text);
          });
        }
        if (isNew) body.append(...entries.map(([key]) => /** @type {HTMLTableRowElement} */ (lines.get(key))));
        table.hidden = !entries.length;
        note.hidden = Boolean(entries.length);
      },
    };
  }

  const tables = {
    queues: liveTable(
      "Queues",
      ["queue", "type", "ready", "unacked", "consumers", "action"],
      (queue) => [
        button(inVhost(queue.vhost, queue.name), () => look(queue), { class: "name" }),
        ...["", "", "", ""],
        button("Purge", () => purge(queue), { "aria-label": `Purge ${queue.name}` }),
      ],
      (queue) => [null, queue.type, queue.ready_count, queue.unacked_count, queue.consumer_count, null],
    ),
    exchanges: liveTable(
      "Exchanges",
      ["exchange", "type", "bindings"],
      () => ["", "", ""],
      (exchange) => [inVhost(exchange.vhost, exchange.name), exchange.type, bindingsText(exchange)],
    ),
    connections: liveTable(
      "Connections",
      ["client", "user", "virtual host", "channels", "unacked"],
      () => ["", "", "", "", ""],
      (one) => [`${one.name}${one.is_blocked ? " (blocked)" : ""}`, one.user, one.vhost, one.channels, one.unacked],
    ),
    faults: liveTable(
      "Faults",
      ["fault", "fired", "action"],
      (fault) => ["", "", fault.is_spent ? "spent" : button("Remove", () => call("DELETE", `/faults/${fault.id}`, undefined, (one) => `Fault ${one.fault} was removed; it fired ${counted(one.fired, "time")}.`))],
      (fault) => [fault.text.slice(1, -1), counted(fault.fired, "time"), null],
    ),
  };

  /** @param {Row} exchange */
  function bindingsText(exchange) {
    const lines = exchange.bindings.map((/** @type {Row} */ binding) => `${binding.routing_key} \u2192 ${binding.destination}`);
    return [...lines, ...(exchange.more ? [`and ${exchange.more} more`] : [])].join("\n");
  }

  /**
   * Return the rows of a section by key, in order.
   * @param {string} name
   * @returns {[string, Row][]}
   */
  function sorted(name) {
    return [...sections[name].entries()].sort(([a], [b]) => (a < b ? -1 : 1));
  }

  function drawQueues() {
    tables.queues.update(sorted("queues"));
    drawTopology();
    refresh();
  }

  function drawExchanges() {
    tables.exchanges.update(sorted("exchanges"));
    drawTopology();
  }

  /**
   * Draw exchanges, bindings and queues, if they are others than those that are drawn.
   */
  function drawTopology() {
    const exchanges = sorted("exchanges").map(([, row]) => row);
    const queues = sorted("queues").map(([, row]) => row);
    const nodes = [...exchanges.map((row) => nodeOf("exchange", row)), ...queues.map((row) => nodeOf("queue", row))];
    const edges = [...exchanges.flatMap(bindingsOf), ...queues.flatMap(deadLettersOf)];
    const drawing = JSON.stringify([nodes, edges]);
    if (drawing === live.drawing) return;
    live.drawing = drawing;
    parts.topology.replaceChildren();
    if (nodes.length > DRAWN_MOST) fill(parts.topology, div("note", `More than ${DRAWN_MOST} are not drawn.`));
    else drawGraph(parts.topology, { nodes, edges, further: () => [], isCounted: false, isSmall: false });
  }

  /**
   * @param {string} kind
   * @param {string} vhost
   * @param {string} name
   */
  function nodeId(kind, vhost, name) {
    return JSON.stringify([kind, vhost, name]);
  }

  /**
   * @param {string} kind
   * @param {Row} row
   * @returns {GraphNode}
   */
  function nodeOf(kind, row) {
    return { id: nodeId(kind, row.vhost, row.name), kind, label: inVhost(row.vhost, row.name), type: row.type };
  }

  /**
   * @param {Row} exchange
   * @returns {GraphEdge[]}
   */
  function bindingsOf(exchange) {
    const from = nodeId("exchange", exchange.vhost, exchange.name);
    return exchange.bindings.map((/** @type {Row} */ binding) => {
      const to = nodeId(binding.destination_kind, exchange.vhost, binding.destination);
      return { from, to, label: binding.routing_key, kind: "binding" };
    });
  }

  /**
   * @param {Row} queue
   * @returns {GraphEdge[]}
   */
  function deadLettersOf(queue) {
    const exchange = queue.dead_letter_exchange;
    if (exchange === null) return [];
    const from = nodeId("queue", queue.vhost, queue.name);
    // The default exchange leads straight to the queue that the key names.
    const to = nodeId(exchange === "" ? "queue" : "exchange", queue.vhost, exchange || queue.dead_letter_routing_key);
    return [{ from, to, kind: "dead letter" }];
  }

  function drawConnections() {
    tables.connections.update(sorted("connections"));
  }

  function drawFaults() {
    const wanted = sorted("faults").filter(([, fault]) => !fault.is_spent || fault.fired);
    // A fault that is spent has no button any more, so its row is another.
    tables.faults.update(wanted.map(([key, fault]) => [`${key} ${fault.is_spent}`, fault]));
  }

  function drawEvents() {
    refill(parts.events, ...live.events.map((text) => el("li", {}, text)).reverse());
  }

  /** @param {Row} queue */
  function look(queue) {
    live.queue = queue;
    vhost.value = queue.vhost;
    refill(parts.messages, el("p", { class: "note" }, `Reading ${queue.name} ...`));
    refresh();
  }

  /**
   * Return a queue with its first messages, or null if there is none.
   * @param {Row} queue
   * @returns {Promise<Row | null>}
   */
  async function read(queue) {
    try {
      const response = await fetch(`/live/queue?${new URLSearchParams({ vhost: queue.vhost, name: queue.name })}`);
      return response.ok ? await response.json() : null;
    } catch {
      return null;
    }
  }

  /** Read the open queue again, one request at a time. A change during a request is read by the next one. */
  async function refresh() {
    isStale = true;
    if (!live.queue || isLooking) return;
    isLooking = true;
    isStale = false;
    const asked = live.queue;
    const seen = sections.queues.get(JSON.stringify([asked.vhost, asked.name]));
    const found = seen ? await read(asked) : null;
    isLooking = false;
    if (live.queue !== asked) {
      refresh();
      return;
    }
    if (isStale) refresh();
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

  const vhost = field("vhost", "virtual host", { value: "/" });
  const publishing = form(
    "Publish",
    async (values) => {
      if (!values.exchange && !values.routing_key) {
        say("The exchange and the routing key are empty; name the queue as the routing key, or name an exchange.");
        return;
      }
      const body = { exchange: values.exchange, routing_key: values.routing_key, body: values.body };
      const answer = await call("POST", `/vhosts/${encodeURIComponent(values.vhost || "/")}/publish`, body);
      if (answer) say(answer.routed ? "The message was routed." : "The message reached no queue.", answer.routed);
    },
    vhost,
    field("exchange", "exchange"),
    field("routing_key", "routing key", { class: "wide" }),
    el("textarea", { name: "body", "aria-label": "body", placeholder: "body" }),
    el("button", {}, "Publish"),
  );

  const advancing = form(
    "Time",
    async (values) => {
      await call("POST", "/clock/advance", { seconds: Number(values.seconds) }, heldText);
    },
    button("Hold time", () => call("POST", "/clock/hold", undefined, heldText)),
    button("Let time run", () => call("POST", "/clock/release", undefined, () => "Time runs again.")),
    field("seconds", "seconds", { type: "number", value: "60", min: "0", step: "any" }),
    el("button", {}, "Advance"),
  );

  const on = field("on", "on which method or event", { value: "basic.ack", class: "wide" });
  const faulting = form(
    "Add a fault",
    async (values) => {
      const body = { fault: values.fault, optional: true, ...(values.on ? { on: values.on } : {}) };
      await call("POST", "/faults", body, (one) => {
        const when = one.on === "now" ? "now" : `on ${one.on}`;
        return `Fault ${one.fault} was added; it acts ${when}.`;
      });
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
        section("Queues", tables.queues.element),
        section("Exchanges", tables.exchanges.element),
        section("Topology", region("Exchanges and the queues they lead to", "scroll-x", parts.topology)),
        section("Connections", tables.connections.element),
        section("Events", region("Last events", "events", parts.events)),
      ),
      div(
        "",
        section("Messages", parts.messages),
        section("Publish", publishing),
        section("Time", advancing),
        section("Faults", faulting, tables.faults.element),
      ),
    ),
  );

  const stream = new EventSource("/live");
  stream.onopen = () => {
    live.isConnected = true;
    // The feed sends everything anew.
    for (const [name, rows] of Object.entries(sections)) {
      rows.clear();
      stale.add(name);
    }
  };
  stream.onmessage = take;
  stream.onerror = () => {
    live.isConnected = false;
    stale.add("head");
    draw();
  };
})();
