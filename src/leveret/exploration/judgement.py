"""The judgement that needs no assert of a scenario: what the broker confirmed is still there, or accounted for.

Accounted for is what was acknowledged, dead-lettered, expired, purged, gone with its queue, or dropped by a rule of its
queue. Not accounted for is what a fault swallowed, or a restart because it was not persistent. Judged from the trace of
a run that has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

from leveret.trace import events
from leveret.trace.events import Event, preview

if TYPE_CHECKING:
    from leveret.core.model.message import Message, QueueEntry
    from leveret.core.model.node import Node
    from leveret.exploration.watcher import Confirm
    from leveret.trace.events import RawEvent

# Why a message was dropped though nobody asked for it.
_LOST_BY: Final = {
    "fault": "the fault swallowed it",
    "restart": "the restart took it, as it was not persistent; publish it with delivery_mode=2",
}


def lost_messages(raw_events: Sequence[RawEvent], node: Node, safe: Mapping[int, Event]) -> list[str]:
    """The messages among the `safe` ones that are nowhere; a sentence each."""
    present = set(_present(node))
    waiting: dict[int, Event] = {}
    lost: dict[int, str] = {}
    for raw in raw_events:
        if raw[0] == events.ENQUEUED:
            event = Event(raw)
            waiting[cast("int", event.copy)] = event
        elif raw[0] in events.ENDS:
            event = Event(raw)
            waiting.pop(cast("int", event.copy), None)
            if event.kind == events.DROPPED and event.reason in _LOST_BY:
                lost.setdefault(event.message.id, _LOST_BY[event.reason])
    for copy, event in waiting.items():
        if copy not in present:
            lost.setdefault(event.message.id, f"it was in {event.queue} and is there no more")
    return [_sentence(safe[number], why) for number, why in lost.items() if number in safe]


def persistent_messages(raw_events: Iterable[RawEvent]) -> dict[int, Event]:
    """The persistent messages that the test itself published, by number: it needs no confirm to count on them."""
    published = (Event(raw) for raw in raw_events if raw[0] == events.PUBLISHED)
    own = (event for event in published if event.conn is None)
    return {event.message.id: event for event in own if cast("Message", event.message).is_persistent}


def confirmed_messages(raw_events: Iterable[RawEvent], untold: Sequence[Confirm] = ()) -> dict[int, Event]:
    """What publishers were told is safe, by number; `untold` are confirms that they never got."""
    told = (Event(raw) for raw in raw_events if raw[0] == events.CONFIRMED)
    return {event.message.id: event for event in told if not any(_covers(confirm, event) for confirm in untold)}


def _covers(confirm: Confirm, event: Event) -> bool:
    connection, channel, tag, is_multiple = confirm
    if (connection, channel) != (event.conn, event.chan):
        return False
    return event.tag == tag or (is_multiple and event.multiple and cast("int", event.tag) <= tag)


def _present(node: Node) -> Iterable[int]:
    """The copies that are in a queue now."""
    for vhost in node.vhosts.values():
        for queue in vhost.queues.values():
            yield from (entry.copy for entry in queue.ready)
            held = queue.unacked.values() if isinstance(queue.unacked, dict) else queue.unacked
            yield from (cast("QueueEntry", entry).copy for entry in held)


def _sentence(event: Event, why: str) -> str:
    message = event.message
    promise = "was confirmed" if event.kind == events.CONFIRMED else "was persistent"
    to = message.exchange or "the default exchange"
    return f"{preview(message.body)}, published to {to} with key {message.routing_key!r}, {promise} and is lost: {why}"
