"""Settings for all tests: pytester, which only this file may load, and the xdist worker of each test."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

# Folders whose tests are about warnings, or run a pytest of their own.
_LOOKING_AT_WARNINGS = ("checks", "explore", "plugin", "scripted", "users")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore leveret's warnings, except in tests about them: most tests of a broker lose messages on purpose."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.path.relative_to(here).parts[0] not in _LOOKING_AT_WARNINGS:
            item.add_marker(pytest.mark.filterwarnings("ignore::leveret.LeveretWarning"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Return a scheduler that runs all tests on Spark on one worker, as they share a session."""
    from tests.scheduling import OneSparkSession

    return OneSparkSession(config, log)
