"""The cost of recording for a test with pika, with nothing recorded, the ring, and a trace file in turns.

Run it as `python benchmarks/recording.py`. Each round publishes, consumes and acknowledges messages with pika against a
broker in the same process, once for each level. The clock stops when the trace file is closed and compressed. Times are
CPU times of the process, so other work on the machine does not count. The program prints the cost of each level
relative to `off` in the same round, as median and range, and then the time to write an event and its size in bytes.
"""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import statistics
import sys
import tempfile
import time
import zlib
from dataclasses import dataclass
from typing import Any

import pika

from leveret import Broker
from leveret.trace.jsonl import TraceReader
from leveret.trace.lines import Lines
from leveret.trace.redaction import Redaction
from leveret.trace.rows import FileNumbering
from leveret.trace.run import close_files

ROUNDS = 15
MESSAGES = 3000
LEVELS = ("off", "recent", "full")


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    for name, confirms in (("publish, consume, ack", False), ("the same with confirms", True)):
        print(f"{name}: {MESSAGES} messages, {rounds} rounds")
        compare(rounds, confirms=confirms)
    cost_of_an_event()
    cost_of_a_collection()


@dataclass(frozen=True)
class Ratios:
    """The throughput of each level relative to `off`, a figure for each round."""

    throughput: dict[str, list[float]]
    cpu: dict[str, list[float]]
    # The messages a second without recording.
    rate: list[float]


def compare(rounds: int, *, confirms: bool) -> None:
    """Measure, and print the figures."""
    found = ratios(rounds, confirms=confirms)
    print(f"  off   {statistics.median(found.rate):8.0f} messages/s")
    for level in LEVELS[1:]:
        print(f"  {level}  {told(found.throughput[level])} of that throughput; CPU {told(found.cpu[level])}")


def ratios(rounds: int, *, confirms: bool) -> Ratios:
    """Measure all levels in turns."""
    for level in LEVELS:
        measure(level, confirms=confirms)
    found = Ratios({level: [] for level in LEVELS}, {level: [] for level in LEVELS}, [])
    for number in range(rounds):
        # Each level comes first in turn, so that none is at a disadvantage.
        order = LEVELS[number % 3 :] + LEVELS[: number % 3]
        took = {level: measure(level, confirms=confirms) for level in order}
        found.rate.append(MESSAGES / took["off"][1])
        for level in LEVELS:
            found.cpu[level].append(took["off"][0] / took[level][0])
            found.throughput[level].append(took["off"][1] / took[level][1])
    return found


def told(ratios: list[float]) -> str:
    quartiles = statistics.quantiles(ratios, n=4)
    return f"{statistics.median(ratios):.3f} ({quartiles[0]:.3f} to {quartiles[2]:.3f})"


def measure(level: str, *, confirms: bool) -> tuple[float, float]:
    """Return the CPU seconds and the wall seconds of one run."""
    directory = tempfile.mkdtemp()
    gc.collect()
    options: dict[str, Any] = {"record": "off" if level == "off" else "recent"}
    if level == "full":
        options["trace_dir"] = directory
    broker = Broker(**options, checks="unroutable=off").start()
    parameters = pika.URLParameters(broker.url)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.queue_declare("orders", durable=True)
        if confirms:
            channel.confirm_delivery()
        broker.sync()
        cpu, start = time.process_time(), time.perf_counter()
        work(channel)
        broker.sync()
        close_files()
        took = time.process_time() - cpu, time.perf_counter() - start
    # The rest is not recording: strict checks read the record.
    broker.stop()
    shutil.rmtree(directory)
    return took


def work(channel: pika.adapters.blocking_connection.BlockingChannel) -> None:
    channel.basic_qos(prefetch_count=100)
    properties = pika.BasicProperties(content_type="application/json", delivery_mode=2)
    for number in range(MESSAGES):
        channel.basic_publish("", "orders", b'{"order": %d, "items": ["book", "pen"]}' % number, properties)
    for number, (method, _, _) in enumerate(channel.consume("orders"), start=1):
        channel.basic_ack(method.delivery_tag)
        if number == MESSAGES:
            break
    channel.cancel()


def cost_of_an_event() -> None:
    """Return the time to write a line, the time to compress it, and its size, from a run as above."""
    directory = tempfile.mkdtemp()
    with Broker(checks="unroutable=off", trace_dir=directory) as broker:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            channel.queue_declare("orders", durable=True)
            channel.confirm_delivery()
            work(channel)
        raw_events = broker._engine.recorder.raw()
    (path,) = close_files()
    groups = [(at, list(group)) for at, group in itertools.groupby(raw_events, key=lambda raw: raw[1])]
    del raw_events
    making = []
    for _ in range(7):
        lines = Lines(FileNumbering(0, itertools.count(1).__next__), Redaction(), keeps_bodies=False)
        next_seq = itertools.count(1).__next__
        start = time.thread_time()
        written = [line for at, group in groups for line in lines.write(group, at, next_seq)]
        making.append(time.thread_time() - start)
    text = "".join(written).encode()
    packing = []
    for _ in range(3):
        start = time.thread_time()
        zlib.compress(text, 6)
        packing.append(time.thread_time() - start)
    count = sum(1 for _ in TraceReader(path))
    size = os.path.getsize(path)
    shutil.rmtree(directory)
    print(f"an event: {min(making) / len(written) * 1e6:.2f} us to write, {min(packing) / len(written) * 1e6:.2f} us ")
    print(f"  to compress (least of CPU time), {size / count:.1f} bytes in the file ({count} events)")


def cost_of_a_collection() -> None:
    """Return how much longer a full garbage collection takes with a full ring."""
    with Broker(checks="unroutable=off") as broker:
        broker.declare_queue("orders")
        empty = collection()
        while len(broker.events) < broker.events.size:
            for _ in range(1000):
                broker.publish("", "orders", b"x")
            broker.purge_queue("orders")
        full = collection()
    print(f"a full collection of garbage: {empty * 1e3:.1f} ms, beside a full ring {full * 1e3:.1f} ms")


def collection() -> float:
    times = []
    for _ in range(5):
        start = time.thread_time()
        gc.collect()
        times.append(time.thread_time() - start)
    return min(times)


if __name__ == "__main__":
    main()
