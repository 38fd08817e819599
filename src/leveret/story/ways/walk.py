"""The walk from what a failed test asked for to what happened.

It begins at the messages that the failure is about, which `roots` finds, and follows their links: published by whom,
routed, refused, queued, held back, delivered, settled, dead-lettered (`stops`), answered (`replies`). Where a way
stops, and why, is a cause. What lies on no way is no cause, however bad it looks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain
from typing import Final

from leveret.errors import nearest
from leveret.story.asked import QUEUES, Asked
from leveret.story.causes import Cause
from leveret.story.entities import (
    BindingLife,
    ConnectionLife,
    ConsumerLife,
    CopyLife,
    DeliveryLife,
    Fact,
    MessageLife,
    QueueLife,
)
from leveret.story.timeline import Timeline
from leveret.story.ways.amounts import Amounts, sharing
from leveret.story.ways.handling import Handling
from leveret.story.ways.inquiry import HiddenState, Inquiry, key
from leveret.story.ways.replies import Replies
from leveret.story.ways.roots import Roots
from leveret.story.ways.stops import PRIORITIES, Stops, has_no_priorities
from leveret.story.words import UNACKED
from leveret.trace import events


class Walk:
    """The ways of what a test asked for, on the timeline of one broker."""

    def __init__(self, timeline: Timeline, asked: Asked, state: HiddenState, *, began: int = 0) -> None:
        """Find the messages that were asked for. `began` is the place at which the test began."""
        self.inquiry: Final = Inquiry(timeline, asked, state, began)
        self.replies: Final = Replies(self.inquiry)
        self.roots: Final = Roots(self.inquiry, self.replies)
        self.handling: Final = Handling(self.inquiry)
        self._stops: Final = Stops(self.inquiry, self.roots, self.handling)
        self._timeline: Final = timeline
        self._asked: Final = asked

    def causes(self) -> Iterator[Cause]:
        """Yield where the ways of what was asked for stop, and why."""
        yield from self._deleted()
        yield from map(self.handling.refusal, self.roots.refused)
        for number, life in sorted(self.roots.messages.items()):
            if number not in self.roots.repeated and life not in self.roots.reordered:
                yield from self._stops.causes(life)
                yield from self.replies.causes(life)
                yield from self._elsewhere(life)
        steps: tuple[Callable[[], Iterator[Cause]], ...] = (
            self._more_than_once,
            self._out_of_order,
            self._published_behind,
            self._refused_before,
            self._starved,
            self._idle_policies,
            self._surplus,
            self._expired_early,
            self._unacked,
            Amounts(self.inquiry).causes,
            self._shared,
            self._idle,
            self._preferred,
            self._clients_died,
            self._blocked,
            self._unconfirmed,
            self._refused_of_queue,
            self._raised,
            self._unpublished,
            self._died,
        )
        for step in steps:
            yield from step()

    def noticed(self) -> Iterator[Cause]:
        """Yield what happened to other messages that need not be wrong: they came again, or again and again."""
        for life in self.inquiry.lives:
            for copy in life.copies.values() if life.number not in self.roots.messages else ():
                yield from self._stops.loops(copy)
                yield from self._delivered_again(copy)

    # Queues.

    def _deleted(self) -> Iterator[Cause]:
        """Yield that a queue is gone whose name a comparison lacks."""
        wanted = set(self._asked.missing) if QUEUES in self._asked.names | self._asked.sources else ()
        for queue in chain.from_iterable(self._timeline.deleted_queues.values()):
            if queue.name in wanted and queue.place not in self._timeline.queues and queue.deleted is not None:
                deletion = f"queue {queue.name!r} was deleted {self._timeline.deletion_how(queue)}"
                yield self.inquiry.say("queue_deleted", None, queue.deleted, deletion=deletion)

    def _elsewhere(self, life: MessageLife) -> Iterator[Cause]:
        """Yield that a message never went to the queue of a client that the comparison names, or to one it looks at."""
        reached = {copy.queue for copy in life.copies.values()}
        queues: dict[QueueLife, str | None] = dict.fromkeys(self.inquiry.starved)
        for connection in self.inquiry.named_clients:
            consumers = chain.from_iterable(channel.consumers for channel in connection.channels.values())
            queues.update({one.queue: connection.name for one in consumers if not one.is_over})
        if not life.message.exchange or not reached or life.number not in self.roots.values:
            return
        for queue, client in queues.items() if reached.isdisjoint(queues) else ():
            own = [one for one in self._timeline.bindings if one.destination == queue.place]
            if unbound := self._unbound(life, queue, own):
                yield unbound
                return
            sources = [one for one in own if one.until is None]
            bindings = [f"{one.routing_key!r} of {one.source[1]!r}" for one in sources]
            names = {"exchange": life.message.exchange, "queue": queue.name, "client": client}
            if sources and (client is not None or all(one.source[1] != life.message.exchange for one in sources)):
                facts = (life.published, *(one.since for one in sources))
                yield self.inquiry.say("went_elsewhere", life, *facts, **names, bindings=bindings)

    def _unbound(self, life: MessageLife, queue: QueueLife, own: Iterable[BindingLife]) -> Cause | None:
        """Return that a queue was unbound from the exchange of a message before it was published."""
        for one in own:
            until, published = one.until, life.published
            is_source = one.source[1] == life.message.exchange
            if is_source and until is not None and published is not None and until.place < published.place:
                names = {"client": self.inquiry.name(self._timeline.by(until)), "binding": repr(one.routing_key)}
                facts = (until, published)
                return self.inquiry.say("unbound", life, *facts, queue=queue.name, exchange=one.source[1], **names)
        return None

    def _refused_before(self) -> Iterator[Cause]:
        """Yield the errors of clients that would have led messages to a queue that fills what was short."""
        for queue in self.inquiry.sought:
            sources = {one.source[1] for one in self._timeline.bindings if one.destination == queue.place} - {""}
            refused = (fact for fact in self._timeline.refusals if fact.vhost == queue.vhost)
            yield from (self.handling.refusal(fact) for fact in refused if self._has_stopped(fact, queue, sources))

    def _has_stopped(self, refusal: Fact, queue: QueueLife, sources: Collection[str]) -> bool:
        """Return whether a client was refused what would have led to a queue: a publish, a right, or its declare."""
        subject = refusal.subject or {}
        match subject.get("problem"):
            case "publish":
                exchange = subject.get("exchange")
                return exchange in sources or (not exchange and subject.get("routing_key") == queue.name)
            case "no_right":
                return subject.get("right") == "write" and subject.get("name") in (*sources, queue.name)
            case "inequivalent" if (subject.get("kind"), subject.get("name")) == ("queue", queue.name):
                is_unbound = all(one.destination != queue.place for one in self._timeline.bindings)
                is_missed = is_unbound and any(life.lost for life in self.roots.messages.values())
                return queue in self.inquiry.starved and (is_missed or self.handling.is_last_act(refusal))
            case _:
                return False

    def _starved(self) -> Iterator[Cause]:
        """Yield why no message came to a queue that fills what was short: it went to another, or a client stopped."""
        for queue in self.inquiry.starved:
            others = [one for one in self.inquiry.reached if self._is_mistaken(one, queue)]
            for other in others:
                life = next(iter(other.ready.values())).message
                vhost = None if other.vhost == queue.vhost else other.vhost
                names = {"queue": queue.name, "target": other.name, "vhost": vhost}
                yield self.inquiry.say("nothing_came", life, life.published, **names)
            # What an open connection was refused is about its own virtual host.
            stopped = [one for one in self.handling.stopping() if one.chan is None or one.vhost == queue.vhost]
            if not others and not self.inquiry.lives and len(stopped) == 1:
                cause = self.inquiry.say("nothing_came", None, stopped[0], queue=queue.name)
                yield cause._replace(because=self.handling.refusal(stopped[0]))

    def _is_mistaken(self, other: QueueLife, queue: QueueLife) -> bool:
        """Return whether messages wait in another queue that nothing consumes, and were for this one.

        It has the same name in another virtual host, or nearly the same, or holds what was missed.
        """
        if other.consumers or not other.ready:
            return False
        is_near = other.name == queue.name or bool(nearest(queue.name, [other.name]))
        missed = self.roots.values
        return is_near or all(copy.message.number in missed and copy.source is None for copy in other.ready.values())

    def _idle_policies(self) -> Iterator[Cause]:
        """Yield the policies that were to lead messages to a queue at which the test looks, and apply to none."""
        queues = {queue.name for queue in self.inquiry.starved}.union(self._asked.queues)
        for policy in self.inquiry.state.idle_policies:
            if policy.leads_to & queues:
                names = {"policy": policy.name, "pattern": policy.pattern, "queue": policy.queue, "other": policy.other}
                kind = "policy_idle" if policy.queue is None else "policy_outranked"
                yield self.inquiry.say(kind, None, *self._timeline.starts[-1:], **names)

    def _surplus(self) -> Iterator[Cause]:
        """Yield by which binding a message came to a queue that the test expected to be without it."""
        asked = self._asked
        held = self.inquiry.holders(asked.extra) if not asked.missing else {}
        queues = {*asked.queues, *asked.keys}
        for life in chain.from_iterable(held.values()):
            for copy in life.copies.values():
                source = (life.vhost, life.message.exchange)
                if copy.queue.name not in queues or not copy.is_ready or not source[1] or copy.source is not None:
                    continue
                own = [one for one in self._timeline.bindings if one.source == source]
                own = [one for one in own if one.until is None and one.destination == copy.queue.place]
                exchange = self._timeline.exchanges.get(source)
                is_fanout = exchange is not None and any(fact.type == "fanout" for fact in exchange.declared)
                if len(own) == 1 and (is_fanout or _is_wide(own[0])):
                    which = "which is a fanout exchange and ignores keys" if is_fanout else None
                    arguments = own[0].arguments
                    binding = f"{own[0].routing_key!r} {arguments!r}" if arguments else repr(own[0].routing_key)
                    names = {"binding": binding, "exchange": source[1], "type": which}
                    yield self.inquiry.say("came_by", copy, copy.facts[0], own[0].since, **names)

    def _expired_early(self) -> Iterator[Cause]:
        """Yield that a message expired and so came to a queue from which the test has it, and did not expect it."""
        asked = self._asked
        held = self.inquiry.holders(asked.extra) if not asked.missing else {}
        for copy in chain.from_iterable(life.copies.values() for life in chain.from_iterable(held.values())):
            source, expires = copy.source, None if copy.source is None else copy.source.facts[0].get("expires")
            is_looked_at = copy.queue.name in asked.sources.union(asked.queues)
            if is_looked_at and isinstance(expires, int) and source is not None and source.last.reason == "expired":
                age = expires - source.facts[0].at
                yield self.inquiry.say("expired_to", source, source.last, age=age, target=copy.queue.name)

    def _unacked(self) -> Iterator[Cause]:
        """Yield that a client took the last of its messages with no_ack and left with them, and another went on."""
        taken: dict[ConnectionLife, list[DeliveryLife]] = {}
        for copy in self._timeline.copies.values():
            for one in copy.deliveries if copy.state == events.NO_ACK else ():
                if one.connection is not None:
                    taken.setdefault(one.connection, []).append(one)
        for connection, deliveries in taken.items():
            deliveries.sort(key=lambda one: one.fact.place)
            is_missed = [one.copy.message.number in self.roots.values for one in deliveries]
            first, closed = is_missed.index(True) if any(is_missed) else 0, connection.closed
            if closed is None or not first or not all(is_missed[first:]):
                continue
            queue = deliveries[-1].copy.queue
            later = [one.since.place for one in queue.consumers]
            later += [one.fact.place for one in chain.from_iterable(taken.values()) if one.copy.queue is queue]
            if any(place > closed.place for place in later):
                yield from (self.inquiry.say("taken_unacked", one, one.fact, closed) for one in deliveries[first:])

    def _shared(self) -> Iterator[Cause]:
        """Yield that several consumers share the queue of messages of which each should have got all."""
        missed = [self.roots.messages[number] for number in self.roots.values]
        for queue in dict.fromkeys(copy.queue for life in missed for copy in life.copies.values()):
            wanted = {life.number for life in missed if life.has_reached(queue.name)}
            fewer = set(map(key, self._asked.fewer))
            is_fewer = any(key(self.roots.values[number]) in fewer for number in wanted)
            consumers = [one for one in queue.consumers if one.deliveries or is_fewer]
            takers = [{d.copy.message.number for d in one.deliveries} for one in consumers]
            is_anothers = any(taken <= wanted for taken in takers) and any(taken.isdisjoint(wanted) for taken in takers)
            if len(consumers) > 1 and (is_fewer or is_anothers):
                yield sharing(self.inquiry, consumers)

    def _preferred(self) -> Iterator[Cause]:
        """Yield that a client which a count names got less than another one, whose consumer has a higher priority."""
        for name, (expected, found) in self._asked.counts.items():
            for waiting in self.inquiry.consumers_of(name) if expected > found else ():
                for active in waiting.queue.consumers:
                    higher, lower = (_priority(one) for one in (active, waiting))
                    if higher > lower and len(active.deliveries) > len(waiting.deliveries):
                        other = self.inquiry.name(active.channel.connection)
                        names = {"queue": waiting.queue.name, "active": other, "waiting": name}
                        facts = (active.since, waiting.since)
                        yield self.inquiry.say("prefers", None, *facts, higher=higher, lower=lower, **names)

    def _idle(self) -> Iterator[Cause]:
        """Yield that a client which the comparison names got nothing, because another one is the active consumer."""
        for connection in self.inquiry.named_clients:
            for one in chain.from_iterable(channel.consumers for channel in connection.channels.values()):
                cause = None if one.deliveries or one.is_over else self._stops.idle(one.queue)
                yield from () if cause is None else (cause,)

    # What happened more than once, or in another order.

    def _more_than_once(self) -> Iterator[Cause]:
        for life in self.roots.repeated.values():
            for copy in life.copies.values():
                yield from self._delivered_again(copy)
                yield from self._came_again(copy)
        lives = [life for life in self.roots.repeated.values() if life.published is not None]
        if len(lives) > 1 and len({life.message.body for life in lives}) == 1:
            first, second = lives[0], lives[1]
            is_lost = first.publisher is not None and first.publisher.is_lost and first.answer is None
            lost = "its confirm was lost with the connection" if is_lost else None
            facts = (first.published, second.published)
            yield self.inquiry.say("published_again", second, *facts, request=first.number, lost=lost)

    def _came_again(self, copy: CopyLife) -> Iterator[Cause]:
        """Yield that a client gave a message back, so that it was handled twice."""
        for before, again in zip(copy.deliveries, copy.deliveries[1:], strict=False):
            connection, facts = before.connection, (before.settled or before.fact, before.ended, again.fact)
            by = self.inquiry.name(again.connection)
            if before.settled is not None and before.requeued is not None:
                yield self.inquiry.say("requeued", before, *facts, by=by)
            elif before.is_left and connection is not None and not connection.is_lost and connection.closed:
                yield self.inquiry.say("came_again", before, *facts, by=by)

    def _delivered_again(self, copy: CopyLife) -> Iterator[Cause]:
        """Yield that a message came again, because a client lost its connection with it."""
        for before, again in zip(copy.deliveries, copy.deliveries[1:], strict=False):
            connection = before.connection
            if connection is None or not before.is_left or not connection.is_lost:
                continue
            is_ack_lost = any(one.on == "basic.ack" for one in connection.faults)
            names = {
                "by": self.inquiry.name(again.connection),
                "reason": connection.reason if connection.reason != "connection lost" else None,
                "when": "its ack arrived" if is_ack_lost else "it acked",
            }
            yield self.inquiry.say("ack_lost", before, before.fact, before.ended, again.fact, **names)
            return

    def _published_behind(self) -> Iterator[Cause]:
        """Yield that a client put a copy of what it took at the end of the queue, so that the order is another."""
        for first, *later in self.inquiry.holders(self._asked.reordered).values():
            for copy in first.copies.values() if len(later) == 1 else ():
                last = copy.deliveries[-1] if copy.deliveries else None
                is_its_own = last is not None and later[0].publisher is last.connection
                between = [life for life in self.inquiry.lives if first.number < life.number < later[0].number]
                others = [life.number for life in between if life.has_reached(copy.queue.name)]
                if last is not None and is_its_own and others and later[0].has_reached(copy.queue.name):
                    names = {"message": later[0].number, "request": first.number, "others": others}
                    yield self.inquiry.say("published_behind", last, last.fact, later[0].published, **names)

    def _out_of_order(self) -> Iterator[Cause]:
        copies = [copy for life in self.roots.reordered for copy in life.copies.values() if copy.deliveries]
        queues = {copy.queue for copy in copies}
        if len(queues) != 1 or len(copies) < 2:
            return
        consumers = list(dict.fromkeys(self.inquiry.name(copy.deliveries[-1].connection) for copy in copies))
        if len(consumers) > 1:
            facts = (copy.deliveries[-1].fact for copy in copies)
            numbers = [copy.message.number for copy in copies]
            yield self.inquiry.say("overtaken", copies[0], *facts, clients=consumers, alike=numbers)
        urgent = next((copy for copy in copies if copy.message.property("priority")), None)
        queue = copies[0].queue
        if urgent is not None and has_no_priorities(queue):
            priority = urgent.message.property("priority")
            yield self.inquiry.say("no_priorities", urgent, urgent.facts[0], priority=priority)
        elif urgent is None and PRIORITIES in queue.arguments:
            copies.sort(key=lambda copy: copy.message.number)
            numbers = [copy.message.number for copy in copies]
            yield self.inquiry.say("no_priority", copies[0], *(copy.facts[0] for copy in copies), alike=numbers)

    # What stopped a client, or failed the test itself.

    def _clients_died(self) -> Iterator[Cause]:
        """Yield that a client which the comparison names died, or was refused, with what it held."""
        for connection in self.inquiry.named_clients if self.inquiry.is_short else ():
            for channel in connection.channels.values():
                for delivery in channel.held.values():
                    yield from self.handling.deaths_of(delivery)

    def _blocked(self) -> Iterator[Cause]:
        """Yield the publishers that an alarm blocks, if the test misses messages in a queue that they declared."""
        asked = self._asked
        is_missed = any(expected > found for expected, found in filter(None, (asked.count, asked.total)))
        for number, alarm in self.inquiry.state.blocked.items() if is_missed or asked.is_unpublished else ():
            queues = [queue for name in asked.queues if (queue := self.inquiry.queue(name)) is not None]
            connection = self._timeline.connections.get(number)
            if connection is not None and any(queue not in self.inquiry.reached for queue in queues):
                yield self.inquiry.say("blocked", connection, alarm=alarm)

    def _unconfirmed(self) -> Iterator[Cause]:
        """Yield the clients that published to a queue without confirms on a connection that broke."""
        last: dict[ConnectionLife, MessageLife] = {}
        for life in self.inquiry.lives:
            if life.publisher is not None and any(
                copy.queue.name in self.inquiry.queues for copy in life.copies.values()
            ):
                last[life.publisher] = life
        for connection, life in last.items():
            published, closed = life.published, connection.closed
            if published is None or closed is None or closed.is_shutdown or "consumer" in connection.roles:
                continue
            if connection.is_lost and not connection.refusals and published.get("tag") is None:
                names = {"client": self.inquiry.name(connection), "reason": connection.reason}
                yield self.inquiry.say("unconfirmed", life, published, closed, **names)

    def _refused_of_queue(self) -> Iterator[Cause]:
        """Yield the last errors of clients about a queue at which the test looked, or whose name it missed."""
        asked = self._asked
        names = {*self.inquiry.queues, *(asked.missing if QUEUES in asked.names | asked.sources else ())}
        for fact in self._timeline.refusals:
            if any(self.handling.is_refused(fact, name) for name in names if isinstance(name, str)):
                yield self.handling.refusal(fact)

    def _raised(self) -> Iterator[Cause]:
        """Yield the error of a client that failed the test."""
        for fact in self._timeline.refusals:
            text = fact.text.partition("\n")[0]
            if fact.place >= self.inquiry.began and any(text in one.text for one in self._asked.raised):
                yield self.handling.refusal(fact)

    def _unpublished(self) -> Iterator[Cause]:
        """Yield that nothing was published to the place of an assertion of leveret's."""
        name, key = next(iter(self._asked.queues), None), self._asked.routing_key
        sent = [life for life in self.inquiry.lives if name in (None, life.message.exchange)]
        if self._asked.is_unpublished and not any(key in (None, life.message.routing_key) for life in sent):
            log = list(dict.fromkeys(one.error for one in self._asked.caught))
            names = {"exchange": name or None, "routing_key": key, "log": log}
            yield self.inquiry.say("nothing_published", None, *self._timeline.starts[-1:], **names)

    def _died(self) -> Iterator[Cause]:
        """Yield what died while it worked for a client on the way, if no message shows whose it was."""
        if self._asked.is_unpublished or self.roots.reordered or any(map(_is_open, self.roots.messages.values())):
            return
        places = [life.published.place for life in self.roots.messages.values() if life.published is not None]
        for death in self.handling.client_deaths:
            if places and death.place is not None and death.place > min(places):
                yield Cause("died", {"what": death.what, "error": death.error, "line": death.line})


def _is_wide(binding: BindingLife) -> bool:
    """Return whether a binding takes messages of several kinds."""
    return bool({"*", "#"} & set(binding.routing_key.split("."))) or binding.arguments.get("x-match") == "any"


def _priority(consumer: ConsumerLife) -> int:
    priority = consumer.arguments.get("x-priority")
    return priority if isinstance(priority, int) else 0


def _is_open(life: MessageLife) -> bool:
    """Return whether a message waits, or is held."""
    return any(copy.is_ready or copy.state == UNACKED for copy in life.last_ends)
