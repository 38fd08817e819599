"""Publishing with pika's BlockingConnection: confirms, returns, transactions, bodies and properties.

pika cannot write a float (`UnsupportedAMQPFieldException`), so the headers of every other type contain none.
"""

from datetime import UTC, datetime
from decimal import Decimal

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, NackError, UnroutableError

HEADERS = {
    "text": "grün",
    "octets": b"\x00\xff",
    "yes": True,
    "no": False,
    "small": -5,
    "large": 2**40,
    "price": Decimal("3.14"),
    "when": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    "nothing": None,
    "list": [1, "two", None, [3], {"four": 4}],
    "table": {"inner": {"deep": True}},
}


def test_confirmed_publish(channel):
    channel.queue_declare("work", durable=True)
    channel.confirm_delivery()

    for number in range(3):
        assert channel.basic_publish("", "work", b"%d" % number) is None

    assert channel.queue_declare("work", passive=True).method.message_count == 3


def test_mandatory_publish_without_route_is_returned(channel):
    channel.confirm_delivery()

    channel.basic_publish("", "nowhere", b"dropped")
    with pytest.raises(UnroutableError) as unroutable:
        channel.basic_publish("", "nowhere", b"returned", pika.BasicProperties(message_id="7"), mandatory=True)

    (message,) = unroutable.value.messages
    assert (message.method.reply_code, message.method.reply_text) == (312, "NO_ROUTE")
    assert (message.method.exchange, message.method.routing_key) == ("", "nowhere")
    assert (message.properties.message_id, message.body) == ("7", b"returned")


def test_mandatory_publish_without_confirms_is_returned(connection, channel, patience):
    returned = []
    channel.add_on_return_callback(lambda channel, method, properties, body: returned.append((method.reply_code, body)))

    channel.basic_publish("amq.topic", "nowhere", b"back", mandatory=True)
    connection.process_data_events(time_limit=patience)

    assert returned == [(312, b"back")]


def test_full_queue_nacks_the_publish(channel):
    channel.queue_declare("small", durable=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.confirm_delivery()
    channel.basic_publish("", "small", b"fits")

    with pytest.raises(NackError):
        channel.basic_publish("", "small", b"does not")

    assert channel.queue_declare("small", passive=True).method.message_count == 1


def test_publish_to_a_missing_exchange_closes_the_channel(channel):
    channel.confirm_delivery()

    with pytest.raises(ChannelClosedByBroker, match="NOT_FOUND - no exchange 'missing' in vhost") as refusal:
        channel.basic_publish("missing", "key", b"")

    assert refusal.value.reply_code == 404


def test_tx_commit_and_rollback(channel):
    channel.queue_declare("work", durable=True)
    channel.tx_select()
    ready = lambda: channel.queue_declare("work", passive=True).method.message_count  # noqa: E731

    channel.basic_publish("", "work", b"taken back")
    channel.tx_rollback()
    assert ready() == 0

    channel.basic_publish("", "work", b"kept")
    assert ready() == 0
    channel.tx_commit()
    assert ready() == 1

    method, _, body = channel.basic_get("work")
    channel.basic_ack(method.delivery_tag)
    channel.tx_rollback()
    channel.basic_ack(method.delivery_tag)
    channel.tx_commit()
    channel.close()
    assert body == b"kept"


def test_committed_acks_are_final_and_others_return(connection):
    channel = connection.channel()
    channel.queue_declare("work", durable=True)
    channel.tx_select()
    channel.basic_publish("", "work", b"first")
    channel.basic_publish("", "work", b"second")
    channel.tx_commit()

    first, _, _ = channel.basic_get("work")
    channel.basic_ack(first.delivery_tag)
    channel.tx_commit()
    second, _, _ = channel.basic_get("work")
    channel.basic_ack(second.delivery_tag)
    channel.close()

    method, _, body = connection.channel().basic_get("work", auto_ack=True)
    assert (body, method.redelivered, method.message_count) == (b"second", True, 0)


@pytest.mark.parametrize("size", [0, 1, 131_064, 131_065])
def test_body_of_any_size(channel, size):
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    channel.queue_declare("work", durable=True)

    channel.confirm_delivery()
    channel.basic_publish("", "work", body)

    assert channel.basic_get("work", auto_ack=True)[2] == body


def test_body_of_five_megabytes(channel):
    body = bytes(range(256)) * (5 * 4096)
    channel.queue_declare("work", durable=True)

    channel.basic_publish("", "work", body)

    assert channel.basic_get("work", auto_ack=True)[2] == body


def test_headers_of_every_type_come_back(channel):
    channel.queue_declare("work", durable=True)

    channel.basic_publish("", "work", b"", pika.BasicProperties(headers=HEADERS))
    _, properties, _ = channel.basic_get("work", auto_ack=True)

    assert properties.headers == HEADERS
    assert isinstance(properties.headers["yes"], bool)
    assert isinstance(properties.headers["octets"], bytes)


def test_properties_come_back(channel):
    sent = pika.BasicProperties(
        content_type="application/json",
        content_encoding="utf-8",
        headers={},
        delivery_mode=2,
        priority=9,
        correlation_id="c",
        reply_to="r",
        expiration="60000",
        message_id="m",
        timestamp=int(datetime(2026, 1, 2, tzinfo=UTC).timestamp()),
        type="t",
        user_id="guest",
        app_id="a",
        cluster_id="k",
    )
    channel.queue_declare("work", durable=True)

    channel.basic_publish("", "work", b"{}", sent)
    _, received, _ = channel.basic_get("work", auto_ack=True)

    assert vars(received) == vars(sent)


def test_properties_that_were_not_set_stay_unset(channel):
    channel.queue_declare("work", durable=True)

    channel.basic_publish("", "work", b"")
    _, received, _ = channel.basic_get("work", auto_ack=True)

    assert set(vars(received).values()) == {None}
