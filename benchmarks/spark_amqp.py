"""What `format("amqp")` costs beside pika alone: reading in large batches, writing with confirms.

Run it as `python benchmarks/spark_amqp.py [URL]`, with a RabbitMQ's URL or without one (`python -m leveret serve`).
Both sides of a ratio are measured in turns, in one run; the figures themselves mean something only beside each other.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import pika
from pyspark.sql import SparkSession

from leveret.pipeline.session import local_session
from leveret.spark import register

MESSAGES = 200_000
BATCH = 50_000
BODY = b"x" * 100
CONFIRMED_SINGLY = 2_000
ROUNDS = 3
IN, OUT = "benchmark.in", "benchmark.out"


def main(arguments: list[str]) -> None:
    with broker(arguments) as url, tempfile.TemporaryDirectory() as folder:
        # As a user has it: the JVM's second compiler earns its keep here.
        spark = local_session("big")
        register(spark)
        declare(url)
        # Spark's first query compiles half of Spark.
        fill(url, BATCH)
        stream(spark, url, f"{folder}/warm", BATCH)
        write(spark, url, BATCH)
        reading: list[float] = []
        batches: list[float] = []
        writing: list[float] = []
        for number in range(ROUNDS):
            fill(url, MESSAGES)
            alone = rate(MESSAGES, lambda: consume(url, MESSAGES))
            fill(url, MESSAGES)
            start = time.perf_counter()
            in_batches = MESSAGES / stream(spark, url, f"{folder}/{number}", MESSAGES)
            streamed = MESSAGES / (time.perf_counter() - start)
            reading.append(streamed / alone)
            batches.append(in_batches / alone)
            print(
                f"read   pika {alone:8.0f}/s   stream {streamed:8.0f}/s, in its batches {in_batches:8.0f}/s", flush=True
            )
            singly = rate(CONFIRMED_SINGLY, lambda: confirm_each(url, CONFIRMED_SINGLY))
            purge(url)
            written = rate(MESSAGES, lambda: write(spark, url, MESSAGES))
            purge(url)
            writing.append(written / singly)
            print(f"write  pika {singly:8.0f}/s   Spark  {written:8.0f}/s", flush=True)
        for name, ratios in (
            (f"a stream of {BATCH} a batch, to pika that acknowledges a thousand at a time", reading),
            ("the same without the start of the query", batches),
            ("writing, to pika with a confirm each", writing),
        ):
            print(f"{statistics.median(ratios):6.2f}  ({min(ratios):.2f} to {max(ratios):.2f})  {name}")


def rate(count: int, act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return count / (time.perf_counter() - start)


@contextlib.contextmanager
def broker(arguments: list[str]) -> Iterator[str]:
    if arguments:
        yield arguments[0]
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


def declare(url: str) -> None:
    with channel_of(url) as channel:
        for queue in (IN, OUT):
            channel.queue_declare(queue, durable=True)
            channel.queue_purge(queue)


def purge(url: str) -> None:
    with channel_of(url) as channel:
        channel.queue_purge(OUT)


def fill(url: str, count: int) -> None:
    """Publish; the last confirm says that all have arrived."""
    with channel_of(url) as channel:
        for number in range(count):
            if number == count - 1:
                channel.confirm_delivery()
            channel.basic_publish("", IN, BODY, pika.BasicProperties(message_id=str(number)))


def consume(url: str, count: int) -> None:
    """pika's own consumer, which acknowledges a thousand at a time."""
    with channel_of(url) as channel:
        channel.basic_qos(prefetch_count=2 * BATCH if 2 * BATCH < 65536 else 65535)
        for seen, (method, _, _) in enumerate(channel.consume(IN), start=1):
            if seen % 1000 == 0:
                channel.basic_ack(method.delivery_tag, multiple=True)
            if seen == count:
                break
        channel.cancel()


def stream(spark: SparkSession, url: str, folder: str, count: int) -> float:
    """Returns the seconds its batches took, without the start of the query."""
    messages = spark.readStream.format("amqp").options(url=url, queue=IN, maxMessagesPerBatch=BATCH).load()
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
    main(sys.argv[1:])
