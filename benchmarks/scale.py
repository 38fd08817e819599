"""What size costs: the core's speed beside many bindings, queues, consumers, messages and connections, and without.

    python benchmarks/scale.py

Each row is a ratio of CPU times, both sides in turns in this one process: the median of several pairs, and their range.
1 means that size costs nothing. Behind them stand the octets of a waiting message, beside body (1 kB) and header,
and of one more copy of it, and what a full garbage collection takes beside a million waiting messages.
"""

from __future__ import annotations

import gc
import statistics
import time
import tracemalloc
from collections.abc import Callable

from core import BATCH, BODY, frames, log_in, open_connection
from pamqp import body, commands, header

from leveret.protocol.connection import Connection

PAIRS = 9
ROUNDS = 60
Work = Callable[[], None]


def publish(exchange: str, key: str) -> bytes:
    """One publish of 1 kB as octets."""
    method = commands.Basic.Publish(exchange=exchange, routing_key=key)
    content = header.ContentHeader(0, len(BODY), commands.Basic.Properties(delivery_mode=2))
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
    """Publishing to a queue with one consumer that has room, beside those that hold what their prefetch allows."""
    connection = open_connection()
    say(connection, commands.Basic.Qos(prefetch_count=1))
    for number in range(full_count):
        say(connection, commands.Basic.Consume(queue="q", consumer_tag=f"full{number}"))
        connection.receive_data(publish("", "q"))
    say(connection, commands.Basic.Qos(prefetch_count=0))
    say(connection, commands.Basic.Consume(queue="q", consumer_tag="free"))
    return repeated(connection, publish("", "q") * BATCH)


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


def ratio(small: Work, large: Work) -> list[float]:
    """How fast the large one is beside the small one, pair by pair."""
    for work in (small, large):
        work()
    return sorted(cpu_seconds(small) / cpu_seconds(large) for _ in range(PAIRS))


def cpu_seconds(work: Work) -> float:
    """What it takes."""
    started = time.process_time()
    work()
    return time.process_time() - started


def memory() -> tuple[float, float]:
    """Octets of a waiting message beside its body, and of one more copy."""
    return octets_a_message(1) - len(BODY), (octets_a_message(5) - octets_a_message(1)) / 4


def octets_a_message(copy_count: int, count: int = 50_000) -> float:
    """Octets that a message takes in so many queues."""
    connection = open_connection()
    for number in range(copy_count):
        say(connection, commands.Queue.Declare(queue=f"f{number}", durable=True))
        say(connection, commands.Queue.Bind(queue=f"f{number}", exchange="amq.fanout"))
    octets = publish("amq.fanout", "") * BATCH
    connection.receive_data(octets)
    gc.collect()
    tracemalloc.start()
    for _ in range(0, count, BATCH):
        connection.receive_data(octets)
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / count


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
        ratios = ratio(make(few), make(many))
        print(f"{statistics.median(ratios):6.2f}  ({ratios[0]:.2f} to {ratios[-1]:.2f})  {name}")
    message, copy = memory()
    print(f"{message:6.0f}  octets of a waiting message, beside header and body")
    print(f"{copy:6.0f}  octets of a further copy")
    print(f"{collection_ms():6.0f}  ms of CPU for a full collection beside a million waiting messages")


if __name__ == "__main__":
    main()
