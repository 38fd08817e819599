"""What size costs: the core's speed beside many bindings, queues, consumers, messages and connections, and without.

    python benchmarks/scale.py

Each row is a ratio of CPU times: the median of several pairs, and their range. 1 means that size costs nothing. Both
sides take turns, each in a process of its own, so that neither's garbage collector walks what the other holds. Below
stand the octets of a waiting message, beside its body (1 kB), of one more copy of it, and of one that shares its
properties with no other, and what a full garbage collection takes beside a million waiting messages.
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
    """One publish of 1 kB as octets."""
    method = commands.Basic.Publish(exchange=exchange, routing_key=key)
    content = header.ContentHeader(0, len(BODY), commands.Basic.Properties(delivery_mode=2, **properties))
    return frames(1, method, content, body.ContentBody(BODY))


def say(connection: Connection, *methods: object) -> None:
    """Let the client say something, and take the answer."""
    connection.receive_data(frames(1, *methods))  # type: ignore[arg-type]
    connection.data_to_send()


def topic(binding_count: int) -> Work:
    """Publishing to a topic exchange, each key in turn, to a consumer."""
    connection = open_connection()
    say(connection, commands.Queue.Bind(queue="q", exchange="amq.topic", routing_key="a.*.c"))
    for number in range(binding_count):
        key = f"x{number % 100}.*.y{number}.#"
        say(connection, commands.Queue.Bind(queue="q", exchange="amq.topic", routing_key=key))
    say(connection, commands.Basic.Consume(queue="q", no_ack=True))
    octets = b"".join(publish("amq.topic", f"a.{number}.c") for number in range(BATCH))
    return repeated(connection, octets)


def queues(queue_count: int) -> Work:
    """Publishing to as many queues in turn as there are, up to the batch: those are there on both sides."""
    connection = open_connection()
    for number in range(max(queue_count, BATCH)):
        say(connection, commands.Queue.Declare(queue=f"q{number}", durable=True))
    step = max(queue_count // BATCH, 1)
    names = [f"q{number * step}" for number in range(BATCH)]
    for name in names:
        say(connection, commands.Basic.Consume(queue=name, no_ack=True))
    return repeated(connection, b"".join(publish("", name) for name in names))


def consumers(full_count: int) -> Work:
    """Publishing to a queue with one consumer that acknowledges, beside those that hold what their prefetch allows."""
    connection = open_connection()
    connection.receive_data(frames(2, commands.Channel.Open(), commands.Basic.Qos(prefetch_count=1)))
    for number in range(full_count):
        connection.receive_data(frames(2, commands.Basic.Consume(queue="q", consumer_tag=f"full{number}")))
        connection.receive_data(publish("", "q"))
    say(connection, commands.Basic.Consume(queue="q", consumer_tag="free"))
    return repeated(connection, publish("", "q") * BATCH + frames(1, commands.Basic.Ack(0, multiple=True)))


def backlog(waiting_count: int) -> Work:
    """Publishing and fetching, with so many messages in between."""
    connection = open_connection()
    octets = publish("", "q") * BATCH
    for _ in range(0, waiting_count, BATCH):
        connection.receive_data(octets)
        connection.data_to_send()
    fetch = frames(1, commands.Basic.Get(queue="q", no_ack=True)) * BATCH
    return repeated(connection, octets + fetch)


def idle_connections(count: int) -> Work:
    """Publishing to a consumer in a node that has so many other connections."""
    connection = open_connection()
    for number in range(count):
        log_in(connection.node, number + 2)
    say(connection, commands.Basic.Consume(queue="q", no_ack=True))
    return repeated(connection, publish("", "q") * BATCH)


def repeated(connection: Connection, octets: bytes) -> Work:
    """Say the same again and again, as the loop hands it over: with time passing, and deadlines asked for."""
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
    """One side of a row: a process that works whenever it is told to, and says what that took."""

    def __init__(self, make: Callable[[int], Work], size: int) -> None:
        context = multiprocessing.get_context("fork")
        self._pipe, its_end = context.Pipe()
        self._process = context.Process(target=self._work, args=(its_end, make, size))
        self._process.start()
        self.cpu_seconds()

    def cpu_seconds(self) -> float:
        """What its work takes now."""
        self._pipe.send(True)
        taken = self._pipe.recv()
        assert isinstance(taken, float)
        return taken

    def end(self) -> None:
        """Let the process go."""
        self._pipe.send(False)
        self._process.join()

    @staticmethod
    def _work(pipe: Pipe, make: Callable[[int], Work], size: int) -> None:
        work = make(size)
        while pipe.recv():
            pipe.send(cpu_seconds(work))


def ratios(make: Callable[[int], Work], few: int, many: int) -> list[float]:
    """How fast the large one is beside the small one, pair by pair, the slowest first."""
    small, large = Side(make, few), Side(make, many)
    found = sorted(small.cpu_seconds() / large.cpu_seconds() for _ in range(PAIRS))
    small.end()
    large.end()
    return found


def cpu_seconds(work: Work) -> float:
    """What it takes."""
    started = time.process_time()
    work()
    return time.process_time() - started


def octets_a_message(copy_count: int, *, is_alike: bool = True, count: int = 20_000) -> float:
    """Octets that a message takes in so many queues, beside its body, with the properties of all others or its own."""
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
    """CPU milliseconds of a full collection beside a million waiting messages, without those beside none."""
    gc.collect()
    before = cpu_seconds(collect)
    work = backlog(1_000_000)
    gc.collect()
    after = cpu_seconds(collect)
    del work
    return (after - before) * 1000


def collect() -> None:
    """Collect everything."""
    gc.collect()


def main() -> None:
    """Print the table."""
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
    print(f"{alone:6.0f}  octets of a waiting message, beside its body")
    print(f"{(octets_a_message(5) - alone) / 4:6.0f}  octets of a further copy")
    print(f"{octets_a_message(1, is_alike=False):6.0f}  octets of a waiting message with a message-id, beside its body")
    print(f"{collection_ms():6.0f}  ms of CPU for a full collection beside a million waiting messages")


if __name__ == "__main__":
    main()
