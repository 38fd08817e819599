"""The story of the streaming job. The report's own test covers its story; tests/house covers the others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from examples.__main__ import main


@pytest.fixture
def audible(spark: SparkSession) -> Iterator[None]:
    """Restore Spark's log level; the story keeps Spark from logging expected failures."""
    yield
    spark.sparkContext.setLogLevel("ERROR")


def test_the_story_runs_in_the_existing_session(audible: None, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["spark_job"])

    said = capsys.readouterr().out
    assert code == 0
    assert "the broker nacked a message" in said
    assert "attempt 2: done" in said
