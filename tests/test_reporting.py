"""The conftest of all tests lets a worker of pytest-xdist report once a test."""

from __future__ import annotations

import pytest

CONFTEST = """
from tests.reporting import read_all_at_once, send_once_a_test

def pytest_configure_node(node):
    read_all_at_once(node)

def pytest_collection_finish(session):
    if hasattr(session.config, "workerinput"):
        send_once_a_test(session.config)
"""

TESTS = """
import os
import warnings

import pytest

def test_passes():
    pass

def test_warns_and_fails():
    print("printed before it failed")
    warnings.warn("seen before it failed")
    assert 6 * 9 == 42

@pytest.fixture
def broken():
    yield
    raise RuntimeError("raised at its end")

def test_passes_and_has_an_error(broken):
    pass

def test_is_skipped():
    pytest.skip("of no use")

def test_ends_its_process():
    os._exit(3)
"""


def test_all_that_happened_to_tests_is_reported(
    pytester: pytest.Pytester, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(pytestconfig.rootpath))
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_TESTRUNUID", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(name, raising=False)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    run = pytester.runpytest_subprocess("-p", "xdist", "-n", "1", "-rs")
    run.assert_outcomes(passed=2, failed=2, errors=1, skipped=1, warnings=1)
    run.stdout.fnmatch_lines_random(
        [
            "E *assert (6 * 9) == 42",
            "printed before it failed",
            "*UserWarning: seen before it failed",
            "E *RuntimeError: raised at its end",
            "SKIPPED*of no use",
            "worker 'gw0' crashed while running 'test_*.py::test_ends_its_process'",
        ]
    )
