"""What one client waits for while others keep the broker busy, in leveret and in RabbitMQ. It is printed, not asserted.

    python benchmarks/fairness.py [--rabbitmq amqp://localhost:5672/] [--seconds 3] [--rounds 3]

The broker runs in this process and records to the ring, as in tests. Floods are threads of this process that send
publishes of 10 bytes, prebuilt and without confirms, into a queue that keeps 1,000 messages. With 0, 1 and 4 floods, a
pika client publishes with confirms and gets the message, one after the other.

fan: seven queues with a TTL of 0 dead-letter to the fanout exchange they are bound to, and one message is published.
chain: a message goes through 200 queues with a TTL of 0. Meanwhile another client declares a queue passively, again and
again.

Each round measures both brokers, in turn. A figure is the median of the rounds, in milliseconds.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import struct
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import pika
from pika.adapters.blocking_connection import BlockingChannel
from servers import Server

from leveret import Broker

FLOODS = (0, 1, 4)
FAN = 7
CHAIN = 200
NAME = f"fairness-{os.getpid()}"
BATCH = 500
# Time for a flood to fill the buffers between it and the broker.
SETTLE_S = 0.5

now = time.perf_counter
Figures = dict[str, float]


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def short(text: str) -> bytes:
    return bytes((len(text),)) + text.encode()


def method(channel: int, ids: tuple[int, int], arguments: bytes) -> bytes:
    return frame(1, channel, struct.pack(">HH", *ids) + arguments)


def opening(server: Server) -> bytes:
    """Return everything a client sends until channel 1 is open."""
    response = b"\0guest\0guest"
    start = struct.pack(">I", 0) + short("PLAIN") + struct.pack(">I", len(response)) + response + short("en_US")
    return (
        b"AMQP\0\0\x09\x01"
        + method(0, (10, 11), start)
        + method(0, (10, 31), struct.pack(">HIH", 2047, 131072, 0))
        + method(0, (10, 40), short(server.vhost) + b"\0\0")
        + method(1, (20, 10), b"\0")
    )


def publish(key: str) -> bytes:
    body = b"x" * 10
    header = frame(2, 1, struct.pack(">HHQH", 60, 0, len(body), 0))
    return method(1, (60, 40), b"\0\0\0" + short(key) + b"\0") + header + frame(3, 1, body)


@contextmanager
def floods(server: Server, count: int) -> Iterator[None]:
    """Publish as fast as the broker takes it, on `count` connections."""
    is_over = threading.Event()

    def flood() -> None:
        batch = publish(NAME) * BATCH
        with socket.create_connection((server.host, server.port)) as peer:
            peer.sendall(opening(server))
            while not is_over.is_set():
                peer.sendall(batch)

    threads = [threading.Thread(target=flood) for _ in range(count)]
    for thread in threads:
        thread.start()
    time.sleep(SETTLE_S)
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


@contextmanager
def channel_of(server: Server) -> Iterator[BlockingChannel]:
    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        yield connection.channel()


def timed(act: Callable[[], object]) -> float:
    """Return the milliseconds that a call takes."""
    started = now()
    act()
    return (now() - started) * 1000


def percentile(figures: list[float], share: float) -> float:
    return sorted(figures)[min(len(figures) - 1, int(len(figures) * share))]


def beside_floods(server: Server, count: int, seconds: float) -> Figures:
    """Return what a confirmed publish and a get take beside floods."""
    own = f"{NAME}-own"
    with channel_of(server) as channel:
        channel.queue_declare(NAME, durable=True, arguments={"x-max-length": 1000})
        channel.queue_declare(own, durable=True)
        channel.confirm_delivery()
        publishes, gets = [], []
        with floods(server, count):
            end = now() + seconds
            while now() < end:
                publishes.append(timed(lambda: channel.basic_publish("", own, b"1")))
                gets.append(timed(lambda: channel.basic_get(own, auto_ack=True)))
        for name in (NAME, own):
            channel.queue_delete(name)
    return {
        f"{count} floods, {name} p{round(share * 100)}": percentile(figures, share)
        for name, figures in (("publish", publishes), ("get", gets))
        for share in (0.5, 0.99)
    }


@contextmanager
def witnessed(server: Server, waits: list[float]) -> Iterator[None]:
    """Add to `waits` the milliseconds of each request of another client, until the block ends."""
    is_over = threading.Event()
    with channel_of(server) as channel:
        channel.queue_declare(f"{NAME}-own", durable=True)

        def ask() -> None:
            while not is_over.is_set():
                waits.append(timed(lambda: channel.queue_declare(f"{NAME}-own", passive=True)))

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
            channel.queue_delete(f"{NAME}-own")


def beside_cascade(server: Server, kind: str, seconds: float) -> Figures:
    """Return what another client waits for while one publish makes a cascade of dead letters."""
    waits: list[float] = []
    with channel_of(server) as channel:
        names = fan(channel) if kind == "fan" else chain(channel)
        with witnessed(server, waits):
            time.sleep(SETTLE_S)
            waits.clear()
            channel.basic_publish(NAME if kind == "fan" else "", names[0], b"1")
            time.sleep(seconds)
        for name in names:
            channel.queue_delete(name)
        channel.exchange_delete(NAME)
    return {
        f"{kind}, others {name}": figure for name, figure in (("p99", percentile(waits, 0.99)), ("max", max(waits)))
    }


def fan(channel: BlockingChannel) -> list[str]:
    channel.exchange_declare(NAME, "fanout", durable=True)
    names = [f"{NAME}-{number}" for number in range(FAN)]
    for name in names:
        channel.queue_declare(name, durable=True, arguments={"x-message-ttl": 0, "x-dead-letter-exchange": NAME})
        channel.queue_bind(name, NAME)
    return names


def chain(channel: BlockingChannel) -> list[str]:
    names = [f"{NAME}-{number}" for number in range(CHAIN + 1)]
    for name, later in pairwise(names):
        arguments = {"x-message-ttl": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": later}
        channel.queue_declare(name, durable=True, arguments=arguments)
    channel.queue_declare(names[-1], durable=True)
    return names


def measured(server: Server, seconds: float) -> Figures:
    figures: Figures = {}
    for count in FLOODS:
        figures |= beside_floods(server, count, seconds)
    for kind in ("fan", "chain"):
        figures |= beside_cascade(server, kind, seconds)
    return figures


def in_process(seconds: float) -> Figures:
    with Broker(checks="off") as broker:
        return measured(Server(broker.url), seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rabbitmq", help="the URL of a RabbitMQ to compare with")
    parser.add_argument("--seconds", type=float, default=3, help="the seconds of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    brokers = {"leveret": lambda: in_process(options.seconds)}
    if options.rabbitmq is not None:
        brokers["RabbitMQ"] = lambda: measured(Server(options.rabbitmq), options.seconds)
    rounds: dict[str, list[Figures]] = {name: [] for name in brokers}
    for _ in range(options.rounds):
        for name, measure in brokers.items():
            rounds[name].append(measure())
    print(f"{'milliseconds':26}" + "".join(f"{name:>10}" for name in brokers))
    for row in next(iter(rounds.values()))[0]:
        medians = [statistics.median(figures[row] for figures in rounds[name]) for name in brokers]
        print(f"{row:26}" + "".join(f"{median:10.2f}" for median in medians))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
