"""For all tests: pytester, which only this file may load, one browser, and the xdist worker of each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chromium import browser, chromium, expected_noise, open_address, open_file, tab

__all__ = ["browser", "chromium", "expected_noise", "open_address", "open_file", "tab"]

pytest_plugins = ["pytester"]

# Folders whose tests are about warnings, or run a pytest of their own.
_LOOKING_AT_WARNINGS = ("checks", "explore", "plugin", "scripted", "users")
# Each of these tests takes seconds and shares nothing with others.
_LONG = ("tests/frameworks/", "tests/typing/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put long tests first, and ignore leveret's warnings where they are not what is tested.

    pytest-xdist hands out single tests in the order of collection, so only short ones are left at the end of a run.
    Most tests of a broker lose messages on purpose.
    """
    items.sort(key=lambda item: not item.nodeid.startswith(_LONG))
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.path.relative_to(here).parts[0] not in _LOOKING_AT_WARNINGS:
            item.add_marker(pytest.mark.filterwarnings("ignore::leveret.LeveretWarning"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Return a scheduler that runs all tests on Spark on one worker, as they share a session."""
    from tests.scheduling import OneSparkSession

    return OneSparkSession(config, log)
