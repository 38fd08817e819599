"""The Spark session of the pipeline."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession

from leveret.pipeline.computing.spark_session import local_session, session


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
