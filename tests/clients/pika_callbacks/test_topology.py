"""Declaring, binding and deleting with pika's callback adapters, and the errors for what the broker refuses."""

import pika
from pika.exceptions import ConnectionClosedByBroker, ProbableAuthenticationError


def test_declare_bind_and_get(client, channel):
    client.ask(channel.exchange_declare, "orders", exchange_type="topic", durable=True)
    client.ask(channel.queue_declare, "orders.work", durable=True)
    client.ask(channel.queue_bind, "orders.work", "orders", "order.*")

    channel.basic_publish("orders", "order.created", b"7")
    channel.basic_publish("orders", "invoice.created", b"8")
    _, method, _, body = client.ask(channel.basic_get, "orders.work", auto_ack=True)

    assert (method.exchange, method.routing_key, method.message_count) == ("orders", "order.created", 0)
    assert body == b"7"


def test_get_from_an_empty_queue(client, channel):
    emptied = client.mailbox()
    channel.add_callback(emptied, [pika.spec.Basic.GetEmpty])
    client.ask(channel.queue_declare, "work", durable=True)

    channel.basic_get("work", callback=lambda *message: None)

    assert emptied.take().method.NAME == "Basic.GetEmpty"


def test_server_named_queue(client, channel):
    declared = client.ask(channel.queue_declare, "", exclusive=True).method

    assert declared.queue.startswith("amq.gen-")


def test_exclusive_queue_is_locked_and_ends_with_its_connection(make_client):
    owner, other = make_client(), make_client()
    owner.connect()
    other.connect()
    owner.ask(owner.channel().queue_declare, "mine", exclusive=True)

    def refusal():
        channel, closed = other.channel(), other.mailbox()
        channel.add_on_close_callback(closed)
        channel.queue_declare("mine", passive=True)
        return closed.take()[1]

    assert refusal().reply_code == 405
    owner.connection.close()
    owner.closed.take()
    # RabbitMQ under load may still show the queue for a moment.
    while (code := refusal().reply_code) == 405:
        continue
    assert code == 404


def test_redeclare_with_other_arguments_is_refused(client, channel):
    closed = client.mailbox()
    channel.add_on_close_callback(closed)
    client.ask(channel.queue_declare, "work", durable=True)

    channel.queue_declare("work", durable=True, arguments={"x-max-length": 1})
    _, reason = closed.take()

    assert reason.reply_code == 406
    assert reason.reply_text.startswith("PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'work'")


def test_exchange_to_exchange_binding(client, channel):
    client.ask(channel.exchange_declare, "all", exchange_type="fanout", durable=True)
    client.ask(channel.exchange_declare, "errors", exchange_type="topic", durable=True)
    client.ask(channel.exchange_bind, destination="errors", source="all")
    client.ask(channel.queue_declare, "errors.work", durable=True)
    client.ask(channel.queue_bind, "errors.work", "errors", "#.error")

    channel.basic_publish("all", "app.error", b"e")
    channel.basic_publish("all", "app.info", b"i")

    _, method, _, body = client.ask(channel.basic_get, "errors.work", auto_ack=True)
    assert (method.exchange, method.message_count, body) == ("all", 0, b"e")


def test_purge_and_delete(client, channel):
    client.ask(channel.queue_declare, "work", durable=True)
    for _ in range(3):
        channel.basic_publish("", "work", b"")

    assert client.ask(channel.queue_purge, "work").method.message_count == 3
    channel.basic_publish("", "work", b"")
    assert client.ask(channel.queue_delete, "work").method.message_count == 1
    assert client.ask(channel.queue_delete, "work").method.message_count == 0


def test_error_on_one_channel_leaves_the_other_working(client):
    broken, working, closed = client.channel(), client.channel(), client.mailbox()
    broken.add_on_close_callback(closed)
    client.ask(working.queue_declare, "work", durable=True)

    broken.queue_declare("missing", passive=True)
    channel, reason = closed.take()
    working.basic_publish("", "work", b"still here")

    assert (channel, reason.reply_code) == (broken, 404)
    assert client.ask(working.basic_get, "work", auto_ack=True)[3] == b"still here"


def test_reopened_connection_finds_what_it_left(make_client):
    first, second = make_client(), make_client()
    first.connect()
    channel = first.channel()
    first.ask(channel.queue_declare, "work", durable=True)
    channel.basic_publish("", "work", b"kept", pika.BasicProperties(delivery_mode=2))
    first.ask(channel.basic_get, "work")
    first.connection.close()
    first.closed.take()

    second.connect()
    _, method, _, body = second.ask(second.channel().basic_get, "work", auto_ack=True)

    assert (body, method.redelivered) == (b"kept", True)


def test_wrong_password_is_refused(make_client):
    connection, error = make_client().connect(credentials=pika.PlainCredentials("guest", "wrong"))

    assert connection.is_closed
    assert isinstance(error, ProbableAuthenticationError)


def test_connection_error_closes_every_channel(client):
    channels, closed = [client.channel(), client.channel()], client.mailbox()
    for channel in channels:
        channel.add_on_close_callback(closed)

    channels[0].basic_qos(prefetch_size=1)
    _, reason = client.closed.take()

    assert isinstance(reason, ConnectionClosedByBroker)
    assert reason.reply_code == 540
    assert reason.reply_text == "NOT_IMPLEMENTED - prefetch_size!=0 (1)"
    assert {closed.take()[0], closed.take()[0]} == set(channels)
