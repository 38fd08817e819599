"""Publishes in transactions: they count once they are committed, and a missing commit is reported."""

from __future__ import annotations

import pytest

WAITS = r"is uncommitted: published in a transaction without tx.commit\n  it waits for tx.commit of shop \(c1/ch1\)"


@pytest.fixture
def channel(broker, connect):
    channel = connect(broker).channel()
    channel.tx_select()
    return channel


def publish(channel):
    channel.basic_publish("orders", "order.created", b"7")


def test_an_uncommitted_publish_does_not_count_and_the_failure_says_so(broker, channel):
    publish(channel)

    broker.assert_not_published("orders")
    with pytest.raises(AssertionError, match=WAITS):
        broker.assert_published("orders")


def test_a_committed_publish_counts_and_is_no_finding(broker, channel, found):
    publish(channel)
    channel.tx_commit()

    broker.assert_published("orders", times=1, timeout=5)
    channel.close()
    assert "uncommitted" not in found(broker)


@pytest.mark.parametrize("end", ["tx_rollback", "close"])
def test_a_publish_without_a_commit_does_not_count_once_its_transaction_has_ended(broker, channel, end):
    publish(channel)
    getattr(channel, end)()

    broker.assert_not_published("orders")
    with pytest.raises(AssertionError, match="its transaction was not committed"):
        broker.assert_published("orders")


@pytest.mark.parametrize("end", ["channel.close", "connection.close"])
def test_a_channel_that_its_client_closes_without_a_commit_is_reported(broker, channel, end, found):
    publish(channel)
    {"channel.close": channel.close, "connection.close": channel.connection.close}[end]()

    text = found(broker)["uncommitted"]

    assert "1 message lost: published in a transaction that was not committed" in text
    assert "published by shop (c1/ch1); its channel was closed without tx.commit" in text


def test_a_transaction_that_is_still_open_at_the_end_is_reported_once(broker, channel, found):
    publish(channel)

    assert "its transaction is still open" in found(broker)["uncommitted"]
    assert "uncommitted" not in found(broker)


def test_an_ack_without_a_commit_is_reported_as_unacked(broker, channel, found):
    broker.publish("", "orders.work", b"7")
    channel.basic_ack(channel.basic_get("orders.work")[0].delivery_tag)

    assert "settled in a transaction without tx.commit" in found(broker)["unacked_at_end"]


def test_a_publish_that_is_rolled_back_or_lost_with_its_connection_is_no_finding(broker, channel, connect, found):
    publish(channel)
    channel.tx_rollback()
    publish(channel)
    broker.sync()
    broker.faults.reset_peer()

    assert "uncommitted" not in found(broker)


def test_a_dropped_publish_that_the_test_asserts_is_no_finding(broker, channel, found):
    publish(channel)
    channel.close()

    broker.assert_dropped("orders", reason="uncommitted")

    assert "uncommitted" not in found(broker)
