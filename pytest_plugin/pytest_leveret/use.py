"""Whether a run uses leveret, and what begins with its first use.

pytest loads the plugin into every run of its environment. A run that neither sets an option of leveret, nor has a test
with one of its fixtures or markers, must cost next to nothing: until `begin`, only small modules are imported.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Final

import pytest

from pytest_leveret import contract, flaky, options
from pytest_leveret.guard import register
from pytest_leveret.options import markers
from pytest_leveret.trials import ADDRESS

_IS_USED: Final = pytest.StashKey[bool]()
_loaded: Final[dict[str, ModuleType]] = {}


def is_used(config: pytest.Config) -> bool:
    """Return whether the run has used leveret so far."""
    return config.stash.get(_IS_USED, False)


def is_asked_for(config: pytest.Config) -> bool:
    """Return whether the run is to use leveret, whatever tests it has.

    A controller of pytest-xdist does not see what its workers use before they report it.
    """
    return (
        options.has_settings(config)
        or bool(config.getoption("tx", None) or config.getini(contract.INI))
        or ADDRESS in os.environ
    )


def asks(item: pytest.Item) -> bool:
    """Return whether a test has a fixture or a marker of leveret."""
    return options.FIXTURE in getattr(item, "fixturenames", ()) or any(map(item.get_closest_marker, markers.NAMES))


def has_broker() -> bool:
    """Return whether something has imported the broker, as a test does that makes one itself."""
    return "leveret.broker" in sys.modules


def is_about_leveret(call: pytest.CallInfo[None]) -> bool:
    """Return whether a test may have used a broker, or failed with an error about a fixture whose name is not right."""
    about_fixtures = (pytest.FixtureLookupError, pytest.fail.Exception)
    return has_broker() or (call.excinfo is not None and call.excinfo.errisinstance(about_fixtures))


def begin(config: pytest.Config) -> None:
    """Let the parts of the plugin take part in this run. A second call does nothing.

    Raises UsageError for invalid options.
    """
    if is_used(config):
        return
    # A run of pytester within this process takes what it has imported out of sys.modules, and pytest_leveret keeps it.
    # The next run must not import some of it again, because two copies of a module know nothing of each other.
    sys.modules.update({name: module for name, module in _loaded.items() if name not in sys.modules})
    from pytest_leveret import brokers, explore, real, standins
    from pytest_leveret.brokers import recording, run_broker
    from pytest_leveret.contract import beginning
    from pytest_leveret.real import differences
    from pytest_leveret.reports import diagnosing, otlp, pages, report, topology
    from pytest_leveret.trials import pairs

    _note_loaded()
    config.add_cleanup(_note_loaded)
    config.stash[_IS_USED] = True
    # Each part with what it does for the run.
    parts: dict[str, tuple[object, str]] = {
        "explorer": (explore.Explorer(), "explore"),
        "not-done": (report.NotDone(config), "say what it could not do"),
        "recording": (recording.Recording(), "finish the trace"),
        "reporting": (report.Reporting(), "report"),
        "details": (report.Details(config), "report"),
        "diagnosing": (diagnosing.Diagnosing(), "say what went wrong"),
        "differences": (differences.Differences(config), "compare the run with the last"),
        "usage": (topology.Usage(), "say what no test used of the definitions"),
    }
    for name, (part, what) in parts.items():
        register(config, part, f"leveret-{name}", what)
    brokers.refuse_unusable(config)
    pairs.refuse_pairs(config)
    report.prepare_annotations(config)
    for module in (pages, otlp, real, standins, flaky, beginning, run_broker):
        module.prepare(config)
    if ADDRESS in os.environ:
        from pytest_leveret.trials.processes import Serving

        config.pluginmanager.register(Serving(), "leveret-serving")
    if versions := options.versions(config):
        from pytest_leveret.rehearsals import upgrade_report

        upgrade_report.plan(config, versions)
    # A test can ask for a broker while it runs.
    if (item := config.stash.get(options.RUNNING, None)) is not None:
        brokers.note_start(item)


def _note_loaded() -> None:
    _loaded.update({name: module for name, module in sys.modules.items() if name.startswith("pytest_leveret.")})
