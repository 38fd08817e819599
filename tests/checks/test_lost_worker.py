"""Workers that a test does not start, and workers whose failure it does not see."""

from __future__ import annotations

import sys

import pytest

from leveret import Broker, BrokerError
from tests.plugin.conftest import no_options_of_ours, run, suite

__all__ = ["no_options_of_ours", "run", "suite"]

STAYS = [sys.executable, "-c", "import time; time.sleep(600)"]
FAILS = [sys.executable, "-c", "raise SystemExit(3)"]


def test_a_worker_that_was_never_started_is_reported_with_its_line(broker, found):
    broker.worker(STAYS, name="billing")

    text = found(broker)["lost_worker"]

    assert "worker 'billing', made at " in text
    assert "test_lost_worker.py:" in text
    assert "was never started: use it in a with statement" in text
    assert "lost_worker" not in found(broker)


def test_a_worker_that_failed_unseen_is_reported_with_its_exit_code(broker, found):
    worker = broker.worker(FAILS, name="billing").start()
    while worker.is_running:
        broker.sync()

    broker.stop()

    assert "ended by itself with 3: use it in a with statement" in found(broker)["lost_worker"]


def test_a_worker_that_failed_before_the_test_ended_it_is_reported(broker, found):
    worker = broker.worker(FAILS).start()
    while worker.is_running:
        broker.sync()

    worker.end()

    assert "ended by itself with 3" in found(broker)["lost_worker"]


def test_a_failure_whose_exit_code_the_test_has_read_is_not_reported(broker, found):
    worker = broker.worker(FAILS).start()
    while worker.returncode is None:
        broker.sync()

    broker.stop()

    assert "lost_worker" not in found(broker)


def test_a_failure_that_the_test_has_seen_is_not_reported_again(broker, found):
    worker = broker.worker(FAILS).start()
    with pytest.raises(BrokerError, match="ended with 3 before it consumes"):
        worker.wait_ready()

    broker.stop()

    assert "lost_worker" not in found(broker)


def test_a_worker_that_still_runs_ends_with_its_broker_and_is_not_reported(broker, found):
    worker = broker.worker(STAYS).start()

    broker.stop()

    assert not worker.is_running
    assert "lost_worker" not in found(broker)


def test_a_worker_that_its_block_or_the_test_ends_is_not_reported():
    with Broker() as broker:
        broker.worker(STAYS).start().end()
        with broker.worker(STAYS, ready=lambda: True):
            broker.check()


def test_a_worker_that_cannot_be_started_is_not_reported():
    with Broker() as broker, pytest.raises(FileNotFoundError):
        broker.worker(["no-such-program"]).start()


def test_a_failed_test_says_that_its_worker_was_never_started(run):
    result = run(
        """
        def test_it(leveret):
            leveret.declare_queue("payments")
            leveret.worker(["billing"])
            leveret.publish("", "payments", b"7")
            leveret.assert_acked("payments")
        """
    )

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*what went wrong*", "worker 'billing', made at test_*.py:3 in test_it, was never started: use it in a with *"]
    )
