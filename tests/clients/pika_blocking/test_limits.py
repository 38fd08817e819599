"""Length limits combined with TTLs and locks; random programs run on both brokers found each of these cases."""

import pika
import pytest
from pika.exceptions import NackError


@pytest.fixture
def declare(channel):
    """Return a function that declares a durable queue and turns confirms on; it takes arguments without their x-."""
    channel.confirm_delivery()

    def declare(name, **arguments):
        arguments = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        channel.queue_declare(name, durable=True, arguments=arguments)
        return name

    return declare


def publish(channel, queue, *bodies, **properties):
    for body in bodies:
        channel.basic_publish("", queue, body, pika.BasicProperties(**properties))


def all_of(channel, queue):
    bodies = []
    while (message := channel.basic_get(queue, auto_ack=True))[0] is not None:
        bodies.append(message[2])
    return bodies


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_full_queue_keeps_a_requeued_message(channel, declare, overflow):
    queue = declare("small", max_length=1, overflow=overflow)
    publish(channel, queue, b"1")
    method, _, _ = channel.basic_get(queue)
    publish(channel, queue, b"2")

    channel.basic_nack(method.delivery_tag)

    assert all_of(channel, queue) == [b"1", b"2"]


def test_quorum_queue_that_rejects_publishes_holds_one_message_more(channel, declare):
    queue = declare("small", max_length=1, overflow="reject-publish", queue_type="quorum")
    publish(channel, queue, b"1", b"2")

    with pytest.raises(NackError):
        publish(channel, queue, b"3")

    assert all_of(channel, queue) == [b"1", b"2"]


def test_quorum_queue_drops_where_it_cannot_dead_letter_a_refused_message(channel, declare):
    queue = declare("small", max_length=1, overflow="reject-publish-dlx", queue_type="quorum")

    publish(channel, queue, b"1", b"2", b"3")

    assert all_of(channel, queue) == [b"3"]


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_expired_message_is_dropped_with_the_one_before_it(channel, declare, take, queue_type):
    declare("dead")
    dead_letters = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead"}
    queue = declare("small", max_length=2, queue_type=queue_type, **dead_letters)
    publish(channel, queue, b"1")
    publish(channel, queue, b"2", expiration="0")

    publish(channel, queue, b"3")

    deaths = take(channel, "dead", 2)
    assert [(body, properties.headers["x-first-death-reason"]) for _, properties, body in deaths] == [
        (b"1", "maxlen"),
        (b"2", "expired"),
    ]


def test_quorum_queue_redelivers_a_requeued_message_before_it_applies_its_limit(connection, channel, declare, patience):
    queue = declare("small", max_length=0, queue_type="quorum")
    delivered = []
    channel.basic_consume(queue, lambda _, method, __, body: delivered.append((method.delivery_tag, body)))
    publish(channel, queue, b"1")
    while not delivered:
        connection.process_data_events(time_limit=patience)

    channel.basic_nack(delivered[0][0])
    while len(delivered) < 2:
        connection.process_data_events(time_limit=patience)

    assert [body for _, body in delivered] == [b"1", b"1"]


def test_missing_binding_of_a_locked_queue_can_be_unbound(connect, channel):
    connect().channel().queue_declare("mine", exclusive=True)

    channel.queue_unbind("mine", "amq.direct", "never bound")

    assert channel.is_open


def test_later_message_of_higher_priority_does_not_expire_at_once(channel, declare):
    queue = declare("ranked", max_priority=3)
    publish(channel, queue, b"1")

    publish(channel, queue, b"2", priority=1, expiration="0")

    assert all_of(channel, queue) == [b"2", b"1"]
