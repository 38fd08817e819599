"""The timeline agrees with the broker on what is ready, who holds what, who consumes, and what is bound."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from leveret.core.model.node import Node
from leveret.core.model.queues.queue import Queue
from leveret.core.model.queues.quorum import QuorumQueue
from leveret.core.protocol.connection import Connection
from leveret.page.readings.reading import OwnNumbers
from leveret.story.timeline import Timeline
from leveret.trace.events import RawEvent
from leveret.trace.recorded_rows import raw_events
from leveret.trace.redaction import Redaction
from leveret.trace.rows import Rows
from tests.story.conversations import Conversation, conversation


@pytest.mark.parametrize("seed", range(0, 200, 20))
def test_a_timeline_agrees_with_the_broker_after_random_traffic(seed: int) -> None:
    assert {number: found for number in range(seed, seed + 20) if (found := differences(number))} == {}


@pytest.mark.parametrize(
    "seed",
    [
        # A message came into an exclusive queue that had been deleted.
        283,
        # A commit was refused, and what it held before went into a deleted queue.
        570,
    ],
)
def test_what_goes_into_a_deleted_queue_is_in_none_that_is_declared_anew(seed: int) -> None:
    assert differences(seed) == []


def differences(seed: int) -> list[str]:
    """Return in what the timeline differs from the broker after a conversation, or from that of its trace file."""
    talk = Conversation(seed)
    talk.run(conversation(seed))
    shown, own = seen_by_timeline(talk.timeline), seen_by_broker(talk.server.node, talk.connections)
    of_file = seen_by_timeline(Timeline(raw_events(rows_of(talk.server.trace))))
    found = []
    for name in shown:
        for who, other in (("broker", own[name]), ("file", of_file[name])):
            less, more = (
                {*map(repr, one)} - {*map(repr, two)} for one, two in ((other, shown[name]), (shown[name], other))
            )
            found += (
                [f"{name}: only the timeline {sorted(more)}, only the {who} {sorted(less)}"] if less or more else []
            )
    return found


def rows_of(trace: list[RawEvent]) -> Iterator[dict[str, object]]:
    """Yield the rows of a trace file, with the numbers of the broker."""
    rows = Rows(OwnNumbers(), Redaction(), keeps_bodies=True)
    for raw in trace:
        row, attrs = rows.columns_and_attrs(raw)
        yield {**row, "attrs": attrs}


def seen_by_timeline(timeline: Timeline) -> dict[str, list[object]]:
    queues = timeline.queues
    held = [
        (delivery.copy.number, connection.number, delivery.channel.number, delivery.fact.tag)
        for connection in timeline.connections.values()
        for channel in connection.channels.values()
        for delivery in channel.held.values()
        if delivery.channel is not None and delivery.copy.queue.deleted is None
    ]
    return {
        "ready": [(place, sorted(queue.ready)) for place, queue in queues.items()],
        "unacked": [(place, sorted(queue.unacked)) for place, queue in queues.items()],
        "held": sorted(held),
        "consumers": [
            (
                place,
                sorted((one.channel.connection.number, one.channel.number, one.tag) for one in queue.living_consumers),
            )
            for place, queue in queues.items()
        ],
        "bindings": sorted(
            (*one.source, one.destination_kind, one.destination[1], one.routing_key)
            for one in timeline.bindings
            if one.until is None
        ),
    }


def seen_by_broker(node: Node, connections: list[Connection]) -> dict[str, list[object]]:
    queues = {(vhost.name, queue.name): queue for vhost in node.vhosts.values() for queue in vhost.queues.values()}
    exchanges = [exchange for vhost in node.vhosts.values() for exchange in vhost.exchanges.values()]
    held = [
        (delivery.entry.copy, connection.number, channel.number, delivery.tag)
        for connection in connections
        for channel in connection.channels.values()
        for delivery in [*channel.unacked.values(), *(channel.transaction.deliveries if channel.transaction else ())]
        if not delivery.queue.is_deleted
    ]
    return {
        "ready": [
            (
                place,
                sorted(
                    [
                        *(entry.copy for entry in queue.ready),
                        *(queue.delayed if isinstance(queue, QuorumQueue) else ()),
                    ]
                ),
            )
            for place, queue in queues.items()
        ],
        # A stream keeps what it hands out.
        "unacked": [
            (place, sorted(queue.unacked) if isinstance(queue, Queue) else []) for place, queue in queues.items()
        ],
        "held": sorted(held),
        "consumers": [
            (place, sorted((*one.subscriber.origin, one.tag) for one in queue.consumers))
            for place, queue in queues.items()
        ],
        "bindings": sorted(
            ("/", one.source_name, one.destination_kind, one.destination.name, one.routing_key)
            for exchange in exchanges
            for one in exchange.bindings.values()
        ),
    }
