"""One Spark session for all tests that need one: starting one takes seconds, and what Java compiles it has to learn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from leveret.pipeline.spark_session import WITHOUT_CALL_SITES, local_session


def give_time(items: list[pytest.Item], folder: Path) -> None:
    """All tests below a folder may take long on a busy machine.

    Longest when they are the first: Java compiles what it runs.
    """
    for item in items:
        if folder in item.path.parents:
            item.add_marker(pytest.mark.timeout(400))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = local_session("test", settings=WITHOUT_CALL_SITES)
    yield session
    session.stop()
