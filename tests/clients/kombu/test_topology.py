"""Exchange, Queue and bindings with kombu, the errors for what the broker refuses, and attributes of the connection."""

import kombu
import pytest
from amqp.exceptions import AccessRefused, NotFound, PreconditionFailed, ResourceLocked

orders = kombu.Exchange("orders", type="topic")


def test_declare_bind_and_get(connection):
    queue = kombu.Queue("orders.work", orders, routing_key="order.*")(connection.default_channel)
    queue.declare()
    producer = connection.Producer(exchange=orders)

    producer.publish({"id": 7}, routing_key="order.created")
    producer.publish({"id": 8}, routing_key="invoice.created")
    message = queue.get(no_ack=True)

    assert message.payload == {"id": 7}
    assert (message.content_type, message.content_encoding) == ("application/json", "utf-8")
    assert message.delivery_info["routing_key"] == "order.created"
    assert queue.get() is None


def test_queue_with_several_bindings(connection):
    audit = kombu.Exchange("audit", type="fanout")
    bindings = [kombu.binding(orders, "order.*"), kombu.binding(audit)]
    queue = kombu.Queue("work", bindings=bindings)(connection.default_channel)
    queue.declare()
    producer = connection.Producer()

    producer.publish("1", exchange=orders, routing_key="order.created")
    producer.publish("2", exchange=audit)
    queue.unbind_from(audit)
    producer.publish("3", exchange=audit)

    assert [queue.get(no_ack=True).payload for _ in range(2)] == ["1", "2"]
    assert queue.get() is None


def test_server_named_queue(connection):
    queue = kombu.Queue(exclusive=True)(connection.default_channel)
    queue.declare()

    assert queue.name.startswith("amq.gen-")


def test_exclusive_queue_is_locked_and_ends_with_its_connection(connection):
    mine = kombu.Queue("mine", exclusive=True)
    owner = connection.clone()
    mine(owner.channel()).declare()

    def refusal():
        with pytest.raises(connection.channel_errors) as refusal, connection.channel() as channel:
            mine(channel).queue_declare(passive=True)
        return refusal.type

    assert refusal() is ResourceLocked
    owner.release()
    # RabbitMQ under load may still show the queue for a moment.
    while (error := refusal()) is ResourceLocked:
        continue
    assert error is NotFound


def test_redeclare_with_other_arguments_is_refused(connection):
    kombu.Queue("work")(connection.default_channel).declare()

    with pytest.raises(PreconditionFailed, match="inequivalent arg 'x-max-length' for queue 'work'"):
        kombu.Queue("work", max_length=5)(connection.channel()).declare()


def test_queue_options_become_arguments(connection):
    options = {"expires": 60, "message_ttl": 30, "max_length": 5, "max_length_bytes": 5000, "max_priority": 3}
    kombu.Queue("work", **options)(connection.default_channel).declare()
    arguments = {
        "x-expires": 60_000,
        "x-message-ttl": 30_000,
        "x-max-length": 5,
        "x-max-length-bytes": 5000,
        "x-max-priority": 3,
    }

    again = kombu.Queue("work", queue_arguments=arguments)(connection.default_channel)

    assert again.queue_declare().queue == "work"


def test_exchange_to_exchange_binding(connection, ready_count):
    channel = connection.default_channel
    everything, errors = kombu.Exchange("all", type="fanout")(channel), kombu.Exchange("errors", type="topic")(channel)
    everything.declare()
    kombu.Queue("errors.work", errors, routing_key="#.error")(channel).declare()
    errors.bind_to(everything)
    producer = connection.Producer(exchange=everything)

    producer.publish("e", routing_key="app.error")
    producer.publish("i", routing_key="app.info")
    assert ready_count("errors.work") == 1

    errors.unbind_from(everything)
    producer.publish("e", routing_key="app.error")
    assert ready_count("errors.work") == 1


def test_purge_and_delete(connection):
    queue = kombu.Queue("work")(connection.default_channel)
    queue.declare()
    producer = connection.Producer()
    for _ in range(3):
        producer.publish("", routing_key="work")

    assert queue.purge() == 3
    producer.publish("", routing_key="work")
    assert queue.delete() == 1
    assert queue.delete() == 0


def test_error_on_one_channel_leaves_the_other_working(connection):
    queue = kombu.Queue("work")(connection.default_channel)
    queue.declare()

    with pytest.raises(NotFound, match="NOT_FOUND - no queue 'missing' in vhost"):
        kombu.Queue("missing")(connection.channel()).queue_declare(passive=True)
    connection.Producer().publish("still here", routing_key="work")

    assert queue.get(no_ack=True).payload == "still here"


def test_reopened_connection_finds_what_it_left(connection):
    queue = kombu.Queue("work")(connection.default_channel)
    queue.declare()
    connection.Producer().publish("kept", routing_key="work")
    queue.get()
    connection.release()

    message = queue(connection.default_channel).get()

    assert (message.payload, message.delivery_info["redelivered"]) == ("kept", True)
    assert message.properties["delivery_mode"] == 2


def test_wrong_password_is_refused(connection):
    with pytest.raises(AccessRefused, match="Login was refused"):
        connection.clone(password="wrong").connect()


def test_qos_semantics_follow_the_advertised_version(connection):
    # kombu and celery apply prefetch to the channel or to the consumer, depending on product and version.
    assert connection.qos_semantics_matches_spec is True
    assert connection.connection.server_properties["product"] == "RabbitMQ"
    assert connection.supports_heartbeats
    assert connection.is_evented
