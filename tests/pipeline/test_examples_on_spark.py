"""The examples on Spark tell their stories; those of the others are told in tests/house/test_examples.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from examples.__main__ import STORIES, main


@pytest.fixture
def audible(spark: SparkSession) -> Iterator[None]:
    """One of them has Spark tell nothing of what fails."""
    yield
    spark.sparkContext.setLogLevel("ERROR")


def test_the_stories_are_told_in_the_session_there_is(audible: None, capsys: pytest.CaptureFixture[str]) -> None:
    code = main([name for name in STORIES if "spark" in name])

    said = capsys.readouterr().out
    assert code == 0
    assert "the broker nacked a message" in said
    assert "attempt 2: done" in said
    assert "jobs.retry" in said
    assert "open it in a browser" in said
