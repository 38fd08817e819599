"""Schedules in several processes: equal results, and only failures that repeat in the process of the test."""

from __future__ import annotations

import gc
import os
import threading
from functools import partial

import pytest

import leveret
from leveret.workers.fork_server import SERVER
from tests.explore import scenarios

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def _is_test(monkeypatch):
    monkeypatch.setattr(scenarios, "IS_TEST", True)


def outcome_of(scenario, **words):
    try:
        exploration = leveret.explore(scenario, on="basic.*", keep_going=True, **words)
    except leveret.ExplorationFailedError as failure:
        exploration = failure.exploration
    return exploration.failed, exploration.run_count, exploration.passed_count, exploration.outcomes


@pytest.mark.parametrize("scenario", [scenarios.order, partial(scenarios.order_until_it_is_there)])
def test_results_are_equal_in_any_number_of_processes(scenario):
    here, elsewhere = (outcome_of(scenario, pairs=15, seed=3, processes=count) for count in (1, 2))

    assert here[1] > 5
    assert here == elsewhere


def test_a_failure_has_the_traceback_of_the_test_process():
    with pytest.raises(leveret.ExplorationFailedError) as failed:
        leveret.explore(scenarios.order, on="basic.publish", faults="lost before", processes=2)

    cause = pytest.ExceptionInfo.from_exception(failed.value.__cause__)
    assert failed.value.exploration.run_count == 1
    assert "order" in [entry.name for entry in cause.traceback]


@pytest.mark.usefixtures("_is_test")
@pytest.mark.parametrize("act", [scenarios.fail, scenarios.die])
def test_what_fails_only_in_another_process_is_a_warning(act):
    scenario = partial(scenarios.patient, act=act)

    with pytest.warns(leveret.LeveretWarning, match="passed when it ran again alone"):
        exploration = leveret.explore(scenario, on="basic.publish", faults="lost before", processes=2)

    assert (exploration.run_count, exploration.passed_count) == (2, 2)
    assert len(exploration.unrepeated) == 2


@pytest.mark.usefixtures("_is_test")
def test_a_scenario_that_fails_without_a_fault_elsewhere_is_refused():
    with pytest.raises(ValueError, match=r"(?s)processes=2: .*the database of this test is not there"):
        leveret.explore(scenarios.only_here, on="basic.*", processes=2)


def test_a_local_function_is_refused_with_the_way_out():
    with pytest.raises(ValueError, match=r"processes=2: another process cannot import .* define it at the top"):
        leveret.explore(lambda broker: scenarios.order(broker), processes=2)


def test_processes_leave_nothing_behind():
    SERVER.stop()
    gc.collect()
    threads, files = set(threading.enumerate()), len(os.listdir("/proc/self/fd")) if os.path.exists("/proc") else 0

    outcome_of(scenarios.order_until_it_is_there, processes=2)

    SERVER.stop()
    gc.collect()
    assert [thread for thread in threading.enumerate() if thread not in threads] == []
    if os.path.exists("/proc"):
        assert len(os.listdir("/proc/self/fd")) <= files


@pytest.mark.usefixtures("_is_test")
def test_processes_that_are_killed_within_a_schedule_leave_no_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    scenario = partial(scenarios.patient, act=scenarios.die)

    with pytest.warns(leveret.LeveretWarning, match="passed when it ran again alone"):
        leveret.explore(scenario, on="basic.publish", faults="lost before", processes=2)

    assert list(tmp_path.iterdir()) == []
