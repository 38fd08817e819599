"""Where tasks run: in Spark's executors, or in processes on this machine.

An engine takes a task's name and pieces of work as JSON, and yields the results in any order, one for each piece. A
piece may be carried out several times; only one result of it counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

from leveret.pipeline.computing.tasks import carry_out
from leveret.pipeline.computing.worker import ATTEMPTS, TaskWorker
from leveret.spark.bundle import supply

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

# More numbers than any Spark runs tasks at a time.
_MANY: Final = 100_000


class ProcessEngine:
    """Processes on this machine. A single piece is carried out in this one."""

    def __init__(self, processes: int | None = None) -> None:
        self._processes: Final = processes or _cpus()

    def width(self) -> int:
        """Return the number of processes."""
        return self._processes

    def carry_out(self, task: str, pieces: Sequence[str]) -> Iterator[str]:
        """Yield the result of each piece.

        Raises RuntimeError if the process that works on a piece is killed again and again, and TaskError if a task
        fails.
        """
        if len(pieces) <= 1 or self._processes == 1:
            yield from (carry_out(task, piece) for piece in pieces)
            return
        idle: SimpleQueue[TaskWorker] = SimpleQueue()
        workers = [TaskWorker(task) for _ in range(min(self._processes, len(pieces)))]
        for worker in workers:
            idle.put(worker)
        pool = ThreadPoolExecutor(len(workers), thread_name_prefix="leveret-pipeline")
        try:
            for done in as_completed([pool.submit(_carry_out, piece, idle) for piece in pieces]):
                yield done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.close()


def _carry_out(piece: str, idle: SimpleQueue[TaskWorker]) -> str:
    """Return the result of a piece from an idle worker. A worker whose process dies starts another one."""
    worker = idle.get()
    try:
        for _ in range(ATTEMPTS):
            result = worker.carry_out(piece)
            if result is not None:
                return result
            worker.restart()
    finally:
        idle.put(worker)
    raise RuntimeError(
        f"a process of the pipeline was killed in each of {ATTEMPTS} attempts, perhaps because memory ran out; use "
        "fewer processes (--processes 1), or a machine with more memory"
    )


class SparkEngine:
    """The executors of a Spark session. Each piece is a task; nothing is exchanged between them."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def width(self) -> int:
        """Return how many tasks run at the same time, as far as Spark says."""
        if (context := getattr(self._spark, "sparkContext", None)) is not None:
            return int(context.defaultParallelism)
        from pyspark.sql import functions as F

        # Spark Connect does not say, but it cuts a range into as many partitions.
        return self._spark.range(_MANY).select(F.spark_partition_id()).distinct().count()

    def carry_out(self, task: str, pieces: Sequence[str]) -> Iterator[str]:
        """Yield the result of each piece; of several attempts, the one that Spark counts."""
        if not pieces:
            return
        supply(self._spark)

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pyarrow

            from leveret.pipeline.computing.tasks import carry_out

            for batch in batches:
                results = [carry_out(task, pieces[number]) for number in batch.column(0).to_pylist()]
                yield pyarrow.record_batch([pyarrow.array(results, pyarrow.string())], ["result"])

        numbers = self._spark.range(0, len(pieces), 1, len(pieces))
        yield from (row.result for row in numbers.mapInArrow(work, "result string").collect())


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
