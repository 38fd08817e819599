"""The Spark session, with the format registered, that the tests of `format("amqp")` share."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from leveret.spark import register
from tests.spark_session import give_time, one_session, spark

__all__ = ["one_session", "spark"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    give_time(items, Path(__file__).parent)


@pytest.fixture(scope="session")
def session(spark: SparkSession) -> SparkSession:
    register(spark)
    return spark
