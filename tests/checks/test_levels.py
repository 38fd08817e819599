"""Switching checks on and off, allowing findings, and raising levels."""

from __future__ import annotations

import warnings

import pytest

from leveret import Broker, CheckFailedError, LeveretWarning


def test_an_error_fails_at_the_end_of_the_block():
    with pytest.raises(CheckFailedError, match="unroutable: 1 message"), Broker(checks="unroutable=error") as broker:
        broker.publish("amq.topic", "nowhere")


def test_a_name_alone_means_error():
    with pytest.raises(CheckFailedError, match="unroutable"), Broker(checks=["off", "unroutable"]) as broker:
        broker.publish("amq.topic", "nowhere")


def leave_a_message(checks):
    with Broker(checks=checks) as broker:
        broker.declare_queue("inspected")
        broker.publish("", "inspected", b"1")


def test_a_level_alone_leaves_checks_off_that_are_off_by_default():
    leave_a_message("error")


@pytest.mark.parametrize("checks", ["all=error", {"all": "error"}, "left_ready=warning, error"])
def test_a_check_that_is_off_by_default_is_raised_by_all_or_once_it_is_on(checks):
    with pytest.raises(CheckFailedError, match="left_ready: 1 message"):
        leave_a_message(checks)


def test_a_level_alone_turns_the_defaults_on_again():
    with pytest.raises(CheckFailedError, match="unroutable"), Broker(checks="off, error") as broker:
        broker.publish("amq.topic", "nowhere")


def test_later_levels_win():
    with Broker(checks={"all": "error", "unroutable": "off"}) as broker:
        broker.publish("amq.topic", "nowhere")


@pytest.mark.parametrize(
    ("checks", "text"),
    [
        ("unroutabel=error", "did you mean 'unroutable'?"),
        ("unroutable=loud", "unknown level of a check 'loud'; expected one of error, warning, off"),
    ],
)
def test_a_misspelt_check_or_level_is_refused(checks, text):
    with pytest.raises(ValueError, match=text.replace("?", r"\?")):
        Broker(checks=checks)


def fail_after_a_loss():
    with Broker(checks="error") as broker:
        broker.publish("amq.topic", "nowhere")
        raise ZeroDivisionError


def test_nothing_is_reported_if_the_test_fails_anyway():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ZeroDivisionError):
            fail_after_a_loss()


def test_a_warning_that_a_filter_makes_an_error_is_raised():
    with warnings.catch_warnings():
        warnings.simplefilter("error", LeveretWarning)
        with pytest.raises(LeveretWarning, match="unroutable"), Broker() as broker:
            broker.publish("amq.topic", "nowhere")


def lose_in_two_ways():
    with Broker(checks="error") as broker:
        broker.publish("amq.topic", "nowhere")
        broker.declare_queue("last", arguments={"x-max-length": 1})
        broker.publish("", "last", b"1")
        broker.publish("", "last", b"2")


def test_several_failures_are_raised_together():
    with pytest.raises(CheckFailedError) as failed:
        lose_in_two_ways()

    assert "unroutable: 1 message" in str(failed.value)
    assert "overflowed_into_nothing: 1 message" in str(failed.value)


def test_a_finding_allowed_in_a_block_is_not_reported(broker, found):
    with broker.allow("unroutable", exchange="orders", routing_key="payment.*"):
        broker.publish("orders", "payment.made")
    broker.publish("orders", "payment.lost")

    text = found(broker)["unroutable"]

    assert "payment.lost" in text
    assert "payment.made" not in text


def test_a_finding_allowed_in_one_place_is_reported_in_another(broker, found):
    with broker.allow("unroutable", exchange="amq.topic"):
        broker.publish("orders", "payment.made")

    assert "payment.made" in found(broker)["unroutable"]


def test_without_a_block_an_allowance_lasts_to_the_end(broker, found):
    broker.publish("orders", "payment.before")
    broker.allow("unroutable")
    broker.publish("orders", "payment.after")

    text = found(broker)["unroutable"]

    assert "payment.before" in text
    assert "payment.after" not in text


def test_a_connection_opened_while_it_was_allowed_may_stay(broker, connect, found):
    with broker.allow("connection_not_closed", client="shop"), broker.allow("channel_not_closed"):
        connect(broker, "shop").channel()
        connect(broker, "other")

    texts = found(broker)

    assert "other" in texts["connection_not_closed"]
    assert "shop" not in texts["connection_not_closed"]
    assert "channel_not_closed" not in texts


def test_allowing_an_unknown_check_names_the_closest(broker):
    with pytest.raises(ValueError, match="did you mean 'unroutable'"):
        broker.allow("unroutabel")
    with pytest.raises(TypeError, match="did you mean 'exchange'"):
        broker.allow("unroutable", exchang="orders")


def test_a_trace_that_is_too_short_is_reported(broker, found):
    recorder = broker._engine.recorder
    with broker._engine.lock:
        for number in range(recorder.size + 1):
            recorder.tap(("test_start", number, "many"))

    (text,) = found(broker).values()

    assert "unroutable, " in text
    assert "checked only in part, because the trace holds only the last 100000 events" in text


def test_without_a_trace_only_the_checks_asked_for_are_reported_missing(found):
    with Broker(record="off") as silent, Broker(record="off", checks="unroutable=warning") as asked:
        assert found(silent) == {}
        assert "cannot be checked without a trace" in found(asked)["unroutable"]


def test_events_before_a_reset_are_judged(broker, found):
    broker.publish("orders", "payment.made")
    broker.reset()

    assert "payment.made" in found(broker)["unroutable"]
