// The sequence: a lane for each client, exchange and queue, and a row for each step of a message.

/**
 * A row. step: events drawn together, such as a publish and the queues it reached. fold: set-up, a
 * run of rounds, or equal steps of many messages, which opens. alike: how often the same steps repeat. leap: a jump of
 * the broker's clock. end: where the test failed.
 * @typedef {{
 *   kind: "step" | "fold" | "leap" | "end", events: number[], us?: number, isOpen?: boolean, isRun?: boolean,
 *   alike?: number
 * }} Item
 */

const CONTINUES = new Set(["publish", "death"]);
const CONTINUED = new Set(["arrival", "loss"]);
// What the test logged and what its workers printed: text only.
const NOTES = new Set(["log", "output"]);
// A message that is routed within these microseconds shares the row of its publish.
const AT_ONCE = 2000;
const NARROW = 700;
// Of a drawing, from its top.
const MIDDLE = 15;

class Sequence {
  constructor() {
    /** @type {Item[]} */
    this.items = [];
    /** The item of each event. @type {Map<number, number>} */
    this.itemOf = new Map();
    /** The folds that the reader has opened, by their first event. @type {Set<number>} */
    this.opened = new Set();
    /** @type {Lane[]} */
    this.lanes = [];
    /** The place of each lane. @type {Map<string, number>} */
    this.places = new Map();
    this.laneWidth = 110;
    this.caption = 0;
    this.wished = 0;
    this.isNarrow = false;
    this.unused = 0;
    this.head = el("div", { class: "lane-heads", "aria-hidden": "true" });
    this.lines = el("div", { class: "lane-lines", "aria-hidden": "true" });
    this.list = el("div", { role: "listbox", "aria-label": "Steps in order of time", class: "steps" });
    this.empty = el("p", { class: "empty", hidden: true });
    this.scroller = div("scroller sequence", this.head, div("stage", this.lines, this.list), this.empty);
    this.map = el("div", { class: "minimap screen", "aria-hidden": "true", onclick: (/** @type {MouseEvent} */ event) => this.jump(event) });
    this.element = panelOf("sequence", this.scroller, this.map);
    this.rows = new Rows({
      scroller: this.scroller,
      list: this.list,
      id: "step",
      rowHeight: 30,
      count: 0,
      make: (index) => this.makeRow(index),
      onActive: (index) => this.onActive(index),
      onOpen: (index) => this.onOpen(index),
      headHeight: () => this.head.offsetHeight,
    });
    new ResizeObserver(() => this.resize()).observe(this.scroller);
    listeners.push((changed) => this.onChange(changed));
    this.hasAllLanes = false;
    this.laneSwitch = button("", () => {
      this.hasAllLanes = !this.hasAllLanes;
      this.build();
      this.showEvent();
    }, { class: "screen" });
    this.build();
  }

  /** @param {Changed} changed */
  onChange(changed) {
    const isNew = changed.has("filter") || changed.has("clock");
    if (isNew) this.build();
    else if (changed.has("message") || changed.has("isOpen")) this.rows.refresh();
    if (changed.has("event") || isNew) this.showEvent();
    if (changed.has("view")) {
      this.showSwitch();
      if (state.view === "sequence") this.rows.reveal();
    }
  }

  /** Make the selected event the active row, and open the fold that hides it. */
  showEvent() {
    if (state.event < 0) return;
    const item = this.items[this.itemOf.get(state.event) ?? -1];
    // The first of a run stands for it.
    if (item?.kind === "fold" && !(item.isRun && item.events[0] === state.event)) {
      this.opened.add(item.events[0]);
      this.build();
    }
    this.rows.activate(this.itemOf.get(state.event) ?? -1);
    this.revealLanes(item?.events ?? []);
  }

  /**
   * Scroll sideways until the lanes of events are in sight, as far as they fit.
   * @param {number[]} events
   */
  revealLanes(events) {
    const ids = events.flatMap((index) => [eventAt(index).from, eventAt(index).to]);
    const places = ids.flatMap((id) => this.places.get(id ?? "") ?? []);
    if (!places.length) return;
    const left = Math.min(...places) * this.laneWidth;
    const right = (Math.max(...places) + 1) * this.laneWidth - this.scroller.clientWidth + this.caption;
    this.scroller.scrollLeft = Math.min(left, Math.max(right, this.scroller.scrollLeft));
  }

  /** @param {number} index */
  onActive(index) {
    const item = this.items[index];
    const step = index < this.rows.active ? -1 : 1;
    if (item.kind === "leap" || item.kind === "end") {
      if (this.items[index + step]) this.onActive(index + step);
    } else if (item.kind === "fold" && !item.isRun) {
      change({ event: -1, message: 0 });
      this.rows.activate(index);
    } else selectEvent(item.events[0]);
  }

  /** @param {number} index */
  onOpen(index) {
    const item = this.items[index];
    if (item.kind === "fold") {
      this.toggle(item);
      this.rows.activate(this.items.findIndex((each) => each.kind === "fold" && each.events[0] === item.events[0]));
    } else if (item.kind === "step") {
      selectEvent(item.events.includes(state.event) ? state.event : item.events[0], true);
    }
  }

  /** @param {Item} item */
  toggle(item) {
    if (!this.opened.delete(item.events[0])) this.opened.add(item.events[0]);
    this.build();
  }

  /** Open every fold, or close them all. */
  toggleAll() {
    const folds = this.items.filter((item) => item.kind === "fold" && !item.isRun && !item.alike);
    const isAnyClosed = folds.some((item) => !item.isOpen);
    this.opened = new Set(isAnyClosed ? folds.map((item) => item.events[0]) : []);
    this.build();
    this.showEvent();
  }

  /** Group the events into rows, and lay them out. */
  build() {
    const shown = shownEvents();
    const isBrief = state.filter.kind === PROBLEMS;
    this.items = groupEvents(
      isBrief ? shown.map((index) => roundsOf.get(eventAt(index).fold ?? -1) ?? [index]) : runsOf(shown),
      this.opened,
    );
    this.itemOf.clear();
    this.items.forEach((item, index) => {
      if (item.kind === "step" || !item.isOpen) for (const event of item.events) this.itemOf.set(event, index);
    });
    const drawn = this.items.filter((item) => item.isRun || item.alike || item.kind === "step");
    const used = new Set(
      drawn.flatMap((item) => item.events.flatMap((index) => [eventAt(index).from, eventAt(index).to])),
    );
    const seen = new Set([...used].map((id) => laneOf.get(id ?? "")?.broker));
    // What the failure names keeps its lane, and so does a broker that nothing reached: that may be what went wrong.
    const error = story.test.error?.text ?? "";
    const lanes = story.lanes.filter(
      (lane) => used.has(lane.id) || !seen.has(lane.broker) || error.includes(`'${lane.label}'`),
    );
    this.unused = story.lanes.length - lanes.length;
    this.lanes = this.hasAllLanes ? story.lanes : lanes;
    this.showSwitch();
    this.places = new Map(this.lanes.map((lane, index) => [lane.id, index]));
    this.wished = wishedWidth(this.items);
    this.rows.active = -1;
    this.rows.options.count = this.items.length;
    this.empty.hidden = this.items.length > 0;
    this.empty.textContent = emptyWords();
    this.resize();
  }

  /** Draw a tick for each row that went wrong, beside a list that is longer than the screen. */
  drawMap() {
    const { clientHeight } = this.scroller;
    const count = this.items.length;
    this.map.hidden = count * this.rows.options.rowHeight <= clientHeight || state.isPrinting;
    if (this.map.hidden) return;
    this.map.style.top = `${this.head.offsetHeight}px`;
    /** The worst tone of each place. @type {Map<number, string>} */
    const ticks = new Map();
    this.items.forEach((item, index) => {
      const tone = item.kind === "end" ? "bad" : worstTone(item.events.map((event) => eventAt(event)));
      const place = Math.round((index / count) * MOST_TICKS);
      if (tone !== "plain" && ticks.get(place) !== "bad") ticks.set(place, tone);
    });
    this.map.replaceChildren(
      ...[...ticks].map(([place, tone]) => {
        const tick = el("i", { class: tone });
        tick.style.top = `${(place / MOST_TICKS) * 100}%`;
        return tick;
      }),
    );
  }

  /** @param {MouseEvent} event */
  jump(event) {
    const { top, height } = this.map.getBoundingClientRect();
    const row = ((event.clientY - top) / height) * this.items.length;
    this.scroller.scrollTop = row * this.rows.options.rowHeight - this.scroller.clientHeight / 2;
  }

  /** Begin where it went wrong, if that is further down than the screen shows. */
  openAtProblem() {
    const first = firstProblem();
    const room = this.rows.seenHeight() - this.head.offsetHeight;
    const row = this.itemOf.get(first) ?? -1;
    if (row * this.rows.options.rowHeight > room - 2 * this.rows.options.rowHeight) selectEvent(first);
  }

  /** Offer the lanes without an arrow. */
  showSwitch() {
    this.laneSwitch.hidden = !this.unused || state.view !== "sequence";
    this.laneSwitch.textContent = counted(this.unused ?? 0, "unused lane");
    this.laneSwitch.ariaPressed = String(this.hasAllLanes);
  }

  /** Fit the lanes to the room there is. */
  resize() {
    const width = state.isPrinting ? 1000 : this.scroller.clientWidth;
    if (!width) return;
    this.isNarrow = width < NARROW && !state.isPrinting;
    const room = width - this.lanes.length * WISHED_LANE;
    const most = Math.max(Math.round(width * 0.34), Math.min(room, Math.round(width * 0.6)));
    const caption = this.isNarrow ? 0 : state.isPrinting ? 250 : clamp(this.wished, 230, Math.max(230, most));
    this.caption = caption;
    const least = state.isPrinting ? 30 : 84;
    this.laneWidth = clamp(Math.floor((width - caption - 12) / Math.max(1, this.lanes.length)), least, 190);
    this.rows.options.rowHeight = this.isNarrow ? 50 : 30;
    this.scroller.classList.toggle("narrow", this.isNarrow);
    this.scroller.style.setProperty("--caption", `${caption}px`);
    this.scroller.style.setProperty("--lanes", `${this.laneWidth * this.lanes.length}px`);
    this.scroller.style.setProperty("--lane", `${this.laneWidth}px`);
    this.scroller.style.setProperty("--row", `${this.rows.options.rowHeight}px`);
    this.scroller.style.setProperty("--seen", `${width}px`);
    this.head.replaceChildren(...laneHeads(this.lanes));
    this.head.classList.toggle("grouped", hasManyBrokers);
    this.lines.replaceChildren(
      ...this.lanes.map((lane, place) => {
        const line = el("i", { class: lane.kind });
        line.style.left = `${caption + this.x(place)}px`;
        return line;
      }),
    );
    this.rows.refresh();
    this.drawMap();
    this.revealLanes(this.items[this.rows.active]?.events ?? []);
  }

  /** @param {number} place */
  x(place) {
    return (place + 0.5) * this.laneWidth;
  }

  /** @param {number} index */
  makeRow(index) {
    const item = this.items[index];
    if (item.kind === "leap") return this.makeLeap(item);
    if (item.kind === "fold") return makeFold(item);
    if (item.kind === "end") return makeEnd(item);
    const events = item.events.map((each) => eventAt(each));
    const [first] = events;
    const isOther = state.isOpen && state.message > 0 && first.message !== state.message && !isCulprit(first) && first.kind !== "called";
    const before = this.items[index - 1];
    const timeBefore = before?.kind === "step" ? spanText(instantOf(eventAt(before.events[0]))) : "";
    const isSameTime = timeBefore === spanText(instantOf(first));
    const words = stepWords(events);
    return option(
      { class: `step ${worstTone(events)}${isOther ? " other" : ""}${first.late ? " late" : ""}${NOTES.has(first.kind) ? " wide" : ""}`,
        "aria-label": [`${spanText(instantOf(first))}: ${events.map((event) => event.text).join(", ")}`, first.line]
          .filter(Boolean)
          .join(", "),
      },
      div(
        "caption",
        item.us && span("gap", spanText(item.us)),
        timeElement(first, isSameTime ? "time same" : "time"),
        el(
          "span",
          { class: "words", title: [...events.map((event) => event.text), first.line].filter(Boolean).join("\n") },
          ...linked(words, chip),
        ),
      ),
      !NOTES.has(first.kind) && this.draw(events),
    );
  }

  /** @param {Item} item */
  makeLeap(item) {
    return option(
      { "aria-disabled": "true",
        class: "leap",
        "aria-label": `the broker's clock leaps by ${spanText(item.us)}`,
      },
      div("caption", span("pause", `${spanText(item.us)} later`)),
    );
  }

  /** @param {StoryEvent[]} events */
  draw(events) {
    const drawing = svg("svg", {
      class: `drawing ${colourClass(events[0].message)}`,
      width: this.laneWidth * this.lanes.length,
      height: 30,
      "aria-hidden": "true",
    });
    if (events[0].across || (!events[0].from && !events[0].to)) {
      fill(drawing, ...this.band(events[0]));
      return drawing;
    }
    /** @type {Child[]} */
    const marks = [];
    const way = this.direction(events[0]);
    // A way that turns round goes on below itself.
    const turns = events.slice(1).some((event) => way && this.direction(event) === -way);
    events.forEach((event, index) => {
      const from = this.places.get(event.from ?? "");
      const to = this.places.get(event.to ?? "");
      const mark = markOf(event);
      const start = from ?? to;
      if (start === undefined) return;
      const end = to ?? start;
      const [x1, x2] = [this.x(start), this.x(end)];
      const direction = Math.sign(x2 - x1);
      const y = !turns ? MIDDLE : index ? MIDDLE + 6 : MIDDLE - 5;
      if (turns && index === 1)
        fill(
          drawing,
          path("flow solid", `M${x1} ${MIDDLE - 5}q${4 * way} 0 ${4 * way} 5.5t${-4 * way} 5.5`),
        );
      if (direction) fill(drawing, lineBetween(mark, toneOf(event), x1, x2, y));
      if (mark.icon === "right" && direction) marks.push(arrowHead(x2, y, direction));
      else if (mark.at === "start" && direction) {
        marks.push(arrowHead(x2, y, direction));
        marks.push(
          markGroup(
            mark,
            toneOf(event),
            x1 + direction * (event.message === undefined ? 0 : pillWidth(event.message) / 2 + 9),
            y,
          ),
        );
      } else {
        const isAlone = !direction && event.message !== undefined && index === 0;
        marks.push(
          markGroup(
            mark.icon === "right" ? PLAIN : mark,
            toneOf(event),
            x2 + (isAlone ? pillWidth(event.message ?? 0) / 2 + 9 : 0),
            y,
          ),
        );
      }
      if (index === 0 && event.message !== undefined && (mark.line === "solid" || !direction))
        marks.push(pill(event.message, x1, y));
    });
    fill(drawing, ...marks);
    return drawing;
  }

  /**
   * Return whether an event leads to the right (1), to the left (-1) or nowhere (0).
   * @param {StoryEvent} event
   */
  direction(event) {
    const [from, to] = [this.places.get(event.from ?? ""), this.places.get(event.to ?? "")];
    return from === undefined || to === undefined ? 0 : Math.sign(to - from);
  }

  /**
   * Return a mark across the lanes of an event's broker.
   * @param {StoryEvent} event
   * @returns {Child[]}
   */
  band(event) {
    const y = MIDDLE;
    const broker = laneOf.get(event.from ?? "")?.broker ?? (hasManyBrokers ? undefined : story.brokers[0]?.id);
    const places = this.lanes.flatMap((lane, place) => (broker === undefined || lane.broker === broker ? [place] : []));
    if (!places.length) return [];
    const tone = toneOf(event);
    const at = this.places.get(event.from ?? "") ?? places[0];
    const ends = [
      this.x(places[0]) - this.laneWidth / 2 + 4,
      this.x(places[places.length - 1]) + this.laneWidth / 2 - 4,
    ];
    return [
      path(`across ${tone}`, `M${ends[0]} ${y}H${ends[1]}`),
      event.message !== undefined && pill(event.message, this.x(at) + 9 + pillWidth(event.message) / 2, y),
      markGroup(markOf(event), tone, this.x(at), y),
    ];
  }
}

/**
 * Group runs of events into rows: set-up and rounds fold, and what continues a publish shares its row.
 * @param {number[][]} runs
 * @param {Set<number>} opened The folds that are open, by their first event.
 * @returns {Item[]}
 */
function groupEvents(runs, opened) {
  /** @type {Item[]} */
  const items = [];
  /** The last publish or dead letter of each message. @type {Map<number, Item>} */
  const sources = new Map();
  const folds = !isFiltered();
  for (let at = 0; at < runs.length; at++) {
    const events = [...runs[at]];
    const event = eventAt(events[0]);
    const isRun = events.length > 1;
    if (event.leap && state.clock !== "real") items.push({ kind: "leap", events: [event.i], us: event.leap });
    if (folds && isFolded(event)) {
      for (let next; isFolded((next = eventAt(runs[at + 1]?.[0]))) && !next.leap; at++) events.push(next.i);
    }
    if (events.length > 1) {
      const isOpen = opened.has(events[0]);
      items.push({ kind: "fold", events, isOpen, isRun });
      if (isOpen) for (const each of events) items.push({ kind: "step", events: [each] });
      continue;
    }
    const source = event.leap || event.message === undefined ? undefined : sources.get(event.message);
    if (source && CONTINUED.has(roleOf(event)) && isContinued(eventAt(source.events[0]), event))
      source.events.push(event.i);
    else {
      /** @type {Item} */
      const item = { kind: "step", events: [event.i] };
      items.push(item);
      if (event.message !== undefined && CONTINUES.has(roleOf(event))) sources.set(event.message, item);
    }
  }
  measureGaps(items);
  const shown = folds ? foldAlike(items, opened) : items;
  if (!story.test.failed_at || !folds) return shown;
  const at = shown.findIndex((item) => item.events.some((index) => eventAt(index).late));
  const before = at < 0 ? shown.length : at;
  shown.splice(before, 0, { kind: "end", events: [], us: gapAtEnd(shown[before - 1]) });
  return shown;
}

// The most ticks in the map of a sequence.
const MOST_TICKS = 400;
// So many equal steps, or rounds of steps, fold.
const LEAST_ALIKE = 8;
const LONGEST_ALIKE = 8;

/**
 * Fold rows that show the same of many messages: "published, delivered, acked" 5,000 times.
 * @param {Item[]} items
 * @param {Set<number>} opened The folds that are open, by their first event.
 */
function foldAlike(items, opened) {
  const kinds = items.map((item) =>
    item.kind === "step"
      ? item.events.map((index) => [eventAt(index).kind, eventAt(index).from, eventAt(index).to, toneOf(eventAt(index)), eventAt(index).late].join()).join(";")
      : "",
  );
  /** @type {Item[]} */
  const shown = [];
  for (let at = 0; at < items.length; at++) {
    const [length, rounds] = alikeFrom(kinds, at);
    if (!rounds) {
      shown.push(items[at]);
      continue;
    }
    const run = items.slice(at, at + length * rounds);
    const events = run.flatMap((item) => item.events);
    const isOpen = opened.has(events[0]);
    shown.push({ kind: "fold", events, isOpen, alike: rounds, us: run[0].us });
    if (isOpen) shown.push(...run);
    at += run.length - 1;
  }
  return shown;
}

/**
 * Return how long the round is that repeats from a row on, and how often: 0 if it does not.
 * @param {string[]} kinds
 * @param {number} at
 */
function alikeFrom(kinds, at) {
  for (let length = 1; length <= LONGEST_ALIKE; length++) {
    let end = at + length;
    while (end < kinds.length && kinds[end] && kinds[end] === kinds[end - length]) end++;
    const rounds = Math.floor((end - at) / length);
    if (kinds[at] && rounds >= LEAST_ALIKE) return [length, rounds];
  }
  return [0, 0];
}

/** Return the event at which to begin: what shows the first cause, or else the first problem. */
function firstProblem() {
  const [cause] = story.causes;
  const bad = shownEvents().find((index) => toneOf(eventAt(index)) === "bad");
  const asked = eventsOf.get(story.test.error?.messages?.[0] ?? 0)?.[0];
  return cause?.events.at(-1) ?? asked ?? bad ?? shownEvents().find((index) => isProblem(eventAt(index))) ?? -1;
}

// Set-up that may be the cause of what follows is shown.
const NEVER_FOLDED = new Set(["qos", "called"]);

/** @param {StoryEvent | undefined} event */
function isFolded(event) {
  return event?.setup && !NEVER_FOLDED.has(event.kind) && !isCulprit(event) && !isProblem(event);
}

const LEAST_GAP = 10000;

/**
 * Note the time before each row that comes much later than rows usually do.
 * @param {Item[]} items
 */
function measureGaps(items) {
  const gaps = items.slice(1).map((item, index) => {
    const { kind, events } = items[index];
    if (item.kind !== "step" || kind === "leap") return 0;
    return spanBetween(eventAt(events[events.length - 1]), eventAt(item.events[0]));
  });
  const least = Math.max(LEAST_GAP, 20 * [...gaps].sort((a, b) => a - b)[gaps.length >> 1]);
  gaps.forEach((gap, index) => {
    if (gap > least) items[index + 1].us = gap;
  });
}

/**
 * Return the time between a row and the failure, if it is long.
 * @param {Item | undefined} last
 */
function gapAtEnd(last) {
  if (!last || last.kind === "leap") return undefined;
  const gap = spanBetween(eventAt(last.events[last.events.length - 1]), failure());
  return gap > LEAST_GAP ? gap : undefined;
}

/**
 * Return whether a message goes on from where its publish or its death has taken it, at once.
 * @param {StoryEvent} before
 * @param {StoryEvent} event
 */
function isContinued(before, event) {
  return event.from === before.to && !((event.t ?? 0) - (before.t ?? 0) > AT_ONCE);
}

/**
 * @param {Record<string, unknown>} attributes
 * @param {...Child} children
 */
function option(attributes, ...children) {
  return el("div", { role: "option", "aria-selected": "false", ...attributes }, ...children);
}

/** @param {Item} item */
function makeFold(item) {
  const [text, words] = item.isRun
    ? roundWords(item.events).split(": ")
    : item.alike ? alikeWords(item.events, item.alike) : [
        `Set-up: ${counted(item.events.length, "event")}`,
        [...countsOf(item.events, (event) => event.kind)]
          .map(([kind, count]) => (NOUNS[kind] ? counted(count, NOUNS[kind]) : `${count} × ${kindWord(kind)}`))
          .join(", "),
      ];
  return option(
    { class: `fold${item.isOpen ? " open" : ""}${item.isRun ? " warn" : item.alike ? ` ${worstTone(item.events.map((index) => eventAt(index)))}` : ""}`,
      "aria-label": `${text}, ${item.isOpen ? "open" : "folded"}: ${words}`,
    },
    div("caption", el("span", { class: "words", title: words }, el("strong", {}, ...linked(text, chip)), `: ${words}`)),
  );
}

/**
 * Return how often the same happened, to which messages, and what.
 * @param {number[]} events
 * @param {number} rounds
 */
function alikeWords(events, rounds) {
  const steps = events.slice(0, events.length / rounds).map((index) => eventAt(index));
  const words = steps.map((event) => {
    const place = ["arrival", "publish", "delivery"].includes(roleOf(event)) ? laneOf.get(event.to ?? "")?.label : "";
    return [kindWord(event.kind), place && `to ${place}`].filter(Boolean).join(" ");
  });
  const named = events.flatMap((index) => eventAt(index).message ?? []);
  named.sort((a, b) => a - b);
  const [first, last] = [named[0], named[named.length - 1]];
  const span = spanText(spanBetween(eventAt(events[0]), eventAt(events[events.length - 1])));
  const about = first === undefined ? "" : first === last ? `${messageName(first)} ` : `${messageName(first)} to ${messageName(last)} `;
  return [`${rounds.toLocaleString("en")} times alike`, `${about}in ${span}, ${words.join(", ")}`];
}

/** Return the instant of the failure, as an event. */
function failure() {
  const { failed_at } = story.test;
  return /** @type {StoryEvent} */ ({ wall: failed_at?.t, ...failed_at });
}

/** @param {Item} item */
function makeEnd(item) {
  const [first] = (story.test.error?.text ?? "").split("\n");
  return option(
    { "aria-disabled": "true", class: "step bad end wide" },
    div("caption", item.us && span("gap", spanText(item.us)), timeElement(failure()), el("span", { class: "words", title: first }, el("strong", {}, "failed here"), ` ${first}`, story.events.at(-1)?.late && " (what follows is clean-up)")),
  );
}

const WISHED_LANE = 110;
// What stands before the words of a row, and the width of a character of them.
const BEFORE_WORDS = 100;
const CHARACTER = 6.7;
// More rows than these are not measured.
const MEASURED = 2000;

/**
 * Return the width of the captions that leaves no word out, but for what the test logged.
 * @param {Item[]} items
 */
function wishedWidth(items) {
  const isStep = (/** @type {Item} */ item) => item.kind === "step" && !NOTES.has(eventAt(item.events[0]).kind);
  const steps = items.slice(0, MEASURED).filter(isStep);
  const longest = Math.max(0, ...steps.map((item) => stepWords(item.events.map((index) => eventAt(index))).length));
  return Math.max(BEFORE_WORDS + Math.ceil(longest * CHARACTER), 380);
}

/** @param {StoryEvent[]} events */
function stepWords(events) {
  const [first, ...rest] = events;
  const more = rest.map((event) => 
    roleOf(event) === "arrival" ? laneOf.get(event.to ?? "")?.label || "(default)" : kindWord(event.kind),
  );
  const message = messageOf.get(first.message ?? 0);
  // The lanes show the exchange, so that there is room for the key.
  const text =
    roleOf(first) === "publish" && message?.exchange
      ? `published ${messageName(message.number)} ${message.routing_key ?? ""}`
      : shortText(first);
  return [text, more.length && `→ ${more.join(", ")}`, afterWords(first)].filter(Boolean).join(" ");
}

/** @param {StoryEvent[]} events */
function worstTone(events) {
  const tones = events.map(toneOf);
  return tones.find((tone) => tone === "bad") ?? tones.find((tone) => tone === "warn") ?? "plain";
}

/** @param {Lane[]} lanes */
function laneHeads(lanes) {
  const cells = lanes.map((lane, place) => {
    const isFirst = hasManyBrokers && lane.broker !== lanes[place - 1]?.broker;
    return el(
      "div",
      {
        class: `lane ${lane.kind}${isFirst ? " first" : ""}`,
        title: [laneName(lane.id), lane.detail, lane.line].filter(Boolean).join("\n"),
      },
      isFirst && span("group", brokerTitle(lane.broker)),
      span("kind", lane.kind),
      span("label", lane.label || "(default)"),
    );
  });
  return [div("corner"), ...cells];
}

/**
 * @param {Mark} mark
 * @param {string} tone
 * @param {number} x1
 * @param {number} x2
 * @param {number} y
 */
function lineBetween(mark, tone, x1, x2, y) {
  const end = x2 - Math.sign(x2 - x1) * (mark.icon === "right" || mark.at ? 3 : 7);
  return path(`flow ${mark.line} ${mark.line === "answer" ? tone : ""}`, `M${x1} ${y}H${end}`);
}

/**
 * @param {number} x
 * @param {number} y
 * @param {number} direction
 */
function arrowHead(x, y, direction) {
  return path("arrow", `M${x - direction} ${y}l${-8 * direction} -4.5v9z`);
}

/** @param {number} message */
function pillWidth(message) {
  return 9 + 7 * messageName(message).length;
}

/**
 * Return "#3" on a lane of the drawing.
 * @param {number} message
 * @param {number} x
 * @param {number} y
 */
function pill(message, x, y) {
  const width = pillWidth(message);
  return svg(
    "g",
    { class: `pill ${colourClass(message)}`, transform: `translate(${x} ${y})` },
    svg("rect", { x: -width / 2, y: -9, width, height: 18, rx: 9 }),
    svg("text", { y: 4 }, messageName(message)),
  );
}
