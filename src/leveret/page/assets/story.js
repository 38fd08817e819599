// The story of a test: reads the JSON that the page carries, and indexes it. Nothing here draws.

/**
 * @typedef {{
 *   i: number, t?: number, wall?: number, kind: string, from?: string, to?: string, channel?: string, message?: number,
 *   copy?: number, text: string, line?: string, setup?: boolean, across?: boolean, tone?: string, leap?: number,
 *   causes?: number[], caused_by?: number, late?: boolean, detail?: [string, string][], fold?: number
 * }} StoryEvent
 * @typedef {{id: string, broker: string, kind: string, label: string, detail?: string, line?: string}} Lane
 * @typedef {{message: number, how: string, guess?: boolean}} Cause
 * @typedef {{copy: number, queue: string, from_copy?: number, deliveries?: number, end?: string}} Copy
 * @typedef {{
 *   root: string, file?: string, first?: number, lines?: string[], failed?: number | null,
 *   traceback?: Frame[], stacks?: {name: string, frames: Frame[]}[]
 * }} Code
 * @typedef {{file: string, line: number, function: string, code: string, is_yours?: boolean}} Frame
 * @typedef {{broker: string, sentence: string, kind: string, messages: number[], events: number[]}} Wrong
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
 *   deleted_by?: string, deleted_at?: number,
 *   arguments?: Record<string, unknown>, policy?: string, policy_keys?: Record<string, unknown>,
 *   bindings?: Binding[], series?: Point[]
 * }} Queue
 * @typedef {{id: string, kind: string, label: string, type?: string, broker?: string, note?: string}} GraphNode
 * @typedef {{from: string, to: string, label?: string, count?: number, kind?: string, width?: number}} GraphEdge
 * @typedef {{key: string, to: string, why: string}} Near
 * @typedef {{exchange: string, key: string, messages?: number[], near?: Near[]}} Unroutable
 * @typedef {{text: string, fired?: number, events?: number[]}} Fault
 * @typedef {{name: string, level?: string, text: string, messages?: number[]}} Check
 * @typedef {{
 *   id: string, title: string, name?: string, place?: string,
 *   rabbitmq?: string, seed?: number, clock?: string, faults?: Fault[], checks?: Check[],
 *   dropped_events?: number
 * }} BrokerFacts
 * @typedef {{
 *   id: string, outcome: string, phase?: string, seconds?: number, broker_seconds?: number,
 *   error?: {text: string, messages?: number[]}, failed_at?: {t?: number, wall?: number}
 * }} Test
 * @typedef {{count: number, columns: Record<string, unknown[]>}} Columns
 * @typedef {{
 *   test: Test, leveret?: string, python?: string, source?: string, start?: {ts: number, wall: number},
 *   brokers: BrokerFacts[], lanes: Lane[], events: StoryEvent[], messages: Message[], queues: Queue[],
 *   topology: {nodes: GraphNode[], edges: GraphEdge[], unroutable: Unroutable[]},
 *   cut: {events: number, bodies: number}, causes: Wrong[], noticed: Wrong[], file?: string, code?: Code
 * }} Story
 */

/**
 * Return the items of a list that is written by columns; a null leaves its name out.
 * @param {unknown} table
 * @returns {any[]}
 */
function unfolded(table) {
  if (!table) return [];
  if (Array.isArray(table)) return table;
  const { columns, count } = /** @type {Columns} */ (table);
  const named = Object.entries(columns);
  return Array.from({ length: count }, (_, index) => {
    /** @type {Record<string, unknown>} */
    const item = {};
    for (const [name, values] of named) {
      const value = values[index];
      if (value !== null && value !== undefined) item[name] = value;
    }
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
    lanes: [...(raw.lanes ?? [])].sort((a, b) => (a.broker < b.broker ? -1 : Number(a.broker > b.broker))),
    events,
    messages: unfolded(raw.messages),
    queues: raw.queues ?? [],
    topology: { nodes: topology.nodes ?? [], edges: topology.edges ?? [], unroutable: topology.unroutable ?? [] },
    causes: raw.causes ?? [],
    noticed: raw.noticed ?? [],
    cut: { events: raw.cut?.events ?? 0, bodies: raw.cut?.bodies ?? 0 },
  };
}

const story = readStory(JSON.parse(storyText));

/**
 * @param {number} index
 * @returns {StoryEvent}
 */
function eventAt(index) {
  return story.events[index];
}

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
 * Return whether an event may be the cause of anything: a fault, a lost connection, a refusal.
 * @param {StoryEvent} event
 */
function isCulprit(event) {
  return event.across || event.kind === "fault" || event.kind === "refused";
}

/** How a delivery was settled, by the index of the event: the delivery. @type {Map<number, StoryEvent>} */
const deliveryOf = new Map();

/** Return whether a client waits for the confirm of a publish: it has a number. @param {StoryEvent} event */
function isAwaited(event) {
  return event.detail?.some(([name]) => name === "publish number");
}

/** Join each settlement to its delivery, and each message to the faults that hit the channel that held it. */
function joinEvents() {
  /** What is unsettled, and the publish of each channel that waits for its confirm. @type {Map<string, StoryEvent>} */
  const held = new Map();
  for (const event of story.events) {
    const { i, message, channel } = event;
    const role = roleOf(event);
    const copy = `${message}/${event.copy}`;
    if (role === "delivery") held.set(copy, event);
    else if (role === "publish") isAwaited(event) ? held.set(channel ?? "", event) : held.delete(channel ?? "");
    else if (role === "answer") held.delete(channel ?? "");
    else if (role === "settling" || role === "requeue") {
      const delivery = held.get(copy);
      if (delivery && role === "settling") deliveryOf.set(i, delivery);
      held.delete(copy);
    } else if (channel && message === undefined && isCulprit(event)) {
      const hit = [...held.values()].filter((each) => `${each.channel}/`.startsWith(`${channel}/`));
      for (const number of new Set(hit.map((each) => each.message))) eventsOf.get(number ?? 0)?.push(i);
    }
  }
  for (const indexes of eventsOf.values()) indexes.sort((a, b) => a - b);
}

/** The events of each run of rounds (delivered, nacked, requeued) by its number. @type {Map<number, number[]>} */
const roundsOf = new Map();
const LEAST_ROUNDS = 4;
const LONGEST_ROUND = 12;

/** Number the runs in which a message goes the same round again and again. */
function findRounds() {
  for (const indexes of eventsOf.values()) {
    const steps = indexes.map((index) => {
      const { kind, from, to, tone } = eventAt(index);
      return [kind, from, to, tone].join();
    });
    for (let at = 0; at < steps.length; at++) {
      for (let length = 1; length <= LONGEST_ROUND; length++) {
        let end = at + length;
        while (end < steps.length && steps[end] === steps[end - length]) end++;
        const rounds = Math.floor((end - at) / length);
        if (rounds < LEAST_ROUNDS) continue;
        const run = indexes.slice(at, at + rounds * length);
        const fold = roundsOf.size;
        for (const index of run) eventAt(index).fold = fold;
        roundsOf.set(fold, run);
        at += run.length - 1;
        break;
      }
    }
  }
}

/**
 * Return events as runs: those of one run together where it begins, every other event alone.
 * @param {number[]} indexes
 */
function runsOf(indexes) {
  /** @type {number[][]} */
  const runs = [];
  /** @type {Map<number, number[]>} */
  const known = new Map();
  for (const index of indexes) {
    const { fold } = eventAt(index);
    const run = known.get(fold ?? -1);
    if (run) run.push(index);
    else {
      runs.push([index]);
      if (fold !== undefined) known.set(fold, runs[runs.length - 1]);
    }
  }
  return runs;
}

findRounds();
joinEvents();

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

/**
 * Return what the names of messages call a broker.
 * @param {string} id
 */
function brokerName(id) {
  return story.brokers.find((broker) => broker.id === id)?.name ?? id;
}

/** The names of messages in a text: "#3", "#3 of rome". */
const namesOfMessages = new RegExp(
  `(#\\d+(?: of (?:${story.brokers.map((broker) => brokerName(broker.id).replace(/\W/g, "\\$&")).join("|") || "b1"})\\b)?)`,
);

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
 * Return what the message's own broker calls it.
 * @param {number} number
 */
function plainName(number) {
  return messageName(number).split(" ")[0];
}

/**
 * Return the text of an event with a short consumer tag.
 * @param {StoryEvent} event
 */
function shortText(event) {
  return event.text.replace(/((?:as|consumer) '[^']{12})[^']+'/, "$1…'");
}

/**
 * Return text in which the names of messages are drawn, by default as links that open them.
 * @param {string} text
 * @param {(number: number) => Node} [draw]
 * @param {string} [broker] The broker that a text of its own is about: it does not name itself.
 * @returns {Child[]}
 */
function linked(text, draw = chipLink, broker) {
  const suffix = broker && broker !== story.brokers[0]?.id ? ` of ${brokerName(broker)}` : "";
  return text.split(namesOfMessages).map((part) => {
    const number = numberOf.get(part.includes(" ") ? part : `${part}${suffix}`);
    return number === undefined ? part : draw(number);
  });
}
