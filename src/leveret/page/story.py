"""The story of a test: what a page, a text or a diagram shows, as one value of JSON.

`BrokerStory` goes through the rows of one broker once. `story_of` joins the brokers of a test. All times are
microseconds since the start of the test: `t` by the broker's clock, `wall` in real time.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from itertools import accumulate
from typing import Any, Final

from leveret.page.lanes import Lanes
from leveret.page.messages import COLOURS, WITHHELD, Causes, MessageStory, link
from leveret.page.queues import describe, shown_queue
from leveret.page.readings.reading import PageRow, Reading, StoryEvent
from leveret.page.steps import ALWAYS_SETUP, SETUP, step_of
from leveret.page.topology import Topology
from leveret.story.causes import Cause, sentence
from leveret.story.diagnosis import CAUSES_MAX
from leveret.story.entities import QueueLife, successions
from leveret.story.facts import BY_SOMEONE, Fact, RowFact
from leveret.story.queues import Queues
from leveret.story.timeline import Timeline
from leveret.story.words import WARN, channel_text
from leveret.trace import events
from leveret.trace.caller import Caller
from leveret.trace.recorded_rows import raw_events
from leveret.trace.redaction import Redaction
from leveret.trace.version import __version__

Story = dict[str, Any]

FORMAT: Final = 1
# By at least this much the broker's clock must gain on real time to have leapt, in microseconds.
_LEAP_MIN: Final = 10_000
# The messages of the second broker of a test have numbers above this one, those of the third above twice this one.
BROKER_SPAN: Final = 1_000_000
# A connection and a channel.
Place = tuple[object, object]
# The method of `leveret.faults` that adds any fault, and the methods of clients that settle deliveries.
_ADD: Final = "add"
_SETTLING: Final = ("basic.ack", "basic.nack", "basic.reject")
# The faults that fire once a message has been published. Any other comes before its publish, which it may prevent.
_AFTER_PUBLISH: Final = (WITHHELD, "delay_confirms")
# The reason of what a quorum queue gives up. RabbitMQ asks it only of messages that their client wants back.
_GIVEN_UP: Final = "delivery_limit"
_DECLARING: Final = (events.QUEUE_DECLARE, events.EXCHANGE_DECLARE, events.BIND)
_REMOVING: Final = (events.QUEUE_DELETE, events.EXCHANGE_DELETE, events.UNBIND)
_ORDINALS: Final = ("first", "second", "third", "fourth")


@dataclass(slots=True)
class Test:
    """The test that a story is about."""

    name: str = ""
    outcome: str = ""
    phase: str | None = None
    seconds: float | None = None
    error: str | None = None
    # When it failed, in real time: microseconds since the epoch.
    failed_at: int | None = None
    # The messages and queues that the failure of an assertion is about, if it was one of leveret's.
    messages: Sequence[int] = ()
    queues: Sequence[str] = ()
    # That failure as a value of JSON.
    assertion: dict[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """A line of text beside what the brokers did: "log" or "output", in real time or by the broker's clock."""

    kind: str
    text: str
    wall: int | None = None
    at: int | None = None
    is_bad: bool = False


class BrokerStory:
    """The story of one broker, read row by row."""

    def __init__(self, reading: Reading, number: int, start: tuple[int | None, int | None]) -> None:
        self.reading = reading
        self.id = f"b{number}"
        self.lanes = Lanes(self.id)
        self.events: list[StoryEvent] = []
        self.messages: dict[int, MessageStory] = {}
        self.queues: Final = Queues()
        self.topology = Topology()
        self._causes = Causes()
        self._start = start
        # What to add to the broker's own numbers of messages, so that no two brokers share one.
        self._first = (number - 1) * BROKER_SPAN
        self._suffix = f" of {reading.name or self.id}" if number > 1 else ""
        self.redaction = reading.redaction or Redaction()
        # The last call of the test, and the event of it.
        self._call: tuple[str | None, StoryEvent] | None = None
        self._has_message = False
        self.timeline: Final = Timeline(raw_events((*reading.before, *reading.rows)))
        # The queues of each name that were deleted, in order.
        self._deleted: Final[dict[tuple[object, object], Iterator[QueueLife]]] = {
            place: iter(queues) for place, queues in self.timeline.deleted_queues.items()
        }
        # The last publish of each channel, and how each copy was settled.
        self._published: dict[Place, MessageStory] = {}
        self._settled: dict[int, StoryEvent] = {}
        # The calls that add faults, by their names, and the line of the last of each.
        self._faults: Final = {fault.name.partition("(")[0] for fault in reading.faults} | {
            str(row["attrs"].get("fault")) for row in reading.rows if row["kind"] == events.FAULT
        }
        self._added: dict[str, str] = {}
        # What was declared and bound, and exists, and which of that by the name of each exchange and queue.
        self._declared: dict[tuple[object, ...], None] = {}
        self._declared_of: dict[object, list[tuple[object, ...]]] = {}
        # How many more bytes of bodies are read. A page shows the sizes of the others.
        self._body_budget = 8_000_000
        self.unread_count = 0
        # The events of faults that fired, by the names of these.
        self._fired: dict[str, list[StoryEvent]] = {}

    def read(self) -> None:
        """Go through all rows."""
        for row in self.reading.before:
            self._know(row)
        later = len(self.reading.rows) - self.reading.later_count
        for index, row in enumerate(self.reading.rows):
            self._take(row, index)
            if index >= later and self.events:
                self.events[-1]["late"] = True
        self._finish()

    def _know(self, row: PageRow) -> None:
        """Take a row from before the test: it explains later ones, and is no event."""
        if row["kind"] == events.PUBLISHED:
            message = self._message(row)
            message.publish(row, self.redaction)
            if row.get("conn") is not None:
                message.publisher = channel_text(row["conn"], row.get("chan"))
            return
        if row["kind"] == events.CONN_OPEN:
            step_of(row, RowFact(row), self.lanes, None)
        row = self._explained(row)
        self._is_again(row)
        self.queues.take(RowFact(row), None, None)
        self.topology.take(row, -1, None)

    def _take(self, row: PageRow, index: int) -> None:
        kind = row["kind"]
        if kind in events.MARKS:
            return
        row = self._explained(row)
        message = self._hit(row, index) if row.get("msg") is None else self._message(row)
        if kind == events.PUBLISHED and message is not None:
            message.publish(self._with_body_in_budget(row), self.redaction)
        fact = RowFact(row)
        event = self._event(row, fact, message)
        copy = None
        if kind == events.FAULT:
            self._fired.setdefault(str(row["attrs"].get("fault")), []).append(event)
        if kind == events.FAULT and message is not None:
            message.is_withheld |= row["attrs"].get("fault") == WITHHELD
            message.events.append(event)
        elif message is not None:
            self._has_message = True
            message.take(row)
            copy = self.timeline.copies.get(row.get("copy") or 0)
            self._note_settling(row, event, message)
            message.events.append(event)
            if copy is not None:
                message.copy_events.setdefault(copy.number, []).append(event)
            if kind == events.PUBLISHED:
                message.publisher, message.line = channel_text(row.get("conn"), row.get("chan")), event.get("line")
            self._causes.take(row, event, message, copy)
        self.queues.take(fact, event.get("t"), event.get("wall"))
        self.topology.take(row, index, message)
        self.events.append(event)
        if kind == events.CALLED:
            self._call = (event.get("line"), event)
            if (call := str(row["attrs"].get("call"))) in (*self._faults, _ADD) and "line" in event:
                self._added[call] = event["line"]

    def _with_body_in_budget(self, row: PageRow) -> PageRow:
        body = row["attrs"].get("body") or b""
        self._body_budget -= len(body)
        if self._body_budget >= 0 or not body:
            return row
        self.unread_count += 1
        return {**row, "attrs": {**row["attrs"], "body": None}}

    def _explained(self, row: PageRow) -> PageRow:
        """Return a row with the connection that caused it, if that follows from others."""
        if row["kind"] != events.QUEUE_DELETE:
            return row
        by = self.timeline.deleted_by(next(self._deleted[row.get("vhost") or "/", row.get("queue")]))
        return {**row, "conn": None if by is None else by.number}

    def _hit(self, row: PageRow, index: int) -> MessageStory | None:
        """Return the message that a fault hit, if only one can be it."""
        if row["kind"] != events.FAULT:
            return None
        place, on = (row.get("conn"), row.get("chan")), row["attrs"].get("on")
        if on == "basic.publish":
            if row["attrs"].get("fault") in _AFTER_PUBLISH:
                return self._published.get(place)
            rows = map(self.reading.rows.__getitem__, range(index + 1, len(self.reading.rows)))
            following = next((later for later in rows if later.get("conn") == place[0]), {})
            return self._message(following) if following.get("kind") == events.PUBLISHED else None
        held = self._causes.held_on(*place)
        return held[0] if len(held) == 1 and on in _SETTLING else None

    def _note_settling(self, row: PageRow, event: StoryEvent, message: MessageStory) -> None:
        """Note what became of a copy that a client refused."""
        kind, copy = row["kind"], row.get("copy")
        if kind == events.PUBLISHED:
            self._published[row.get("conn"), row.get("chan")] = message
        if copy is None or kind in events.DELIVERIES:
            return
        if kind in events.SETTLING:
            self._settled[copy] = event
        elif (settled := self._settled.pop(copy, None)) is not None and settled["kind"] != events.ACKED:
            is_given_up = row.get("reason") == _GIVEN_UP
            asked = "yes" if kind in events.REQUEUES or is_given_up else "no"
            settled["detail"].append(["requeue", f"{asked}, beyond the delivery limit" if is_given_up else asked])

    def _message(self, row: PageRow) -> MessageStory:
        number = self.number_of(row["msg"])
        message: MessageStory | None = self.messages.get(number)
        if message is None:
            message = self.messages[number] = MessageStory(
                number,
                f"#{row['msg']}{self._suffix}",
                row.get("vhost") or "/",
                self.timeline.messages.get(row["msg"]),
            )
        return message

    def _event(self, row: PageRow, fact: RowFact, message: MessageStory | None) -> StoryEvent:
        kind = row["kind"]
        event = {**self._times(row), **step_of(row, fact, self.lanes, message)}
        line = self._line(row)
        if line is not None:
            event["line"] = line
        adds_fault = kind == events.CALLED and row["attrs"].get("call") in self._faults
        is_again = self._is_again(row)
        if kind in ALWAYS_SETUP or (kind in SETUP and not adds_fault and (is_again or not self._has_message)):
            event["setup"] = True
        return event

    def _is_again(self, row: PageRow) -> bool:
        """Return whether a row declares or binds what exists, as clients do when they connect again."""
        ends = (row.get("exchange"), row.get("queue"), row["attrs"].get("destination"))
        name = (row["kind"], row.get("vhost"), *ends, row.get("routing_key"))
        if row["kind"] in _DECLARING:
            is_known = name in self._declared
            self._declared[name] = None
            for end in () if is_known else {*ends}:
                self._declared_of.setdefault(end, []).append(name)
            return is_known
        if row["kind"] in _REMOVING:
            for gone in self._declared_of.pop(row.get("queue") or row.get("exchange"), ()):
                self._declared.pop(gone, None)
        return False

    def _times(self, row: PageRow) -> dict[str, int]:
        ts, wall = row.get("ts"), row.get("wall")
        start_ts, start_wall = self._start
        times: dict[str, int] = {}
        if ts is not None and start_ts is not None:
            times["t"] = ts - start_ts
        if wall is not None and start_wall is not None:
            times["wall"] = wall - start_wall
        if self.events and len(times) == 2:
            last = times | self.events[-1]
            leap = int(times["t"] - last["t"] - (times["wall"] - last["wall"]))
            # A clock that was never moved is never ahead of real time.
            if leap >= _LEAP_MIN and (ts or 0) > (wall or 0):
                times["leap"] = leap
        return times

    def _line(self, row: PageRow) -> str | None:
        attrs = row["attrs"]
        if row["kind"] == events.FAULT and row.get("conn") is not None:
            return self._added.get(str(attrs.get("fault")), self._added.get(_ADD))
        caller = Caller.read(attrs.get("opener" if row["kind"] == events.CONN_OPEN else "caller"))
        if caller is not None:
            return caller.text(has_functions=False)
        if self._call is None or row.get("conn") is not None or row["kind"] not in BY_SOMEONE:
            return None
        line, call = self._call
        # The events that it caused say what the call did.
        call["is_shown_by_effects"] = True
        return line

    def _finish(self) -> None:
        self.events = [event for event in self.events if not event.pop("is_shown_by_effects", False)]
        picture = self.reading.picture
        if picture is not None:
            for state in picture.queues:
                describe(self.queues.queue(state.vhost, state.name), state)
            self.topology.describe(picture)
        joined: dict[str, str] = {}
        for clients in successions(one for one in self.timeline.connections.values() if one.opened is not None):
            if len(clients) > 1:
                joined |= self.lanes.join([client.number for client in clients])
        for event in self.events:
            for end in ("from", "to"):
                if end in event:
                    event[end] = joined.get(event[end], event[end])
                    self.lanes.draw(event[end])
        for vhost, name in self.queues.known:
            self.lanes.draw(self.lanes.queue(vhost, name))
        for place, (*_, last) in self.timeline.deleted_queues.items():
            if (queue := self.queues.known.get(place)) is not None:
                queue.deleted_by, queue.deleted_how = self.timeline.deleter(last), self.timeline.deletion_how(last)
        self.topology.count()

    def number_of(self, message: int) -> int:
        """Return the number in the story of a message of this broker."""
        return message + self._first

    def events_of(self, facts: Iterable[Fact]) -> list[int]:
        """Return the places of facts among the events of the story, as far as it shows them."""
        start, _ = self._start
        wanted = {
            (fact.kind, None if fact.at is None or start is None else fact.at - start, fact.get("copy"))
            for fact in facts
        }
        return [event["i"] for event in self.events if (event["kind"], event.get("t"), event.get("copy")) in wanted]

    def shown_cause(self, cause: Cause) -> dict[str, Any]:
        """Return something that went wrong as a page takes it."""
        messages = [self.number_of(number) for number in cause.messages]
        return {
            "broker": self.id,
            "sentence": self.redaction.text(sentence(cause)),
            "rank": cause.rank,
            **cause.as_json(),
            "messages": [number for number in dict.fromkeys(messages) if number in self.messages],
            "events": self.events_of(cause.evidence),
        }

    def faults(self) -> list[dict[str, Any]]:
        """Return the faults that the test added, with the events of those that fired."""
        return [
            {
                "text": fault.text,
                "fired": fault.fired,
                "events": [event["i"] for event in self._fired.get(fault.name, ())],
            }
            for fault in self.reading.faults
        ]


def story_of(readings: Sequence[Reading], test: Test, *, source: str, notes: Sequence[Note] = ()) -> Story:
    """Return the story of a test from what its brokers did. `source` is "memory", "trace file" or "RabbitMQ"."""
    start = _start_of(readings)
    stories = [BrokerStory(reading, number, start) for number, reading in enumerate(readings, start=1)]
    for one in stories:
        one.read()
    happened = [event for one in stories for event in one.events]
    if len(stories) > 1:
        # In the order in which it happened, by real time if that is known.
        happened.sort(key=lambda event: event["wall"] if "wall" in event else event.get("t", 0))
    shown = _with_notes(happened, notes, start, stories)
    _link_relayed(stories)
    for index, event in enumerate(shown):
        event["i"] = index
    for event in shown:
        if "causes" in event:
            event["causes"] = [effect["i"] for effect in event["causes"] if "i" in effect]
        if isinstance(event.get("caused_by"), dict):
            event["caused_by"] = event["caused_by"]["i"]
    messages = [message for one in stories for message in one.messages.values() if message.events]
    left_out = {"events": sum(one.cut_count for one in readings), "bodies": sum(one.unread_count for one in stories)}
    story: Story = {
        "format": FORMAT,
        "leveret": __version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "source": source,
        "causes": _causes(stories, lambda reading: reading.causes),
        "noticed": _causes(stories, lambda reading: reading.noticed),
        "test": _shown_test(test, shown, {message.number: None for message in messages}, stories, start),
        "start": {name: value for name, value in zip(("ts", "wall"), start, strict=True) if value is not None},
        "brokers": [_shown_broker(one, _title(readings, number)) for number, one in enumerate(stories)],
        # The test is the same for all brokers.
        "lanes": sorted(
            (lane for one in stories for lane in one.lanes.in_order()), key=lambda lane: lane["kind"] != "test"
        ),
        "events": [{"i": event["i"], **event} for event in shown],
        "messages": [],
        "queues": [],
        "topology": {"nodes": [], "edges": [], "unroutable": []},
        "cut": left_out,
    }
    colour = 0
    for one in stories:
        known = one.queues.known
        unconsumed = {name for (_, name), queue in known.items() if not queue.was_consumed}
        for message in one.messages.values():
            if message.events:
                story["messages"].append(message.shown(one.lanes, colour % COLOURS, test.queues, unconsumed))
                colour += 1
        for (vhost, name), queue in known.items():
            story["queues"].append(shown_queue(queue, one.lanes, one.topology.bindings_to(vhost, name)))
        for part, items in one.topology.shown(one.lanes, one.id, known, one.timeline).items():
            story["topology"][part] += items
    return story


def _causes(stories: Sequence[BrokerStory], part: Callable[[Reading], Sequence[Cause]]) -> list[dict[str, Any]]:
    """Return what went wrong, the worst first; a single broker's diagnosis is in that order."""
    causes = [(one, cause) for one in stories for cause in part(one.reading)]
    if len(stories) > 1:
        causes.sort(key=lambda one: one[1].rank)
    return [one.shown_cause(cause) for one, cause in causes[:CAUSES_MAX]]


def _link_relayed(stories: list[BrokerStory]) -> None:
    """Link what a client published on one broker to the message with the same body that it got from another before."""
    gotten: dict[tuple[str, str], tuple[BrokerStory, MessageStory]] = {}
    rows = [(row, one) for one in stories for row in one.reading.rows if row.get("msg") is not None]
    for row, one in sorted(rows, key=lambda each: each[0].get("wall") or 0) if len(stories) > 1 else ():
        message = one.messages[one.number_of(row["msg"])]
        name = one.timeline.name(one.timeline.connections.get(row.get("conn") or 0), "")
        key = (name, "" if message.body is None else message.body.shown["hash"])
        if row["kind"] in events.DELIVERIES:
            gotten.setdefault(key, (one, message))
        elif row["kind"] == events.PUBLISHED and name and row.get("conn") is not None and key in gotten:
            source, cause = gotten[key]
            if source is not one and message.caused_by is None:
                link(cause, message, f"relayed by {name}", is_guess=True)


def _start_of(readings: Sequence[Reading]) -> tuple[int | None, int | None]:
    """Return the instant of the first event, by the broker's clock and in real time."""
    first = [reading.rows[0] for reading in readings if reading.rows]
    times = [row["ts"] for row in first if row.get("ts") is not None]
    walls = [row["wall"] for row in first if row.get("wall") is not None]
    return min(times, default=None), min(walls, default=None)


def _with_notes(
    happened: list[StoryEvent],
    notes: Sequence[Note],
    start: tuple[int | None, int | None],
    stories: list[BrokerStory],
) -> list[StoryEvent]:
    """Return events with notes among them, each where its time belongs; the other clock is that of the event before."""
    start_ts, start_wall = start
    if not notes or start_ts is None or start_wall is None:
        return happened
    shown: list[tuple[float, StoryEvent]] = [(index, event) for index, event in enumerate(happened)]
    times = {clock: list(accumulate((event.get(clock, 0) for event in happened), max)) for clock in ("t", "wall")}
    for note in notes:
        clock, other = ("wall", "t") if note.at is None else ("t", "wall")
        at = (note.wall or 0) - start_wall if note.at is None else note.at - start_ts
        index = bisect_right(times[clock], at) - 1
        before = happened[index] if index >= 0 else {}
        text = reduce(lambda text, one: one.redaction.text(text), stories, note.text)
        event: StoryEvent = {"kind": note.kind, "text": text, clock: at, other: before.get(other, at)}
        event |= ({"tone": WARN} if note.is_bad else {}) | ({"late": True} if before.get("late") else {})
        shown.append((index + 0.5, event))
    return [event for _, event in sorted(shown, key=lambda one: one[0])]


def _shown_test(
    test: Test,
    happened: list[StoryEvent],
    numbers: Container[int],
    stories: list[BrokerStory],
    start: tuple[int | None, int | None],
) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": test.name, "outcome": test.outcome, "phase": test.phase, "seconds": test.seconds}
    times = [event["t"] for event in happened if "t" in event]
    if times:
        shown["broker_seconds"] = round((times[-1] - min(times[0], 0)) / 1_000_000, 6)
    failed_at = None if test.failed_at is None else _instant(test.failed_at, stories, start)
    if failed_at is not None:
        # Both over the same span, so that they agree while the clock runs as real time does.
        shown |= {"seconds": failed_at["wall"] / 1_000_000, "broker_seconds": failed_at["t"] / 1_000_000}
        shown["failed_at"] = failed_at
    if test.error is not None:
        text = reduce(lambda text, one: one.redaction.text(text), stories, test.error)
        named = dict.fromkeys(number for number in test.messages if number in numbers)
        shown |= {"error": {"text": text, "messages": list(named)}, "assertion": test.assertion}
    return {name: value for name, value in shown.items() if value is not None}


def _instant(wall: int, stories: list[BrokerStory], start: tuple[int | None, int | None]) -> dict[str, int] | None:
    """Return an instant of real time with that of the broker's clock, None if the brokers' clocks are unknown."""
    start_ts, start_wall = start
    times = [one.reading.clock_at(wall) for one in stories]
    known = [at for at in times if at is not None]
    if start_ts is None or start_wall is None or not known:
        return None
    return {"t": max(known) - start_ts, "wall": wall - start_wall}


def _title(readings: Sequence[Reading], number: int) -> str:
    """Return what to call a broker: with others beside it, by the order in which they started."""
    title, name = readings[number].title, readings[number].name
    if name is not None:
        return name
    if len(readings) == 1 or number >= len(_ORDINALS):
        return title
    what, _, port = title.partition(" on ")
    return f"{_ORDINALS[number]} {what} ({port})" if port else f"{_ORDINALS[number]} {what}"


def _shown_broker(one: BrokerStory, title: str) -> dict[str, Any]:
    reading = one.reading
    checks = [
        {**asdict(check), "messages": [one.number_of(each) for each in check.messages]} for check in reading.checks
    ]
    return {
        "id": one.id,
        "title": title,
        **({} if reading.name is None else {"name": reading.name, "place": reading.title}),
        "rabbitmq": reading.rabbitmq,
        **({} if reading.seed is None else {"seed": reading.seed}),
        "clock": reading.clock,
        "faults": one.faults(),
        "checks": checks,
        "dropped_events": reading.dropped_count,
    }
