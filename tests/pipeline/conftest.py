"""The Spark session that the tests of the pipeline share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark_session import give_time, spark

__all__ = ["spark"]


# Run before pytest-xdist looks at the groups, also if the command line names this folder.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    give_time(items, Path(__file__).parent)
