"""The story of a test: what a page, a text or a diagram shows, as one value of JSON.

`BrokerStory` goes through the facts of one broker once. `story_of` joins the brokers of a test. All times are
microseconds since the start of the test: `t` by the broker's clock, `wall` in real time.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from itertools import accumulate, chain
from operator import itemgetter
from typing import Any, Final, cast

from leveret.page.bodies import Body
from leveret.page.lanes import Lanes
from leveret.page.messages import COLOURS, WITHHELD, MessageStory, link
from leveret.page.queues import queues_of
from leveret.page.readings.reading import Reading, StoryEvent, Times
from leveret.page.steps import ALWAYS_SETUP, SETUP, PageNames, step_of
from leveret.page.topology import Topology
from leveret.story.causes import Cause, sentence
from leveret.story.diagnosis import CAUSES_MAX
from leveret.story.entities import (
    ConnectionLife,
    CopyLife,
    Fact,
    MessageLife,
    QueueLife,
    successions,
)
from leveret.story.words import WARN, channel_text
from leveret.trace import events
from leveret.trace.events import Event
from leveret.trace.recorded_rows import content_of
from leveret.trace.version import __version__

Story = dict[str, Any]

FORMAT: Final = 1
# By at least this much the broker's clock must gain on real time to have leapt, in microseconds.
_LEAP_MIN: Final = 10_000
# The messages of the second broker of a test have numbers above this one, those of the third above twice this one.
BROKER_SPAN: Final = 1_000_000
# The kinds that name a line of the user's code, besides that at which a connection was opened.
_WITH_CALLER: Final = frozenset(kind for kind, fields in events.FIELDS.items() if "caller" in fields)
# A connection and a channel.
Place = tuple[object, object]
# The method of `leveret.faults` that adds any fault, and the methods of clients that settle deliveries.
_ADD: Final = "add"
_SETTLING: Final = ("basic.ack", "basic.nack", "basic.reject")
# The faults that fire once a message has been published. Any other comes before its publish, which it may prevent.
_AFTER_PUBLISH: Final = (WITHHELD, "delay_confirms")
# The reason of what a quorum queue gives up. RabbitMQ asks it only of messages that their client wants back.
_GIVEN_UP: Final = "delivery_limit"
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
    """The story of one broker, read fact by fact."""

    def __init__(self, reading: Reading, number: int, start: Times) -> None:
        self.reading: Final = reading
        self.timeline: Final = reading.timeline
        self.id: Final = f"b{number}"
        self.lanes: Final = Lanes(self.id)
        self.events: list[StoryEvent] = []
        self.messages: Final[dict[int, MessageStory]] = {}
        self.queues: Final = queues_of(reading)
        self.topology: Final = Topology(reading)
        self._start: Final = start
        # When each of the facts that it shows happened, since the start.
        self._when: Final = [self.times_of(fact) for fact in self.timeline.facts[reading.began :]]
        # What to add to the broker's own numbers of messages, so that no two brokers share one.
        self._first: Final = (number - 1) * BROKER_SPAN
        self._suffix: Final = f" of {reading.name or self.id}" if number > 1 else ""
        self._names: Final = PageNames(self._suffix)
        self.redaction: Final = reading.redaction
        # The last call of the test, and the event of it.
        self._call: tuple[str | None, StoryEvent] | None = None
        self._has_message = False
        # The queues that were deleted, and the deliveries that were settled or ended, by the places of that.
        self._deleted: Final = {
            queue.deleted.place: queue
            for queue in chain.from_iterable(self.timeline.deleted_queues.values())
            if queue.deleted is not None
        }
        self._released: Final = {
            end.place: delivery
            for copy in self.timeline.copies.values()
            for delivery in copy.deliveries
            if (end := delivery.settled or delivery.ended) is not None
        }
        # What each connection holds, by copy, with the channel.
        self._held: Final[dict[int | None, dict[int, tuple[object, MessageStory]]]] = {}
        # Requests by where their reply goes and its correlation id, and the last publish of each channel.
        self._requests: Final[dict[tuple[object, object], MessageStory]] = {}
        self._published: Final[dict[Place, MessageStory]] = {}
        # The events by which clients refused copies of which it is not known yet what became of them.
        self._refused: Final[dict[int, StoryEvent]] = {}
        # The events of the ends of copies, by their places.
        self._ends: Final[dict[int, StoryEvent]] = {}
        # The calls that add faults, by their names, and the line of the last of each.
        self._faults: Final = {fault.name.partition("(")[0] for fault in reading.faults} | {
            fact.fault for fact in self.timeline.faults
        }
        self._added: Final[dict[str, str]] = {}
        # How many more bytes of bodies are read. A page shows the sizes of the others.
        self._body_budget = 8_000_000
        self.unread_count = 0
        # The events of faults that fired, by the names of these.
        self._fired: Final[dict[str, list[StoryEvent]]] = {}

    def read(self) -> None:
        """Go through all facts of the test."""
        for client in self.timeline.connections.values():
            if client.opened is not None:
                _name_lane(client, client.opened, self.lanes)
        later = len(self.timeline.facts) - self.reading.later_count
        for fact in self.timeline.facts[self.reading.began :]:
            if fact.kind not in events.MARKS:
                self._take(fact if fact.kind != events.QUEUE_DELETE else self._explained(fact))
                if fact.place >= later:
                    self.events[-1]["late"] = True
        self._finish()

    def _take(self, fact: Fact) -> None:
        kind = fact.kind
        number = fact.get("msg")
        message = self._hit(fact) if number is None else self._message(number)
        event = self._event(fact, message)
        if kind == events.FAULT:
            self._fired.setdefault(fact.fault, []).append(event)
            if message is not None:
                message.is_withheld |= fact.fault == WITHHELD
                message.events.append(event)
        elif message is not None:
            self._has_message = True
            message.events.append(event)
            if kind == events.PUBLISHED:
                self._take_publish(fact, event, message)
            copy = self.timeline.copies.get(event.get("copy", 0))
            if copy is not None:
                self._take_copy(fact, event, message, copy)
        self.events.append(event)
        if kind == events.CALLED:
            self._call = (event.get("line"), event)
            if fact.call in (*self._faults, _ADD) and "line" in event:
                self._added[fact.call] = event["line"]

    def _take_publish(self, fact: Fact, event: StoryEvent, message: MessageStory) -> None:
        """Note a publish, and the message that it follows from."""
        self._published[fact.conn, fact.chan] = message
        message.publisher, message.line = channel_text(fact.conn, fact.chan), event.get("line")
        correlation = message.life.property("correlation_id")
        request = None if message.exchange else self._requests.get((message.routing_key, correlation))
        held = self._held.get(fact.conn, {})
        if request is not None and request is not message:
            link(request, message, "reply", is_guess=False)
        elif len(held) == 1 and fact.conn is not None:
            ((_, cause),) = held.values()
            link(cause, message, f"published while c{fact.conn} held {cause.name}", is_guess=True)
        reply_to = message.life.property("reply_to")
        if reply_to is not None:
            self._requests[reply_to, correlation] = message

    def _take_copy(self, fact: Fact, event: StoryEvent, message: MessageStory, copy: CopyLife) -> None:
        """Note what happened to a copy: who holds it, what became of it, and of which death it is the letter."""
        kind = fact.kind
        message.copy_events.setdefault(copy.number, []).append(event)
        if kind in events.DELIVERIES:
            self._held.setdefault(fact.conn, {})[copy.number] = fact.chan, message
        elif kind in events.REFUSING:
            self._refused[copy.number] = event
        elif (refused := self._refused.pop(copy.number, None)) is not None:
            refused.setdefault("detail", []).append(["requeue", _requeue_text(fact)])
        if (delivery := self._released.get(fact.place)) is not None:
            self._held.get(delivery.fact.conn, {}).pop(copy.number, None)
        if kind in (*events.DEATHS, *events.LOSSES):
            self._ends[fact.place] = event
        elif kind in events.ARRIVALS and copy.source is not None:
            death = self._ends.get(copy.source.last.place)
            if death is not None:
                death.setdefault("causes", []).append(event)
                event["caused_by"] = death

    def _explained(self, fact: Fact) -> Fact:
        """Return the deletion of a queue with the connection that caused it, if that follows from others."""
        by = self.timeline.deleted_by(self._deleted[fact.place])
        where = events.POSITIONS[fact.kind]["conn"]
        return Fact((*fact.raw[:where], None if by is None else by.number, *fact.raw[where + 1 :]), fact.place)

    def _hit(self, fact: Fact) -> MessageStory | None:
        """Return the message that a fault hit, if only one can be it."""
        if fact.kind != events.FAULT:
            return None
        if fact.on == "basic.publish":
            if fact.fault in _AFTER_PUBLISH:
                return self._published.get((fact.conn, fact.chan))
            facts = map(self.timeline.facts.__getitem__, range(fact.place + 1, len(self.timeline.facts)))
            following = next((later for later in facts if later.get("conn") == fact.conn), None)
            is_publish = following is not None and following.kind == events.PUBLISHED
            return self._message(following.get("msg")) if following is not None and is_publish else None
        held = [message for chan, message in self._held.get(fact.conn, {}).values() if chan == fact.chan]
        return held[0] if len(held) == 1 and fact.on in _SETTLING else None

    def _message(self, number: object) -> MessageStory | None:
        """Return a message by the number in its broker; None if only a newer leveret knows what happened to it."""
        life = self.timeline.messages.get(cast("int", number))
        if life is None:
            return None
        own = life.number + self._first
        message = self.messages.get(own)
        if message is None:
            name = f"#{life.number}{self._suffix}"
            message = self.messages[own] = MessageStory(own, name, life, self._body(life), self.reading)
            if life.published is not None and life.publisher is not None:
                message.publisher = channel_text(life.published.conn, life.published.chan)
        return message

    def _body(self, life: MessageLife) -> Body:
        """Return the body of a message, which is left out if too much was read before."""
        octets, size, digest = content_of(life.message)
        self._body_budget -= len(octets or b"")
        if octets and self._body_budget < 0:
            self.unread_count += 1
            octets = None
        return Body(octets, size, digest, self.redaction)

    def _event(self, fact: Fact, message: MessageStory | None) -> StoryEvent:
        kind = fact.kind
        event = {**self._times(fact), **step_of(fact, self.lanes, self._names, message, self.redaction)}
        line = self._line(fact)
        if line is not None:
            event["line"] = line
        adds_fault = kind == events.CALLED and fact.call in self._faults
        is_again = fact.place in self.timeline.repeats
        if kind in ALWAYS_SETUP or (kind in SETUP and not adds_fault and (is_again or not self._has_message)):
            event["setup"] = True
        return event

    def times_of(self, fact: Fact) -> Times:
        """Return when a fact happened since the start of the test, by both clocks, as far as that is known."""
        (ts, real), (start_ts, start_wall) = self.reading.times(fact), self._start
        t = None if ts is None or start_ts is None else ts - start_ts
        return t, None if real is None or start_wall is None else real - start_wall

    def _times(self, fact: Fact) -> dict[str, int]:
        (t, wall), (start_ts, start_wall) = self._when[fact.place - self.reading.began], self._start
        if t is None or wall is None or start_ts is None or start_wall is None:
            return {name: at for name, at in (("t", t), ("wall", wall)) if at is not None}
        times = {"t": t, "wall": wall}
        last = times | self.events[-1] if self.events else times
        leap = int(t - last["t"] - (wall - last["wall"]))
        # A clock that was never moved is never ahead of real time.
        if leap >= _LEAP_MIN and t + start_ts > wall + start_wall:
            times["leap"] = leap
        return times

    def _line(self, fact: Fact) -> str | None:
        if fact.kind == events.FAULT and fact.conn is not None:
            return self._added.get(fact.fault, self._added.get(_ADD))
        caller = fact.opener if fact.kind == events.CONN_OPEN else fact.caller if fact.kind in _WITH_CALLER else None
        if caller is not None:
            return caller.text(has_functions=False)
        if self._call is None or fact.kind not in events.BY_SOMEONE or fact.conn is not None:
            return None
        line, call = self._call
        # The events that it caused say what the call did.
        call["is_shown_by_effects"] = True
        return line

    def _finish(self) -> None:
        self.events = [event for event in self.events if not event.pop("is_shown_by_effects", False)]
        joined: dict[str, str] = {}
        for clients in successions(one for one in self.timeline.connections.values() if one.opened is not None):
            if len(clients) > 1:
                joined |= self.lanes.join([client.number for client in clients])
        for event in self.events if joined else ():
            for end in ("from", "to"):
                if event.get(end) in joined:
                    event[end] = joined[event[end]]
        self.lanes.draw([event[end] for event in self.events for end in ("from", "to") if end in event])
        self.lanes.draw([self.lanes.place("queue", vhost, name) for vhost, name in self.queues])

    def shown_queues(self) -> Iterator[dict[str, Any]]:
        """Yield the queues as a page takes them."""
        copies: dict[QueueLife, list[CopyLife]] = {}
        for copy in self.timeline.copies.values():
            copies.setdefault(copy.queue, []).append(copy)
        for place, queue in self.queues.items():
            series = queue.series(copies, self._times_at, has_acks=self.reading.has_acks)
            yield queue.shown(self.lanes, self.topology.bindings_to(place), series, self._deletion)

    def _times_at(self, place: int) -> Times:
        began = self.reading.began
        return (None, None) if place < began else self._when[place - began]

    def _deletion(self, queue: QueueLife) -> tuple[str, int | None]:
        deleted = queue.deleted
        return self.timeline.deleter(queue), None if deleted is None else self.times_of(deleted)[0]

    @property
    def passes(self) -> Iterator[Fact]:
        """The publishes and deliveries that it shows, and the ends of connections."""
        for fact in self.timeline.facts[self.reading.began :]:
            is_pass = fact.kind in (events.PUBLISHED, *events.DELIVERIES) and fact.get("msg") is not None
            if is_pass or fact.kind == events.CONN_CLOSE:
                yield fact

    def number_of(self, message: int) -> int:
        """Return the number in the story of a message of this broker."""
        return message + self._first

    def events_of(self, facts: Iterable[Event]) -> list[int]:
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
        unconsumed = {name for (_, name), queue in one.queues.items() if not queue.was_consumed}
        for _, message in sorted(one.messages.items()):
            if message.events:
                story["messages"].append(message.shown(one.lanes, colour % COLOURS, test.queues, unconsumed))
                colour += 1
        story["queues"] += one.shown_queues()
        for part, items in one.topology.shown(one.lanes, one.id, one.queues, one.number_of).items():
            story["topology"][part] += items
    return story


def _causes(stories: Sequence[BrokerStory], part: Callable[[Reading], Sequence[Cause]]) -> list[dict[str, Any]]:
    """Return what went wrong, the worst first; a single broker's diagnosis is in that order."""
    causes = [(one, cause) for one in stories for cause in part(one.reading)]
    if len(stories) > 1:
        causes.sort(key=lambda one: one[1].rank)
    return [one.shown_cause(cause) for one, cause in causes[:CAUSES_MAX]]


def _link_relayed(stories: list[BrokerStory]) -> None:
    """Link what a client published on one broker to the message with the same body that it got from another before.

    It is still connected there. A broker that was reset, or restored with the past of another one, has no clients left.
    """
    gotten: dict[tuple[str, str], tuple[BrokerStory, Fact, MessageStory]] = {}
    facts = [(one.reading.times(fact)[1] or 0, fact, one) for one in stories for fact in one.passes]
    for _, fact, one in sorted(facts, key=itemgetter(0)) if len(stories) > 1 else ():
        if fact.kind == events.CONN_CLOSE:
            gotten = {key: got for key, got in gotten.items() if (got[0], got[1].conn) != (one, fact.conn)}
            continue
        message = one.messages[one.number_of(cast("int", fact.get("msg")))]
        name = one.timeline.name(one.timeline.by(fact), "")
        key = (name, message.body.shown["hash"])
        if fact.kind in events.DELIVERIES:
            gotten.setdefault(key, (one, fact, message))
        elif name and fact.conn is not None and key in gotten:
            source, _, cause = gotten[key]
            if source is not one and message.caused_by is None:
                link(cause, message, f"relayed by {name}", is_guess=True)


def _requeue_text(end: Fact) -> str:
    """Return whether a client wanted a message back that it refused, by what became of it."""
    if end.get("reason") == _GIVEN_UP:
        return "yes, beyond the delivery limit"
    return "yes" if end.kind in events.REQUEUES else "no"


def _name_lane(client: ConnectionLife, opened: Fact, lanes: Lanes) -> None:
    """Give the lane of a client that connects its name, its user and its address."""
    facts = [client.name, f"user {client.user}" if client.user else "", str(opened.peer or "")]
    lanes.client(client.number, client.name, ", ".join(filter(None, facts)), client.opener)


def _start_of(readings: Sequence[Reading]) -> Times:
    """Return the instant of the first fact, by the broker's clock and in real time."""
    first = [reading.times(fact) for reading in readings for fact in reading.timeline.facts[reading.began :][:1]]
    times = [t for t, _ in first if t is not None]
    walls = [wall for _, wall in first if wall is not None]
    return min(times, default=None), min(walls, default=None)


def _with_notes(
    happened: list[StoryEvent],
    notes: Sequence[Note],
    start: Times,
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
    start: Times,
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


def _instant(wall: int, stories: list[BrokerStory], start: Times) -> dict[str, int] | None:
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
