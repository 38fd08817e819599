"""Declaring, binding and deleting with py-amqp, and the errors for what the broker refuses."""

import amqp
import pytest
from amqp.exceptions import AccessRefused, NotAllowed, NotFound, PreconditionFailed, ResourceLocked


def test_declare_bind_and_get(channel):
    channel.exchange_declare("orders", "topic", durable=True, auto_delete=False)
    channel.queue_declare("orders.work", durable=True, auto_delete=False)
    channel.queue_bind("orders.work", "orders", "order.*")

    channel.basic_publish(amqp.Message("7"), "orders", "order.created")
    channel.basic_publish(amqp.Message("8"), "orders", "invoice.created")
    message = channel.basic_get("orders.work", no_ack=True)

    assert message.delivery_info["exchange"] == "orders"
    assert message.delivery_info["routing_key"] == "order.created"
    assert (message.delivery_info["redelivered"], message.delivery_info["message_count"]) == (False, 0)
    assert message.body == "7"
    assert channel.basic_get("orders.work") is None


def test_default_declaration_is_transient_and_auto_delete(channel, ready_count):
    channel.queue_declare("brief")
    tag = channel.basic_consume("brief")
    channel.basic_cancel(tag)

    with pytest.raises(NotFound, match="no queue 'brief'"):
        ready_count("brief")


def test_server_named_queue(channel):
    name, message_count, consumer_count = channel.queue_declare(exclusive=True)

    assert name.startswith("amq.gen-")
    assert (message_count, consumer_count) == (0, 0)


def test_exclusive_queue_is_locked_and_ends_with_its_connection(connect):
    owner, other = connect(), connect()
    owner.channel().queue_declare("mine", exclusive=True)

    def refusal():
        with pytest.raises(amqp.ChannelError) as refusal:
            other.channel().queue_declare("mine", passive=True)
        return refusal.type

    assert refusal() is ResourceLocked
    owner.close()
    # RabbitMQ under load may still show the queue for a moment.
    while (error := refusal()) is ResourceLocked:
        continue
    assert error is NotFound


def test_redeclare_with_other_arguments_is_refused(channel):
    channel.queue_declare("work", durable=True, auto_delete=False)

    with pytest.raises(PreconditionFailed, match="inequivalent arg 'durable' for queue 'work'"):
        channel.queue_declare("work", durable=False, auto_delete=False)


def test_exchange_to_exchange_binding(channel):
    channel.exchange_declare("all", "fanout", durable=True, auto_delete=False)
    channel.exchange_declare("errors", "topic", durable=True, auto_delete=False)
    channel.exchange_bind("errors", "all")
    channel.queue_declare("errors.work", durable=True, auto_delete=False)
    channel.queue_bind("errors.work", "errors", "#.error")

    channel.basic_publish(amqp.Message("e"), "all", "app.error")
    channel.basic_publish(amqp.Message("i"), "all", "app.info")
    channel.exchange_unbind("errors", "all")
    channel.basic_publish(amqp.Message("later"), "all", "app.error")

    message = channel.basic_get("errors.work", no_ack=True)
    assert (message.delivery_info["exchange"], message.delivery_info["message_count"]) == ("all", 0)
    assert message.body == "e"


def test_purge_and_delete(channel):
    channel.queue_declare("work", durable=True, auto_delete=False)
    for _ in range(3):
        channel.basic_publish(amqp.Message(""), "", "work")

    assert channel.queue_purge("work") == 3
    channel.basic_publish(amqp.Message(""), "", "work")
    assert channel.queue_delete("work") == 1
    assert channel.queue_delete("work") == 0


def test_error_on_one_channel_leaves_the_other_working(connection):
    broken, working = connection.channel(), connection.channel()
    working.queue_declare("work", durable=True, auto_delete=False)

    with pytest.raises(NotFound, match="NOT_FOUND - no queue 'missing' in vhost"):
        broken.queue_declare("missing", passive=True)
    working.basic_publish(amqp.Message("still here"), "", "work")

    assert working.basic_get("work", no_ack=True).body == "still here"


def test_publish_to_a_missing_exchange_closes_the_channel(channel):
    with pytest.raises(NotFound, match="NOT_FOUND - no exchange 'missing' in vhost"):
        channel.basic_publish(amqp.Message(""), "missing", "key")


def test_reopened_connection_finds_what_it_left(connect):
    first = connect(confirm_publish=True)
    channel = first.channel()
    channel.queue_declare("work", durable=True, auto_delete=False)
    channel.basic_publish(amqp.Message("kept", delivery_mode=2), "", "work")
    channel.basic_get("work")
    first.close()

    message = connect().channel().basic_get("work")

    assert (message.body, message.delivery_info["redelivered"]) == ("kept", True)
    assert message.properties["delivery_mode"] == 2


@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
def test_wrong_password_is_refused(connect, mechanism):
    assert connect(login_method=mechanism).connected
    with pytest.raises(AccessRefused, match=f"Login was refused using authentication mechanism {mechanism}"):
        connect(login_method=mechanism, password="wrong")


def test_unknown_virtual_host_is_refused(connect):
    with pytest.raises(NotAllowed, match="NOT_ALLOWED - vhost nowhere not found"):
        connect(virtual_host="nowhere")
