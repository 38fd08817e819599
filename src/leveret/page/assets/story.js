// The story of a test: reads the JSON that the page carries, and indexes it. Nothing here draws.

/**
 * @typedef {{
 *   i: number, t?: number, wall?: number, kind: string, from?: string, to?: string, channel?: string, message?: number,
 *   copy?: number, text: string, line?: string, setup?: boolean, across?: boolean, tone?: string, leap?: number,
 *   causes?: number[], caused_by?: number, detail?: [string, string][]
 * }} StoryEvent
 * @typedef {{id: string, broker: string, kind: string, label: string, detail?: string, line?: string}} Lane
 * @typedef {{message: number, how: string, guess?: boolean}} Cause
 * @typedef {{copy: number, queue: string, from_copy?: number, deliveries?: number, end?: string}} Copy
 * @typedef {{queue: string, reason: string, count: number, exchange?: string, routing_keys?: string[]}} Death
 * @typedef {{size: number, hash?: string, json?: unknown, text?: string, hex?: string, cut?: number}} MessageBody
 * @typedef {{
 *   number: number, name?: string, label?: string, colour?: number, vhost?: string, exchange?: string,
 *   routing_key?: string, publisher?: string, line?: string, framework?: string, summary?: [string, string][],
 *   properties?: [string, string][], headers?: unknown, redacted?: string[], body?: MessageBody, events?: number[],
 *   copies?: Copy[], deaths?: Death[], causes?: Cause[], caused_by?: Cause, outcome?: string, tone?: string
 * }} Message
 * @typedef {{exchange: string, key: string, arguments?: Record<string, unknown>, count?: number}} Binding
 * @typedef {[number, number, number, number, number]} Point
 * @typedef {{
 *   lane: string, name: string, vhost?: string, type?: string, durable?: boolean, deleted?: boolean,
 *   arguments?: Record<string, unknown>, policy?: string, policy_keys?: Record<string, unknown>,
 *   bindings?: Binding[], series?: Point[]
 * }} Queue
 * @typedef {{id: string, kind: string, label: string, type?: string, broker?: string}} GraphNode
 * @typedef {{from: string, to: string, label?: string, count?: number, kind?: string}} GraphEdge
 * @typedef {{key: string, to: string, why: string}} Near
 * @typedef {{exchange: string, key: string, messages?: number[], near?: Near[]}} Unroutable
 * @typedef {{text: string, fired?: number, events?: number[]}} Fault
 * @typedef {{name: string, level?: string, text: string, messages?: number[]}} Check
 * @typedef {{
 *   id: string, title: string, rabbitmq?: string, seed?: number, clock?: string, faults?: Fault[], checks?: Check[],
 *   dropped_events?: number
 * }} BrokerFacts
 * @typedef {{
 *   id: string, outcome: string, phase?: string, seconds?: number, broker_seconds?: number,
 *   error?: {text: string, messages?: number[]}
 * }} Test
 * @typedef {{columns: string[], rows: unknown[][]}} Columns
 * @typedef {{
 *   test: Test, leveret?: string, python?: string, source?: string, start?: {ts: number, wall: number},
 *   brokers: BrokerFacts[], lanes: Lane[], events: StoryEvent[], messages: Message[], queues: Queue[],
 *   topology: {nodes: GraphNode[], edges: GraphEdge[], unroutable: Unroutable[]},
 *   cut: {events: number, bodies: number}
 * }} Story
 */

/**
 * Return the rows of a table that is written by columns as objects; a null leaves its name out.
 * @param {unknown} table
 * @returns {any[]}
 */
function unfolded(table) {
  if (!table) return [];
  if (Array.isArray(table)) return table;
  const { columns, rows } = /** @type {Columns} */ (table);
  return rows.map((row) => {
    /** @type {Record<string, unknown>} */
    const item = {};
    columns.forEach((name, index) => {
      if (row[index] !== null && row[index] !== undefined) item[name] = row[index];
    });
    return item;
  });
}

/**
 * Return the story with every list in place, however little the page carries.
 * @param {any} raw
 * @returns {Story}
 */
function readStory(raw) {
  const topology = raw.topology ?? {};
  const events = unfolded(raw.events);
  events.forEach((event, index) => {
    event.i = index;
    event.wall ??= event.t;
  });
  return {
    ...raw,
    test: raw.test ?? { id: "", outcome: "unknown" },
    brokers: raw.brokers ?? [],
    lanes: raw.lanes ?? [],
    events,
    messages: unfolded(raw.messages),
    queues: raw.queues ?? [],
    topology: { nodes: topology.nodes ?? [], edges: topology.edges ?? [], unroutable: topology.unroutable ?? [] },
    cut: { events: raw.cut?.events ?? 0, bodies: raw.cut?.bodies ?? 0 },
  };
}

const story = readStory(JSON.parse(document.getElementById("story")?.textContent || "{}"));

/** @type {Map<number, Message>} */
const messageOf = new Map(story.messages.map((message) => [message.number, message]));

/** @type {Map<string, Lane>} */
const laneOf = new Map(story.lanes.map((lane) => [lane.id, lane]));

const hasManyBrokers = story.brokers.length > 1;

/** The indexes of each message's events. @type {Map<number, number[]>} */
const eventsOf = new Map();
for (const event of story.events) {
  if (event.message === undefined) continue;
  const known = eventsOf.get(event.message);
  if (known) known.push(event.i);
  else eventsOf.set(event.message, [event.i]);
}

/**
 * Return what a lane is named, with its broker if the test has several.
 * @param {string | undefined} id
 */
function laneName(id) {
  if (!id) return "";
  const lane = laneOf.get(id);
  if (!lane) return id;
  const name = lane.label || "(default)";
  return hasManyBrokers ? `${name} (${brokerTitle(lane.broker)})` : name;
}

/** @param {string} id */
function brokerTitle(id) {
  return story.brokers.find((broker) => broker.id === id)?.title ?? id;
}

/** Lower-cased text to search, made when an event is first searched. @type {string[]} */
const haystacks = [];

/** @param {StoryEvent} event */
function haystackOf(event) {
  haystacks[event.i] ??= [
    event.text,
    event.kind,
    event.line,
    event.channel,
    laneName(event.from),
    laneName(event.to),
    event.message !== undefined ? messageOf.get(event.message)?.label : "",
    ...(event.detail ?? []).flat(),
  ]
    .join("\n")
    .toLowerCase();
  return haystacks[event.i];
}

/** The number of each message by its name: "#3", or "#3 of b2" if it is of another broker than the first. */
const numberOf = new Map(story.messages.map((message) => [messageName(message.number), message.number]));

/** @param {number} number */
function messageName(number) {
  return messageOf.get(number)?.name ?? `#${number}`;
}

/**
 * Return text in which the names of messages are drawn, by default as links that open them.
 * @param {string} text
 * @param {(number: number) => Node} [draw]
 * @returns {Child[]}
 */
function linked(text, draw = chipLink) {
  return text.split(/(#\d+(?: of b\d+)?)/).map((part) => {
    const number = numberOf.get(part);
    return number === undefined ? part : draw(number);
  });
}
