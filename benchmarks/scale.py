"""The cost of size: the core's speed with many bindings, queues, consumers, messages and connections, and without.

    python benchmarks/scale.py

Each row is a ratio of CPU times: the median of several pairs, and their range. 1 means that size costs nothing. Both
sides take turns, each in a separate process, so that a garbage collector does not visit the other side's objects.
Further rows show the bytes of a waiting message besides its body (1 kB), of one more copy of it, and of a message with
unique properties, and the time of a full garbage collection with a million waiting messages.
"""

from __future__ import annotations

import gc
import multiprocessing
import statistics
import time
import tracemalloc
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe

from core import BATCH, BODY, frames, log_in, open_connection
from pamqp import body, commands, header

from leveret.core.protocol.connection import Connection

PAIRS = 9
ROUNDS = 60
Work = Callable[[], None]


def publish(exchange: str, key: str, **properties: str | None) -> bytes:
    """Return the frames of one publish of 1 kB."""
    method = commands.Basic.Publish(exchange=exchange, routing_key=key)
    content = header.ContentHeader(0, len(BODY), commands.Basic.Properties(delivery_mode=2, **properties))
    return frames(1, method, content, body.ContentBody(BODY))


def say(connection: Connection, *methods: object) -> None:
    """Send bytes as the client, and return the reply."""
    connection.receive_data(frames(1, *methods))  # type: ignore[arg-type]
    connection.data_to_send()


def topic(binding_count: int) -> Work:
    """Publish to a topic exchange with a consumer, each key in turn."""
    connection = open_connection()
    say(connection, commands.Queue.Bind(queue="q", exchange="amq.topic", routing_key="a.*.c"))
    for number in range(binding_count):
        key = f"x{number % 100}.*.y{number}.#"
        say(connection, commands.Queue.Bind(queue="q", exchange="amq.topic", routing_key=key))
    say(connection, commands.Basic.Consume(queue="q", no_ack=True))
    octets = b"".join(publish("amq.topic", f"a.{number}.c") for number in range(BATCH))
    return repeated(connection, octets)


def queues(queue_count: int) -> Work:
    """Publish to the queues in turn, at most as many as a batch has messages; both sides have these queues."""
    connection = open_connection()
    for number in range(max(queue_count, BATCH)):
        say(connection, commands.Queue.Declare(queue=f"q{number}", durable=True))
    step = max(queue_count // BATCH, 1)
    names = [f"q{number * step}" for number in range(BATCH)]
    for name in names:
        say(connection, commands.Basic.Consume(queue=name, no_ack=True))
    return repeated(connection, b"".join(publish("", name) for name in names))


def consumers(full_count: int) -> Work:
    """Publish to a queue with one consumer that acknowledges, and others whose prefetch is full."""
    connection = open_connection()
    connection.receive_data(frames(2, commands.Channel.Open(), commands.Basic.Qos(prefetch_count=1)))
    for number in range(full_count):
        connection.receive_data(frames(2, commands.Basic.Consume(queue="q", consumer_tag=f"full{number}")))
        connection.receive_data(publish("", "q"))
    say(connection, commands.Basic.Consume(queue="q", consumer_tag="free"))
    return repeated(connection, publish("", "q") * BATCH + frames(1, commands.Basic.Ack(0, multiple=True)))


def backlog(waiting_count: int) -> Work:
    """Publish and get, with a backlog of messages in between."""
    connection = open_connection()
    octets = publish("", "q") * BATCH
    for _ in range(0, waiting_count, BATCH):
        connection.receive_data(octets)
        connection.data_to_send()
    fetch = frames(1, commands.Basic.Get(queue="q", no_ack=True)) * BATCH
    return repeated(connection, octets + fetch)


def idle_connections(count: int) -> Work:
    """Publish to a consumer in a node that has many other connections."""
    connection = open_connection()
    for number in range(count):
        log_in(connection.node, number + 2)
    say(connection, commands.Basic.Consume(queue="q", no_ack=True))
    return repeated(connection, publish("", "q") * BATCH)


def repeated(connection: Connection, octets: bytes) -> Work:
    """Send the same bytes repeatedly, as the loop does: with time passing, and deadlines read."""
    node = connection.node

    def work() -> None:
        for _ in range(ROUNDS):
            node.advance(node.now + 1, node.wall_now + 1)
            connection.receive_data(octets)
            connection.data_to_send()
            node.next_deadline()
            node.next_liveness_deadline()
        assert not node.internal_errors

    return work


class Side:
    """One side of a row: a process that works on request, and reports the time."""

    def __init__(self, make: Callable[[int], Work], size: int) -> None:
        context = multiprocessing.get_context("fork")
        self._pipe, its_end = context.Pipe()
        self._process = context.Process(target=self._work, args=(its_end, make, size))
        self._process.start()
        self.cpu_seconds()

    def cpu_seconds(self) -> float:
        """Return the time that its work takes now."""
        self._pipe.send(True)
        taken = self._pipe.recv()
        assert isinstance(taken, float)
        return taken

    def end(self) -> None:
        """End the process."""
        self._pipe.send(False)
        self._process.join()

    @staticmethod
    def _work(pipe: Pipe, make: Callable[[int], Work], size: int) -> None:
        work = make(size)
        while pipe.recv():
            pipe.send(cpu_seconds(work))


def ratios(make: Callable[[int], Work], few: int, many: int) -> list[float]:
    """Return the speed of the large side relative to the small one, pair by pair, the slowest first."""
    small, large = Side(make, few), Side(make, many)
    found = sorted(small.cpu_seconds() / large.cpu_seconds() for _ in range(PAIRS))
    small.end()
    large.end()
    return found


def cpu_seconds(work: Work) -> float:
    """Return the CPU time of the work."""
    started = time.process_time()
    work()
    return time.process_time() - started


def octets_a_message(copy_count: int, *, is_alike: bool = True, count: int = 20_000) -> float:
    """Return the bytes of a message in `queues` queues besides its body, with shared or unique properties."""
    connection = open_connection()
    for number in range(copy_count):
        say(connection, commands.Queue.Declare(queue=f"f{number}", durable=True))
        say(connection, commands.Queue.Bind(queue=f"f{number}", exchange="amq.fanout"))
    connection.receive_data(publish("amq.fanout", "") * BATCH)
    gc.collect()
    tracemalloc.start()
    for number in range(count):
        connection.receive_data(publish("amq.fanout", "", message_id=None if is_alike else f"{number:032}"))
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / count - len(BODY)


def collection_ms() -> float:
    """Return the CPU milliseconds that a million waiting messages add to a full garbage collection."""
    gc.collect()
    before = cpu_seconds(collect)
    work = backlog(1_000_000)
    gc.collect()
    after = cpu_seconds(collect)
    del work
    return (after - before) * 1000


def collect() -> None:
    """Run a full garbage collection."""
    gc.collect()


def main() -> None:
    """Measure, and print the table."""
    rows: tuple[tuple[str, Callable[[int], Work], int, int], ...] = (
        ("10,000 topic bindings", topic, 0, 10_000),
        ("5,000 queues", queues, 0, 5_000),
        ("1,000 consumers, 999 of them full", consumers, 0, 999),
        ("a backlog of 1,000,000 messages", backlog, 0, 1_000_000),
        ("1,000 idle connections", idle_connections, 0, 1_000),
    )
    for name, make, few, many in rows:
        found = ratios(make, few, many)
        print(f"{statistics.median(found):6.2f}  ({found[0]:.2f} to {found[-1]:.2f})  {name}", flush=True)
    alone = octets_a_message(1)
    print(f"{alone:6.0f}  bytes of a waiting message, besides its body")
    print(f"{(octets_a_message(5) - alone) / 4:6.0f}  bytes of a further copy")
    print(f"{octets_a_message(1, is_alike=False):6.0f}  bytes of a waiting message with a message-id, besides its body")
    print(f"{collection_ms():6.0f}  ms of CPU for a full collection with a million waiting messages")


if __name__ == "__main__":
    main()
