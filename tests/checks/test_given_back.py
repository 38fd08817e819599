"""Messages that a client got and never settled, and that are ready again because it closed its channel."""

from __future__ import annotations

import pytest

from leveret import Broker


@pytest.fixture
def channel(broker, connect):
    broker.publish("", "orders.work", b"7")
    return connect(broker).channel()


def get(channel):
    return channel.basic_get("orders.work")[0].delivery_tag


def consume(broker, channel, count):
    """Consume this many messages, and return their tags."""
    taken = []
    channel.basic_consume("orders.work", lambda channel, method, *_: taken.append(method.delivery_tag))
    while len(taken) < count:
        channel.connection.process_data_events(0.05)
    return taken


@pytest.mark.parametrize("end", ["channel", "connection"])
def test_a_message_that_is_never_acked_is_reported_although_its_client_closed_cleanly(broker, channel, end, found):
    get(channel)
    (channel if end == "channel" else channel.connection).close()

    text = found(broker)["unacked_at_end"]

    assert "1 message delivered but not acked when the test ended" in text
    assert "ready again, because shop (c1/ch1) closed its channel without an ack that took effect" in text
    assert "broker.allow(\"unacked_at_end\", queue='orders.work')" in text


def test_a_consumer_that_forgets_its_ack_is_reported(broker, channel, found):
    consume(broker, channel, 1)
    channel.connection.close()

    assert "1 message" in found(broker)["unacked_at_end"]


def test_a_consumer_that_forgets_one_of_its_acks_is_reported(broker, channel, found):
    broker.publish("", "orders.work", b"8")
    tags = consume(broker, channel, 2)
    channel.basic_ack(tags[1])
    channel.connection.close()

    assert "'7'" in found(broker)["unacked_at_end"]


def test_what_a_consumer_has_fetched_ahead_is_no_finding(broker, channel, found):
    broker.publish("", "orders.work", b"8")
    tags = consume(broker, channel, 2)
    channel.basic_ack(tags[0])
    channel.connection.close()

    assert "unacked_at_end" not in found(broker)


def test_an_ack_that_was_never_committed_is_reported(broker, channel, found):
    channel.tx_select()
    channel.basic_ack(get(channel))
    channel.close()

    assert "without an ack that took effect" in found(broker)["unacked_at_end"]


def nack(broker, channel):
    channel.basic_nack(get(channel))
    channel.close()


def ack_at_the_second_attempt(broker, channel):
    get(channel)
    channel.close()
    broker.sync()
    again = channel.connection.channel()
    again.basic_ack(get(again))


def delete_the_queue(broker, channel):
    get(channel)
    channel.close()
    broker.purge_queue("orders.work")


def lose_the_connection(broker, channel):
    get(channel)
    broker.faults.reset_peer()


def assert_ready(broker, channel):
    get(channel)
    channel.close()
    broker.assert_ready("orders.work", timeout=5)


def assert_requeued(broker, channel):
    get(channel)
    channel.close()
    broker.assert_requeued("orders.work", timeout=5)


def be_allowed(broker, channel):
    with broker.allow("unacked_at_end", queue="orders.work"):
        get(channel)
        broker.sync()
    channel.close()


@pytest.mark.parametrize(
    "act",
    [
        *(nack, ack_at_the_second_attempt, delete_the_queue, lose_the_connection),
        *(assert_ready, assert_requeued, be_allowed),
    ],
)
def test_no_false_alarm(broker, channel, act, found):
    act(broker, channel)

    assert "unacked_at_end" not in found(broker)


def test_a_finding_about_an_open_channel_is_not_repeated_once_it_is_closed(broker, channel, found):
    get(channel)
    assert "held by" in found(broker)["unacked_at_end"]

    channel.close()

    assert "unacked_at_end" not in found(broker)


def test_a_reader_of_a_stream_gives_nothing_back(connect, found):
    with Broker() as broker:
        broker.declare_queue("log", arguments={"x-queue-type": "stream"})
        broker.publish("", "log", b"7")
        channel = connect(broker).channel()
        channel.basic_qos(prefetch_count=10)
        channel.basic_consume("log", lambda *_: None, arguments={"x-stream-offset": "first"})
        broker.assert_delivered("log", timeout=5)
        channel.connection.close()

        assert "unacked_at_end" not in found(broker)
