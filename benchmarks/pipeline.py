"""The cost of the pipeline's tables in wall and CPU seconds and memory, beside DuckDB. It is printed, never asserted.

    python benchmarks/pipeline.py [MILLION_EVENTS] [--passes 3] [--engine spark|duckdb|both] [--folder FOLDER]

Every pass computes and writes every table from the same Parquet files, in one session on two cores. The first passes
pay for the JVM's compiler. DuckDB runs equivalent queries that were written for it (benchmarks/pipeline.sql). CPU
seconds are those of all processes of an engine; on a busy machine, they are the figure to look at.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("millions", type=float, nargs="?", default=1)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--engine", choices=("spark", "duckdb", "both"), default="both")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir(), "leveret-benchmark"))
    parser.add_argument("--memory", default="1600m", help="the JVM's heap")
    options = parser.parse_args()
    source = options.folder / f"events-{options.millions:g}M"
    if not source.is_dir():
        here = Path(__file__).parent
        subprocess.run([sys.executable, here / "traces.py", source, str(options.millions)], check=True)
    for engine in ("spark", "duckdb") if options.engine == "both" else (options.engine,):
        # Each engine runs in a separate process, so that its memory does not count as the other's.
        place = options.folder / f"tables-{engine}"
        work = _spark if engine == "spark" else _duckdb
        child = get_context("spawn").Process(target=work, args=(source, place, options.passes, options.memory))
        child.start()
        child.join()
        shutil.rmtree(place, ignore_errors=True)


def _spark(source: Path, place: Path, passes: int, memory: str) -> None:
    from leveret.pipeline import gold, schema
    from leveret.pipeline.incremental import build_tables
    from leveret.pipeline.spark_session import session
    from leveret.pipeline.warehouse import write_rows

    settings = {"spark.sql.shuffle.partitions": "8", "spark.sql.autoBroadcastJoinThreshold": "32m"}
    with session("big", master="local[2]", memory=memory, settings=settings) as spark:
        events = spark.read.schema(schema.EVENTS).parquet(str(source))
        runs = (
            events.select("day", "run", "worker")
            .distinct()
            .selectExpr("day", "run", "worker", "run AS commit", "false AS truncated", "1 AS files")
        )
        runs.write.mode("overwrite").parquet(str(place / "runs"))

        def write(name: str, rows: DataFrame) -> DataFrame:
            write_rows(rows, str(place / name), overwrite=True)
            return spark.read.schema(rows.schema).parquet(str(place / name))

        for number in range(1, passes + 1):
            meter = Meter(f"spark  pass {number}")
            tables = {"events": events, "runs": spark.read.parquet(str(place / "runs"))}
            for name in build_tables(spark, gold.TABLES, tables, write):
                meter.lap(name)
            meter.stop(_count(source))
        broken = tables["violations"].count()
        print(f"       {tables['copies'].count()} copies, {broken} violations")


def _duckdb(source: Path, place: Path, passes: int, memory: str) -> None:
    import duckdb

    place.mkdir(parents=True, exist_ok=True)
    statements = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8").split("-- table: ")[1:]
    for number in range(1, passes + 1):
        meter = Meter(f"duckdb pass {number}")
        database = duckdb.connect(config={"threads": 2, "temp_directory": str(place / "spill"), "memory_limit": "2GB"})
        database.execute(f"CREATE VIEW events AS SELECT * FROM read_parquet('{source}/*.parquet')")
        for statement in statements:
            name, query = statement.split("\n", 1)
            database.execute(f"COPY ({query.strip().rstrip(';')}) TO '{place / name}.parquet' (COMPRESSION zstd)")
            database.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{place / name}.parquet')")
            meter.lap(name)
        meter.stop(_count(source))
        broken = database.execute("SELECT count(*) FROM violations").fetchone()
        database.close()
    print(f"       {broken[0] if broken else 0} violations")


def _count(source: Path) -> int:
    import pyarrow.parquet as pq

    return sum(pq.ParquetFile(path).metadata.num_rows for path in source.glob("*.parquet"))


class Meter:
    """The wall and CPU seconds since this object was made, of this process and its descendants."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.wall, self.cpu = time.monotonic(), _cpu()

    def lap(self, name: str) -> None:
        wall, cpu = time.monotonic() - self.wall, _cpu() - self.cpu
        print(f"    {name:14} there after {wall:6.1f} s {cpu:6.1f} CPU s", flush=True)

    def stop(self, events: int) -> None:
        wall, cpu = time.monotonic() - self.wall, _cpu() - self.cpu
        rate, cost, load = events / wall / 1e6, cpu / events * 1e6, os.getloadavg()[0]
        print(
            f"{self.name}: {events / 1e6:.1f} M events, {wall:.1f} s, {cpu:.1f} CPU s, {rate:.2f} M/s, "
            f"{cost:.2f} CPU µs an event, peak {_peak() / 1e9:.2f} GB, load {load:.0f}",
            flush=True,
        )


def _family() -> list[int]:
    """Return this process and its descendants."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        parents[int(path.parent.name)] = int(fields[1])
    family = [os.getpid()]
    for member in family:
        family += [child for child, parent in parents.items() if parent == member]
    return family


def _cpu() -> float:
    total = 0
    for member in _family():
        try:
            fields = Path(f"/proc/{member}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def _peak() -> float:
    """Return the sum of the processes' peak memory."""
    total = 0
    for member in _family():
        try:
            lines = Path(f"/proc/{member}/status").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    return float(total)


if __name__ == "__main__":
    main()
