"""What led to how a message stands: consumers that left, bindings that came late, replies that answer no request.

The model forgets these, so this reads the events, as `Deletions` does. It keeps facts as the events go by, and words
them only when a text of a failure asks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Self, cast

from leveret.core.model.message import Message
from leveret.story.clients import Clients
from leveret.trace import events
from leveret.trace.events import Event, RawEvent
from leveret.wording import client_place_text, place_text, span_text

# A shorter time says only how fast the machine is.
NOTABLE_US: Final = 100_000
# A client that closes its connection so soon after it cancelled did both at once.
_SOON: Final = 1_000_000
_Queue = tuple[str, str]
_Subscription = tuple[int | None, int | None, object]


class Circumstances:
    """The facts that explain how messages stand, found while events go by."""

    KINDS: Final = Clients.KINDS | {events.CHAN_CLOSE, events.CANCEL, events.BIND, events.UNBIND, events.TEST_START}

    def __init__(self) -> None:
        self.clients: Final = Clients()
        self._consuming: Final[dict[_Queue, list[_Subscription]]] = {}
        # The queues that a connection has consumed from.
        self._consumed: Final[dict[int | None, dict[_Queue, None]]] = {}
        self._departures: Final[dict[_Queue, Event]] = {}
        # The last message before a queue was bound to an exchange by a key.
        self._bound: Final[dict[tuple[str, str, str, str], int]] = {}
        self._last_id = 0
        # The test that published a message, and the requests by the queue of their replies.
        self._test: str | None = None
        self._tests: Final[dict[int, str | None]] = {}
        self._requests: Final[dict[_Queue, list[Message]]] = {}

    @classmethod
    def from_events(cls, raw_events: Iterable[RawEvent]) -> Self:
        """Return what these events show."""
        circumstances = cls()
        for raw in raw_events:
            if raw[0] in cls.KINDS:
                circumstances.note(Event(raw))
        return circumstances

    def note(self, event: Event) -> None:
        """Note an event of one of the `KINDS`."""
        self.clients.take(event)
        match event.kind:
            case events.PUBLISHED:
                self._published(event.vhost, cast("Message", event.message))
            case events.TEST_START:
                self._test = event.test
            case events.CONSUME:
                queue = (event.vhost, str(event.queue))
                self._consuming.setdefault(queue, []).append(_subscription(event))
                self._consumed.setdefault(event.conn, {})[queue] = None
                self._departures.pop(queue, None)
            case events.BIND if event.destination_kind == "queue":
                self._bound.setdefault(_bound_key(event), self._last_id)
            case events.UNBIND if event.destination_kind == "queue":
                self._bound.pop(_bound_key(event), None)
            case events.CANCEL | events.CHAN_CLOSE | events.CONN_CLOSE:
                self._left(event)

    def _published(self, vhost: str, message: Message) -> None:
        self._last_id = message.id
        self._tests[message.id] = self._test
        reply_to = message.properties.reply_to
        if reply_to is not None:
            self._requests.setdefault((vhost, reply_to), []).append(message)

    def _left(self, event: Event) -> None:
        conn, chan, tag = _subscription(event)
        # What ended: a connection, a channel of it, or a single consumer of that.
        ended = {events.CONN_CLOSE: (conn,), events.CHAN_CLOSE: (conn, chan)}.get(event.kind, (conn, chan, tag))
        for queue in self._consumed.get(conn, {}):
            subscriptions = self._consuming[queue]
            rest = [subscription for subscription in subscriptions if subscription[: len(ended)] != ended]
            before = self._departures.get(queue)
            # Clients cancel and close their channels before they close a connection, which says more.
            is_sequel = (
                before is not None
                and before.at + _SOON >= event.at
                and _subscription(before)[:2][: len(ended)] == ended
            )
            if is_sequel or (len(rest) < len(subscriptions) and not rest):
                self._departures[queue] = event
            self._consuming[queue] = rest

    def consumer_left(self, vhost: str, queue: str, now: int) -> str:
        """Return how a queue lost its last consumer: "its consumer went with c1, closed 5 s ago"; or ""."""
        left = self._departures.get((vhost, queue))
        if left is None:
            return ""
        ago = f" {span_text(now - left.at)} ago" if now - left.at >= NOTABLE_US else ""
        if left.conn is None or left.conn < 0:
            return f"the test's consumer ended{ago}"
        chan = cast("int | None", left.get("chan"))
        who = client_place_text(self.clients.name(left.conn), left.conn, chan)
        if left.kind == events.CANCEL:
            return f"its consumer, of {who}, was cancelled{ago}"
        closed = "closed" if left.reason is None else "lost"
        what = who if left.kind == events.CONN_CLOSE else f"channel {place_text(left.conn, chan)}"
        return f"its consumer went with {what}, {closed}{ago}"

    def bound_after(self, vhost: str, exchange: str, queue: str, message: Message) -> list[str]:
        """Return the keys by which a queue was bound to an exchange after a message had been published."""
        binding = (vhost, exchange, queue)
        return [key[3] for key, last in self._bound.items() if key[:3] == binding and message.id <= last]

    def earlier_test(self, message: Message) -> str:
        """Return the test before this one that published a message; "" if this one did, or none."""
        test = self._tests.get(message.id, self._test)
        return "" if test is None or test == self._test else test

    def wrong_reply(self, vhost: str, message: Message) -> str:
        """Return what a reply has instead of its request's correlation id; "" if it answers one, or is no reply."""
        requests = self._requests.get((vhost, message.routing_key), []) if message.exchange == "" else []
        correlation_id = message.properties.correlation_id
        if not requests or any(request.properties.correlation_id == correlation_id for request in requests):
            return ""
        asked = ", ".join(f"#{request.id} has {request.properties.correlation_id!r}" for request in requests[-3:])
        return f"has the correlation id {correlation_id!r}, but the request {asked}"


def _subscription(event: Event) -> _Subscription:
    return event.conn, cast("int | None", event.get("chan")), event.get("consumer")


def _bound_key(event: Event) -> tuple[str, str, str, str]:
    return event.vhost, event.exchange, event.destination, event.routing_key
