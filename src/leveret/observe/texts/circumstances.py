"""What led to how a message stands: consumers that left, bindings that came late, replies that answer no request.

The model forgets these, so this reads the timeline. It words facts only when a text of a failure asks.
"""

from __future__ import annotations

from typing import Final

from leveret.story.entities import NOTABLE_US, MessageLife
from leveret.story.timeline import Timeline
from leveret.trace import events
from leveret.wording import client_place_text, place_text, span_text


class Circumstances:
    """The facts on a timeline that explain how messages stand."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline: Final = timeline

    def consumer_left(self, vhost: str, queue: str, now: int) -> str:
        """Return how a queue lost its last consumer: "its consumer went with c1, closed 5 s ago"; or ""."""
        timeline, place = self._timeline, (vhost, queue)
        lives = [*timeline.deleted_queues.get(place, ()), *filter(None, [timeline.queues.get(place)])]
        ended = [(left, one) for life in lives for one in life.consumers if (left := one.departure) is not None]
        if not ended or any(life.living_consumers for life in lives):
            return ""
        left, consumer = max(ended, key=lambda one: one[0].place)
        connection, chan = consumer.channel.connection, consumer.channel.number
        ago = f" {span_text(now - left.at)} ago" if now - left.at >= NOTABLE_US else ""
        if not connection.is_client:
            return f"the test's consumer ended{ago}"
        is_connection = left.kind == events.CONN_CLOSE
        who = client_place_text(timeline.name(connection), connection.number, None if is_connection else chan)
        if left.kind not in (events.CONN_CLOSE, events.CHAN_CLOSE):
            return f"its consumer, of {who}, was cancelled{ago}"
        closed = "closed" if left.reason is None else "lost"
        what = who if is_connection else f"channel {place_text(connection.number, chan)}"
        return f"its consumer went with {what}, {closed}{ago}"

    def bound_after(self, life: MessageLife, queue: str) -> list[str]:
        """Return the keys by which a queue was bound to the exchange of a message after it had been published."""
        source = self._timeline.exchanges.get((life.vhost, life.message.exchange))
        published = -1 if life.published is None else life.published.place
        end = ("queue", (life.vhost, queue))
        bound = [
            (one.since.place, one.routing_key)
            for one in (() if source is None else source.bindings)
            if one.until is None and (one.destination_kind, one.destination) == end
        ]
        early = {key for since, key in bound if since <= published}
        return [key for _, key in bound if key not in early]

    def earlier_test(self, number: int) -> str:
        """Return the test before this one that published a message; "" if this one did, or none."""
        life, starts = self._timeline.messages.get(number), self._timeline.starts
        published = None if life is None else life.published
        if published is None or published.place >= self._timeline.began:
            return ""
        test = next((start.test for start in reversed(starts) if start.place < published.place), None)
        return "" if test is None or test == starts[-1].test else test

    def wrong_reply(self, life: MessageLife) -> str:
        """Return what a reply has instead of its request's correlation id; "" if it answers one, or is no reply."""
        message = life.message
        place = life.vhost, message.routing_key
        requests = self._timeline.requests.get(place, []) if message.exchange == "" else []
        correlation_id = life.property("correlation_id")
        if not requests or any(request.property("correlation_id") == correlation_id for request in requests):
            return ""
        asked = ", ".join(f"#{request.number} has {request.property('correlation_id')!r}" for request in requests[-3:])
        return f"has the correlation id {correlation_id!r}, but the request {asked}"
