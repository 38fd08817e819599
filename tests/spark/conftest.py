"""The Spark session, with the format registered, that the tests of `format("amqp")` share."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from leveret.spark import register
from tests.spark_session import one_session, spark

__all__ = ["one_session", "spark"]


@pytest.fixture(scope="session")
def session(spark: SparkSession) -> SparkSession:
    register(spark)
    return spark
