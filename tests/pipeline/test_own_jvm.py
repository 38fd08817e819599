"""A program that starts Spark in a JVM of its own, and one to which it announces this JVM as `spark-submit` does.

Then it lends the JVM to the tests that share a session, as to start another takes seconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pytest

from leveret.pipeline.incremental import update
from leveret.pipeline.warehouse.tables import read_table
from leveret.pipeline.warehouse.warehouse import Warehouse
from tests.pipeline import plain, random_traces
from tests.pipeline.kernel_campaign import texts
from tests.spark_session import Lend

TRACE = random_traces.make(20260101).trace


@dataclass
class Ran:
    """A program that ingested one trace with Spark, and two of whose Python processes were killed."""

    # What its own session left in the environment, the settings of a session in a second program, and how to reach
    # the JVM, if nothing failed.
    said: list[str]
    errors: str
    folder: Path
    warehouse: Path


@pytest.fixture(scope="module")
def ran(lend_jvm: Lend, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("jvm")
    warehouse, empty, modules = folder / "warehouse", folder / "empty", folder / "modules"
    for each in (empty, modules):
        each.mkdir()
    random_traces.write(folder / "a.jsonl", TRACE)
    marks = [str(folder / "first"), str(folder / "second")]
    # Two of Spark's Python processes die once they have written the events of their part. Another thread writes these.
    (modules / "sitecustomize.py").write_text(
        "import os, signal, sys, threading\n"
        "def kill(frame, event, result):\n"
        "    code = frame.f_code\n"
        "    if event == 'return' and code.co_name == '_write' and code.co_filename.endswith('parts.py'):\n"
        f"        for mark in {marks}:\n"
        "            if not os.path.exists(mark):\n"
        "                os.mkdir(mark)\n"
        "                os.kill(os.getpid(), signal.SIGKILL)\n"
        "if 'pyspark.daemon' in sys.orig_argv:\n"
        "    threading.setprofile(kill)\n"
    )
    submitted = (
        "from leveret.pipeline.computing.spark_session import session\n"
        "with session('small') as spark:\n"
        "    names = ('shuffle.partitions', 'session.timeZone', 'parquet.compression.codec')\n"
        "    print(spark.sparkContext.master, *[spark.conf.get(f'spark.sql.{name}') for name in names])\n"
    )
    program = (
        "import os, subprocess, sys\n"
        "from leveret.pipeline import Warehouse, ingest\n"
        "from leveret.pipeline.computing.spark_session import UNCOMPILED, session\n"
        "with session('small', settings=UNCOMPILED) as spark:\n"
        "    ingest(Warehouse(sys.argv[1]), [sys.argv[2]], spark=spark)\n"
        "    print(*[name for name in os.environ if name.startswith('PYSPARK_GATEWAY')], flush=True)\n"
        "    gateway = spark.sparkContext._gateway\n"
        # Like spark-submit: the JVM already runs with settings of its own, and the environment says where.
        "properties = gateway.jvm.java.lang.System\n"
        "for name in [str(name) for name in properties.getProperties()]:\n"
        "    if name.startswith('spark.'):\n"
        "        properties.clearProperty(name)\n"
        "settings = {'master': 'local[1]', 'app.name': 'job', 'sql.shuffle.partitions': '3', 'ui.enabled': 'false'}\n"
        "for name, value in settings.items():\n"
        "    properties.setProperty(f'spark.{name}', value)\n"
        "os.environ['PYSPARK_GATEWAY_PORT'] = str(gateway.gateway_parameters.port)\n"
        "os.environ['PYSPARK_GATEWAY_SECRET'] = gateway.gateway_parameters.auth_token\n"
        "subprocess.run([sys.executable, '-c', sys.argv[3]], check=True)\n"
        "for name in settings:\n"
        "    properties.clearProperty(f'spark.{name}')\n"
        "print(os.environ['PYSPARK_GATEWAY_PORT'], os.environ['PYSPARK_GATEWAY_SECRET'], flush=True)\n"
        "sys.stdin.read()\n"
    )
    with open(folder / "errors", "w+", encoding="utf-8") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(warehouse), str(folder / "a.jsonl"), submitted],
            env={"PYTHONPATH": os.pathsep.join([str(modules), *sys.path])},
            cwd=empty,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert process.stdout is not None
    try:
        said = [line.rstrip("\n") for line in islice(process.stdout, 3)]
    except BaseException:
        # The test has timed out.
        process.kill()
        raise
    # Later Python processes of Spark are not to be killed.
    (modules / "sitecustomize.py").unlink()
    if len(said) == 3:
        lend_jvm(process, *said[2].split())
    return Ran(said, (folder / "errors").read_text(encoding="utf-8"), empty, warehouse)


def test_spark_starts_with_nothing_in_the_environment_but_a_place_of_modules(ran: Ran) -> None:
    assert len(ran.said) == 3, ran.errors
    assert list(ran.folder.iterdir()) == []


def test_no_child_process_mistakes_the_jvm_for_its_own(ran: Ran) -> None:
    assert ran.said[0] == ""


def test_settings_of_spark_submit_are_kept(ran: Ran) -> None:
    assert ran.said[1] == "local[1] 3 UTC zstd"


def test_a_task_that_is_killed_twice_counts_once(ran: Ran) -> None:
    warehouse = Warehouse(ran.warehouse)
    update(warehouse)

    # Two files are of the tasks that were killed.
    assert len(list((ran.warehouse / "events").glob("*.parquet"))) == 3
    assert texts(read_table(warehouse, "copies").to_pylist()) == texts(plain.tables([TRACE])["copies"])
