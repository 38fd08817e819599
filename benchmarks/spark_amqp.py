"""The cost of `format("amqp")` compared with pika alone: reading in large batches, and writing with confirms.

Run it as `python benchmarks/spark_amqp.py [URL] [--queue-type quorum] [--prefetch 100000]`, with a RabbitMQ's URL or
without one (`python -m leveret serve`). Both sides of a ratio are measured in turns, in one run; compare figures of the
same run only. The program measures wall time and CPU seconds, of this process, those of Spark, and the broker unless a
URL names one. On a busy machine, use the CPU seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pika
from pyspark.sql import SparkSession

from leveret.pipeline.computing.spark_session import local_session
from leveret.spark import register

MESSAGES = 200_000
BATCH = 50_000
ACK_EVERY = 1_000
PREFETCH_MAX = 65_535
BODY = b"x" * 100
CONFIRMED_SINGLY = 2_000
ROUNDS = 3
IN, OUT = "benchmark.in", "benchmark.out"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", nargs="?", help="a RabbitMQ; without one leveret is started")
    parser.add_argument("--queue-type", choices=("classic", "quorum"), default="classic")
    parser.add_argument("--prefetch", type=int, default=PREFETCH_MAX, help="of the stream; more than 65535 for overlap")
    options = parser.parse_args()
    with broker(options.url) as url, tempfile.TemporaryDirectory() as folder:
        # The profile that a user would choose: the JVM's second compiler pays off here.
        spark = local_session("big")
        register(spark)
        declare(url, options.queue_type)
        # Spark's first queries compile half of Spark, and each new query compiles more.
        for number in range(2):
            fill(url, MESSAGES)
            stream(spark, url, f"{folder}/warm{number}", MESSAGES, options.prefetch)
            write(spark, url, MESSAGES)
            purge(url)
        rounds = [measured(spark, url, f"{folder}/{number}", options.prefetch) for number in range(ROUNDS)]
    for name, ratios in (
        (f"a stream of {BATCH} a batch, to pika that acknowledges {ACK_EVERY} at a time", [r.reading for r in rounds]),
        ("the same without the start of the query", [r.reading_in_batches for r in rounds]),
        (
            f"the same, to pika that acknowledges {BATCH} at a time as well",
            [r.reading_as_late for r in rounds],
        ),
        ("the first by CPU seconds", [r.reading_by_cpu for r in rounds]),
        ("writing, to pika with a confirm each", [r.writing for r in rounds]),
        ("the same by CPU seconds", [r.writing_by_cpu for r in rounds]),
    ):
        print(f"{statistics.median(ratios):6.2f}  ({min(ratios):.2f} to {max(ratios):.2f})  {name}")


@dataclass
class Cost:
    """The cost of messages: their number, their wall seconds and their CPU seconds."""

    messages: int
    wall_s: float
    cpu_s: float

    @property
    def rate(self) -> float:
        return self.messages / self.wall_s

    @property
    def cpu_us(self) -> float:
        """Return the CPU microseconds for each message."""
        return self.cpu_s / self.messages * 1e6

    def __str__(self) -> str:
        return f"{self.rate:8.0f}/s {self.cpu_us:6.1f} us"


@dataclass
class Round:
    """Return how many times as fast, or as cheap, Spark was as pika."""

    reading: float
    reading_in_batches: float
    reading_as_late: float
    reading_by_cpu: float
    writing: float
    writing_by_cpu: float


def measured(spark: SparkSession, url: str, folder: str, prefetch: int) -> Round:
    """Read and write with pika and with Spark, in turns."""
    fill(url, MESSAGES)
    alone = cost(MESSAGES, lambda: consume(url, MESSAGES, ACK_EVERY))
    fill(url, MESSAGES)
    as_late = cost(MESSAGES, lambda: consume(url, MESSAGES, BATCH))
    fill(url, MESSAGES)
    in_batches: list[float] = []
    streamed = cost(MESSAGES, lambda: in_batches.append(MESSAGES / stream(spark, url, folder, MESSAGES, prefetch)))
    print(
        f"read   pika {alone}   pika as late {as_late}   stream {streamed}, in its batches {in_batches[0]:8.0f}/s",
        flush=True,
    )
    singly = cost(CONFIRMED_SINGLY, lambda: confirm_each(url, CONFIRMED_SINGLY))
    purge(url)
    written = cost(MESSAGES, lambda: write(spark, url, MESSAGES))
    purge(url)
    print(f"write  pika {singly}   Spark  {written}", flush=True)
    return Round(
        reading=streamed.rate / alone.rate,
        reading_in_batches=in_batches[0] / alone.rate,
        reading_as_late=in_batches[0] / as_late.rate,
        reading_by_cpu=alone.cpu_us / streamed.cpu_us,
        writing=written.rate / singly.rate,
        writing_by_cpu=singly.cpu_us / written.cpu_us,
    )


def cost(count: int, act: Callable[[], object]) -> Cost:
    cpu, start = cpu_s(), time.perf_counter()
    act()
    return Cost(count, time.perf_counter() - start, cpu_s() - cpu)


def cpu_s() -> float:
    """Return the CPU seconds of this process and its descendants, including those that have ended."""
    seconds: dict[int, int] = {}
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text(encoding="utf-8").rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(fields[1])
            seconds[int(path.parent.name)] = sum(map(int, fields[11:15]))
    family = [os.getpid()]
    for member in family:
        family += [child for child, parent in parents.items() if parent == member]
    return sum(seconds.get(member, 0) for member in family) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def broker(url: str | None) -> Iterator[str]:
    if url is not None:
        yield url
        return
    command = [sys.executable, "-m", "leveret", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


@contextlib.contextmanager
def channel_of(url: str) -> Iterator[pika.adapters.blocking_connection.BlockingChannel]:
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        yield connection.channel()


def declare(url: str, queue_type: str) -> None:
    with channel_of(url) as channel:
        for queue in (IN, OUT):
            channel.queue_delete(queue)
            channel.queue_declare(queue, durable=True, arguments={"x-queue-type": queue_type})


def purge(url: str) -> None:
    with channel_of(url) as channel:
        channel.queue_purge(OUT)


def fill(url: str, count: int) -> None:
    """Publish messages, and wait for the last confirm, which shows that all have arrived."""
    with channel_of(url) as channel:
        for number in range(count):
            if number == count - 1:
                channel.confirm_delivery()
            channel.basic_publish("", IN, BODY, pika.BasicProperties(message_id=str(number)))


def consume(url: str, count: int, ack_every: int) -> None:
    """Consume with pika, and acknowledge `ack_every` messages at a time."""
    with channel_of(url) as channel:
        channel.basic_qos(prefetch_count=PREFETCH_MAX)
        for seen, (method, _, _) in enumerate(channel.consume(IN), start=1):
            if seen % ack_every == 0:
                channel.basic_ack(method.delivery_tag, multiple=True)
            if seen == count:
                break
        channel.cancel()


def stream(spark: SparkSession, url: str, folder: str, count: int, prefetch: int) -> float:
    """Run a stream, and return the seconds of its batches, without the start of the query."""
    reader = spark.readStream.format("amqp").options(url=url, queue=IN, maxMessagesPerBatch=BATCH, prefetch=prefetch)
    messages = reader.load()
    writer = messages.select("body", "message_id").writeStream.format("noop").option("checkpointLocation", folder)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    read = sum(progress.numInputRows for progress in query.recentProgress)
    if read != count:
        raise SystemExit(f"the stream had {read} messages, not {count}")
    return sum(progress.durationMs["triggerExecution"] for progress in query.recentProgress) / 1000


def confirm_each(url: str, count: int) -> None:
    with channel_of(url) as channel:
        channel.confirm_delivery()
        for _ in range(count):
            channel.basic_publish("", OUT, BODY, pika.BasicProperties(delivery_mode=2), mandatory=True)


def write(spark: SparkSession, url: str, count: int) -> None:
    frame = spark.range(0, count, numPartitions=2).selectExpr(f"cast(repeat('x', {len(BODY)}) as binary) as body")
    frame.write.format("amqp").options(url=url, queue=OUT).mode("append").save()


if __name__ == "__main__":
    main()
