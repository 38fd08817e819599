"""The state of the broker that a timeout or an interrupted test shows."""

from __future__ import annotations

import bdb
import sys
import threading

import pytest

from leveret import Broker, WaitTimeoutError
from leveret.observe.calls.callers import is_debugged
from tests.plugin.conftest import no_options_of_ours, run_apart, suite

__all__ = ["no_options_of_ours", "run_apart", "suite"]


@pytest.fixture
def stuck(broker, connect):
    """A broker whose worker holds a message and does nothing."""
    channel = connect(broker, "worker").channel()
    broker.publish("", "orders.work", b"1")
    channel.basic_get("orders.work")
    return broker


@pytest.mark.parametrize(
    ("wait", "error"),
    [
        (lambda broker: broker.wait_idle(timeout=0.01), WaitTimeoutError),
        (lambda broker: broker.assert_acked("orders.work", timeout=0.01), AssertionError),
        (lambda broker: broker.assert_empty("orders.work", timeout=0.01), AssertionError),
        (lambda broker: broker.assert_refused(404, timeout=0.01), AssertionError),
    ],
)
def test_a_timeout_shows_queues_holders_events_and_the_seed(stuck, wait, error):
    with pytest.raises(error) as raised:
        wait(stuck)

    (text,) = raised.value.__notes__
    assert text.startswith(f"state of the broker on port {stuck.port}, RabbitMQ 4.3\nset-up: c1 worker; ")
    assert "orders.work 0 ready, 1 unacked held by a basic.get of worker for" in text


def test_an_assertion_that_does_not_wait_shows_the_state_too(stuck):
    with pytest.raises(AssertionError) as raised:
        stuck.assert_acked("orders.work")

    assert [note.splitlines()[1] for note in raised.value.__notes__] == [
        "set-up: c1 worker; 1 exchange, 1 queue, 1 binding"
    ]


class Debugger(bdb.Bdb):
    def trace_dispatch(self, frame, event, arg) -> None:
        """Trace nothing."""


def test_a_debugger_is_detected_and_a_coverage_tracer_is_not_one():
    previous = sys.gettrace()
    try:
        sys.settrace(Debugger().trace_dispatch)
        seen = is_debugged()
        sys.settrace(lambda frame, event, argument: None)
        mistaken = is_debugged()
    finally:
        sys.settrace(previous)

    assert seen
    assert not mistaken


def test_a_wait_does_not_time_out_in_a_debugger(broker):
    enough = threading.Event()
    outcome = []

    def wait():
        sys.settrace(Debugger().trace_dispatch)
        outcome.append(broker.assert_published("orders", timeout=0.01).text)
        enough.set()

    waiter = threading.Thread(target=wait)
    waiter.start()
    # Longer in real time than the wait's own limit.
    assert not enough.wait(0.3)
    broker.publish("orders", "order.created", "late")
    waiter.join(5)

    assert outcome == ["late"]


def interrupt():
    with Broker() as broker:
        broker.declare_queue("orders")
        raise KeyboardInterrupt


def test_an_interrupted_block_shows_the_state(capsys):
    with pytest.raises(KeyboardInterrupt):
        interrupt()

    shown = capsys.readouterr().err
    assert "set-up: 1 queue" in shown
    assert "queues: empty: orders" in shown


def test_an_interrupted_test_shows_its_brokers(run_apart):
    result = run_apart("""
        def test_it(leveret):
            leveret.declare_queue("orders")
            raise KeyboardInterrupt
    """)

    result.stdout.fnmatch_lines(
        ["*leveret, interrupted in *::test_it*", "state of the broker on port *", "queues: empty: orders"]
    )
