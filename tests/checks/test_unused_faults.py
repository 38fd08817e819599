"""The check for faults that were added and never fired."""

from __future__ import annotations

import warnings

import pytest

from leveret import Broker, CheckFailedError, LeveretWarning
from tests.plugin.conftest import no_options_of_ours, run, suite

__all__ = ["no_options_of_ours", "run", "suite"]


def test_a_fault_that_never_fired_is_reported_with_every_way_to_allow_it(broker, found):
    broker.faults.reset_peer(on="basic.ack", queue="orders.work")

    assert found(broker)["unused_fault"].splitlines() == [
        "unused_fault: 1 fault that the test added did not happen, or too rarely",
        "  <reset_peer on basic.ack, queue='orders.work', times=1> never fired: nothing matched",
        "  if you expect this: optional=True, broker.allow(\"unused_fault\", queue='orders.work'), "
        'Broker(checks="unused_fault=off")',
    ]
    assert found(broker) == {}


def test_an_unused_fault_fails_the_test_by_default():
    with pytest.raises(CheckFailedError, match=r"reset_peer on basic\.ack"), Broker() as broker:
        broker.faults.reset_peer(on="basic.ack")


def test_all_unused_faults_are_reported_together(broker, found):
    broker.faults.reset_peer(on="basic.ack")
    broker.faults.nack_publishes()

    assert "2 faults that the test added did not happen" in found(broker)["unused_fault"]


def test_a_fault_that_fired_or_is_optional_is_not_reported(broker, connect, found):
    broker.faults.reset_peer(on="basic.ack", optional=True)
    with connect(broker).channel() as channel:
        broker.faults.drop()
        channel.basic_publish("", "orders.work", b"1")

    assert "unused_fault" not in found(broker)


def test_a_fault_added_while_the_check_is_allowed_is_optional(broker, found):
    with broker.allow("unused_fault", queue="orders.work"):
        broker.faults.cancel_consumers(on="basic.ack", queue="orders.work")
        broker.faults.nack_publishes()

    text = found(broker)["unused_fault"]

    assert "nack_publishes" in text
    assert "cancel_consumers" not in text


def leave_block(broker):
    with broker.faults.reset_peer(on="basic.ack"):
        broker.faults.nack_publishes()
        broker.publish("orders", "payment.made")


def test_leaving_the_block_of_an_unused_fault_reports_it_alone_and_at_once():
    with Broker() as broker:
        broker.declare_exchange("orders")
        with pytest.raises(CheckFailedError, match=r"reset_peer on basic\.ack") as failed:
            leave_block(broker)
        broker.allow("unused_fault")
        broker.assert_dropped("orders")

    assert failed.traceback[-1].path.name != __file__
    assert "nack_publishes" not in str(failed.value)
    assert "unroutable" not in str(failed.value)


@pytest.mark.parametrize(("level", "count"), [("off", 0), ("warning", 1)])
def test_the_level_of_unused_fault_is_set_like_any_other(level, count):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with Broker(checks=f"unused_fault={level}") as broker, broker.faults.reset_peer(on="basic.ack"):
            pass

    assert [one.category for one in caught] == [LeveretWarning] * count


def test_a_reset_keeps_the_fault_that_never_fired(broker, found):
    broker.faults.reset_peer(on="basic.ack")

    broker.reset()

    assert "<reset_peer on basic.ack, times=1> never fired: nothing matched" in found(broker)["unused_fault"]
    broker.reset()
    assert "unused_fault" not in found(broker)


def test_a_reset_keeps_no_fault_that_was_optional_or_fired_or_was_reported(broker, connect, found):
    broker.faults.reset_peer(on="basic.ack", optional=True)
    broker.faults.nack_publishes()
    assert "nack_publishes" in found(broker)["unused_fault"]
    with connect(broker).channel() as channel:
        broker.faults.drop()
        channel.basic_publish("", "orders.work", b"1")

    broker.reset()

    assert "unused_fault" not in found(broker)


@pytest.mark.parametrize("order", ["reset_before", "reset_after"])
def test_a_fixture_that_resets_the_broker_of_the_session_hides_no_unused_fault(run, order):
    reset, before = "leveret_session.reset()", order == "reset_before"

    result = run(f"""
        import pytest

        @pytest.fixture(autouse=True)
        def broker(leveret_session):
            {reset if before else "pass"}
            yield leveret_session
            {"pass" if before else reset}

        def test_a(broker):
            broker.faults.reset_peer(on="basic.ack")

        def test_b(broker):
            pass
    """)

    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_a*", "* <reset_peer on basic.ack, times=1> never fired*"])


@pytest.mark.parametrize(("fired", "is_reported"), [(1, True), (2, True), (3, False), (4, False)])
def test_a_fault_that_fired_less_often_than_its_times_is_reported(broker, connect, found, fired, is_reported):
    channel = connect(broker).channel()
    broker.faults.drop(on="basic.publish", times=3)
    for _ in range(fired):
        channel.basic_publish("", "orders.work", b"1")

    text = found(broker).get("unused_fault", "")

    assert bool(text) == is_reported
    assert not text or f"fired only {fired} time" in text
    assert not text or "of times=3" in text


def test_a_block_that_ends_before_its_fault_fired_often_enough_fails(connect):
    with Broker() as broker:
        broker.declare_queue("orders.work")
        fault = broker.faults.drop(on="basic.publish", times=2)
        connect(broker).channel().basic_publish("", "orders.work", b"1")

        with pytest.raises(CheckFailedError, match="fired only 1 time of times=2"), fault:
            broker.sync()


@pytest.mark.parametrize("option", [{"optional": True}, {"probability": 0.9}])
def test_a_fault_with_a_probability_or_that_is_optional_may_fire_less_often(broker, connect, found, option):
    channel = connect(broker).channel()
    broker.faults.drop(on="basic.publish", times=3, **option)
    for _ in range(2):
        channel.basic_publish("", "orders.work", b"1")

    assert "unused_fault" not in found(broker)
