"""One Spark session for all tests that need one: starting a session and warming up its JVM take seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from leveret.pipeline.computing.spark_session import WITHOUT_CALL_SITES, local_session
from tests.scheduling import is_on_spark


def give_time(items: list[pytest.Item], folder: Path) -> None:
    """Raise the timeout of all tests below a folder, for busy machines.

    The first test takes longest, because Java compiles the code that it runs.
    """
    for item in items:
        if folder in item.path.parents:
            item.add_marker(pytest.mark.timeout(400))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = local_session("test", settings=WITHOUT_CALL_SITES)
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def one_session(request: pytest.FixtureRequest) -> None:
    """Fail a test that asks for the session on another worker than the session's, where it starts a second JVM."""
    if "spark" in request.fixturenames and not is_on_spark(request.node.nodeid):
        pytest.fail("this test uses the Spark session: name its file in tests/scheduling.py")
