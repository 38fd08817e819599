"""The cost of the pipeline in wall and CPU seconds and memory, beside DuckDB. It is printed, never asserted.

    python benchmarks/pipeline.py [MILLION_EVENTS] [--passes 3] [--engine spark|processes|duckdb ...] [--folder FOLDER]

The events are those of runs of 111,000 events each. First they are ingested from compressed files of JSON Lines, as
pytest records them. Then each pass computes and writes every table of every run, in one session on two cores: the
first passes of Spark pay for the JVM's compiler. DuckDB reads the same events from Parquet, and runs equivalent
queries that were written for it (benchmarks/pipeline.sql). CPU seconds are those of all processes of an engine; on a
busy machine, they are the figure to look at.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TICKS = os.sysconf("SC_CLK_TCK")
CORES = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("millions", type=float, nargs="?", default=1)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--engine", choices=tuple(ENGINES), nargs="+", default=["spark", "duckdb"])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir(), "leveret-benchmark"))
    parser.add_argument("--memory", default="600m", help="the JVM's heap")
    options = parser.parse_args()
    source = options.folder / f"events-{options.millions:g}M"
    if not source.is_dir():
        here = Path(__file__).parent
        subprocess.run([sys.executable, here / "traces.py", source, str(options.millions)], check=True)
    lines = as_lines(source)
    for engine in options.engine:
        # Each engine runs in a separate process, so that its memory does not count as the other's.
        place = options.folder / f"tables-{engine}"
        shutil.rmtree(place, ignore_errors=True)
        child = get_context("spawn").Process(target=ENGINES[engine], args=(source, lines, place, options))
        child.start()
        child.join()
        shutil.rmtree(place, ignore_errors=True)


def as_lines(source: Path) -> Path:
    """Return a folder with the same events as compressed JSON Lines, as the recorder writes them."""
    folder = source.with_name(f"{source.name}-lines")
    if not folder.is_dir():
        draft = folder.with_name(f".{folder.name}")
        draft.mkdir(exist_ok=True)
        with ProcessPoolExecutor(CORES, get_context("spawn")) as pool:
            list(pool.map(write_lines, sorted(source.glob("*.parquet")), [draft] * 10_000))
        draft.rename(folder)
    return folder


def write_lines(table: Path, folder: Path) -> None:
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = pq.read_table(table).to_pylist()
    head = {"leveret": "trace", "v": 1, "run": rows[0]["run"], "worker": rows[0]["worker"], "commit": rows[0]["run"]}
    of_header = ("day", "run", "worker")
    with gzip.open(folder / f"{table.stem}.jsonl.gz", "wt", compresslevel=6, encoding="utf-8") as file:
        print(json.dumps({**head, "started": f"{rows[0]['day']}T10:00:00Z"}, separators=(",", ":")), file=file)
        for row in rows:
            told = {name: value for name, value in row.items() if value is not None and name not in of_header}
            print(json.dumps(told, separators=(",", ":")), file=file)


def of_spark(source: Path, traces: Path, place: Path, options: argparse.Namespace) -> None:
    from leveret.pipeline.computing.spark_session import session

    with session("big", master=f"local[{CORES}]", memory=options.memory) as spark:
        _of_leveret("spark", source, traces, place, options, spark)


def of_processes(source: Path, traces: Path, place: Path, options: argparse.Namespace) -> None:
    _of_leveret("processes", source, traces, place, options, None)


def _of_leveret(
    name: str, source: Path, traces: Path, place: Path, options: argparse.Namespace, spark: SparkSession | None
) -> None:
    from leveret.pipeline.incremental import ingest, update
    from leveret.pipeline.warehouse.tables import read_table
    from leveret.pipeline.warehouse.warehouse import Warehouse

    warehouse, events = Warehouse(place), count_of(source)
    with measured(f"{name} ingest", events):
        ingest(warehouse, [traces], spark=spark, processes=CORES)
    for number in range(1, options.passes + 1):
        with measured(f"{name} pass {number}", events):
            update(warehouse, spark=spark, processes=CORES, everything=True)
    rows = {table: read_table(warehouse, table, columns=["run"]).num_rows for table in ("copies", "violations")}
    print(f"       {rows['copies']} copies, {rows['violations']} violations")


def of_duckdb(source: Path, traces: Path, place: Path, options: argparse.Namespace) -> None:
    import duckdb

    place.mkdir(parents=True, exist_ok=True)
    statements = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8").split("-- table: ")[1:]
    for number in range(1, options.passes + 1):
        with measured(f"duckdb pass {number}", count_of(source)):
            spill = str(place / "spill")
            database = duckdb.connect(config={"threads": CORES, "temp_directory": spill, "memory_limit": "2GB"})
            database.execute(f"CREATE VIEW events AS SELECT * FROM read_parquet('{source}/*.parquet')")
            for statement in statements:
                name, query = statement.split("\n", 1)
                database.execute(f"COPY ({query.strip().rstrip(';')}) TO '{place / name}.parquet' (COMPRESSION zstd)")
                database.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{place / name}.parquet')")
        broken = database.execute("SELECT count(*) FROM violations").fetchone()
        database.close()
    print(f"       {broken[0] if broken else 0} violations")


ENGINES = {"spark": of_spark, "processes": of_processes, "duckdb": of_duckdb}


def count_of(source: Path) -> int:
    import pyarrow.parquet as pq

    return sum(pq.ParquetFile(path).metadata.num_rows for path in source.glob("*.parquet"))


@contextmanager
def measured(name: str, events: int) -> Iterator[None]:
    """Print the wall and CPU seconds of the block, of this process and its descendants, and their peak memory."""
    began_wall, began_cpu = time.monotonic(), cpu_seconds()
    yield
    wall, cpu = time.monotonic() - began_wall, cpu_seconds() - began_cpu
    rate, cost, load = events / wall / 1e6, cpu / events * 1e6, os.getloadavg()[0]
    print(
        f"{name}: {events / 1e6:.1f} M events, {wall:.1f} s, {cpu:.1f} CPU s, {rate:.2f} M/s, "
        f"{cost:.2f} CPU µs an event, peak {peak_bytes() / 1e9:.2f} GB, load {load:.0f}",
        flush=True,
    )


def family() -> list[int]:
    """Return this process and its descendants."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        parents[int(path.parent.name)] = int(fields[1])
    found = [os.getpid()]
    for member in found:
        found += [child for child, parent in parents.items() if parent == member]
    return found


def cpu_seconds() -> float:
    """Return the CPU seconds of the family, and of its members that have ended."""
    total = 0
    for member in family():
        try:
            fields = Path(f"/proc/{member}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        # utime, stime, and those of children that have ended and were waited for.
        total += sum(int(field) for field in fields[11:15])
    return total / TICKS


def peak_bytes() -> float:
    """Return the sum of the processes' peak memory; of processes that have ended, that of the largest for each core."""
    total = 0
    for member in family():
        try:
            lines = Path(f"/proc/{member}/status").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    return float(total + CORES * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)


if __name__ == "__main__":
    main()
