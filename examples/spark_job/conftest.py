"""A Spark session for these tests, on the installed Java. Without PySpark, the tests are skipped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one worker of pytest-xdist run all tests that need Spark."""
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here:
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    pytest.importorskip("pyspark", reason="needs PySpark: pip install 'leveret[spark-local]'")
    from leveret.pipeline.computing.spark_session import local_session
    from leveret.spark import register

    session = local_session("test")
    register(session)
    return session
