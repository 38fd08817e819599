"""Declaring, binding and deleting with pika's BlockingConnection, and the errors for what the broker refuses."""

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, ProbableAccessDeniedError, ProbableAuthenticationError


def test_declare_bind_and_get(channel):
    channel.exchange_declare("orders", exchange_type="topic", durable=True)
    channel.queue_declare("orders.work", durable=True)
    channel.queue_bind("orders.work", "orders", "order.*")

    channel.basic_publish("orders", "order.created", b"7")
    channel.basic_publish("orders", "invoice.created", b"8")
    method, _, body = channel.basic_get("orders.work", auto_ack=True)

    assert (method.exchange, method.routing_key, method.redelivered, method.message_count) == (
        "orders",
        "order.created",
        False,
        0,
    )
    assert body == b"7"
    assert channel.basic_get("orders.work") == (None, None, None)


def test_unbound_queue_gets_nothing(channel):
    channel.queue_declare("work", durable=True)
    channel.queue_bind("work", "amq.direct", "key")
    channel.queue_unbind("work", "amq.direct", "key")

    channel.confirm_delivery()
    channel.basic_publish("amq.direct", "key", b"")

    assert channel.queue_declare("work", passive=True).method.message_count == 0


def test_server_named_queue(channel):
    declared = channel.queue_declare("", exclusive=True).method

    assert declared.queue.startswith("amq.gen-")
    assert (declared.message_count, declared.consumer_count) == (0, 0)


def test_exclusive_queue_is_locked_and_ends_with_its_connection(connect):
    owner, other = connect(), connect()
    owner.channel().queue_declare("mine", exclusive=True)

    def refusal():
        with pytest.raises(ChannelClosedByBroker) as refusal:
            other.channel().queue_declare("mine", passive=True)
        return refusal.value.reply_code

    assert refusal() == 405
    owner.close()
    # RabbitMQ under load may still show the queue for a moment.
    while (code := refusal()) == 405:
        continue
    assert code == 404


def test_auto_delete_queue_ends_with_its_last_consumer(channel):
    channel.queue_declare("brief", durable=True, auto_delete=True)
    tag = channel.basic_consume("brief", lambda *message: None)
    channel.basic_cancel(tag)

    with pytest.raises(ChannelClosedByBroker, match="no queue 'brief'"):
        channel.queue_declare("brief", passive=True)


def test_redeclare_with_other_arguments_is_refused(channel):
    channel.queue_declare("work", durable=True)

    with pytest.raises(ChannelClosedByBroker, match="inequivalent arg 'x-message-ttl' for queue 'work'") as refusal:
        channel.queue_declare("work", durable=True, arguments={"x-message-ttl": 1000})

    assert refusal.value.reply_code == 406


def test_exchange_to_exchange_binding(channel):
    channel.exchange_declare("all", exchange_type="fanout", durable=True)
    channel.exchange_declare("errors", exchange_type="topic", durable=True)
    channel.exchange_bind(destination="errors", source="all")
    channel.queue_declare("errors.work", durable=True)
    channel.queue_bind("errors.work", "errors", "#.error")

    channel.basic_publish("all", "app.error", b"e")
    channel.basic_publish("all", "app.info", b"i")

    method, _, body = channel.basic_get("errors.work", auto_ack=True)
    assert (method.exchange, method.routing_key, method.message_count, body) == ("all", "app.error", 0, b"e")


def test_purge_and_delete(channel):
    channel.queue_declare("work", durable=True)
    channel.confirm_delivery()
    for number in range(3):
        channel.basic_publish("", "work", b"%d" % number)

    assert channel.queue_purge("work").method.message_count == 3
    channel.basic_publish("", "work", b"3")
    assert channel.queue_delete("work").method.message_count == 1
    assert channel.queue_delete("work").method.message_count == 0
    channel.exchange_declare("gone", durable=True)
    channel.exchange_delete("gone")
    with pytest.raises(ChannelClosedByBroker, match="no exchange 'gone'"):
        channel.exchange_declare("gone", passive=True)


def test_delete_if_unused_and_if_empty_are_honoured(connection):
    channel = connection.channel()
    channel.queue_declare("work", durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", "work", b"")

    with pytest.raises(ChannelClosedByBroker, match=r"queue 'work' in vhost .* not empty"):
        channel.queue_delete("work", if_empty=True)
    channel = connection.channel()
    channel.basic_consume("work", lambda *message: None)
    with pytest.raises(ChannelClosedByBroker, match=r"queue 'work' in vhost .* in use"):
        channel.queue_delete("work", if_unused=True)


def test_error_on_one_channel_leaves_the_other_working(connection):
    broken, working = connection.channel(), connection.channel()
    working.queue_declare("work", durable=True)

    with pytest.raises(ChannelClosedByBroker, match="NOT_FOUND - no queue 'missing' in vhost") as refusal:
        broken.queue_declare("missing", passive=True)
    working.basic_publish("", "work", b"still here")

    assert refusal.value.reply_code == 404
    assert broken.is_closed
    assert working.basic_get("work", auto_ack=True)[2] == b"still here"
    assert connection.channel().channel_number == broken.channel_number


def test_reopened_connection_finds_what_it_left(connect):
    first = connect()
    channel = first.channel()
    channel.queue_declare("work", durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", "work", b"kept", pika.BasicProperties(delivery_mode=2))
    channel.basic_get("work")
    first.close()

    method, properties, body = connect().channel().basic_get("work")

    assert (body, method.redelivered, properties.delivery_mode) == (b"kept", True, 2)


def test_wrong_password_is_refused(broker_url):
    parameters = pika.URLParameters(broker_url)
    parameters.credentials = pika.PlainCredentials("guest", "wrong")

    with pytest.raises(ProbableAuthenticationError, match="ACCESS_REFUSED - Login was refused"):
        pika.BlockingConnection(parameters)


def test_unknown_virtual_host_is_refused(broker_url):
    parameters = pika.URLParameters(broker_url)
    parameters.virtual_host = "nowhere"

    with pytest.raises(ProbableAccessDeniedError, match="NOT_ALLOWED - vhost nowhere not found"):
        pika.BlockingConnection(parameters)
