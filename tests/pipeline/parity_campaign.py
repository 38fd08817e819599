"""Random workloads on leveret and on a real RabbitMQ, compared by their firehoses: a campaign outside CI.

    python -m tests.pipeline.parity_campaign --oracle 4.3=amqp://guest:guest@127.0.0.1:5672/ --count 1000 --seed 1

The management HTTP API must listen on the AMQP port + 10000. Each process works in a virtual host of its own and
switches its firehose on. One run on Spark compares three records of all workloads: leveret's trace, leveret's firehose
and RabbitMQ's. The command prints the differences by seed; the exit code is 1 if anything differs. `--show` prints the
program of a seed. `--keep` names the folder where the traces stay, and `--again` compares those without a new run.
`--record 8` keeps eight of the workloads for test_recorded_parity.py.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
import warnings
from datetime import UTC, datetime
from itertools import count, islice
from multiprocessing.queues import SimpleQueue
from pathlib import Path

from leveret.trace.rows import row_text
from leveret.trace.run import close_files
from leveret.trace.trace_file import TraceFile
from tests.lockstep.campaign import explain
from tests.lockstep.generator import generate
from tests.lockstep.steps import text
from tests.pipeline.parity_recordings import PROGRAMS, save
from tests.pipeline.parity_workload import LENGTH, Played, Recorded, Told, is_timeless
from tests.semantics import target

# The last one is the reference for the others.
WAYS = ("leveret", "leveret-firehose", "rabbitmq")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oracle", metavar="VERSION=URL")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--keep", type=Path, metavar="DIR")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--record", type=int, default=0, metavar="COUNT")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    if options.show:
        print(text(generate(options.seed, LENGTH)))
        return 0
    with tempfile.TemporaryDirectory(prefix="leveret-parity-") as name:
        folder = options.keep or Path(name)
        if not options.again:
            began = time.monotonic()
            count_played = play(folder, options)
            if options.record:
                print(save(options.oracle.split("=", 1)[0], folder, options.record))
            print(f"{count_played} workloads played in {time.monotonic() - began:.0f} s", flush=True)
        began = time.monotonic()
        # Not at the top: each worker process would import Spark.
        from tests.pipeline.parity_comparison import compare

        differing = compare(folder)
        print(f"compared in {time.monotonic() - began:.0f} s; {len(differing)} workloads differ: {differing}")
    return 1 if differing else 0


def play(folder: Path, options: argparse.Namespace) -> int:
    """Write the traces of this many workloads into the folder; return how many there are."""
    context = multiprocessing.get_context("spawn")
    seeds, results = context.SimpleQueue(), context.SimpleQueue()
    version, url = options.oracle.split("=", 1)
    jobs = min(options.jobs, options.count)
    workers = [
        context.Process(target=_work, args=(f"w{n}", version, url, folder, seeds, results), daemon=True)
        for n in range(jobs)
    ]
    for worker in workers:
        worker.start()
    for seed in islice(filter(is_timeless, count(options.seed)), options.count):
        seeds.put(seed)
    for _ in workers:
        seeds.put(None)
    played, running = 0, jobs
    while running:
        said = results.get()
        if said is None:
            running -= 1
        elif said:
            print(said, flush=True)
        else:
            played += 1
            if played % 50 == 0:
                print(f"... {played} of {options.count}", flush=True)
    return played


def _work(
    worker: str, version: str, url: str, folder: Path, seeds: SimpleQueue[int | None], results: SimpleQueue[str | None]
) -> None:
    # Programs do on purpose the things that leveret warns about.
    warnings.simplefilter("ignore")
    os.environ |= {"PYTEST_XDIST_TESTRUNUID": "leveret", "PYTEST_XDIST_WORKER": worker}
    try:
        with target.oracle(url, version) as endpoint:
            endpoint.operator.trace_on(endpoint.vhost)
            _play_all(Played(endpoint, folder / "leveret"), folder, worker, seeds, results)
    except BaseException as broken:
        results.put(f"a worker broke down: {broken!r}")
        raise
    finally:
        close_files()
        results.put(None)


def _play_all(
    played: Played, folder: Path, worker: str, seeds: SimpleQueue[int | None], results: SimpleQueue[str | None]
) -> None:
    """Write the firehoses' rows to the files workload by workload, so that a killed campaign can still be compared."""
    started = datetime.now(UTC).isoformat()
    files = {
        way: TraceFile.create(str(folder / way), worker, {"run": way, "started": started})
        for way in ("leveret-firehose", "rabbitmq")
    }
    while (seed := seeds.get()) is not None:
        found = played.play(seed)
        for stop in played.stops:
            results.put(_stop_text(stop))
        played.stops.clear()
        if found is None:
            results.put(f"seed {seed}: NOT PLAYED to an end")
            continue
        for way, rows in (("leveret-firehose", found.leveret), ("rabbitmq", found.rabbitmq)):
            files[way].write("".join(f"{row_text(row)}\n" for row in rows))
        with open(folder / f"{worker}{PROGRAMS}", "a", encoding="utf-8") as recorded:
            recorded.write(Recorded(found.name, found.program, found.outcome.answers).line())
        results.put("")
    played.close()
    for file in files.values():
        file.close()


def _stop_text(stop: Told) -> str:
    outcome = stop.outcome
    if outcome.is_cut:
        return f"{stop.name}: ended at a hard error, step {len(outcome.played)}"
    kind, found = ("a race", outcome.race) if outcome.race else ("answered DIFFERENTLY", outcome.difference)
    return f"{stop.name}: {kind}, step {len(outcome.played)}\n{explain(found)}"


if __name__ == "__main__":
    sys.exit(main())
