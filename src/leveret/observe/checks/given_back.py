"""The messages that are ready again because a client closed its channel in good order and had not settled them.

The test of a worker that forgets its ack ends like that if a fixture closes the worker. What a consumer got after all
that it settled does not count, because the client may have fetched it ahead. Nor does a task of Celery with an ETA.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, cast

from leveret.core.model.message import Message
from leveret.trace import events
from leveret.trace.events import POSITIONS, Event, RawEvent, eta_of

_CLOSING: Final = (events.CHAN_CLOSE, events.CONN_CLOSE)
_QUEUE: Final = POSITIONS[events.DELIVERIES[0]]["queue"]
_REASON: Final = POSITIONS[events.REQUEUES[0]]["reason"]
# Where the copy of an event stands, and the tag of a delivery and of what settles it.
_COPY: Final = {
    kind: POSITIONS[kind]["copy"] for kind in (*events.DELIVERIES, *events.SETTLING, *events.ENDS, *events.REQUEUES)
}
_TAG: Final = {kind: POSITIONS[kind]["tag"] for kind in (*events.DELIVERIES, *events.SETTLING)}


class _Held(NamedTuple):
    """What a channel got and has not settled, by copy, and the last tag that it settled of each queue."""

    deliveries: dict[object, RawEvent]
    settled: dict[object, int]


class GivenBack:
    """What channels hold, and what came back unsettled from those that their clients closed."""

    def __init__(self) -> None:
        self._held: Final[dict[tuple[object, ...], _Held]] = {}
        # The deliveries of the channel that ends, and those that came back and were not taken since.
        self._ending: dict[object, RawEvent] = {}
        self._ready: Final[dict[object, RawEvent]] = {}

    def feed(self, raw: RawEvent) -> None:
        """Take the next event. Hot: once per event, so it reads the tuple."""
        kind = cast("str", raw[0])
        if kind in _CLOSING:
            self._close(Event(raw))
        if kind not in _COPY:
            return
        copy = raw[_COPY[kind]]
        if kind in events.REQUEUES and copy in self._ending and raw[_REASON] == "channel_closed":
            self._ready[copy] = self._ending.pop(copy)
            return
        self._ready.pop(copy, None)
        if kind not in _TAG:
            return
        channel = raw[events.CHANNEL]
        held = self._held.get(channel)
        if kind in events.SETTLING:
            if held is not None:
                held.deliveries.pop(copy, None)
                queue, tag = raw[_QUEUE], cast("int | None", raw[_TAG[kind]]) or 0
                held.settled[queue] = max(tag, held.settled.get(queue, 0))
        elif channel[0] is not None:
            if held is None:
                held = self._held[channel] = _Held({}, {})
            held.deliveries[copy] = raw

    def _close(self, event: Event) -> None:
        is_clean, channel = event.reason is None, event.get("chan")
        self._ending = {}
        for key in [key for key in self._held if key[0] == event.conn and channel in (None, key[1])]:
            held = self._held.pop(key)
            if is_clean:
                self._ending |= {copy: one for copy, one in held.deliveries.items() if _was_in_hand(Event(one), held)}

    def left(self) -> Iterator[Event]:
        """Yield the deliveries of the messages that are ready again."""
        yield from map(Event, self._ready.values())


def _was_in_hand(delivery: Event, held: _Held) -> bool:
    """Return whether the code under test had got the message, as far as the broker can know."""
    headers = cast("Message", delivery.message).headers
    if headers is not None and eta_of(headers.to_python()) is not None:
        return False
    last = held.settled.get(delivery.queue)
    return delivery.kind not in events.PUSHES or last is None or cast("int", delivery.tag) < last
