"""Where the way of a message stops, and why: it was not queued, waits, is held, was settled, or came elsewhere.

The way of a message goes through its copies, and from a copy to its dead letters.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from leveret.errors import nearest
from leveret.story.causes import Cause
from leveret.story.entities import (
    NOTABLE_US,
    ConsumerLife,
    CopyLife,
    DeliveryLife,
    Fact,
    MessageLife,
    QueueLife,
    way_of,
)
from leveret.story.ways.handling import Handling
from leveret.story.ways.inquiry import Inquiry
from leveret.story.ways.roots import Roots, is_taken
from leveret.story.words import AGAIN, READY, UNACKED
from leveret.trace import events
from leveret.trace.events import eta_of, task_of

# A message that came back this often has a problem.
_OFTEN: Final = 3
PRIORITIES: Final = "x-max-priority"


class Stops:
    """Where the ways of messages stop."""

    def __init__(self, inquiry: Inquiry, roots: Roots, handling: Handling) -> None:
        self._inquiry: Final = inquiry
        self._state: Final = inquiry.state
        self._roots: Final = roots
        self._handling: Final = handling
        # The queues of which it is said already what keeps their messages back.
        self._blocked_queues: Final[set[QueueLife]] = set()

    def causes(self, life: MessageLife) -> Iterator[Cause]:
        """Yield where the ways of a message stop, and why."""
        if not life.copies:
            yield from self._unqueued(life)
        for copy in life.last_ends:
            yield from self._stop(copy)

    def _unqueued(self, life: MessageLife) -> Iterator[Cause]:
        if life.lost is not None and life.lost.get("reason") == "rolled_back" and life.number in self._missed:
            yield self._inquiry.say("rolled_back", life, life.published, life.lost)
        is_asked = life.number in self._roots.values
        if life.lost is not None and life.lost.kind == events.RETURNED and is_asked and not self._is_sent_on(life):
            yield self._inquiry.say("returned", life, life.published, life.lost)
        if life.lost is not None or life.published is None:
            return
        if (holder := self._state.uncommitted.get(life.number)) is not None:
            yield self._inquiry.say("uncommitted", life, publisher=holder)._replace(because=Cause("open_transaction"))
        elif (full := self._state.refused.get(life.number)) is not None:
            queue, limit = full
            unconfirmed = life.published.get("tag") is None
            yield self._inquiry.say("refused_by_full", life, queue=queue, limit=limit, unconfirmed=unconfirmed)

    def _is_sent_on(self, returned: MessageLife) -> bool:
        """Return whether a value of a returned message, or all of it, went to a queue in another message afterwards."""
        value = self._roots.values[returned.number]
        return any(
            life.copies and (self._roots.values.get(life.number) == value or life.message.body == returned.message.body)
            for life in self._inquiry.timeline.messages.values()
            if life.number > returned.number
        )

    def _stop(self, copy: CopyLife) -> Iterator[Cause]:
        queues = self._inquiry.queues
        if queues and copy.queue.name not in queues:
            way = list(way_of(copy))
            left = next((one for one in way[1:] if one.queue.name in queues), None)
            if left is not None:
                yield self._left(copy, left, way)
                return
        loops = list(self.loops(copy, often=_OFTEN - 1))
        yield from loops
        yield from self._came(copy)
        refused = [] if copy.state == events.ACKED else list(self._refused(copy))
        yield from refused
        if copy.state == UNACKED:
            yield from () if loops else self._held(copy)
        elif copy.is_ready:
            yield from self._waiting(copy)
        elif copy.state == events.ACKED:
            yield from self._acked(copy)
        elif copy.last.get("reason") == "purged" and not copy.deliveries:
            yield self._inquiry.say("purged", copy)

    def _refused(self, copy: CopyLife) -> Iterator[Cause]:
        """Yield the errors of clients that wanted the queue of a message for themselves, and did nothing more."""
        for fact in self._inquiry.timeline.refusals:
            if self._handling.is_refused(fact, copy.queue.name):
                yield self._handling.refusal(fact)

    def _left(self, copy: CopyLife, left: CopyLife, way: Sequence[CopyLife]) -> Cause:
        """Return that a message left the queue at which the test looks, and where it came."""
        between = [repr(one.queue.name) for one in way[1 : way.index(left)]]
        names = {
            "by": ", ".join(reversed(between)) or None,
            "target": copy.queue.name,
            "reason": str(left.last.get("reason")),
        }
        return self._inquiry.say("came_elsewhere", left, left.last, copy.facts[0], **names)

    def loops(self, copy: CopyLife, often: int = _OFTEN) -> Iterator[Cause]:
        """Yield that clients put a message back again and again, or that it goes round as a dead letter."""
        settled = [fact for fact in copy.facts if fact.kind in events.REFUSING]
        if copy.requeue_count >= often and len(settled) >= often:
            by = self._inquiry.name(self._inquiry.timeline.by(settled[-1]))
            times = min(copy.requeue_count, len(settled))
            yield self._inquiry.say("requeued_often", copy, settled[0], settled[-1], by=by, times=times)
        way = list(way_of(copy))
        here = [one for one in way[1:] if one.queue is copy.queue]
        if len(here) >= _OFTEN - 1 and copy.state != events.ACKED:
            queues = [one.queue.name for one in reversed(way[: way.index(here[0])])]
            yield self._inquiry.say(
                "goes_round", copy.message, here[-1].last, copy.facts[0], queues=queues, times=len(here)
            )

    def _came(self, copy: CopyLife) -> Iterator[Cause]:
        """Yield how a message came where it is, if a client rejected it."""
        source = copy.source
        if source is None or not source.is_dead_lettered or copy.state == events.ACKED or not source.deliveries:
            return
        last = source.deliveries[-1]
        if last.settled is not None and last.settled.kind in events.REFUSING:
            by = self._inquiry.name(self._inquiry.timeline.by(last.settled))
            names = {"by": by, "target": copy.queue.name} | self._handling.error_of(last)
            yield self._inquiry.say("rejected_to", last, last.settled, source.last, copy.facts[0], **names)

    def _held(self, copy: CopyLife) -> Iterator[Cause]:
        """Yield who holds a message, and why it is not settled."""
        delivery = copy.deliveries[-1]
        if delivery.connection is None or _is_for_later(copy.message):
            yield from self._later(copy)
            return
        if idle := self.idle(copy.queue):
            yield idle
            return
        if (client := self._state.settled.get(copy.number)) is not None:
            yield self._inquiry.say("settled_uncommitted", delivery, holder=client)
            return
        died = list(self._handling.deaths_of(delivery))
        yield from died[:1]
        yield from self._handling.refusals_after(delivery)
        if not died:
            yield self._inquiry.say("held", delivery, **self._age(delivery))

    def _later(self, copy: CopyLife) -> Iterator[Cause]:
        """Yield when a task is due, if a value in it was missed."""
        eta, options = eta_of(_headers(copy.message)), _task(copy.message).get("options") or {}
        if eta is None and isinstance(due := options.get("eta"), int):
            eta = datetime.fromtimestamp(due / 1_000, UTC)
        if eta is not None and copy.message.number in self._roots.values:
            yield self._inquiry.say("for_later", copy, copy.facts[0], eta=f"{eta:%H:%M:%S} UTC on {eta:%d %B}")

    def idle(self, queue: QueueLife) -> Cause | None:
        """Return that a client got nothing from a queue, because another one is its single active consumer."""
        active = next((one for one in queue.living_consumers if one.deliveries), None)
        idle = next((one for one in queue.living_consumers if not one.deliveries), None)
        if queue.arguments.get("x-single-active-consumer") is not True or active is None or idle is None:
            return None
        names = [self._inquiry.name(one.channel.connection) for one in (active, idle)]
        facts = (active.since, idle.since)
        return self._inquiry.say("single_active", None, *facts, queue=queue.name, active=names[0], waiting=names[1])

    def _age(self, delivery: DeliveryLife) -> dict[str, object]:
        """Return for how long a delivery was held, if that is worth saying."""
        age = self._inquiry.now - delivery.fact.at
        return {"age": age} if age >= NOTABLE_US else {}

    def _waiting(self, copy: CopyLife) -> Iterator[Cause]:
        """Yield why a message waits in its queue."""
        yield from self._lost_again(copy)
        if _is_for_later(copy.message):
            yield from self._later(copy)
            return
        consumers = copy.queue.living_consumers
        if copy.queue.is_stream:
            yield from self._unread(copy, consumers)
            return
        due = copy.facts[0].get("expires")
        if not consumers and isinstance(due, int) and due > self._inquiry.now and copy.state == READY:
            clock = "the clock is held" if self._state.is_clock_held else None
            yield self._inquiry.say("not_due", copy, copy.facts[0], delay=due - self._inquiry.now, clock=clock)
        elif (head := self._ahead(copy)) is not None:
            yield self._inquiry.say("behind", copy, copy.facts[0], head.facts[0], others=[head.message.number])
        elif not consumers:
            yield from self._unconsumed(copy)
        else:
            yield from self._held_back(copy, consumers)

    def _unread(self, copy: CopyLife, consumers: list[ConsumerLife]) -> Iterator[Cause]:
        """Yield that the consumer of a stream began behind a message."""
        for one in (*consumers, *copy.queue.consumers)[:1] if not copy.deliveries else ():
            if one.arguments.get("x-stream-offset", "next") == "next" and copy.facts[0].place < one.since.place:
                client = self._inquiry.name(one.channel.connection)
                names = {
                    "client": client,
                    "unset": None if "x-stream-offset" in one.arguments else "no x-stream-offset",
                }
                yield self._inquiry.say("read_from_next", copy, copy.facts[0], one.since, **names)

    def _ahead(self, copy: CopyLife) -> CopyLife | None:
        """Return the copy at the head of a queue that keeps one from expiring whose time is over."""
        due, head = copy.facts[0].get("expires"), next(iter(copy.queue.ready.values()), None)
        is_over = isinstance(due, int) and due <= self._inquiry.now
        return head if is_over and head is not copy else None

    def _lost_again(self, copy: CopyLife) -> Iterator[Cause]:
        """Yield that a worker ended, or lost its connection, while it held a message that is ready again."""
        delivery = copy.deliveries[-1] if copy.deliveries else None
        if copy.state != AGAIN or delivery is None or delivery.connection is None or not delivery.connection.is_lost:
            return
        ended = [one for one in self._state.ended if one.code != "0"]
        if len(ended) == 1:
            facts = (delivery.fact, copy.last)
            yield self._inquiry.say("worker_ended", delivery, *facts, worker=ended[0].name, code=ended[0].code)

    def _unconsumed(self, copy: CopyLife) -> Iterator[Cause]:
        """Yield that a queue has no consumer, if one was to be expected: a queue may be for the test, or to be kept."""
        queue, life = copy.queue, copy.message
        refused = list(self._handling.refusals_after(copy.deliveries[-1])) if copy.deliveries else []
        yield from refused
        is_looked_at = queue.name in self._inquiry.asked.queues
        if refused or (is_looked_at and life.number not in self._inquiry.asked.messages):
            return
        if copy.state == AGAIN and copy.deliveries[-1].is_left:
            yield from self._left_behind(copy)
            return
        if is_looked_at:
            return
        if kept_back := list(self._was_kept_back(copy)):
            yield from kept_back
            return
        source = copy.source
        if source is not None and not copy.deliveries and _was_untaken(source):
            yield self._left(copy, source, (copy, source))
            return
        why = self._why_not_consumed(copy) or self._elsewhere_consumed(queue)
        is_task = task_of(_headers(life)) is not None or bool(_task(life))
        if why is None and not is_task and queue in self._inquiry.fed_by and not queue.consumers:
            # The test fetches from it by itself.
            yield from self._left_behind(copy)
        elif why is not None or is_task or life.property("reply_to") is not None or self._is_for_client(copy):
            vhost = queue.vhost if why is not None and why.kind == "consumed_elsewhere" else None
            vhost = vhost if vhost is not None and why is not None and why.names.get("other") else None
            last = max(queue.consumers, key=lambda one: one.since.place, default=None)
            for delivery in () if last is None else last.deliveries:
                # It left with another one in its hands.
                is_its_last = delivery.copy.state == AGAIN and delivery.copy.deliveries[-1] is delivery
                if delivery.is_left and is_its_last and not any(self._handling.refusals_after(delivery)):
                    yield from self._left_behind(delivery.copy)
            yield self._inquiry.say("not_consumed", copy, vhost=vhost)._replace(because=why)

    def _left_behind(self, copy: CopyLife) -> Iterator[Cause]:
        """Yield how a message stands that is in the queue from which the test fetches."""
        delivery = copy.deliveries[-1] if copy.deliveries else None
        if delivery is not None and (death := self._handling.death_in(delivery)) is not None:
            names = {"what": death.what, "error": death.error, "line": death.line}
            yield self._inquiry.say("died", delivery, delivery.fact, **names)
        elif delivery is not None and delivery.connection is not None and copy.state == AGAIN:
            place = self._inquiry.name(delivery.connection)
            yield self._inquiry.say("given_back", delivery, delivery.fact, copy.last, place=place)
        elif (value := self._roots.values.get(copy.message.number)) is not None and not is_taken(copy.message):
            yield self._inquiry.say("value", copy, value=value, state=copy.state, queue=copy.queue.name)

    def _elsewhere_consumed(self, queue: QueueLife) -> Cause | None:
        """Return that the client which the test looks at consumes from another queue, of that name or nearly so."""
        namesakes = (one for one in self._inquiry.timeline.queues.values() if one.name == queue.name)
        for other in (*self._inquiry.starved, *(one for one in namesakes if one not in self._inquiry.reached)):
            is_near = other.name == queue.name or other.name in nearest(queue.name, [other.name])
            if is_near and other.living_consumers:
                client = self._inquiry.name(other.living_consumers[0].channel.connection)
                vhost = None if other.vhost == queue.vhost else other.vhost
                fact = other.living_consumers[0].since
                return self._inquiry.say(
                    "consumed_elsewhere", None, fact, client=client, target=other.name, other=vhost
                )
        return None

    def _is_for_client(self, copy: CopyLife) -> bool:
        """Return whether a client was to take a message: others are taken, and it is not set aside by a consumer."""
        others = (other for other in self._inquiry.timeline.queues.values() if other is not copy.queue)
        if not any(other.consumers for other in others):
            return False
        if copy.source is not None:
            return any(fact.conn is not None for fact in copy.queue.declared)
        publisher = copy.message.publisher
        return publisher is not None and "consumer" not in publisher.roles

    def _was_kept_back(self, copy: CopyLife) -> Iterator[Cause]:
        """Yield what kept a message back until its last consumer left in good order."""
        left = [one for one in copy.queue.consumers if (fact := one.departure) is not None and fact.place > _came(copy)]
        for one in left[-1:]:
            before = dict.fromkeys(delivery.copy for delivery in one.deliveries)
            loops = [cause for other in before for cause in self.loops(other, often=_OFTEN - 1)]
            held = [delivery for delivery in one.deliveries if delivery.is_left]
            if not loops and one.prefetch and len(held) >= one.prefetch and not any(map(self._handling.death_in, held)):
                refused = [cause for delivery in held for cause in self._handling.refusals_after(delivery)]
                loops = refused or [self._full(held, one.prefetch, [copy.message.number])]
            yield from loops

    def _why_not_consumed(self, copy: CopyLife) -> Cause | None:
        """Return why a message has no consumer: the last one of its queue left, or its client was refused."""
        queue = copy.queue
        left = [(fact, one) for one in queue.consumers if (fact := _departure(one, copy)) is not None]
        if left:
            fact, last = max(left, key=lambda one: one[0].place)
            connection = last.channel.connection
            deaths = [death for death in self._handling.client_deaths if death.name is None]
            if last.until is not None and last.until.kind == events.CANCEL and len(deaths) == 1:
                return Cause("died", {"what": deaths[0].what, "error": deaths[0].error, "line": deaths[0].line})
            if refused := [one for one in connection.refusals if (one.at, one.chan) == (fact.at, fact.chan)]:
                return self._handling.refusal(refused[-1])
            kind = "consumer_cancelled" if fact.kind == events.CANCEL else "consumer_channel_closed"
            if fact.kind == events.CONN_CLOSE:
                kind = "consumer_lost" if connection.is_lost else "consumer_closed"
            return self._inquiry.say(kind, connection, fact, reason=connection.reason or fact.get("reason"))
        for fact in reversed(self._inquiry.timeline.refusals):
            is_of_queue = self._handling.is_refused(fact, queue.name)
            if fact.place >= self._inquiry.began and (is_of_queue or self._is_at_login(fact)):
                return self._handling.refusal(fact)
        return None

    def _is_at_login(self, refusal: Fact) -> bool:
        timeline = self._inquiry.timeline
        connection = timeline.by(refusal) if refusal.conn in timeline.connections else None
        return connection is None or connection.opened is None

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
        if loops := [cause for one in held for cause in self.loops(one.copy)]:
            yield from loops
            return
        for delivery in held:
            yield from self._handling.refusals_after(delivery)
        yield self._full(held, limit, [other.message.number for other in copy.queue.ready.values()])

    def _full(self, held: list[DeliveryLife], limit: int, others: list[int]) -> Cause:
        """Return that clients held all that they may, which kept others back."""
        names = {"others": others, "alike": [one.copy.message.number for one in held]}
        facts = (one.fact for one in held)
        return self._inquiry.say("held_back", held[0], *facts, **names, prefetch=limit, **self._age(held[0]))

    def _acked(self, copy: CopyLife) -> Iterator[Cause]:
        """Yield what is wrong with an ack: a caught error before it, or another message's ack that took it along."""
        delivery = copy.deliveries[-1] if copy.deliveries else None
        if delivery is None or delivery.settled is None or copy.message.number not in self._missed:
            return
        together = self._handling.acked_with(delivery)
        if together and self._is_taken_along(copy, together):
            yield self._inquiry.say("taken_with", delivery, delivery.settled, request=together[-1].copy.message.number)
        if error := self._handling.error_of(delivery):
            yield self._inquiry.say("swallowed", delivery, delivery.settled, **error)
        if self._handling.is_unknown_to(delivery):
            yield from self._handling.refusals_after(delivery)
        yield from self._overtaken_by_less(copy)

    def _overtaken_by_less(self, copy: CopyLife) -> Iterator[Cause]:
        """Yield that a missed message was behind others of a lower priority, in a queue that knows none."""
        priority, taken = copy.message.property("priority"), copy.deliveries[0].fact.place
        if not priority or not isinstance(priority, int) or not has_no_priorities(copy.queue):
            return
        for other in self._inquiry.timeline.copies.values():
            lower = other.message.property("priority") or 0
            before = other.deliveries[0].fact.place if other.queue is copy.queue and other.deliveries else taken
            if isinstance(lower, int) and lower < priority and _came(copy) < before < taken:
                yield self._inquiry.say("no_priorities", copy, copy.facts[0], priority=priority)
                return

    @property
    def _missed(self) -> set[int]:
        """The messages that the test missed, or that its assertion is about."""
        return {*self._roots.values, *self._inquiry.asked.messages}

    def _is_taken_along(self, copy: CopyLife, together: list[DeliveryLife]) -> bool:
        """Return whether of what one ack settled, the test has only the last and misses all others."""
        *rest, last = (one.copy.message.number for one in together)
        is_asked = copy.message.number in self._inquiry.asked.messages
        is_certain = len(rest) + is_asked > 1 or self._handling.has_acked_fewer(together)
        return is_certain and last not in self._missed and self._missed.issuperset(rest)


def has_no_priorities(queue: QueueLife) -> bool:
    """Return whether a queue ignores the priorities of messages."""
    return PRIORITIES not in queue.arguments and queue.type != "quorum"


def _was_untaken(copy: CopyLife) -> bool:
    """Return whether a copy left its queue because it was full, or because no client took it in time."""
    reason = copy.last.get("reason")
    return reason == "maxlen" or (reason == "expired" and bool(copy.queue.consumers))


def _came(copy: CopyLife) -> int:
    return copy.facts[0].place


def _departure(consumer: ConsumerLife, copy: CopyLife) -> Fact | None:
    """Return what ended a consumer: if it was over before a message came, what its client did later says nothing."""
    until, departure = consumer.until, consumer.departure
    is_later = departure is not None and departure.place > _came(copy)
    return until if is_later and until is not None and until.place < _came(copy) else departure


def _is_for_later(life: MessageLife) -> bool:
    """Return whether a worker of Celery or dramatiq holds a message until it is due."""
    return eta_of(_headers(life)) is not None or "eta" in (_task(life).get("options") or ())


def _headers(life: MessageLife) -> Mapping[str, object]:
    headers = life.property("headers")
    return headers if isinstance(headers, dict) else {}


def _task(life: MessageLife) -> dict[str, Any]:
    """Return the task of dramatiq that a message is; empty if it is none."""
    try:
        body = json.loads(life.message.body)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) and "actor_name" in body else {}
