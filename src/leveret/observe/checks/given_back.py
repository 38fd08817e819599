"""The messages that are ready again because a client closed its channel in good order and had not settled them.

The test of a worker that forgets its ack ends like that if a fixture closes the worker. What a consumer got after all
that it settled does not count, because the client may have fetched it ahead. Nor does a task of Celery with an ETA.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from leveret.trace import events
from leveret.trace.events import Event, eta_of

if TYPE_CHECKING:
    from leveret.core.model.message import Message
    from leveret.trace.events import RawEvent

_SETTLING: Final = (events.ACKED, events.NACKED, events.REJECTED)
_CLOSING: Final = (events.CHAN_CLOSE, events.CONN_CLOSE)
_KINDS: Final = frozenset({*events.DELIVERIES, *_SETTLING, *_CLOSING, *events.ENDS, events.REQUEUED})


class _Held(NamedTuple):
    """What a channel got and has not settled, by copy, and the last tag that it settled of each queue."""

    deliveries: dict[int | None, Event]
    settled: dict[str | None, int]


class GivenBack:
    """What channels hold, and what came back unsettled from those that their clients closed."""

    def __init__(self) -> None:
        self._held: Final[dict[tuple[int | None, int | None], _Held]] = {}
        # The deliveries of the channel that ends, and those that came back and were not taken since.
        self._ending: dict[int | None, Event] = {}
        self._ready: Final[dict[int | None, Event]] = {}

    def feed(self, raw: RawEvent) -> None:
        """Take the next event."""
        kind = raw[0]
        if kind not in _KINDS:
            return
        event = Event(raw)
        if kind in _CLOSING:
            self._close(event)
            return
        if kind == events.REQUEUED and event.copy in self._ending and event.reason == "channel_closed":
            self._ready[event.copy] = self._ending.pop(event.copy)
            return
        self._ready.pop(event.copy, None)
        if kind in events.DELIVERIES and event.conn is not None:
            held = self._held.setdefault((event.conn, event.chan), _Held({}, {}))
            held.deliveries[event.copy] = event
        elif kind in _SETTLING and (event.conn, event.chan) in self._held:
            held = self._held[event.conn, event.chan]
            held.deliveries.pop(event.copy, None)
            held.settled[event.queue] = max(event.tag or 0, held.settled.get(event.queue, 0))

    def _close(self, event: Event) -> None:
        is_clean, channel = event.reason is None, event.get("chan")
        self._ending = {}
        for key in [key for key in self._held if key[0] == event.conn and channel in (None, key[1])]:
            held = self._held.pop(key)
            if is_clean:
                self._ending |= {copy: one for copy, one in held.deliveries.items() if _was_in_hand(one, held)}

    def left(self) -> Iterator[Event]:
        """Yield the deliveries of the messages that are ready again."""
        yield from self._ready.values()


def _was_in_hand(delivery: Event, held: _Held) -> bool:
    """Return whether the code under test had got the message, as far as the broker can know."""
    headers = cast("Message", delivery.message).headers
    if headers is not None and eta_of(headers.to_python()) is not None:
        return False
    last = held.settled.get(delivery.queue)
    return delivery.kind == events.GOT or last is None or cast("int", delivery.tag) < last
