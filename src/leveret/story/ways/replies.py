"""Requests and their replies: which request a message answers, and why one has no answer.

A reply goes straight to the queue that its request names, with the request's correlation id.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

from leveret.story.causes import Cause
from leveret.story.entities import ConnectionLife, MessageLife
from leveret.story.ways.inquiry import Inquiry
from leveret.trace import events
from leveret.trace.events import task_of


class Replies:
    """The requests of a test, and what answers them."""

    def __init__(self, inquiry: Inquiry) -> None:
        self._inquiry: Final = inquiry
        # The requests by the queue for their replies and their correlation ids, what went straight to each queue with
        # such an id, and what each client sent.
        self._correlated: Final[dict[tuple[object, object], list[MessageLife]]] = {}
        self._straight: Final[dict[tuple[object, object], list[MessageLife]]] = {}
        self._sent: Final[dict[ConnectionLife | None, list[MessageLife]]] = {}
        for life in inquiry.lives:
            correlation = life.property("correlation_id")
            if (reply_to := life.property("reply_to")) is not None and not _is_task(life):
                self._correlated.setdefault((reply_to, correlation), []).append(life)
            if not life.message.exchange:
                self._straight.setdefault((life.message.routing_key, correlation), []).append(life)
            self._sent.setdefault(life.publisher, []).append(life)

    def unanswered(self) -> Iterator[MessageLife]:
        """Yield the requests that no message has answered."""
        for lives in self._correlated.values():
            yield from (life for life in lives if life.published is not None and not self.is_answered(life))

    def is_answered(self, request: MessageLife) -> bool:
        """Return whether a message went straight to the queue for the replies, with the request's id or without one."""
        reply_to, correlation = request.property("reply_to"), request.property("correlation_id")
        return any(
            life.number > request.number
            for own in (None, correlation)
            for life in self._straight.get((reply_to, own), ())
        )

    def unmatched(self) -> Iterator[MessageLife]:
        """Yield the replies without a correlation id to requests that have one."""
        wanted = {reply_to for reply_to, correlation in self._correlated if correlation is not None}
        for (queue, own), lives in self._straight.items():
            yield from lives if own is None and queue in wanted else ()

    def request_of_lost(self, reply: MessageLife) -> MessageLife | None:
        """Return the request of a reply whose client has left; None if it is no such reply."""
        asked = (
            life
            for life in self._to_queue_of(reply)
            if life.number < reply.number and life.publisher is not None and life.publisher.closed is not None
        )
        return None if reply.message.exchange or reply.lost is None else next(asked, None)

    def _to_queue_of(self, reply: MessageLife) -> Sequence[MessageLife]:
        """Return the requests whose replies go where one was sent."""
        return self._inquiry.timeline.requests.get((reply.vhost, reply.message.routing_key), ())

    def causes(self, life: MessageLife) -> Iterator[Cause]:
        """Yield what is wrong between a request and its reply, of which this message is one."""
        yield from self._as_reply(life)
        if life.property("reply_to") is not None and not _is_task(life) and not self.is_answered(life):
            yield from self._not_passed_on(life)

    def _as_reply(self, life: MessageLife) -> Iterator[Cause]:
        known = () if life.message.exchange else self._to_queue_of(life)
        at = bisect_left(known, life.number, key=lambda other: other.number)
        own = life.property("correlation_id")
        if not at:
            return
        last = known[at - 1]
        if own is None:
            if (asked := last.property("correlation_id")) is not None:
                yield self._inquiry.say("reply_without_id", life, asked=asked, request=last.number)
            return
        alike = self._correlated.get((life.message.routing_key, own), ())
        same = [other for other in alike if other.number < life.number]
        asked = last.property("correlation_id")
        if not same and asked is not None:
            yield self._inquiry.say("wrong_reply", life, given=own, asked=asked, request=last.number)
        if len(same) > 1:
            facts = [one.published for one in same]
            numbers = [one.number for one in same]
            yield self._inquiry.say("same_correlation", same[0], *facts, given=own, alike=numbers)

    def _not_passed_on(self, request: MessageLife) -> Iterator[Cause]:
        """Yield that a client passed a request on without the queue for its reply, or did not answer it."""
        correlation, reply_to = request.property("correlation_id"), request.property("reply_to")
        for copy in request.copies.values():
            delivery = copy.deliveries[-1] if copy.deliveries else None
            if delivery is None or delivery.settled is None or delivery.settled.kind != events.ACKED:
                continue
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
            if passed:
                facts = (delivery.settled, passed[0].published)
                numbers = {"message": passed[0].number, "request": request.number}
                yield self._inquiry.say("reply_to_lost", delivery, *facts, **numbers, queue=reply_to)
            else:
                yield self._inquiry.say("not_answered", delivery, delivery.settled, queue=reply_to)


def _is_task(life: MessageLife) -> bool:
    """Return whether a message is a task of Celery, which names a queue for replies whether or not it wants one."""
    headers = life.property("headers")
    return isinstance(headers, dict) and task_of(headers) is not None
