"""What all tests share: pytester, which can only be named here, and who runs which test."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

# Whose tests are about warnings, or run a pytest of their own.
_LOOKING_AT_WARNINGS = ("checks", "explore", "plugin", "scripted", "users")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Most tests of a broker lose messages on purpose: say nothing of it but where it is the subject."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.path.relative_to(here).parts[0] not in _LOOKING_AT_WARNINGS:
            item.add_marker(pytest.mark.filterwarnings("ignore::leveret.LeveretWarning"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """The tests on Spark share one session, so they share a worker of pytest-xdist too."""
    from tests.scheduling import OneSparkSession

    return OneSparkSession(config, log)
