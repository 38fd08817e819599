"""What the tests of the pipeline share: one Spark session."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark_session import give_time, spark

__all__ = ["spark"]


# Before pytest-xdist looks at the groups, also where this folder is named on the command line.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    give_time(items, Path(__file__).parent)
