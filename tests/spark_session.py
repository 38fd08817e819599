"""One Spark session for all tests that need one: starting a session and warming up its JVM take seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from leveret.pipeline.computing.spark_session import WITHOUT_CALL_SITES, local_session
from tests.scheduling import is_on_spark


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
