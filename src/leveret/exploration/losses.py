"""The built-in check for lost messages: a message that the broker confirmed is still in a queue, or accounted for.

A message is accounted for if it was acknowledged, dead-lettered, expired or purged, if its queue was deleted, or if a
limit of its queue dropped it. It is lost if a fault dropped it, or if a restart dropped it because it was not
persistent. The check reads the trace of a run that has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

from leveret.trace import events
from leveret.trace.events import Event, RawEvent, content

if TYPE_CHECKING:
    from leveret.core.model.message import Message, QueueEntry
    from leveret.core.model.node import Node
    from leveret.exploration.watcher import Confirm

# The reasons for which a dropped message counts as lost.
_LOST_BY: Final = {
    "fault": "the fault dropped it",
    "restart": "the restart dropped it because it was not persistent; publish it with delivery_mode=2",
}


def lost_messages(raw_events: Sequence[RawEvent], node: Node, safe: Mapping[int, Event]) -> list[str]:
    """Return a line for each lost message of `safe`, which maps message ids to the events that made them safe."""
    present = set(_present(node))
    waiting: dict[int, Event] = {}
    lost: dict[int, str] = {}
    for raw in raw_events:
        if raw[0] in events.ARRIVALS:
            event = Event(raw)
            waiting[cast("int", event.copy)] = event
        elif raw[0] in events.ENDS:
            event = Event(raw)
            waiting.pop(cast("int", event.copy), None)
            if event.kind == events.DROPPED and event.reason in _LOST_BY:
                lost.setdefault(event.message.id, _LOST_BY[event.reason])
    for copy, event in waiting.items():
        if copy not in present:
            lost.setdefault(event.message.id, f"it was in {event.queue} and is no longer there")
    return [_sentence(safe[number], why) for number, why in lost.items() if number in safe]


def persistent_messages(raw_events: Iterable[RawEvent]) -> dict[int, Event]:
    """Return the persistent messages that the test itself published, by id. They are safe without a confirm."""
    published = (Event(raw) for raw in raw_events if raw[0] == events.PUBLISHED)
    own = (event for event in published if event.conn is None)
    return {event.message.id: event for event in own if cast("Message", event.message).is_persistent}


def confirmed_messages(raw_events: Iterable[RawEvent], undelivered: Sequence[Confirm] = ()) -> dict[int, Event]:
    """Return the confirmed messages, by id, without those whose confirms are `undelivered`."""
    confirmed = (Event(raw) for raw in raw_events if raw[0] == events.CONFIRMED)
    return {
        event.message.id: event for event in confirmed if not any(_covers(confirm, event) for confirm in undelivered)
    }


def _covers(confirm: Confirm, event: Event) -> bool:
    connection, channel, tag, is_multiple = confirm
    if (connection, channel) != (event.conn, event.chan):
        return False
    return event.tag == tag or (is_multiple and event.multiple and cast("int", event.tag) <= tag)


def _present(node: Node) -> Iterable[int]:
    """Yield the copies that are in a queue now, ready or unacked."""
    for vhost in node.vhosts.values():
        for queue in vhost.queues.values():
            yield from (entry.copy for entry in queue.ready)
            held = queue.unacked.values() if isinstance(queue.unacked, dict) else queue.unacked
            yield from (cast("QueueEntry", entry).copy for entry in held)


def _sentence(event: Event, why: str) -> str:
    message = event.message
    promise = "was confirmed" if event.kind == events.CONFIRMED else "was persistent"
    to = message.exchange or "the default exchange"
    return f"{content(message)}, published to {to} with key {message.routing_key!r}, {promise} and is lost: {why}"
