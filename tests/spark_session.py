"""One Spark session for all tests that need one: starting a session and warming up its JVM take seconds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from leveret.spark.jvm import announced
from tests.scheduling import is_on_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Lend = Callable[["subprocess.Popen[str]", str, str], None]


@pytest.fixture(scope="session")
def lend_jvm() -> Iterator[Lend]:
    """Return what lends the JVM of a program to the sessions of this process, unless they have one.

    It takes the port of the JVM's gateway and its secret. The program ends when its input does.
    """
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    lenders: list[subprocess.Popen[str]] = []

    def lend(program: subprocess.Popen[str], port: str, secret: str) -> None:
        lenders.append(program)
        if SparkContext._gateway is None:
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            with announced():
                os.environ |= {"PYSPARK_GATEWAY_PORT": port, "PYSPARK_GATEWAY_SECRET": secret}
                SparkContext._ensure_initialized(gateway=launch_gateway())

    yield lend
    for program in lenders:
        program.communicate()
        assert program.returncode == 0, "the program that has lent its JVM did not end well"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from leveret.pipeline.computing.spark_session import WITHOUT_CALL_SITES, local_session

    session = local_session("test", settings=WITHOUT_CALL_SITES)
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def one_session(request: pytest.FixtureRequest) -> None:
    """Fail a test that asks for the session on another worker than the session's, where it starts a second JVM."""
    if "spark" in request.fixturenames and not is_on_spark(request.node.nodeid):
        pytest.fail("this test uses the Spark session: name its file in tests/scheduling.py")
