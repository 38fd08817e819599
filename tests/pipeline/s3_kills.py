"""Two processes ingest, update and compact one warehouse on an S3 server, and are killed again and again.

    python -m tests.pipeline.s3_kills [KILLS]

In the end the warehouse must hold the rows of one batch over all traces.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from leveret.pipeline import Warehouse, compact, ingest, read_table, update
from leveret.pipeline.computing.tasks import TABLE_NAMES
from tests.pipeline.s3_server import s3_server
from tests.pipeline.traces import header, lives, write

_WORK = """
import sys
from contextlib import suppress
from leveret.errors import ConflictError
from leveret.pipeline import Warehouse, compact, ingest, update
while True:
    with suppress(ConflictError):
        ingest(Warehouse(sys.argv[1]), [sys.argv[2]], processes=1)
        update(Warehouse(sys.argv[1]), processes=1)
        print("done", flush=True)
        compact(Warehouse(sys.argv[1]), processes=1)
"""


def main(kills: int, seed: int) -> None:
    """Kill so many processes, and compare the tables."""
    dice = random.Random(seed)
    with TemporaryDirectory() as folder, s3_server() as environment:
        os.environ.update(environment)
        traces = Path(folder, "traces")
        url = "s3://warehouses/kills"
        _add(traces, 0, dice)
        workers = [_start(url, traces) for _ in range(2)]
        for number in range(1, kills + 1):
            _add(traces, number, dice)
            victim = dice.randrange(2)
            try:
                workers[victim].wait(dice.uniform(0.4, 2.5))
            except subprocess.TimeoutExpired:
                workers[victim].kill()
            assert workers[victim].wait() == -9, "a worker failed by itself"
            workers[victim] = _start(url, traces)
        for worker in workers:
            worker.kill()
            worker.wait()
        warehouse, batch = Warehouse(url), Warehouse(Path(folder, "batch"))
        left = len(warehouse.state().runs)
        for each in (warehouse, batch):
            ingest(each, [traces])
            update(each)
        for table in ("events", *TABLE_NAMES):
            rows = [Counter(map(repr, read_table(each, table).to_pylist())) for each in (warehouse, batch)]
            assert rows[0] == rows[1], f"{table} differs (seed {seed})"
        runs = f"{left} of {len(batch.state().runs)} runs were there before the end"
        versions = sum(stored.table.version() for stored in warehouse.state().tables.values())
        print(f"{kills} kills, {versions} commits, {runs}")
        compact(warehouse)
        removed = warehouse.vacuum(older_than_s=0)[0]
        print(f"{removed} files were left by killed processes and older answers; all tables are equal")


def _add(traces: Path, number: int, dice: random.Random) -> None:
    """Add a piece of a run. Pieces overlap, and may come before those that precede them."""
    run, events = f"r{dice.randrange(number // 2 + 1)}", lives(8)
    begin, end = sorted(dice.sample(range(len(events) + 1), 2))
    write(traces / f"{number}.jsonl", [header(run), *events[begin:end]])


def _start(url: str, traces: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", _WORK, url, str(traces)], stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30, seed=random.randrange(10**6))
