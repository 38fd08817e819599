"""The Spark session of the pipeline."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession

from leveret.pipeline.spark_session import local_session, session


def test_an_existing_session_is_used_unchanged(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")

    with session("big", settings={"spark.sql.shuffle.partitions": "77"}) as taken:
        assert taken is spark

    assert spark.conf.get("spark.sql.shuffle.partitions") == before
    assert spark.range(3).count() == 3
    assert local_session() is spark


def test_python_workers_import_the_pyspark_that_is_installed(spark: SparkSession) -> None:
    def places(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"place": [pyspark.__file__]})

    (row,) = spark.range(1).mapInArrow(places, "place string").collect()

    # If pyspark were loaded from a zip, every Python worker would compile it anew.
    assert row.place == pyspark.__file__


def test_settings_of_spark_submit_are_kept(tmp_path: Path) -> None:
    program = (
        "from leveret.pipeline.spark_session import session\n"
        "from leveret.spark import jvm\n"
        # Like spark-submit: the JVM already runs, and the environment says where.
        "settings = {'spark.master': 'local[1]', 'spark.sql.shuffle.partitions': '3', 'spark.ui.enabled': 'false'}\n"
        "jvm.start('test', settings)\n"
        "with session('small') as spark:\n"
        "    names = ('shuffle.partitions', 'session.timeZone', 'parquet.compression.codec')\n"
        "    print(spark.sparkContext.master, *[spark.conf.get(f'spark.sql.{name}') for name in names])\n"
    )

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, timeout=90)

    assert (ran.returncode, ran.stdout) == (0, "local[1] 3 UTC zstd\n"), ran.stderr


def test_spark_starts_with_nothing_in_the_environment(tmp_path: Path) -> None:
    program = (
        "from leveret.pipeline.spark_session import session\n"
        "import os\n"
        "with session('test') as spark:\n"
        "    print(spark.range(7).count(), sorted(name for name in os.environ if 'GATEWAY' in name))\n"
    )

    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={}, cwd=tmp_path, timeout=90
    )

    assert (ran.returncode, ran.stdout) == (0, "7 []\n"), ran.stderr
    assert list(tmp_path.iterdir()) == []
