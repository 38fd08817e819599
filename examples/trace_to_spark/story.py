"""the tests of two examples are recorded, Spark counts how their messages ended, and a report is written"""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

RECORDED = ("first_test", "dead_letters")


def record(traces: Path) -> str:
    """Run the tests of some examples with recording, and return the last line that pytest prints."""
    folders = [str(Path(__file__).parent.parent / name) for name in RECORDED]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *folders,
        f"--leveret-trace-dir={traces}",
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return ran.stdout.splitlines()[-1]


def tell() -> None:
    """Record tests, query the tables, and write the report."""
    from leveret.pipeline.computing.spark_session import session
    from leveret.pipeline.exports.frames import read_frame
    from leveret.pipeline.incremental import ingest, update
    from leveret.pipeline.report import report
    from leveret.pipeline.warehouse.tables import read_table
    from leveret.pipeline.warehouse.warehouse import Warehouse

    with TemporaryDirectory() as folder, session("test") as spark:
        print(f"  pytest: {record(Path(folder, 'traces'))}")
        warehouse = Warehouse(Path(folder, "warehouse"))
        ingest(warehouse, [Path(folder, "traces")], spark=spark)
        update(warehouse, spark=spark)
        queues = read_frame(spark, warehouse, "queue_stats").orderBy("queue")
        for row in queues.select("queue", "copies", "acked", "dead_rejected", "dead_expired", "leaked").collect():
            dead = row.dead_rejected + row.dead_expired
            print(f"  {row.queue:12} {row.copies} in, {row.acked} acked, {dead} dead-lettered, {row.leaked} left over")
        page = Path(gettempdir(), "leveret-report.html")
        read = partial(read_table, warehouse)
        page.write_text(report(read, warehouse.state().files, folder=page.parent), encoding="utf-8")
        print(f"  {page}: {page.stat().st_size} bytes; open it in a browser")
