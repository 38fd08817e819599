"""Random kills of a job that reads a queue, hundreds of them: `python -m tests.spark.campaign --help`.

The checks do not run it, since it takes an hour. It kills the reader, a task or the sink in a running JVM at a random
moment and starts the query again; or it kills the whole driver with its JVM. After a few kills the job may finish. Then
every published message must be in its sink exactly once. A seed repeats the choices, but not the operating system's
timing.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from leveret.pipeline.computing.spark_session import local_session
from leveret.spark import register
from tests.spark.crashes import (
    Job,
    SinkError,
    await_end,
    delete,
    depth,
    end_of,
    faults_of,
    fill,
    jvm_pid,
    kill,
    reader_pids,
    worker_pids,
)

KILLS_PER_ROUND = 10
DRIVER_KILLS_PER_ROUND = 5
MESSAGES = 400
SINKS = ("files", "batches", "queue")
ROOT = Path(__file__).parents[2]
# The longest wait for the process to kill to appear.
PATIENCE_S = 60.0


@dataclass
class Tally:
    """The results of a campaign."""

    hits: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    endings: Counter[str] = field(default_factory=Counter)


def main() -> int:
    """Run the campaign; return 1 if a message was lost or duplicated."""
    options = parse()
    if options.job:
        return drive(options)
    tally = Tally()
    with broker(options.oracle) as url:
        started = time.monotonic()
        if options.kills:
            in_running_jvm(url, options, tally)
        if options.drivers:
            of_drivers(url, options, tally)
    took = time.monotonic() - started
    place = "RabbitMQ" if options.oracle else "leveret"
    print(f"{place} {options.queue_type}, seed {options.seed}: {dict(tally.hits)} kills in {took:.0f} s")
    print(f"  queries ended by: {dict(tally.endings)}")
    for fault in tally.faults[:20]:
        print(f"  {fault}")
    print(f"  {len(tally.faults)} messages lost or double")
    return 1 if tally.faults else 0


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.campaign", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--oracle", metavar="URL", help="a RabbitMQ (default: python -m leveret serve)")
    parser.add_argument("--queue-type", choices=("classic", "quorum"), default="classic")
    parser.add_argument("--kills", type=int, default=200, help="of reader, task and sink in a running JVM")
    parser.add_argument("--drivers", type=int, default=20, help="of the whole driver")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--job", nargs=4, metavar=("URL", "QUEUE", "FOLDER", "SINK"), help=argparse.SUPPRESS)
    return parser.parse_args()


@contextlib.contextmanager
def broker(url: str | None) -> Iterator[str]:
    """Yield a broker's URL: the one given, or that of a leveret in a process of its own."""
    if url is not None:
        yield url
        return
    command = [sys.executable, "-m", "leveret", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


def in_running_jvm(url: str, options: argparse.Namespace, tally: Tally) -> None:
    """Kill readers, tasks and sinks."""
    dice = random.Random(options.seed)
    spark = local_session("test")
    register(spark)
    jvm = jvm_pid(spark)
    rounds = 0
    while tally.hits.total() < options.kills:
        sink = SINKS[rounds % len(SINKS)]
        rounds += 1
        bodies = [b"%d" % number for number in range(MESSAGES)]
        queue = f"campaign.{options.seed}.{rounds}"
        fill(url, queue, bodies, queue_type=options.queue_type, with_ids=dice.random() < 0.5)
        with tempfile.TemporaryDirectory(prefix="leveret-campaign-") as folder:
            job = Job(spark, url, queue, Path(folder), sink)
            for _ in range(KILLS_PER_ROUND):
                if crash(job, jvm, dice, tally) == "done" or tally.hits.total() >= options.kills:
                    break
            job.before_write = job.after_write = lambda _: None
            job.drain()
            tally.faults += [f"round {rounds} ({sink}): {fault}" for fault in faults_of(sink, job.rows(), bodies)]
        delete(url, queue)
        print(f"{dict(tally.hits)} kills, {rounds} rounds, {len(tally.faults)} faults", flush=True)


def crash(job: Job, jvm: int, dice: random.Random, tally: Tally) -> str:
    """Run a job until it crashes once; return what was hit, "missed", or "done" if the job finished first."""
    victim = dice.choice(("reader", "task", "sink") if job.sink == "batches" else ("reader", "task"))
    delay_s = dice.random() * 1.5
    if victim == "sink":
        return crash_sink(job, dice, tally)
    planned = planned_batches(job)
    query = job.start(available_now=dice.random() < 0.7)
    pids = reader_pids if victim == "reader" else worker_pids
    deadline = time.monotonic() + PATIENCE_S
    pause = threading.Event()
    # Most kills come between batches, some while the query recovers or begins.
    is_early = dice.random() < 0.2
    while query.isActive and time.monotonic() < deadline:
        if pids(jvm) and (is_early or planned_batches(job) > planned):
            break
        pause.wait(0.01)
    pause.wait(delay_s)
    if not query.isActive or not (there := pids(jvm)) or not kill([dice.choice(there)]):
        query.stop()
        end_of(query)
        return "done" if not depth(job.url, job.queue) else "missed"
    tally.hits[victim] += 1
    if not query.isActive or not surely_ends(query):
        # The killed worker ran nothing, so the query goes on or waits for messages.
        query.stop()
    tally.endings["failure" if end_of(query) else "stop or the last batch"] += 1
    return victim


def planned_batches(job: Job) -> int:
    """Return how many batches a query has planned, over all its runs."""
    return len(list((job.folder / "checkpoint" / "offsets").glob("[0-9]*")))


def surely_ends(query) -> bool:  # type: ignore[no-untyped-def]
    """Return whether a query ends within a few seconds."""
    try:
        ended: bool = query.awaitTermination(8)
    except Exception:
        return True
    return ended


def crash_sink(job: Job, dice: random.Random, tally: Tally) -> str:
    """Make the sink raise before or after it writes a batch, up to five batches from now."""
    left = [dice.randrange(6)]

    def fail(_: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise SinkError("on purpose")

    job.before_write = job.after_write = lambda _: None
    if dice.random() < 0.5:
        job.before_write = fail
    else:
        job.after_write = fail
    said = end_of(job.start())
    job.before_write = job.after_write = lambda _: None
    if not said:
        return "done"
    tally.hits["sink"] += 1
    tally.endings["failure"] += 1
    return "sink"


def of_drivers(url: str, options: argparse.Namespace, tally: Tally) -> None:
    """Kill whole drivers."""
    dice = random.Random(options.seed + 1)
    rounds = 0
    while tally.hits["driver"] < options.drivers:
        sink = SINKS[rounds % len(SINKS)]
        rounds += 1
        bodies = [b"%d" % number for number in range(MESSAGES)]
        queue = f"campaign.{options.seed}.driver.{rounds}"
        fill(url, queue, bodies, queue_type=options.queue_type, with_ids=dice.random() < 0.5)
        with tempfile.TemporaryDirectory(prefix="leveret-campaign-") as folder:
            for _ in range(DRIVER_KILLS_PER_ROUND):
                if tally.hits["driver"] >= options.drivers or not kill_driver(url, queue, folder, sink, dice, tally):
                    break
            with driver(url, queue, folder, sink) as process:
                said = process.communicate()[0]
            if process.returncode:
                tally.faults.append(f"the driver ended with {process.returncode}: {said[-500:]}")
            spark = local_session("test")
            register(spark)
            rows = Job(spark, url, queue, Path(folder), sink).rows()
            tally.faults += [f"driver round {rounds} ({sink}): {fault}" for fault in faults_of(sink, rows, bodies)]
        delete(url, queue)
        print(f"{tally.hits['driver']} drivers, {rounds} rounds, {len(tally.faults)} faults", flush=True)


def driver(url: str, queue: str, folder: str, sink: str) -> subprocess.Popen[str]:
    """Start a job in a process of its own; it prints its JVM's id once its query runs."""
    command = [sys.executable, "-m", "tests.spark.campaign", "--job", url, queue, folder, sink]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def kill_driver(url: str, queue: str, folder: str, sink: str, dice: random.Random, tally: Tally) -> bool:
    """Start a driver and kill it together with its JVM; return False if the job was done before that."""
    with driver(url, queue, folder, sink) as process:
        assert process.stdout is not None
        jvm = int(process.stdout.readline() or "0")
        if jvm:
            threading.Event().wait(dice.random() * 4)
        if not jvm or process.poll() is not None:
            return False
        # In some crashes the JVM dies first.
        victims = [process.pid, jvm] if dice.random() < 0.5 else [jvm, process.pid]
        kill(victims)
        process.wait()
    tally.hits["driver"] += 1
    tally.endings["driver killed"] += 1
    return bool(depth(url, queue)) or process.returncode == -signal.SIGKILL


def drive(options: argparse.Namespace) -> int:
    """Run a job as its driver until its queue is empty."""
    url, queue, folder, sink = options.job
    spark = local_session("test")
    register(spark)
    job = Job(spark, url, queue, Path(folder), sink)
    query = job.start()
    print(jvm_pid(spark), flush=True)
    await_end(query)
    job.drain()
    sys.stdout.flush()
    # Skip the JVM's shutdown, which may take longer than the job.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
