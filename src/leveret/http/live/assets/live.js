// The live page: rows that the feed sends, drawn once a frame, and forms that call the control API.
// Rates and the lines of a minute come from the counts that the page has seen since it was opened.

(() => {
  /** @typedef {Record<string, any>} Row */

  const API = "/leveret/v1";
  // A picture of more boxes shows nothing.
  const DRAWN_MOST = 60;
  // A rate is what happened in the last five seconds, divided by five, as on RabbitMQ's page.
  const RATED_MS = 5000;
  const CHARTED_MS = 60_000;
  const CHART = { width: 120, height: 22 };
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
    causes: new Map(),
    queues: new Map(),
    exchanges: new Map(),
    connections: new Map(),
    faults: new Map(),
  };
  /** What must be drawn again. @type {Set<string>} */
  const stale = new Set();
  /**
   * @type {{
   *   queue: Row | null, events: string[][], halted: string | null, isConnected: boolean, drawing: string,
   *   answer: Element | null,
   * }}
   */
  const live = { queue: null, events: [], halted: null, isConnected: false, drawing: "", answer: null };
  /**
   * What was counted when, at most once a second: an instant, then the counts. By the key of a queue, or "head".
   * @type {Map<string, number[][]>}
   */
  const samples = new Map();
  let isDrawing = false;
  let isLooking = false;
  let isStale = false;

  const parts = {
    title: el("h1", {}, "leveret"),
    line: el("p", { class: "line", role: "status" }),
    halted: el("p", { class: "halted", role: "alert", hidden: true }),
    events: el("ol", {}),
    causes: el("ul", {}),
    topology: div(""),
    chosen: el("h2", {}, "Queue"),
    about: div("", div("note", "Choose a queue to see its settings, consumers and messages.")),
    messages: el("section", { "aria-label": "Messages", hidden: true }),
    asking: el("dialog", { "aria-label": "Please confirm" }),
  };

  /** Return the line for the answer to what its neighbours do. */
  function answerLine() {
    return el("p", { class: "answer", role: "status", "aria-label": "Answer" });
  }

  /**
   * Call the control API, and show what it refuses, or what was done.
   * @param {Element} line Where to show it.
   * @param {string} method
   * @param {string} place
   * @param {Row} [body]
   * @param {(answer: Row) => string} [done]
   */
  async function call(line, method, place, body, done) {
    const options = { method, body: body && JSON.stringify(body) };
    try {
      const response = await fetch(API + place, options);
      const text = await response.text();
      const answer = text ? JSON.parse(text) : {};
      say(line, response.ok ? (done?.(answer) ?? "") : answer.reason, response.ok);
      return response.ok ? answer : null;
    } catch {
      say(line, "The broker does not answer; it may have stopped.");
      return null;
    }
  }

  /**
   * Show the answer to the last click. Only one is shown at a time.
   * @param {Element} line
   * @param {string} text
   * @param {boolean} [isFine]
   */
  function say(line, text, isFine) {
    live.answer?.replaceChildren();
    live.answer = line;
    line.className = isFine ? "answer fine" : "answer";
    refill(line, text);
  }

  /**
   * Ask before doing what cannot be undone.
   * @param {string} question
   * @param {string} label
   * @param {() => void} act
   */
  function ask(question, label, act) {
    const close = () => parts.asking.close();
    const go = () => {
      close();
      act();
    };
    refill(parts.asking, el("p", {}, question), div("choices", button(label, go), button("Cancel", close, { autofocus: true })));
    parts.asking.showModal();
  }

  /**
   * @param {Row} queue
   * @param {Element} line
   */
  function purge(queue, line) {
    const { ready_count: ready, unacked_count: unacked } = sections.queues.get(queueKey(queue)) ?? queue;
    const where = inVhost(queue.vhost, queue.name);
    const kept = unacked ? ` The ${unacked} unacked stay with their clients.` : "";
    const done = (/** @type {Row} */ answer) => `${counted(answer.messages, "message")} purged.`;
    ask(`Remove ${counted(ready, "ready message")} from ${where}?${kept}`, "Purge", () => {
      call(line, "POST", `${placeOf(queue)}/purge`, undefined, done);
    });
  }

  /** @param {Row} queue */
  function queueKey(queue) {
    return JSON.stringify([queue.vhost, queue.name]);
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
      if (entry[0] === "head") note("head", [row.published]);
      if (entry[0] === "queues") {
        const length = row.ready_count + row.unacked_count;
        note(rowKey(entry), [length, row.entered, row.entered - length]);
      }
    }
    for (const key of news.gone) {
      sections[key[0]].delete(rowKey(key));
      if (key[0] === "queues") samples.delete(rowKey(key));
      stale.add(key[0]);
    }
    if (news.events) live.events = news.events;
    if ("halted" in news) live.halted = news.halted;
    stale.add("events");
    stale.add("head");
    draw();
  }

  /**
   * Note what is counted now.
   * @param {string} key
   * @param {number[]} counts
   */
  function note(key, counts) {
    const now = performance.now();
    const noted = samples.get(key) ?? [];
    samples.set(key, noted);
    // The first one stays: it is where the page begins to know the counts.
    if (noted.length > 1 && now - noted[noted.length - 2][0] < 1000) noted.pop();
    noted.push([now, ...counts]);
    while (noted.length > 1 && noted[1][0] < now - CHARTED_MS) noted.shift();
  }

  /**
   * Return how much a count has grown in a second, as text; "" as long as that is not known.
   * @param {string} key
   * @param {number} index
   */
  function rateText(key, index) {
    const noted = samples.get(key) ?? [];
    const now = performance.now();
    const begin = Math.max(now - RATED_MS, noted[0]?.[0] ?? now);
    if (now - begin < 1000) return "";
    const before = noted.findLast(([at]) => at <= begin) ?? noted[0];
    const rate = Math.max(0, ((noted[noted.length - 1][index] - before[index]) * 1000) / (now - begin));
    return rate.toLocaleString("en", { maximumFractionDigits: rate < 10 ? 1 : 0 });
  }

  /**
   * Draw how the length of a queue has changed in the last minute, and by how much.
   * @param {string} key
   * @returns {(cell: Element) => void}
   */
  function minute(key) {
    const noted = samples.get(key) ?? [];
    const now = performance.now();
    const lengths = noted.map(([, length]) => length);
    const growth = (lengths[lengths.length - 1] ?? 0) - (lengths[0] ?? 0);
    const top = Math.max(1, ...lengths);
    /** @param {number} at */
    const x = (at) => Math.max(0, CHART.width * (1 - (now - at) / CHARTED_MS)).toFixed(1);
    /** @param {number} length */
    const y = (length) => (CHART.height - 1 - (length / top) * (CHART.height - 2)).toFixed(1);
    const steps = noted.map(([at, length], index) => `${index ? `H${x(at)}V` : `M${x(at)} `}${y(length)}`).join("");
    const change = growth > 0 ? `+${growth.toLocaleString("en")}` : growth ? growth.toLocaleString("en") : "";
    const what = `From ${lengths[0]} to ${lengths[lengths.length - 1]} messages`;
    return (cell) => {
      const line = /** @type {SVGElement} */ (cell.querySelector("svg"));
      line.setAttribute("aria-label", what);
      line.firstElementChild?.setAttribute("d", `${steps}H${CHART.width}`);
      const text = /** @type {Element} */ (cell.querySelector("small"));
      if (text.textContent !== change) text.textContent = change;
      text.className = growth > 0 ? "word warn" : "";
    };
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
    causes: drawCauses,
    queues: drawQueues,
    rates: drawRates,
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
    const rate = live.isConnected ? `; ${rateText("head", 1) || 0} published a second` : "";
    const line = `RabbitMQ ${head.rabbitmq}; ${where}; ${time}${jumping}${rate}`;
    if (parts.line.textContent !== line) refill(parts.line, line);
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
   * make returns the cells of a new row; texts returns what changes: null for a cell that stays, a function that draws.
   * @param {string} caption
   * @param {string[]} titles
   * @param {(row: Row) => Child[]} make
   * @param {(row: Row) => (string | number | null | ((cell: Element) => void))[]} texts
   */
  function liveTable(caption, titles, make, texts) {
    const body = el("tbody", {});
    const head = el("tr", {}, ...titles.map((title) => el("th", { scope: "col" }, title)));
    const title = el("caption", { class: "unseen" }, caption);
    const table = el("table", { class: "plain", hidden: true }, title, el("thead", {}, head), body);
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
            if (typeof text === "function") text(cell);
            else if (text !== null && cell.textContent !== String(text)) cell.textContent = String(text);
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
      ["queue", "type", "ready", "unacked", "in/s", "out/s", "consumers", "last minute", "action"],
      (queue) => {
        const answer = answerLine();
        return [
          button(inVhost(queue.vhost, queue.name), () => look(queue), { class: "name" }),
          ...["", "", "", "", "", ""],
          div("minute", svg("svg", { ...CHART, role: "img" }, path("", "")), el("small", {})),
          div("", button("Purge", () => purge(queue, answer), { "aria-label": `Purge ${queue.name}` }), answer),
        ];
      },
      (queue) => {
        const key = queueKey(queue);
        const isCounted = queue.entered !== null;
        return [
          null,
          ...[queue.type, queue.ready_count, queue.unacked_count],
          ...[isCounted ? rateText(key, 2) : "", isCounted ? rateText(key, 3) : ""],
          ...[queue.consumer_count, minute(key), null],
        ];
      },
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
      (fault) => ["", "", fault.is_spent ? "spent" : button("Remove", () => removeFault(fault))],
      (fault) => [fault.text.slice(1, -1), counted(fault.fired, "time"), null],
    ),
  };

  const consumers = liveTable(
    "Consumers",
    ["consumer", "client", "acks", "prefetch", "unacked"],
    () => ["", "", "", "", ""],
    (one) => [
      [one.tag, one.exclusive && "exclusive", !one.active && "waits behind the single active one"]
        .concat(one.priority ? `priority ${one.priority}` : [])
        .filter(Boolean)
        .join(", "),
      `${one.connection}, channel ${one.channel}`,
      one.no_ack ? "automatic (no_ack)" : "by the client",
      one.prefetch_count || "unlimited",
      one.no_ack ? "none" : one.unacked_count,
    ],
  );

  /** @param {Row} fault */
  function removeFault(fault) {
    const done = (/** @type {Row} */ one) => `Fault ${one.fault} was removed; it fired ${counted(one.fired, "time")}.`;
    call(answers.faults, "DELETE", `/faults/${fault.id}`, undefined, done);
  }

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

  function drawCauses() {
    const causes = sorted("causes").map(([, cause]) => {
      const more = cause.more ? `, and ${cause.is_cut ? "at least " : ""}${cause.more} more like it` : "";
      return el("li", {}, `${cause.text}${more}`);
    });
    refill(parts.causes, ...causes);
    const section = parts.causes.closest("section");
    if (section) section.hidden = !causes.length;
  }

  function drawRates() {
    tables.queues.update(sorted("queues"));
  }

  function drawQueues() {
    drawRates();
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
    const lines = live.events.map(([at, text, tone]) => el("li", {}, el("small", {}, at), " ", span(tone, text)));
    refill(parts.events, ...lines.reverse());
  }

  /** @param {Row} queue */
  function look(queue) {
    live.queue = queue;
    vhost.value = queue.vhost;
    refill(parts.chosen, `Queue ${inVhost(queue.vhost, queue.name)}`);
    showNote("Reading it ...");
    refresh();
  }

  /**
   * Return a queue with its consumers and its first messages: null if it does not exist, "" without an answer.
   * @param {Row} queue
   * @returns {Promise<Row | null | "">}
   */
  async function read(queue) {
    try {
      const response = await fetch(`/live/queue?${new URLSearchParams({ vhost: queue.vhost, name: queue.name })}`);
      return response.ok ? await response.json() : response.status === 404 ? null : "";
    } catch {
      return "";
    }
  }

  /** Read the open queue again, one request at a time. A change during a request is read by the next one. */
  async function refresh() {
    isStale = true;
    if (!live.queue || isLooking) return;
    isLooking = true;
    isStale = false;
    const asked = live.queue;
    const answer = await read(asked);
    isLooking = false;
    if (live.queue !== asked) {
      refresh();
      return;
    }
    if (isStale) refresh();
    if (answer) showQueue(answer);
    else if (answer === null) showNote("It does not exist any more.");
  }

  /** @param {string} text */
  function showNote(text) {
    refill(parts.about, el("p", { class: "note" }, text));
    parts.messages.hidden = true;
  }

  /** @param {Row} queue */
  function showQueue(queue) {
    const left = queue.ready_count - queue.ready.length;
    refill(parts.about, facts(settingsOf(queue)), el("h3", {}, "Consumers"), consumers.element);
    const keyOf = (/** @type {Row} */ one) => JSON.stringify([one.connection, one.channel, one.tag]);
    consumers.update(queue.consumers.map((/** @type {Row} */ one) => [keyOf(one), one]));
    parts.messages.hidden = false;
    refill(
      parts.messages,
      el("h3", {}, `Messages: ${queue.ready_count} ready, ${queue.unacked_count} unacked`),
      ...queue.unacked.map((/** @type {Row} */ message) => messageOf(message, `held by ${message.connection}`)),
      ...queue.ready.map((/** @type {Row} */ message) => messageOf(message, "ready")),
      left > 0 ? el("p", { class: "note" }, `and ${counted(left, "more message")}`) : null,
    );
  }

  /**
   * @param {Row} queue
   * @returns {[string, Child][]}
   */
  function settingsOf(queue) {
    const flags = [queue.durable && "durable", queue.exclusive && "exclusive", queue.auto_delete && "auto-delete"];
    const bindings = queue.bindings.map((/** @type {Row} */ one) => `${one.source} with key "${one.routing_key}"`);
    return [
      ["Type", [queue.type, ...flags].filter(Boolean).join(", ")],
      ["Arguments", valuesText(queue.arguments) || "none"],
      ["Policy", queue.policy ? `${queue.policy}: ${valuesText(queue.policy_keys)}` : "none"],
      ["Bound to", bindings.join(", ") || "the default exchange only"],
    ];
  }

  /** @param {Row} values */
  function valuesText(values) {
    return Object.entries(values).map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(", ");
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
   * @param {...Child} children The last is the line for the answer.
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

  const answers = { publish: answerLine(), time: answerLine(), faults: answerLine() };
  const vhost = field("vhost", "virtual host", { value: "/" });
  const publishing = form(
    "Publish",
    async (values) => {
      if (!values.exchange && !values.routing_key) {
        say(answers.publish, "The exchange and the routing key are empty; name the queue as the routing key, or name an exchange.");
        return;
      }
      const body = { exchange: values.exchange, routing_key: values.routing_key, body: values.body };
      const where = `/vhosts/${encodeURIComponent(values.vhost || "/")}/publish`;
      const answer = await call(answers.publish, "POST", where, body);
      const text = answer?.routed ? "The message was routed." : "The message reached no queue.";
      if (answer) say(answers.publish, text, answer.routed);
    },
    vhost,
    field("exchange", "exchange"),
    field("routing_key", "routing key", { class: "wide" }),
    el("textarea", { name: "body", "aria-label": "body", placeholder: "body" }),
    el("button", {}, "Publish"),
    answers.publish,
  );

  const advancing = form(
    "Time",
    async (values) => {
      await call(answers.time, "POST", "/clock/advance", { seconds: Number(values.seconds) }, heldText);
    },
    button("Hold time", () => call(answers.time, "POST", "/clock/hold", undefined, heldText)),
    button("Let time run", () => call(answers.time, "POST", "/clock/release", undefined, () => "Time runs again.")),
    field("seconds", "seconds", { type: "number", value: "60", min: "0", step: "any" }),
    el("button", {}, "Advance"),
    answers.time,
  );

  const on = field("on", "on which method or event", { value: "basic.ack", class: "wide" });
  const faulting = form(
    "Add a fault",
    async (values) => {
      const body = { fault: values.fault, optional: true, ...(values.on ? { on: values.on } : {}) };
      await call(answers.faults, "POST", "/faults", body, (one) => {
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
    answers.faults,
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
    ),
    el(
      "main",
      { class: "live", style: null },
      div(
        "",
        section("What went wrong so far", parts.causes),
        section("Queues", tables.queues.element),
        el("section", { "aria-label": "Queue" }, parts.chosen, region("Chosen", "chosen", parts.about, parts.messages)),
      ),
      div(
        "side",
        section("Publish", publishing),
        section("Time", advancing),
        section("Faults", faulting, tables.faults.element),
        section("Events", region("Last events", "events", parts.events)),
      ),
      div(
        "",
        section("Connections", tables.connections.element),
        section("Exchanges", tables.exchanges.element),
        section("Topology", region("Exchanges and the queues they lead to", "scroll-x", parts.topology)),
      ),
    ),
    parts.asking,
  );
  drawCauses();
  // Rates fall and lines move even if no queue changes.
  setInterval(() => {
    if (!live.isConnected) return;
    stale.add("rates");
    stale.add("head");
    draw();
  }, 1000);

  const stream = new EventSource("/live");
  stream.onopen = () => {
    live.isConnected = true;
    // The feed sends everything anew.
    for (const [name, rows] of Object.entries(sections)) {
      rows.clear();
      stale.add(name);
    }
    samples.clear();
  };
  stream.onmessage = take;
  stream.onerror = () => {
    live.isConnected = false;
    stale.add("head");
    draw();
  };
})();
