"""Fixtures that run a user's test suite in a pytest of its own."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from unittest import mock

# Keep these imported. Otherwise every run in this process would import them anew.
import aio_pika  # noqa: F401
import pika  # noqa: F401
import pytest
import pytest_leveret.plugin
import pytest_leveret.rehearsals.fingerprint

import leveret.broker
import leveret.engine.harness
import leveret.observe.texts.report
import leveret.observe.views.views
import leveret.page.formats.html
import leveret.page.formats.index
import leveret.page.readings.live
import leveret.trace.writer
import leveret.workers.worker  # noqa: F401

CLIENT = """
import pika

def connect(url, name="worker"):
    parameters = pika.URLParameters(url)
    parameters.client_properties = {"connection_name": name}
    return pika.BlockingConnection(parameters)
"""

# What an earlier test of this process has left to the garbage collector is none of a run's warnings. The last -W wins.
NO_LEFTOVERS = ("-W", "ignore::pytest.PytestUnraisableExceptionWarning")
NO_COROUTINES = ("-W", "ignore:coroutine:RuntimeWarning")
# Plugins of pytest that no run here uses. Each takes a millisecond of each run.
_UNUSED = (
    *("cacheprovider", "doctest", "faulthandler", "legacypath"),
    *("pastebin", "setuponly", "setupplan", "stepwise"),
)
_WITHOUT_UNUSED = tuple(word for name in _UNUSED for word in ("-p", f"no:{name}"))

Run = Callable[..., pytest.RunResult]


def _pass(*_: object) -> None:
    """Do nothing."""


@pytest.fixture(autouse=True)
def no_options_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [name for name in os.environ if name.startswith("LEVERET_")]:
        monkeypatch.delenv(variable)


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.Pytester]:
    """A directory for a suite, with a module `client`; pytest loads leveret's plugin and those named to it.

    For a plugin after `-p`, pytest reads the entry points of all installed packages.
    """
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_leveret.plugin")
    # Each run looks for fixtures hidden by other decorators, to warn of them, among the names of all its plugins. That
    # takes a tenth of its time, and the run that this test is a part of has looked at leveret's.
    monkeypatch.setattr("_pytest.fixtures.FixtureManager._check_for_wrapped_fixture", _pass, raising=False)
    pytester.syspathinsert()
    pytester.makepyfile(client=CLIENT)
    # A finalizer that logs a traceback parses source. Within pytest's parse of a test file, that ends the run before
    # CPython 3.11.8. Earlier tests of this process have left such objects.
    gc.disable()
    # A suite that writes the broker's URL into the environment, as many do, would send later workers to a dead port.
    with mock.patch.dict(os.environ):
        yield pytester
    gc.enable()


@pytest.fixture
def run(suite: pytest.Pytester) -> Run:
    """Return a function that runs the source of a test file in this process."""

    def run_source(source: str, *arguments: str) -> pytest.RunResult:
        suite.makepyfile(source)
        options = (*_WITHOUT_UNUSED, *NO_COROUTINES, *arguments, *NO_LEFTOVERS)
        # For a plugin that it knows by name only, pytest reads what all installed packages offer.
        return suite.runpytest_inprocess(*options, plugins=[pytest_leveret.plugin])

    return run_source


@pytest.fixture
def run_apart(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs the source of a test file in a new process, beside the plugins named."""
    # The run is its own, even if this test is part of one with workers.
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_TESTRUNUID", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(name, raising=False)

    def run_source(source: str, *arguments: str, beside: tuple[str, ...] = ()) -> pytest.RunResult:
        suite.makepyfile(source)
        plugins = [word for name in beside for word in ("-p", name)]
        return suite.runpytest_subprocess(*plugins, "-p", "no:cacheprovider", *arguments)

    return run_source
