"""Streams for tests, and lists that read them."""

from __future__ import annotations

from leveret.core.model.queues.consumer import Consumer
from leveret.core.model.queues.queue import Queue
from leveret.core.wire.values import Table
from tests.model.world import World, consume, inbox


def stream(world: World, *wanted: bytes, **arguments: object) -> Queue:
    """Declare the stream `s`, with arguments as for `World.queue`, and fill it."""
    queue = world.queue("s", queue_type="stream", **arguments)
    world.fill(queue, *wanted)
    return queue


def read(queue: Queue, offset: object = "first", prefetch_count: int = 100, **arguments: object) -> Consumer:
    """Subscribe at this offset; `filter="a"` stands for the argument x-stream-filter."""
    named = {f"x-stream-{key.replace('_', '-')}": value for key, value in arguments.items()}
    table = Table.from_python({"x-stream-offset": offset, **named})
    return consume(queue, prefetch_count=prefetch_count, arguments=table)


def settle(queue: Queue, consumer: Consumer, count: int = 1) -> None:
    """Acknowledge the oldest deliveries of a consumer that has not acknowledged any."""
    for entry in inbox(consumer)[:count]:
        queue.acknowledge(entry, consumer)
