"""The walk from what a failed test asked for to what happened.

It begins at the messages that the failure is about, which `roots` finds, and follows their links: published by whom,
routed, refused, queued, held back, delivered, settled, dead-lettered (`stops`), answered (`replies`). Where a way
stops, and why, is a cause. What lies on no way is no cause, however bad it looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final

from leveret.story.asked import Asked
from leveret.story.causes import Cause
from leveret.story.entities import ConnectionLife, CopyLife, MessageLife
from leveret.story.timeline import Timeline
from leveret.story.ways.handling import Handling
from leveret.story.ways.inquiry import HiddenState, Inquiry, key
from leveret.story.ways.replies import Replies
from leveret.story.ways.roots import Roots
from leveret.story.ways.stops import Stops
from leveret.story.words import UNACKED

_PRIORITIES: Final = "x-max-priority"


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
        for number, life in self.roots.messages.items():
            if number not in self.roots.repeated and life not in self.roots.reordered:
                yield from self._stops.causes(life)
                yield from self.replies.causes(life)
                yield from self._elsewhere(life)
        steps: tuple[Callable[[], Iterator[Cause]], ...] = (
            self._more_than_once,
            self._out_of_order,
            self._shared,
            self._idle,
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
        wanted = set(self._asked.missing) if "queues" in self._asked.names else ()
        for queue in chain.from_iterable(self._timeline.deleted_queues.values()):
            if queue.name in wanted and queue.place not in self._timeline.queues and queue.deleted is not None:
                deletion = f"queue {queue.name!r} was deleted {self._timeline.deletion_how(queue)}"
                yield self.inquiry.say("queue_deleted", None, queue.deleted, deletion=deletion)

    def _elsewhere(self, life: MessageLife) -> Iterator[Cause]:
        """Yield that a message never went to the queue of a client that the comparison names."""
        reached = {copy.queue for copy in life.copies.values()}
        if not life.message.exchange or not reached or life.number not in self.roots.values:
            return
        for connection in self.inquiry.named_clients:
            consumers = chain.from_iterable(channel.consumers for channel in connection.channels.values())
            queues = {one.queue for one in consumers if not one.is_over}
            for queue in queues if queues.isdisjoint(reached) else ():
                sources = [
                    one for one in self._timeline.bindings if one.until is None and one.destination == queue.place
                ]
                bindings = [f"{one.routing_key!r} of {one.source[1]!r}" for one in sources]
                names = {"exchange": life.message.exchange, "queue": queue.name, "client": connection.name}
                facts = (life.published, *(one.since for one in sources))
                yield self.inquiry.say("went_elsewhere", life, *facts, **names, bindings=bindings)

    def _shared(self) -> Iterator[Cause]:
        """Yield that several clients share the queue of a message of which each should have got one."""
        fewer = set(map(key, self._asked.fewer))
        lives = [self.roots.messages[number] for number, value in self.roots.values.items() if key(value) in fewer]
        for queue in dict.fromkeys(copy.queue for life in lives for copy in life.copies.values()):
            consumers = [one for one in queue.consumers if one.deliveries]
            names = list(dict.fromkeys(self.inquiry.name(one.channel.connection) for one in consumers))
            if len(names) > 1:
                facts = (one.since for one in consumers)
                yield self.inquiry.say("shared", None, *facts, queue=queue.name, clients=names)

    def _idle(self) -> Iterator[Cause]:
        """Yield that a client which the comparison names got nothing, because another one is the active consumer."""
        for connection in self.inquiry.named_clients:
            for one in chain.from_iterable(channel.consumers for channel in connection.channels.values()):
                active = [other for other in one.queue.consumers if other.deliveries]
                is_single = one.queue.arguments.get("x-single-active-consumer") is True
                if is_single and not one.deliveries and not one.is_over and active:
                    name = self.inquiry.name(active[0].channel.connection)
                    names = {"queue": one.queue.name, "active": name, "waiting": connection.name}
                    yield self.inquiry.say("single_active", None, active[0].since, one.since, **names)

    # What happened more than once, or in another order.

    def _more_than_once(self) -> Iterator[Cause]:
        for life in self.roots.repeated.values():
            for copy in life.copies.values():
                yield from self._delivered_again(copy)
        lives = [life for life in self.roots.repeated.values() if life.published is not None]
        if len(lives) > 1 and len({life.message.body for life in lives}) == 1:
            first, second = lives[0], lives[1]
            is_lost = first.publisher is not None and first.publisher.is_lost and first.answer is None
            lost = "its confirm was lost with the connection" if is_lost else None
            facts = (first.published, second.published)
            yield self.inquiry.say("published_again", second, *facts, request=first.number, lost=lost)

    def _delivered_again(self, copy: CopyLife) -> Iterator[Cause]:
        for before, again in zip(copy.deliveries, copy.deliveries[1:], strict=False):
            connection, ended = before.connection, before.ended
            if connection is None or ended is None or ended.get("reason") != "channel_closed" or not connection.is_lost:
                continue
            is_ack_lost = any(one.on == "basic.ack" for one in connection.faults)
            names = {
                "by": self.inquiry.name(again.connection),
                "reason": connection.reason if connection.reason != "connection lost" else None,
                "when": "its ack arrived" if is_ack_lost else "it acked",
            }
            yield self.inquiry.say("ack_lost", before, before.fact, ended, again.fact, **names)
            return

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
        if urgent is not None and _PRIORITIES not in queue.arguments and queue.type != "quorum":
            priority = urgent.message.property("priority")
            yield self.inquiry.say("no_priorities", urgent, urgent.facts[0], priority=priority)

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
        is_missed = asked.count is not None and asked.count[0] > asked.count[1]
        for number, alarm in self.inquiry.state.blocked.items() if is_missed or asked.is_unpublished else ():
            queues = [queue for name in asked.queues if (queue := self.inquiry.queue(name)) is not None]
            declared = [queue for queue in queues if any(fact.conn == number for fact in queue.declared)]
            connection = self._timeline.connections.get(number)
            if connection is not None and declared:
                yield self.inquiry.say("blocked", connection, declared[0].declared[-1], alarm=alarm)

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
        """Yield the last errors of clients about a queue at which the test looked."""
        for fact in self._timeline.refusals:
            subject, client = fact.subject or {}, self._timeline.by(fact)
            is_about = subject.get("kind") == "queue" and subject.get("name") in self.inquiry.queues
            if is_about and client is not None and (client.last_act is None or client.last_act.place < fact.place):
                yield self.handling.refusal(fact)

    def _raised(self) -> Iterator[Cause]:
        """Yield the error of a client that failed the test."""
        for fact in self._timeline.refusals:
            text = fact.text.partition("\n")[0]
            if self._asked.error and fact.place >= self.inquiry.began and text in self._asked.error:
                yield self.handling.refusal(fact)

    def _unpublished(self) -> Iterator[Cause]:
        """Yield that nothing was published to the place of an assertion of leveret's."""
        name, key = next(iter(self._asked.queues), None), self._asked.routing_key
        sent = [life for life in self.inquiry.lives if name in (None, life.message.exchange)]
        if self._asked.is_unpublished and not any(key in (None, life.message.routing_key) for life in sent):
            starts = self._timeline.starts[-1:]
            yield self.inquiry.say("nothing_published", None, *starts, exchange=name or None, routing_key=key)

    def _died(self) -> Iterator[Cause]:
        """Yield what died while it worked for a client on the way, if no message shows whose it was."""
        if self._asked.is_unpublished or self.roots.reordered or any(map(_is_open, self.roots.messages.values())):
            return
        places = [life.published.place for life in self.roots.messages.values() if life.published is not None]
        for death in self.handling.client_deaths:
            if places and death.place is not None and death.place > min(places):
                yield Cause("died", {"what": death.what, "error": death.error, "line": death.line})


def _is_open(life: MessageLife) -> bool:
    """Return whether a message waits, or is held."""
    return any(copy.is_ready or copy.state == UNACKED for copy in life.last_ends)
