"""One Spark session for all tests that need one: starting a session and warming up its JVM take seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from leveret.pipeline.spark_session import WITHOUT_CALL_SITES, local_session
from tests.scheduling import is_on_spark


def give_time(items: list[pytest.Item], folder: Path) -> None:
    """Raise the timeout of all tests below a folder, for busy machines.

    The first test takes longest, because Java compiles the code that it runs. Raises UsageError if a test asks for the
    session and would not run on its worker.
    """
    for item in items:
        if folder in item.path.parents:
            item.add_marker(pytest.mark.timeout(400))
            if "spark" in getattr(item, "fixturenames", ()) and not is_on_spark(item.nodeid):
                raise pytest.UsageError(f"{item.nodeid} uses the Spark session: name its file in tests/scheduling.py")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = local_session("test", settings=WITHOUT_CALL_SITES)
    yield session
    session.stop()
