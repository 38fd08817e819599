"""Programs that start Spark in a JVM of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from leveret.pipeline.incremental import update
from leveret.pipeline.warehouse.tables import read_table
from leveret.pipeline.warehouse.warehouse import Warehouse
from tests.pipeline import plain, random_traces
from tests.pipeline.kernel_campaign import texts

TRACE = random_traces.make(20260101).trace


@dataclass
class Ran:
    """A program that ingested one trace with Spark, and two of whose Python processes were killed."""

    process: subprocess.CompletedProcess[str]
    folder: Path
    warehouse: Path


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("jvm")
    warehouse, empty, modules = folder / "warehouse", folder / "empty", folder / "modules"
    for each in (empty, modules):
        each.mkdir()
    random_traces.write(folder / "a.jsonl", TRACE)
    marks = [str(folder / "first"), str(folder / "second")]
    # Two of Spark's Python processes die once they have written the events of their part.
    (modules / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "def kill(event, arguments):\n"
        f"    if event == 'open' and str(arguments[0]).startswith({str(warehouse / 'files')!r}):\n"
        f"        for mark in {marks}:\n"
        "            if not os.path.exists(mark):\n"
        "                os.mkdir(mark)\n"
        "                os.kill(os.getpid(), signal.SIGKILL)\n"
        "if 'pyspark.daemon' in sys.orig_argv:\n"
        "    sys.addaudithook(kill)\n"
    )
    program = (
        "import os, sys\n"
        "from leveret.pipeline import Warehouse, ingest\n"
        "from leveret.pipeline.computing.spark_session import session\n"
        "with session('small') as spark:\n"
        "    ingest(Warehouse(sys.argv[1]), [sys.argv[2]], spark=spark)\n"
        "    print(*[name for name in os.environ if name.startswith('PYSPARK_GATEWAY')])\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", program, str(warehouse), str(folder / "a.jsonl")],
        env={"PYTHONPATH": os.pathsep.join([str(modules), *sys.path])},
        cwd=empty,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return Ran(process, empty, warehouse)


def test_spark_starts_with_nothing_in_the_environment_but_a_place_of_modules(ran: Ran) -> None:
    assert (ran.process.returncode, ran.process.stdout) == (0, "\n"), ran.process.stderr
    assert list(ran.folder.iterdir()) == []


def test_a_task_that_is_killed_twice_counts_once(ran: Ran) -> None:
    warehouse = Warehouse(ran.warehouse)
    update(warehouse)

    assert len(list((ran.warehouse / "events").iterdir())) == 3
    assert texts(read_table(warehouse, "copies").to_pylist()) == texts(plain.tables([TRACE])["copies"])


def test_settings_of_spark_submit_are_kept(tmp_path: Path) -> None:
    program = (
        "from leveret.pipeline.computing.spark_session import session\n"
        "from leveret.spark import jvm\n"
        # Like spark-submit: the JVM already runs, and the environment says where.
        "settings = {'spark.master': 'local[1]', 'spark.sql.shuffle.partitions': '3', 'spark.ui.enabled': 'false'}\n"
        "jvm.start('test', settings)\n"
        "with session('small') as spark:\n"
        "    names = ('shuffle.partitions', 'session.timeZone', 'parquet.compression.codec')\n"
        "    print(spark.sparkContext.master, *[spark.conf.get(f'spark.sql.{name}') for name in names])\n"
    )

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, timeout=300)

    assert (ran.returncode, ran.stdout) == (0, "local[1] 3 UTC zstd\n"), ran.stderr
