"""The walk from what a failed test asked for to what happened.

It begins at the messages that the failure is about and follows their links: published by whom, routed, refused,
queued, held back, delivered, settled, dead-lettered, answered. Where a way stops, and why, is a cause. What lies on no
way is no cause, however bad it looks.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple, cast

from leveret.story.asked import Asked, Caught, Death, said_by
from leveret.story.causes import Cause
from leveret.story.entities import (
    NOTABLE_US,
    ConnectionLife,
    ConsumerLife,
    CopyLife,
    DeliveryLife,
    Fact,
    MessageLife,
    QueueLife,
    way_of,
)
from leveret.story.timeline import Timeline
from leveret.story.words import AGAIN, READY, UNACKED
from leveret.trace import events
from leveret.trace.caller import Caller
from leveret.trace.events import as_python, eta_of

# A value that more messages hold says nothing about one of them.
_HOLDERS_MAX: Final = 3
# A message that came back this often has a problem.
_OFTEN: Final = 3
# The reply code of a connection that an operator, or the test, has closed.
FORCED: Final = 320
_PRIORITIES: Final = "x-max-priority"


class Ended(NamedTuple):
    """A worker process that ended by itself."""

    name: str
    code: str


@dataclass(slots=True)
class State:
    """What the broker knows and its events do not show."""

    # The messages that open transactions hold back, with the client that has to commit; and the copies that are
    # settled in such transactions.
    uncommitted: Mapping[int, str] = field(default_factory=dict)
    settled: Mapping[int, str] = field(default_factory=dict)
    # The alarm that blocks each connection, by its number.
    blocked: Mapping[int, str] = field(default_factory=dict)
    # The queues that refused messages because they were full, by message.
    refused: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    is_clock_held: bool = False
    # When the test failed, by the broker's clock; None if only the events say it.
    now: int | None = None
    ended: Sequence[Ended] = ()


class Walk:
    """The ways of what a test asked for, on the timeline of one broker."""

    def __init__(self, timeline: Timeline, asked: Asked, state: State, *, began: int = 0) -> None:
        """Find the messages that were asked for. `began` is the place at which the test began."""
        self.timeline: Final = timeline
        self._asked: Final = asked
        self._state: Final = state
        self.began: Final = began
        self._lives: Final = [life for life in timeline.messages.values() if life.last.place >= began]
        # The requests by the queue for their replies, without and with their correlation ids, what went straight to
        # each queue with such an id, and what each client sent.
        self._requests: Final[dict[object, list[MessageLife]]] = {}
        self._correlated: Final[dict[tuple[object, object], list[MessageLife]]] = {}
        self._straight: Final[dict[tuple[object, object], list[MessageLife]]] = {}
        self._sent: Final[dict[ConnectionLife | None, list[MessageLife]]] = {}
        for life in self._lives:
            correlation = life.property("correlation_id")
            if (reply_to := life.property("reply_to")) is not None:
                self._requests.setdefault(reply_to, []).append(life)
                self._correlated.setdefault((reply_to, correlation), []).append(life)
            if not life.message.exchange:
                self._straight.setdefault((life.message.routing_key, correlation), []).append(life)
            self._sent.setdefault(life.publisher, []).append(life)
        # The queues of which it is said already what keeps their messages back.
        self._blocked_queues: Final[set[QueueLife]] = set()
        # The messages that were asked for, and the values in them.
        self.roots: Final[dict[int, MessageLife]] = {}
        self.values: Final[dict[int, object]] = {}
        # Those that a test has too often, or in another order.
        self._repeated: Final[dict[int, MessageLife]] = {}
        self._reordered: list[MessageLife] = []
        # The refused publishes that were asked for.
        self._refused: Final[list[Fact]] = []
        self._find_roots()

    @property
    def now(self) -> int:
        """When the test failed."""
        return self._state.now or self.timeline.now or 0

    # What was asked for.

    def _find_roots(self) -> None:
        asked = self._asked
        for number in asked.messages:
            if number in self.timeline.messages:
                self.roots[number] = self.timeline.messages[number]
        held = self._holders([*asked.missing, *asked.repeated, *asked.reordered])
        for value in asked.missing:
            for life in held.get(_key(value), ()):
                self.roots[life.number] = life
                self.values[life.number] = value
        for value in asked.repeated:
            self._repeated.update({life.number: life for life in held.get(_key(value), ())})
        in_order = [held.get(_key(value), []) for value in asked.reordered]
        if all(len(lives) == 1 for lives in in_order):
            self._reordered = [lives[0] for lives in in_order]
        self._find_counted()
        self._find_totalled()
        if asked.is_wait:
            self.roots.update({life.number: life for life in self._lives if not all(map(_is_done, life.last_ends))})
        if asked.is_timeout and not self.roots:
            asking = {life.number: life for life in self._unanswered()}
            wanted = {life.property("reply_to") for life in asking.values()}
            astray = [life for life in self._lives if life.message.routing_key in wanted and life.lost is not None]
            self.roots.update(asking | {life.number: life for life in astray})
        self.roots.update(self._repeated)
        self.roots.update({life.number: life for life in self._reordered})

    def _holders(self, values: Sequence[object]) -> dict[tuple[type, object], list[MessageLife]]:
        """Return the messages that hold each of these values, unless many hold one."""
        wanted = {_key(value) for value in values}
        found: dict[tuple[type, object], list[MessageLife]] = {}
        for life in self._lives if wanted else ():
            for key in {_key(one) for one in said_by(life)} & wanted:
                found.setdefault(key, []).append(life)
        return {key: lives for key, lives in found.items() if len(lives) <= _HOLDERS_MAX}

    def _find_counted(self) -> None:
        """Find the messages that a count misses: it expected what was published, and has what arrived."""
        count = self._asked.count or self._asked.total
        if count is None or self.roots or not any(count):
            return
        expected, found = count
        if found > expected and self._asked.queues:
            for queue in map(self._queue, self._asked.queues):
                self.roots.update(
                    {} if queue is None else {copy.message.number: copy.message for copy in queue.ready.values()}
                )
            return
        for group, refused in self._groups():
            deliveries = sum(len(copy.deliveries) for life in group for copy in life.copies.values())
            if len(group) == expected < found <= deliveries:
                self._repeated.update({life.number: life for life in group})
                return
            stopped = [life for life in group if not self._is_through(life)]
            if len(group) + len(refused) == expected and len(group) - len(stopped) == found and found < expected:
                self.roots.update({life.number: life for life in stopped})
                self._refused.extend(refused)
                return
            if self._asked.queues and found < expected:
                # What was sent to the very queue at which the test looked.
                self._refused.extend(refused)

    def _groups(self) -> Iterator[tuple[list[MessageLife], list[Fact]]]:
        """Yield the messages that went one way: into one queue, through one exchange, or from one client."""
        published = [life for life in self._lives if life.published is not None]
        refused = [fact for fact in self.timeline.refusals if (fact.subject or {}).get("problem") == "publish"]
        ways: dict[tuple[str, object], tuple[list[MessageLife], list[Fact]]] = {}
        for life in published:
            keys: list[tuple[str, object]] = [("queue", copy.queue.name) for copy in life.copies.values()]
            message = life.message
            keys.append(("exchange", message.exchange) if message.exchange else ("queue", message.routing_key))
            keys.append(("from", None if life.publisher is None else life.publisher.number))
            for key in dict.fromkeys(keys):
                ways.setdefault(key, ([], []))[0].append(life)
        for fact in refused:
            subject = cast("Mapping[str, str]", fact.subject)
            exchange, routing_key = subject.get("exchange", ""), subject.get("routing_key", "")
            for way in (("exchange", exchange) if exchange else ("queue", routing_key), ("from", fact.conn)):
                ways.setdefault(way, ([], []))[1].append(fact)
        wanted = set(self._asked.queues)
        yield from (group for (kind, name), group in ways.items() if not wanted or (kind == "queue" and name in wanted))

    def _is_through(self, life: MessageLife) -> bool:
        """Return whether a message came through: a client took it, or it lies where the test looks."""
        wanted = self._asked.queues
        ends = life.last_ends
        if wanted:
            return any(copy.queue.name in wanted and copy.is_ready for copy in ends)
        return any(copy.state in (events.ACKED, events.NO_ACK) for copy in ends)

    def _find_totalled(self) -> None:
        """Find the messages whose value a total has several times: as often as they were delivered."""
        if self._asked.total is None or self.roots:
            return
        expected, found = self._asked.total
        if expected <= 0 or found % expected or found <= expected:
            return
        lives = self._holders([expected]).get(_key(expected), [])
        if sum(len(copy.deliveries) for life in lives for copy in life.copies.values()) == found // expected:
            self._repeated.update({life.number: life for life in lives})

    def _unanswered(self) -> Iterator[MessageLife]:
        """Yield the requests that no message has answered."""
        for life in self._lives:
            reply_to = life.property("reply_to")
            if reply_to is not None and life.published is not None and not list(self._replies(life)):
                yield life

    def _replies(self, request: MessageLife) -> Iterator[MessageLife]:
        reply_to, correlation = request.property("reply_to"), request.property("correlation_id")
        for own in dict.fromkeys((None, correlation)):
            yield from (life for life in self._straight.get((reply_to, own), ()) if life.number > request.number)

    def _queue(self, name: str) -> QueueLife | None:
        return next((queue for (_, one), queue in self.timeline.queues.items() if one == name), None)

    # Where the ways stop.

    def causes(self) -> Iterator[Cause]:
        """Yield where the ways of what was asked for stop, and why."""
        yield from self._deleted()
        for fact in self._refused:
            yield self.refusal(fact)
        for number, life in self.roots.items():
            if number not in self._repeated and life not in self._reordered:
                yield from self._of(life)
        yield from self._more_than_once()
        yield from self._out_of_order()
        yield from self._shared()
        yield from self._idle()
        yield from self._clients_died()
        yield from self._blocked()
        yield from self._unconfirmed()
        yield from self._refused_of_queue()
        yield from self._raised()
        if self._asked.is_unpublished:
            yield from self._unpublished()
        elif not self._reordered and not any(
            copy.is_ready or copy.state == UNACKED for life in self.roots.values() for copy in life.last_ends
        ):
            yield from self._died()

    def _unpublished(self) -> Iterator[Cause]:
        """Yield that nothing was published to the place of an assertion of leveret's."""
        name, key = next(iter(self._asked.queues), None), self._asked.routing_key
        sent = [life for life in self._lives if name in (None, life.message.exchange)]
        if not any(key in (None, life.message.routing_key) for life in sent):
            names = {"exchange": name or None, "routing_key": key}
            yield Cause("nothing_published", names, {}, tuple(self.timeline.starts[-1:]))

    @property
    def is_short(self) -> bool:
        """Whether a comparison found less than it expected."""
        asked = self._asked
        counts = [one for one in (asked.count, asked.total) if one is not None]
        return asked.is_falsy or bool(asked.missing) or any(expected > found for expected, found in counts)

    @property
    def asked_queues(self) -> frozenset[str]:
        """The names of the queues at which the test looked for what it lacks."""
        return frozenset(self._asked.queues) if self.is_short else frozenset()

    def _deleted(self) -> Iterator[Cause]:
        """Yield that a queue is gone whose name a comparison lacks."""
        wanted = set(self._asked.missing) if "queues" in self._asked.names else ()
        for queue in chain.from_iterable(self.timeline.deleted_queues.values()):
            if queue.name in wanted and queue.place not in self.timeline.queues and queue.deleted is not None:
                names = {"deletion": f"queue {queue.name!r} was deleted {self.timeline.deletion_how(queue)}"}
                yield Cause("queue_deleted", names, {}, (queue.deleted,))

    def noticed(self) -> Iterator[Cause]:
        """Yield what happened to other messages that need not be wrong: they came again, or again and again."""
        for life in self._lives:
            for copy in life.copies.values() if life.number not in self.roots else ():
                yield from self._loops(copy)
                yield from self._delivered_again(copy)

    def _of(self, life: MessageLife) -> Iterator[Cause]:
        yield from self._unqueued(life)
        for copy in life.last_ends:
            yield from self._stop(copy)
        yield from self._answers(life)
        yield from self._elsewhere(life)

    def _elsewhere(self, life: MessageLife) -> Iterator[Cause]:
        """Yield that a message never went to the queue of a client that the comparison names."""
        reached = {copy.queue for copy in life.copies.values()}
        if not life.message.exchange or not reached or life.number not in self.values:
            return
        for connection in self._named_clients():
            queues = {
                one.queue for channel in connection.channels.values() for one in channel.consumers if not one.is_over
            }
            for queue in queues if queues.isdisjoint(reached) else ():
                sources = [
                    one for one in self.timeline.bindings if one.until is None and one.destination == queue.place
                ]
                names = {
                    "exchange": life.message.exchange,
                    "queue": queue.name,
                    "client": connection.name,
                    "bindings": [f"{one.routing_key!r} of {one.source[1]!r}" for one in sources],
                }
                facts = tuple(one.since for one in sources)
                yield Cause("went_elsewhere", names, {"message": life.number}, (cast("Fact", life.published), *facts))

    def _unqueued(self, life: MessageLife) -> Iterator[Cause]:
        if life.copies or life.lost is not None or life.published is None:
            return
        names: dict[str, object] = {"publisher": self.publisher(life)}
        if (holder := self._state.uncommitted.get(life.number)) is not None:
            yield Cause(
                "uncommitted",
                {**names, "publisher": holder},
                {"message": life.number},
                (life.published,),
                Cause("open_transaction"),
            )
        elif (full := self._state.refused.get(life.number)) is not None:
            queue, limit = full
            names |= {"queue": queue, "limit": limit, "unconfirmed": life.published.get("tag") is None}
            yield Cause("refused_by_full", names, {"message": life.number}, (life.published,))

    def _stop(self, copy: CopyLife) -> Iterator[Cause]:
        if self.asked_queues and copy.queue.name not in self.asked_queues:
            way = list(way_of(copy))
            left = next((one for one in way[1:] if one.queue.name in self.asked_queues), None)
            if left is not None:
                yield self._left(copy, left, way)
                return
        yield from self._loops(copy)
        yield from self._came(copy)
        if copy.state == UNACKED:
            yield from self._held(copy)
        elif copy.is_ready:
            yield from self._waiting(copy)
        elif copy.state == events.ACKED:
            yield from self._acked(copy)

    def _left(self, copy: CopyLife, left: CopyLife, way: Sequence[CopyLife]) -> Cause:
        """Return that a message left the queue at which the test looks, and where it came."""
        between = [repr(one.queue.name) for one in way[1 : way.index(left)]]
        names = {
            "queue": left.queue.name,
            "by": ", ".join(reversed(between)) or None,
            "target": copy.queue.name,
            "reason": str(left.last.get("reason")),
        }
        return Cause("came_elsewhere", names, {"message": copy.message.number}, (left.last, copy.facts[0]))

    def _loops(self, copy: CopyLife) -> Iterator[Cause]:
        """Yield that clients put a message back again and again, or that it goes round as a dead letter."""
        settled = [fact for fact in copy.facts if fact.kind in events.REFUSING]
        if copy.requeue_count >= _OFTEN and len(settled) >= _OFTEN:
            names = {"queue": copy.queue.name, "by": self._name(self.timeline.by(settled[-1]))}
            numbers = {"message": copy.message.number, "times": min(copy.requeue_count, len(settled))}
            yield Cause("requeued_often", names, numbers, (settled[0], settled[-1]))
        way = list(way_of(copy))
        here = [one for one in way[1:] if one.queue is copy.queue]
        if len(here) >= _OFTEN - 1 and copy.state != events.ACKED:
            round_ = way[: way.index(here[0])]
            queues = [one.queue.name for one in reversed(round_)]
            numbers = {"message": copy.message.number, "times": len(here)}
            yield Cause("goes_round", {"queues": queues}, numbers, (here[-1].last, copy.facts[0]))

    def _came(self, copy: CopyLife) -> Iterator[Cause]:
        """Yield how a message came where it is, if a client rejected it."""
        source = copy.source
        if source is None or not source.is_dead_lettered or copy.state == events.ACKED:
            return
        settled = source.deliveries[-1].settled if source.deliveries else None
        if settled is None or settled.kind not in events.REFUSING:
            return
        by = self._name(self.timeline.by(settled))
        names = {"queue": source.queue.name, "by": by, "target": copy.queue.name} | self._error_of(
            source.deliveries[-1]
        )
        yield Cause("rejected_to", names, {"message": copy.message.number}, (settled, source.last, copy.facts[0]))

    def _error_of(self, delivery: DeliveryLife) -> dict[str, object]:
        """Return the error with which a client handled a delivery, if one is known: it died of it, or logged it."""
        known: list[Death | Caught] = [*self._asked.caught, *self._client_deaths()]
        if not known:
            return {}
        settled = len(self.timeline.facts) if delivery.settled is None else delivery.settled.place
        begun = delivery.fact.place
        consumer = delivery.consumer
        for other in () if consumer is None else consumer.deliveries:
            if other is not delivery and other.settled is not None and other.settled.place < settled:
                # A consumer handles one after the other what it got at once.
                begun = max(begun, other.settled.place)
        near = [one for one in known if one.place is not None and begun < one.place <= settled]
        if not near and delivery.settled is not None and delivery.settled.kind in events.REFUSING:
            near = self._only_task()
        return {"error": near[0].error, "line": near[0].line} if len(near) == 1 else {}

    def _only_task(self) -> list[Death | Caught]:
        """Return the one task of a client that an error has ended, if one delivery alone was refused: it was that.

        asyncio reports the error of a task only once the task is collected.
        """
        refused = [
            delivery
            for copy in self.timeline.copies.values()
            for delivery in copy.deliveries
            if delivery.settled is not None and delivery.settled.kind in events.REFUSING
        ]
        tasks: list[Death | Caught] = [death for death in self._client_deaths() if death.name is None]
        return tasks if len(refused) == 1 == len(tasks) else []

    def _client_deaths(self) -> list[Death]:
        return [death for death in self._asked.deaths if death.is_client]

    def _held(self, copy: CopyLife) -> Iterator[Cause]:
        """Yield who holds a message, and why it is not settled."""
        delivery = copy.deliveries[-1]
        connection = delivery.connection
        if connection is None or _is_for_later(copy.message):
            return
        names: dict[str, object] = {"holder": self._name(connection), "queue": copy.queue.name}
        number = copy.message.number
        if (client := self._state.settled.get(copy.number)) is not None:
            yield Cause("settled_uncommitted", {**names, "holder": client}, {"message": number}, (delivery.fact,))
            return
        died = [death for death in self._client_deaths() if self._is_of(death, delivery)]
        for death in died[:1]:
            yield self._death(death, delivery)
        yield from self._refusals_after(delivery)
        if not died:
            age = self.now - delivery.fact.at
            numbers = {"message": number} | ({"age": age} if age >= NOTABLE_US else {})
            yield Cause("held", names, numbers, (delivery.fact,))

    def _death(self, death: Death, delivery: DeliveryLife) -> Cause:
        names: dict[str, object] = {"what": death.what, "error": death.error, "line": death.line}
        names |= {"holder": self._name(delivery.connection), "queue": delivery.copy.queue.name}
        return Cause("died", names, {"message": delivery.copy.message.number}, (delivery.fact,))

    def _is_of(self, death: Death, delivery: DeliveryLife) -> bool:
        """Return whether what died was at work on a delivery: it is of that client, and died in that time."""
        if death.place is not None and death.place <= delivery.fact.place:
            return False
        holders = {
            self._name(connection)
            for connection in self.timeline.connections.values()
            if any(channel.held for channel in connection.channels.values())
        }
        return death.name in (self._name(delivery.connection), None) or (
            death.name not in holders and len(holders) == 1
        )

    def _refusals_after(self, delivery: DeliveryLife) -> Iterator[Cause]:
        """Yield the errors that the connection of a delivery got after it."""
        connection = delivery.connection
        for fact in () if connection is None else connection.refusals:
            if fact.place > delivery.fact.place and fact.code != FORCED:
                yield self.refusal(fact)

    def _waiting(self, copy: CopyLife) -> Iterator[Cause]:
        """Yield why a message waits in its queue."""
        queue, number = copy.queue, copy.message.number
        yield from self._lost_again(copy)
        names: dict[str, object] = {"queue": queue.name}
        numbers = {"message": number}
        consumers = queue.living_consumers
        due = copy.facts[0].get("expires")
        if not consumers and isinstance(due, int) and due > self.now and copy.state == READY:
            names["clock"] = "the clock is held" if self._state.is_clock_held else None
            yield Cause("not_due", names, {**numbers, "delay": due - self.now}, (copy.facts[0],))
        elif (head := self._ahead(copy)) is not None:
            names["others"] = [head.message.number]
            yield Cause("behind", names, numbers, (copy.facts[0], head.facts[0]))
        elif not consumers:
            yield from self._unconsumed(copy)
        else:
            yield from self._held_back(copy, consumers)

    def _ahead(self, copy: CopyLife) -> CopyLife | None:
        """Return the copy at the head of a queue that keeps one from expiring whose time is over."""
        due, head = copy.facts[0].get("expires"), next(iter(copy.queue.ready.values()), None)
        is_over = isinstance(due, int) and due <= self.now
        return head if is_over and head is not copy else None

    def _unconsumed(self, copy: CopyLife) -> Iterator[Cause]:
        """Yield that a queue has no consumer, if one was to be expected: a queue may be for the test, or to be kept."""
        queue, life = copy.queue, copy.message
        refused = list(self._refusals_after(copy.deliveries[-1])) if copy.deliveries else []
        yield from refused
        if refused or queue.is_stream or queue.name in self._asked.queues:
            # A stream keeps what its consumers have read.
            return
        why = self._why_not_consumed(queue)
        is_for_client = why is not None or life.property("reply_to") is not None
        if not is_for_client and any(other.consumers for other in self.timeline.queues.values() if other is not queue):
            publisher = life.publisher
            is_set_aside = publisher is None or "consumer" in publisher.roles
            is_of_client = any(fact.conn is not None for fact in queue.declared)
            is_for_client = is_of_client if copy.source is not None else not is_set_aside
        if is_for_client:
            yield Cause("not_consumed", {"queue": queue.name}, {"message": life.number}, (copy.last,), why)

    def _why_not_consumed(self, queue: QueueLife) -> Cause | None:
        """Return why a queue has no consumer: the last one left, or its client was refused."""
        last = max(queue.consumers, key=lambda one: cast("Fact", one.until).place, default=None)
        if last is not None:
            connection, fact = last.channel.connection, cast("Fact", last.until)
            deaths = [death for death in self._client_deaths() if death.name is None]
            if fact.kind == events.CANCEL and len(deaths) == 1:
                return Cause("died", {"what": deaths[0].what, "error": deaths[0].error, "line": deaths[0].line})
            names = {"client": self._name(connection), "reason": connection.reason or fact.get("reason")}
            if connection.closed is not None:
                return Cause("consumer_lost" if connection.is_lost else "consumer_closed", names, {}, (fact,))
            kind = "consumer_cancelled" if fact.kind == events.CANCEL else "consumer_channel_closed"
            return Cause(kind, names, {}, (fact,))
        for fact in reversed(self.timeline.refusals):
            subject = fact.subject or {}
            is_of_queue = subject.get("kind") == "queue" and subject.get("name") == queue.name
            is_at_login = fact.conn not in self.timeline.connections or self._has_not_opened(fact)
            if fact.place >= self.began and (is_of_queue or is_at_login):
                return self.refusal(fact)
        return None

    def _has_not_opened(self, fact: Fact) -> bool:
        connection = self.timeline.by(fact)
        return connection is not None and connection.opened is None

    def _held_back(self, copy: CopyLife, consumers: list[ConsumerLife]) -> Iterator[Cause]:
        """Yield what keeps a message back whose queue has consumers: they hold all that they may."""
        if copy.queue in self._blocked_queues:
            return
        self._blocked_queues.add(copy.queue)
        held: list[DeliveryLife] = []
        limit = 0
        for one in consumers:
            own, shared = one.held, list(one.channel.held.values())
            if one.prefetch and len(own) >= one.prefetch:
                held, limit = [*held, *own], one.prefetch
            elif one.channel.shared_prefetch and len(shared) >= one.channel.shared_prefetch:
                held, limit = [*held, *shared], one.channel.shared_prefetch
            else:
                return
        if not held:
            return
        loops = [cause for one in held for cause in self._loops(one.copy)]
        if loops:
            yield from loops
            return
        holder, others = self._name(held[0].connection), [other.message.number for other in copy.queue.ready.values()]
        names: dict[str, object] = {
            "holder": holder,
            "queue": held[0].copy.queue.name,
            "others": others,
            "alike": [one.copy.message.number for one in held],
        }
        age = self.now - held[0].fact.at
        numbers = {"message": held[0].copy.message.number, "prefetch": limit} | (
            {"age": age} if age >= NOTABLE_US else {}
        )
        for delivery in held:
            yield from self._refusals_after(delivery)
        yield Cause("held_back", names, numbers, tuple(one.fact for one in held))

    def _lost_again(self, copy: CopyLife) -> Iterator[Cause]:
        """Yield that a worker ended, or lost its connection, while it held a message that is ready again."""
        if copy.state != AGAIN or not copy.deliveries:
            return
        delivery = copy.deliveries[-1]
        connection = delivery.connection
        if connection is None or not connection.is_lost:
            return
        ended = [one for one in self._state.ended if one.code != "0"]
        if len(ended) == 1:
            names = {"worker": ended[0].name, "code": ended[0].code, "queue": copy.queue.name}
            yield Cause("worker_ended", names, {"message": copy.message.number}, (delivery.fact, copy.last))

    def _acked(self, copy: CopyLife) -> Iterator[Cause]:
        """Yield what is wrong with an ack: a caught error before it, or another message's ack that took it along."""
        delivery = copy.deliveries[-1] if copy.deliveries else None
        if delivery is None or delivery.settled is None or copy.message.number not in self.values:
            return
        by = self._name(delivery.connection)
        number = {"message": copy.message.number}
        if error := self._error_of(delivery):
            yield Cause("swallowed", {"by": by, "queue": copy.queue.name, **error}, number, (delivery.settled,))
        if self._is_unknown_to(delivery):
            yield from self._refusals_after(delivery)

    def _is_unknown_to(self, delivery: DeliveryLife) -> bool:
        """Return whether the client of a delivery got an unknown delivery tag after it: it acks what it should not."""
        connection = delivery.connection
        return connection is not None and any(
            (fact.subject or {}).get("problem") == "unknown_tag" and fact.place > delivery.fact.place
            for fact in connection.refusals
        )

    def _answers(self, life: MessageLife) -> Iterator[Cause]:
        """Yield what is wrong between a request and its reply."""
        known = () if life.message.exchange else self._requests.get(life.message.routing_key, ())
        at = bisect_left(known, life.number, key=lambda other: other.number)
        last = known[at - 1] if at else None
        own = life.property("correlation_id")
        alike = () if own is None or last is None else self._correlated.get((life.message.routing_key, own), ())
        same = [other for other in alike if other.number < life.number]
        asked = None if last is None else last.property("correlation_id")
        if last is not None and own is not None and not same and asked is not None:
            names = {"publisher": self.publisher(life), "given": own, "asked": asked}
            numbers = {"message": life.number, "request": last.number}
            yield Cause("wrong_reply", names, numbers, (cast("Fact", life.published),))
        if len(same) > 1:
            names = {"publisher": self.publisher(same[0]), "given": own, "alike": [one.number for one in same]}
            facts = tuple(cast("Fact", one.published) for one in same)
            yield Cause("same_correlation", names, {"message": same[0].number}, facts)
        if life.property("reply_to") is not None and not list(self._replies(life)):
            yield from self._unforwarded(life)

    def request_of_lost(self, reply: MessageLife) -> MessageLife | None:
        """Return the request of a reply whose client has left; None if it is no such reply."""
        asked = (
            life
            for life in self._requests.get(reply.message.routing_key, ())
            if life.number < reply.number and life.publisher is not None and life.publisher.closed is not None
        )
        return None if reply.message.exchange or reply.lost is None else next(asked, None)

    def _unforwarded(self, request: MessageLife) -> Iterator[Cause]:
        """Yield that a client passed a request on without the queue for its reply."""
        correlation = request.property("correlation_id")
        for copy in request.copies.values():
            delivery = copy.deliveries[-1] if copy.deliveries else None
            if delivery is None or delivery.settled is None or delivery.settled.kind != events.ACKED:
                continue
            reply_to = request.property("reply_to")
            later = [life for life in self._sent.get(delivery.connection, ()) if life.number > request.number]
            if any(life.message.routing_key == reply_to for life in later):
                # It did reply, and the reply went astray.
                continue
            passed = [
                life
                for life in later
                if life.property("reply_to") is None
                and (
                    life.property("correlation_id") == correlation is not None
                    or life.message.body == request.message.body
                )
            ]
            names = {"by": self._name(delivery.connection), "queue": reply_to}
            if passed:
                numbers = {"message": passed[0].number, "request": request.number}
                yield Cause("reply_to_lost", names, numbers, (delivery.settled, cast("Fact", passed[0].published)))
            else:
                yield Cause("not_answered", names, {"message": request.number}, (delivery.settled,))

    # What happened more than once, or in another order.

    def _more_than_once(self) -> Iterator[Cause]:
        for life in self._repeated.values():
            for copy in life.copies.values():
                yield from self._delivered_again(copy)
        lives = [life for life in self._repeated.values() if life.published is not None]
        if len(lives) > 1 and len({life.message.body for life in lives}) == 1:
            first, second = lives[0], lives[1]
            lost = first.publisher is not None and first.publisher.is_lost and first.answer is None
            names = {
                "publisher": self.publisher(second),
                "lost": "its confirm was lost with the connection" if lost else None,
            }
            numbers = {"message": second.number, "request": first.number}
            yield Cause(
                "published_again", names, numbers, (cast("Fact", first.published), cast("Fact", second.published))
            )

    def _delivered_again(self, copy: CopyLife) -> Iterator[Cause]:
        for before, again in zip(copy.deliveries, copy.deliveries[1:], strict=False):
            connection, ended = before.connection, before.ended
            if connection is None or ended is None or ended.get("reason") != "channel_closed" or not connection.is_lost:
                continue
            names = {
                "queue": copy.queue.name,
                "holder": self._name(connection),
                "by": self._name(again.connection),
                "reason": connection.reason if connection.reason != "connection lost" else None,
                "when": "its ack arrived" if any(one.on == "basic.ack" for one in connection.faults) else "it acked",
            }
            yield Cause("ack_lost", names, {"message": copy.message.number}, (before.fact, ended, again.fact))
            return

    def _shared(self) -> Iterator[Cause]:
        """Yield that several clients share the queue of a message of which each should have got one."""
        fewer = {_key(value) for value in self._asked.fewer}
        lives = [self.roots[number] for number, value in self.values.items() if _key(value) in fewer]
        for queue in dict.fromkeys(copy.queue for life in lives for copy in life.copies.values()):
            names = list(dict.fromkeys(self._name(one.channel.connection) for one in queue.consumers if one.deliveries))
            if len(names) > 1:
                facts = tuple(one.since for one in queue.consumers if one.deliveries)
                yield Cause("shared", {"queue": queue.name, "clients": names}, {}, facts)

    def _idle(self) -> Iterator[Cause]:
        """Yield that a client which the comparison names got nothing, because another one is the active consumer."""
        for connection in self._named_clients():
            for one in (one for channel in connection.channels.values() for one in channel.consumers):
                active = [other for other in one.queue.consumers if other.deliveries]
                is_single = one.queue.arguments.get("x-single-active-consumer") is True
                if is_single and not one.deliveries and not one.is_over and active:
                    names = {
                        "queue": one.queue.name,
                        "active": self._name(active[0].channel.connection),
                        "waiting": connection.name,
                    }
                    yield Cause("single_active", names, {}, (active[0].since, one.since))

    def _named_clients(self) -> Iterator[ConnectionLife]:
        """Yield the clients that the comparison names."""
        for connection in self.timeline.connections.values():
            if connection.name and _plain(connection.name) in self._asked.names:
                yield connection

    def _clients_died(self) -> Iterator[Cause]:
        """Yield that a client which the comparison names died, or was refused, with what it held."""
        for connection in self._named_clients() if self.is_short else ():
            for channel in connection.channels.values():
                for delivery in channel.held.values():
                    for death in self._client_deaths():
                        if self._is_of(death, delivery):
                            yield self._death(death, delivery)

    def _out_of_order(self) -> Iterator[Cause]:
        copies = [copy for life in self._reordered for copy in life.copies.values() if copy.deliveries]
        queues = {copy.queue for copy in copies}
        if len(queues) != 1 or len(copies) < 2:
            return
        queue, numbers = copies[0].queue, [copy.message.number for copy in copies]
        consumers = list(dict.fromkeys(self._name(copy.deliveries[-1].connection) for copy in copies))
        if len(consumers) > 1:
            facts = tuple(copy.deliveries[-1].fact for copy in copies)
            names = {"queue": queue.name, "clients": consumers, "alike": numbers}
            yield Cause("overtaken", names, {"message": numbers[0]}, facts)
        urgent = [copy for copy in copies if copy.message.property("priority")]
        if urgent and _PRIORITIES not in queue.arguments and queue.type != "quorum":
            yield self._without_priorities(urgent[0])

    def _without_priorities(self, copy: CopyLife) -> Cause:
        names = {"queue": copy.queue.name}
        numbers = {"message": copy.message.number, "priority": cast("int", copy.message.property("priority"))}
        return Cause("no_priorities", names, numbers, (copy.facts[0],))

    # What stopped a publisher, or failed the test itself.

    def _died(self) -> Iterator[Cause]:
        """Yield what died while it worked for a client on the way, if no message shows whose it was."""
        places = [life.published.place for life in self.roots.values() if life.published is not None]
        for death in self._client_deaths():
            if places and death.place is not None and death.place > min(places):
                yield Cause("died", {"what": death.what, "error": death.error, "line": death.line})

    def _blocked(self) -> Iterator[Cause]:
        """Yield the publishers that an alarm blocks, if the test misses messages in a queue that they declared."""
        asked = self._asked
        is_missed = asked.count is not None and asked.count[0] > asked.count[1]
        for number, alarm in self._state.blocked.items() if is_missed or asked.is_unpublished else ():
            connection = self.timeline.connections.get(number)
            declared = [
                queue
                for name in asked.queues
                if (queue := self._queue(name)) is not None and any(fact.conn == number for fact in queue.declared)
            ]
            if connection is not None and declared:
                names = {"client": self._name(connection), "alarm": alarm}
                yield Cause("blocked", names, {}, tuple(declared[0].declared[-1:]))

    def _unconfirmed(self) -> Iterator[Cause]:
        """Yield the clients that published to a queue without confirms on a connection that broke."""
        last: dict[ConnectionLife, MessageLife] = {}
        for life in self._lives:
            if (
                any(copy.queue.name in self.asked_queues for copy in life.copies.values())
                and life.publisher is not None
            ):
                last[life.publisher] = life
        for connection, life in last.items():
            published, closed = cast("Fact", life.published), connection.closed
            is_lost = connection.is_lost and closed is not None and not closed.is_shutdown and not connection.refusals
            if is_lost and published.get("tag") is None and "consumer" not in connection.roles:
                names = {"client": self._name(connection), "reason": connection.reason}
                yield Cause("unconfirmed", names, {"message": life.number}, (published, cast("Fact", closed)))

    def _refused_of_queue(self) -> Iterator[Cause]:
        """Yield the last errors of clients about a queue at which the test looked."""
        for fact in self.timeline.refusals:
            subject, client = fact.subject or {}, self.timeline.by(fact)
            is_about = subject.get("kind") == "queue" and subject.get("name") in self.asked_queues
            if is_about and client is not None and (client.last_act is None or client.last_act.place < fact.place):
                yield self.refusal(fact)

    def _raised(self) -> Iterator[Cause]:
        """Yield the error of a client that failed the test."""
        for fact in self.timeline.refusals:
            text = fact.text.partition("\n")[0]
            if self._asked.error and fact.place >= self.began and text in self._asked.error:
                yield self.refusal(fact)

    def refusal(self, fact: Fact) -> Cause:
        """Return an error that a client got, as a cause."""
        caller = Caller.read(fact.get("caller"))
        names: dict[str, object] = {
            "client": fact.client or "a client",
            "code": fact.code,
            "text": fact.text.partition("\n")[0].rstrip("."),
            "line": None if caller is None else caller.inner,
        }
        subject = fact.subject or {}
        if subject.get("problem") == "unknown_tag":
            return Cause("refused", names, {}, (fact,), self._taken_along(fact, subject.get("tag")))
        return Cause("refused", names, {}, (fact,))

    def _taken_along(self, refusal: Fact, tag: str | None) -> Cause | None:
        """Return that the ack of another message took along the one that a client settles: it was a multiple one."""
        for copy in self.timeline.copies.values() if tag is not None else ():
            for delivery in copy.deliveries:
                settled = delivery.settled
                channel = delivery.channel
                is_it = channel is not None and (channel.connection.number, channel.number) == (
                    refusal.conn,
                    refusal.chan,
                )
                if not is_it or str(delivery.fact.tag) != tag or settled is None or not settled.get("multiple"):
                    continue
                others = [
                    one.message.number
                    for one in self.timeline.copies.values()
                    if one is not copy
                    and one.deliveries
                    and (last := one.deliveries[-1].settled) is not None
                    and (last.raw[1], last.conn, last.chan) == (settled.raw[1], settled.conn, settled.chan)
                    and last.get("multiple")
                ]
                if others:
                    return Cause("taken_along", {}, {"message": copy.message.number, "request": others[-1]}, (settled,))
        return None

    def _name(self, connection: ConnectionLife | None) -> str:
        return self.timeline.name(connection)

    def publisher(self, life: MessageLife) -> str | None:
        """Return the name of the client that published a message; None if its publish is unknown."""
        return None if life.published is None else self._name(life.publisher)


def _is_done(copy: CopyLife) -> bool:
    """Return whether nothing more will happen to a copy by itself."""
    return not copy.is_ready and copy.state != UNACKED


def _plain(name: str) -> str:
    """Return a client's name as a variable would have it."""
    return "".join(letter if letter.isalnum() else "_" for letter in name.lower())


def _key(value: object) -> tuple[type, object]:
    return type(value), value


def _is_for_later(life: MessageLife) -> bool:
    """Return whether a worker of Celery or dramatiq holds a message until it is due."""
    headers = as_python(life.message.properties.headers)
    if isinstance(headers, dict) and eta_of(headers) is not None:
        return True
    try:
        body = json.loads(life.message.body)
    except (ValueError, RecursionError):
        return False
    return isinstance(body, dict) and "actor_name" in body and "eta" in (body.get("options") or ())
