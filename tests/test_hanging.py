"""A test that hangs ends the run, whatever the test before it did."""

from __future__ import annotations

import pytest

CONFTEST = """
from tests.hanging import Watch

pytest_plugins = ["pytester"]
watch = Watch(60)

def pytest_configure(config):
    config.pluginmanager.register(watch)

def pytest_runtest_teardown():
    # Only the next test hangs.
    watch._limit_s = 2
"""

HANGS = """
def test_that_hangs():
    import time
    time.sleep(600)
"""

FAILS = "def test_before(): assert False"
# The failure is that of a run within the run.
FAILS_WITHIN = """
def test_before(pytester):
    pytester.makepyfile("def test_within(): assert False")
    assert pytester.runpytest_inprocess().ret == 1
"""


@pytest.mark.parametrize("before", [FAILS, FAILS_WITHIN], ids=["fails", "runs one that fails"])
def test_a_test_that_hangs_ends_the_run_after_a_test_that(
    before: str, pytester: pytest.Pytester, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(pytestconfig.rootpath))
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(before + HANGS)

    run = pytester.runpytest_subprocess(timeout=120)

    assert run.ret == 1
    run.stderr.fnmatch_lines(["Timeout (0:00:02)!", "*in test_that_hangs"])
