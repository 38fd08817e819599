"""A job that reads a queue, ways to crash it, and checks of the outcome.

The processes of a running Spark are children of its JVM: the reader of a stream is a process of its own, and tasks run
in workers that a daemon forks.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pika
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

READER = "pyspark.sql.streaming.python_streaming_source_runner"
WORKERS = "pyspark.daemon\0pyspark.worker"
QUEUE_ARGUMENTS = {"classic": None, "quorum": {"x-queue-type": "quorum"}}


class SinkError(Exception):
    """The error that the sink of a job raises on purpose."""


class Job:
    """A query from one queue into one sink: Spark's own files, a file written per batch, or another queue."""

    def __init__(
        self, spark: SparkSession, url: str, queue: str, folder: Path, sink: str, batch: int = 40, partitions: int = 2
    ) -> None:
        self.spark = spark
        self.url = url
        self.queue = queue
        self.folder = folder
        self.sink = sink
        self.batch = batch
        self.partitions = partitions
        # The sink "batches" calls these around the writing of each batch, to crash there.
        self.before_write: Callable[[int], None] = _nothing
        self.after_write: Callable[[int], None] = _nothing

    def start(self, *, available_now: bool = True) -> StreamingQuery:
        """Start the query, or resume it."""
        messages = (
            self.spark.readStream.format("amqp")
            .option("url", self.url)
            .option("queue", self.queue)
            .option("maxMessagesPerBatch", self.batch)
            .option("messagesPerPartition", max(1, self.batch // self.partitions))
            .load()
        )
        writer = self._writer(messages).option("checkpointLocation", str(self.folder / "checkpoint"))
        return (writer.trigger(availableNow=True) if available_now else writer).start()

    def drain(self) -> None:
        """Run the query until the queue is empty."""
        while True:
            await_end(self.start())
            if not depth(self.url, self.queue):
                return

    def rows(self) -> list[tuple[str | None, bytes]]:
        """Return the message id and body of each message in the sink."""
        if self.sink == "queue":
            return drained(self.url, f"{self.queue}.out")
        if self.sink == "batches":
            batches = [json.loads(path.read_text()) for path in sorted((self.folder / "out").iterdir())]
            return [(message_id, bytes.fromhex(body)) for batch in batches for message_id, body in batch]
        files = self.spark.read.parquet(str(self.folder / "out")).select("message_id", "body")
        return [(row.message_id, bytes(row.body)) for row in files.collect()]

    def _writer(self, messages: DataFrame):  # type: ignore[no-untyped-def]
        if self.sink == "files":
            return messages.select("message_id", "body").writeStream.format("parquet").option("path", self._out)
        if self.sink == "batches":
            return messages.select("message_id", "body").writeStream.foreachBatch(self._write_batch)
        to = messages.selectExpr("body", f"'{self.queue}.out' as routing_key")
        return to.writeStream.format("amqp").option("url", self.url)

    @property
    def _out(self) -> str:
        return str(self.folder / "out")

    def _write_batch(self, rows: DataFrame, batch_id: int) -> None:
        """Write a batch; a repeated batch leaves its file as it is, so it is idempotent."""
        self.before_write(batch_id)
        target = self.folder / "out" / f"{batch_id}.json"
        if not target.exists():
            part = self.folder / "part"
            part.write_text(json.dumps([(row.message_id, bytes(row.body).hex()) for row in rows.collect()]))
            target.parent.mkdir(exist_ok=True)
            part.replace(target)
        self.after_write(batch_id)


def _nothing(_: int) -> None:
    return None


def await_end(query: StreamingQuery) -> None:
    """Wait until a query ends and raise its error, unless a busy machine was too slow to start a reader."""
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        # Spark allows ten seconds for this, whatever its settings say.
        if "Python worker failed to connect back" not in str(error):
            raise


def end_of(query: StreamingQuery) -> str:
    """Wait until a query has ended; return its error as text, or an empty string if it succeeded."""
    try:
        query.awaitTermination()
    except Exception as error:
        return str(error) or type(error).__name__
    return ""


def fill(url: str, queue: str, bodies: list[bytes], *, queue_type: str = "classic", with_ids: bool = True) -> None:
    """Declare a queue and its output queue, and publish into the first."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        arguments = QUEUE_ARGUMENTS[queue_type]
        for name in (queue, f"{queue}.out"):
            channel.queue_declare(name, durable=True, arguments=arguments)
        channel.confirm_delivery()
        for body in bodies:
            properties = pika.BasicProperties(message_id=f"id-{body.decode()}" if with_ids else None, delivery_mode=2)
            channel.basic_publish("", queue, body, properties)


def depth(url: str, queue: str) -> int:
    """Return the number of ready messages in a queue."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        count: int = connection.channel().queue_declare(queue, passive=True).method.message_count
        return count


def delete(url: str, queue: str) -> None:
    """Delete the two queues of a job."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        for name in (queue, f"{queue}.out"):
            connection.channel().queue_delete(name)


def drained(url: str, queue: str) -> list[tuple[str | None, bytes]]:
    """Empty a queue and return the message id and body of each message."""
    found = []
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        while True:
            method, properties, body = channel.basic_get(queue, auto_ack=True)
            if method is None:
                return found
            found.append((properties.message_id, body))


def faults_of(sink: str, rows: list[tuple[str | None, bytes]], bodies: list[bytes]) -> list[str]:
    """Return the lost and the duplicate messages; in a queue, copies with the same message id count once."""
    if sink == "queue":
        of_id: dict[str | None, set[bytes]] = {}
        for message_id, body in rows:
            of_id.setdefault(message_id, set()).add(body)
        ambiguous = [f"{message_id} is of {len(found)} bodies" for message_id, found in of_id.items() if len(found) > 1]
        seen = Counter(body for found in of_id.values() for body in found)
    else:
        ambiguous = []
        seen = Counter(body for _, body in rows)
    lost = [f"{body!r} is lost" for body in bodies if not seen[body]]
    double = [f"{body!r} arrived {count} times" for body, count in seen.items() if count > 1]
    return ambiguous + lost + double


def jvm_pid(spark: SparkSession) -> int:
    """Return the id of Spark's JVM process."""
    pid: int = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    return pid


def reader_pids(jvm: int) -> list[int]:
    """Return the processes below a JVM that read streams."""
    return [pid for pid, line in _children(jvm) if READER in line]


def worker_pids(jvm: int) -> list[int]:
    """Return the processes below a JVM that run tasks."""
    return [pid for daemon, line in _children(jvm) if WORKERS in line for pid, _ in _children(daemon)]


def kill(pids: list[int]) -> int:
    """Kill processes as an out-of-memory killer does; return how many of them existed."""
    count = 0
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        count += 1
    return count


def _children(parent: int) -> list[tuple[int, str]]:
    """Return process ids and command lines, with a null between arguments."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # The name of a command may contain anything; the fields after it do not.
            fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            line = (folder / "cmdline").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == parent:
            found.append((int(folder.name), line))
    return found
