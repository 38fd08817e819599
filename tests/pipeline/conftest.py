"""The Spark session and the S3 server that the tests of the pipeline share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.pipeline.s3_server import s3_server
from tests.spark_session import lend_jvm, one_session, spark

__all__ = ["lend_jvm", "one_session", "spark"]


@pytest.fixture(scope="session")
def s3_environment() -> Iterator[dict[str, str]]:
    with s3_server() as environment:
        yield environment


@pytest.fixture
def s3(request: pytest.FixtureRequest, s3_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Let clients in this process, and in those that it starts, find the S3 server; return a URL for this test."""
    for name, value in s3_environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://warehouses/{request.node.name}/ü 100% b"
