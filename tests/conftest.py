"""For all tests: pytester, which only this file may load, one browser, Hypothesis, and each test's xdist worker."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from tests import extras
from tests.chromium import browser, chromium, expected_noise, open_address, open_file, tab
from tests.hanging import Watch

__all__ = ["browser", "chromium", "expected_noise", "open_address", "open_file", "tab"]

pytest_plugins = ["pytester"]

TESTS = Path(__file__).parent

# The same examples in each run, so a run fails for its change alone. `pytest --hypothesis-profile=thorough` tries more.
settings.register_profile("suite", derandomize=True, database=None, deadline=None, max_examples=40)
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile("suite")

# Hundreds of processes that the tests start import leveret. If no bytecode is written, each compiles it anew, which
# takes half of its time. So it is written even if the environment says that it should not be.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Folders whose tests are about warnings, or run a pytest of their own.
_LOOKING_AT_WARNINGS = tuple(
    f"tests/{folder}/" for folder in ("checks", "explore", "mistakes", "plugin", "scripted", "users")
)
# A client that keeps a message on purpose costs a second a step, and ten where another thread is at work. Such a test
# passes settle=0.
_WAITED_IN_VAIN = r"error:advance\(\) waited [\d.]+ s of real time:leveret.LeveretWarning"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without garbage collections: they look at more objects each time, and take a fifth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let each worker begin with another folder. It finds the files of the others compiled when it comes to them."""
    report = yield
    worker = getattr(collector.config, "workerinput", None)
    if worker is not None and collector.path == TESTS:
        first = len(report.result) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
        report.result = [*report.result[first:], *report.result[:first]]
    return report


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put long tests first on workers, and ignore all of leveret's warnings but one where they are not what is tested.

    Most tests of a broker lose messages on purpose.
    """
    if hasattr(config, "workerinput"):
        from tests.scheduling import rank

        items.sort(key=lambda item: (rank(item.nodeid), item.path))
    for item in items:
        if item.nodeid.startswith("tests/") and not item.nodeid.startswith(_LOOKING_AT_WARNINGS):
            item.add_marker(pytest.mark.filterwarnings("ignore::leveret.LeveretWarning", _WAITED_IN_VAIN))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Take the collected tests, some 500,000 objects, out of every later garbage collection."""
    _freeze(session)
    if hasattr(session.config, "workerinput"):
        from tests.reporting import send_once_a_test

        send_once_a_test(session.config)


def pytest_configure(config: pytest.Config) -> None:
    """End the run if a test hangs so that pytest-timeout cannot stop it, and leave out what cannot run here."""
    config.pluginmanager.register(Watch(800))
    config.pluginmanager.register(extras)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Take out what has survived a full collection since: modules and reports, nearly 100,000 objects in the end.

    leveret looks at all objects of the process when it refuses or returns a publish.
    """
    if _full_collections() > item.session.stash[_FROZEN_AFTER]:
        _freeze(item.session)


# How many full collections there were when objects were last taken out.
_FROZEN_AFTER = pytest.StashKey[int]()


def _full_collections() -> int:
    return gc.get_stats()[-1]["collections"]


def _freeze(session: pytest.Session) -> None:
    # Frozen before a collection has seen them, tuples of plain values stay tracked, and so does what holds them.
    gc.collect()
    gc.freeze()
    session.stash[_FROZEN_AFTER] = _full_collections()


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """Take one worker more than there are processors, because some tests wait for other processes."""
    return (yield) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """Read what a worker sends once a test."""
    from tests.reporting import read_all_at_once

    read_all_at_once(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Return a scheduler that runs all tests on Spark on one worker, as they share a session."""
    from tests.scheduling import OneSparkSession

    return OneSparkSession(config, log)
