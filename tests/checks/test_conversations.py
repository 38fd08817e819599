"""Checks of clients: what they leave open or unsettled, and errors that none of their calls waits for."""

from __future__ import annotations

import socket
from contextlib import suppress

import aiormq
import pika
import pytest


def test_a_message_held_at_the_end_is_reported_with_its_holder(broker, connect, found):
    channel = connect(broker, "worker").channel()
    broker.publish("", "orders.work", b"1")
    channel.basic_get("orders.work")

    text = found(broker)["unacked_at_end"]

    assert "in queue 'orders.work': '' 'orders.work' '1'" in text
    assert "held by a basic.get of worker for" in text


def test_a_message_held_by_the_test_itself_is_not_reported(broker, found):
    broker.publish("", "orders.work", b"1")
    broker.consume("orders.work").next()

    assert found(broker) == {}


def test_a_ready_message_is_reported_with_its_queue(broker, found):
    broker.publish("", "orders.work", b"1")
    broker.declare_queue("log", arguments={"x-queue-type": "stream"})
    broker.publish("", "log", b"2")

    text = found(broker)["left_ready"]

    assert text.startswith("left_ready: 1 message still ready when the test ended")
    assert "in queue 'orders.work': '' 'orders.work' '1', published by the test at " in text
    assert "; the queue has no consumers" in text
    assert "left_ready" not in found(broker)


def test_a_message_after_a_reset_is_reported_although_its_number_was(broker, found):
    broker.publish("", "orders.work", b"1")
    assert "left_ready" in found(broker)

    broker.reset()
    broker.declare_queue("orders.work")
    broker.publish("", "orders.work", b"2")

    assert "left_ready" in found(broker)


def test_a_message_that_came_while_it_was_allowed_may_stay(broker, found):
    with broker.allow("left_ready", queue="orders.work"):
        broker.publish("", "orders.work", b"1")

    assert "left_ready" not in found(broker)


def test_an_open_connection_is_reported_with_the_line_that_opened_it(broker, connect, found):
    connect(broker).channel()

    texts = found(broker)

    assert "shop (c1), opened at " in texts["connection_not_closed"]
    assert "shop (c1/ch1), opened at " in texts["channel_not_closed"]


def test_a_broker_checks_before_it_stops(broker, connect, found):
    connect(broker)
    broker.stop()

    assert "connection_not_closed" in found(broker)


def test_closing_clients_by_stopping_the_broker_is_not_reported(broker, connect, found):
    connect(broker).channel().basic_consume("orders.work", lambda *_: None, auto_ack=True)
    broker.publish("", "orders.work", b"1")
    broker.assert_delivered("orders.work")
    broker.stop()

    assert "auto_ack_lost" not in found(broker)
    broker.start()
    assert "auto_ack_lost" not in found(broker)


def test_automatic_acks_on_a_broken_connection_are_reported(broker, connect, found):
    connection = connect(broker, "worker")
    channel = connection.channel()
    channel.basic_consume("orders.work", lambda *_: None, auto_ack=True)
    broker.publish("", "orders.work", b"1")
    broker.assert_delivered("orders.work")
    connection._impl._transport._sock.shutdown(socket.SHUT_RDWR)
    with suppress(pika.exceptions.AMQPError):
        connection.process_data_events(5)

    text = found(broker)["auto_ack_lost"]

    assert "1 message of 'orders.work' went to worker, then connection lost" in text


def test_automatic_acks_are_reported_if_the_connection_breaks_between_them(broker, connect, found):
    connection = connect(broker, "worker")
    connection.channel().basic_consume("orders.work", lambda *_: None, auto_ack=True)
    broker.faults.reset_peer(on="basic.deliver", body=b"2", when="after")

    broker.publish("", "orders.work", b"1")
    broker.publish("", "orders.work", b"2")

    text = found(broker)["auto_ack_lost"]
    assert "2 messages of 'orders.work' went to worker, then " in text
    assert "broker.allow(\"auto_ack_lost\", queue='orders.work')" in text


def test_deliveries_with_manual_acks_are_requeued_and_not_reported(broker, connect, found):
    connect(broker).channel().basic_consume("orders.work", lambda *_: None)
    broker.faults.reset_peer(on="basic.deliver", when="after")

    broker.publish("", "orders.work", b"1")

    assert "auto_ack_lost" not in found(broker)
    assert len(broker.queue("orders.work").ready) == 1


def test_a_consumer_with_automatic_acks_may_close_its_connection(broker, connect, found):
    connection = connect(broker)
    connection.channel().basic_consume("orders.work", lambda *_: None, auto_ack=True)
    broker.publish("", "orders.work", b"1")
    broker.assert_delivered("orders.work")
    connection.close()

    assert "auto_ack_lost" not in found(broker)


def test_messages_of_a_queue_deleted_with_its_connection_are_not_reported(broker, connect, found):
    connection = connect(broker)
    channel = connection.channel()
    channel.queue_declare("replies", exclusive=True)
    channel.basic_consume("replies", lambda *_: None, auto_ack=True)
    broker.publish("", "replies", b"1")
    broker.assert_delivered("replies")
    connection._impl._transport._sock.shutdown(socket.SHUT_RDWR)
    with suppress(pika.exceptions.AMQPError):
        connection.process_data_events(5)

    assert "auto_ack_lost" not in found(broker)


def test_a_consumer_without_a_prefetch_limit_is_reported(broker, connect, found):
    channel = connect(broker).channel()
    channel.basic_consume("orders.work", lambda *_: None, consumer_tag="endless")
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume("orders.work", lambda *_: None, consumer_tag="modest")

    text = found(broker)["unlimited_prefetch"]

    assert "endless of shop on 'orders.work'" in text
    assert "modest" not in text


def test_a_declaration_with_other_arguments_is_reported_with_its_line(broker, connect, found):
    channel = connect(broker).channel()
    with suppress(pika.exceptions.ChannelClosedByBroker):
        channel.queue_declare("orders.work", durable=True, arguments={"x-max-length": 1})

    text = found(broker)["redeclared_differently"]

    assert "inequivalent arg 'x-max-length' for queue 'orders.work'" in text
    assert "test_conversations.py" in text


def test_an_exchange_declared_with_another_type_is_reported(broker, connect, found):
    channel = connect(broker).channel()
    with suppress(pika.exceptions.ChannelClosedByBroker):
        channel.exchange_declare("orders", "fanout", durable=True)

    assert "inequivalent arg 'type' for exchange 'orders'" in found(broker)["redeclared_differently"]


def test_a_redeclaration_that_the_test_asserts_is_not_reported(broker, connect, found):
    channel = connect(broker).channel()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        channel.queue_declare("orders.work", durable=True, arguments={"x-max-length": 1})

    broker.assert_refused(406, text="inequivalent arg")

    assert "redeclared_differently" not in found(broker)


def test_an_error_that_a_client_waited_for_is_not_reported(broker, connect, found):
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        connect(broker).channel().basic_consume("nowhere", lambda *_: None)

    assert "unseen_channel_error" not in found(broker)


@pytest.mark.asyncio
async def test_an_ack_of_aiormq_that_closes_its_channel_is_reported(broker, found):
    connection = await aiormq.connect(broker.url)
    channel = await connection.channel()
    await channel.basic_ack(99)
    await connection.close()

    assert "PRECONDITION_FAILED - unknown delivery tag 99" in found(broker)["unseen_channel_error"]


def test_an_ack_of_an_unknown_tag_is_reported_if_no_call_waits(broker, found, lonely_ack):
    lonely_ack(broker)

    text = found(broker)["unseen_channel_error"]

    assert "PRECONDITION_FAILED - unknown delivery tag 7" in text


def test_a_refusal_that_the_test_asserts_is_not_reported(broker, found, lonely_ack):
    lonely_ack(broker)

    refusal = broker.assert_refused(406, text="unknown delivery tag", timeout=5)

    assert refusal.code == 406
    assert "unseen_channel_error" not in found(broker)


def test_a_missing_refusal_shows_all_refusals(broker, lonely_ack):
    lonely_ack(broker)
    broker.assert_refused(406, timeout=5)

    with pytest.raises(
        AssertionError,
        match=r"(?s)assert_refused\(code=404\): expected at least 1 refusal, saw none that matches; all refusals:"
        r".*unknown delivery tag 7",
    ):
        broker.assert_refused(404)
    with pytest.raises(AssertionError, match="saw none that matches"):
        broker.assert_refused(406, text="no queue")


@pytest.fixture
def lonely_ack():
    """Return a function that acks a message never delivered, from a client that does not wait for the error."""
    peers = []

    def act(broker):
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        peers.append(connection)
        channel = connection.channel()
        # The bytes of basic.ack with tag 7, written to the socket without pika's knowledge.
        ack = bytes.fromhex("01 0001 0000000d 003c0050 0000000000000007 00 ce".replace(" ", ""))
        assert channel.channel_number == 1
        connection._impl._transport._sock.send(ack)

    yield act
    for peer in peers:
        with suppress(pika.exceptions.AMQPError):
            peer.close()
