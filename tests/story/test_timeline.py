"""The timeline agrees with the broker on what is ready, who holds what, who consumes, and what is bound."""

from __future__ import annotations

import pytest

from leveret.core.model.node import Node
from leveret.core.model.queues.queue import Queue
from leveret.core.model.queues.quorum import QuorumQueue
from leveret.core.protocol.connection import Connection
from leveret.story.timeline import Timeline
from tests.properties.programs import Interpreter, random_program
from tests.protocol.peer import Server


@pytest.mark.parametrize("seed", range(0, 200, 20))
def test_a_timeline_agrees_with_the_broker_after_random_traffic(seed: int) -> None:
    for number in range(seed, seed + 20):
        print("seed", number)
        server = Server()
        interpreter = Interpreter(server)
        timeline = Timeline()
        taken = 0
        for step in random_program(number, 120):
            interpreter.run([step])
            timeline.take(server.trace[taken:])
            taken = len(server.trace)
        connections = [client.peer.connection for client in interpreter.clients]
        assert seen_by_timeline(timeline) == seen_by_broker(server.node, connections)


def seen_by_timeline(timeline: Timeline) -> dict[str, object]:
    queues = timeline.queues
    held = [
        (delivery.copy.number, connection.number, delivery.channel.number, delivery.fact.tag)
        for connection in timeline.connections.values()
        for channel in connection.channels.values()
        for delivery in channel.held.values()
        if delivery.channel is not None and delivery.copy.queue.deleted is None
    ]
    return {
        "ready": {place: sorted(queue.ready) for place, queue in queues.items()},
        "unacked": {place: sorted(queue.unacked) for place, queue in queues.items()},
        "held": sorted(held),
        "consumers": {
            place: sorted(
                (one.channel.connection.number, one.channel.number, one.tag) for one in queue.living_consumers
            )
            for place, queue in queues.items()
        },
        "bindings": sorted(
            (*one.source, one.destination_kind, one.destination[1], one.routing_key)
            for one in timeline.bindings
            if one.until is None
        ),
    }


def seen_by_broker(node: Node, connections: list[Connection]) -> dict[str, object]:
    queues = {(vhost.name, queue.name): queue for vhost in node.vhosts.values() for queue in vhost.queues.values()}
    own = {place: queue for place, queue in queues.items() if isinstance(queue, Queue)}
    exchanges = [exchange for vhost in node.vhosts.values() for exchange in vhost.exchanges.values()]
    held = [
        (delivery.entry.copy, connection.number, channel.number, delivery.tag)
        for connection in connections
        for channel in connection.channels.values()
        for delivery in [*channel.unacked.values(), *(channel.transaction.deliveries if channel.transaction else ())]
        if not delivery.queue.is_deleted
    ]
    return {
        "ready": {
            place: sorted(
                [
                    *(entry.copy for entry in queue.ready),
                    *(queue.delayed if isinstance(queue, QuorumQueue) else ()),
                ]
            )
            for place, queue in own.items()
        },
        "unacked": {place: sorted(queue.unacked) for place, queue in own.items()},
        "held": sorted(held),
        "consumers": {
            place: sorted((*one.subscriber.origin, one.tag) for one in queue.consumers) for place, queue in own.items()
        },
        "bindings": sorted(
            ("/", one.source_name, one.destination_kind, one.destination.name, one.routing_key)
            for exchange in exchanges
            for one in exchange.bindings.values()
        ),
    }
