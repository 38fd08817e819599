"""What clients receive is what was sent, in order, whichever fault holds the bytes and whenever it ends."""

from __future__ import annotations

import socket

import amqp
import pika
import pytest
from pika.exceptions import AMQPError

from leveret import Broker
from tests.faults.conftest import PATIENCE, bodies


@pytest.fixture
def publisher(connect):
    """A channel whose connection is older than the consumer's, so that faults act on it first."""
    return connect().channel()


@pytest.fixture
def received(publisher, connect):
    """A function that returns the first messages of a consumer as `(delivery tag, body)`."""
    channel, found = connect().channel(), []
    channel.basic_consume("work", lambda _, method, __, body: found.append((method.delivery_tag, body)))

    def received(count):
        while len(found) < count:
            channel.connection.process_data_events(time_limit=PATIENCE)
        return found

    return received


def test_a_delivery_held_by_a_stall_precedes_what_is_published_through_the_same_stall(broker, publisher, received):
    rule = broker.faults.stall()
    broker.publish("", "work", b"first")
    publisher.basic_publish("", "work", b"second")

    rule.remove()

    assert received(2) == [(1, b"first"), (2, b"second")]


def test_a_timed_stall_before_a_slicer_ends_in_order(broker, publisher, received):
    broker.clock.hold()
    broker.faults.stall(30)
    broker.faults.slicer(5)
    broker.publish("", "work", b"first")
    publisher.basic_publish("", "work", b"second")

    broker.clock.advance(30, settle=0)

    assert received(2) == [(1, b"first"), (2, b"second")]


def test_removing_low_bandwidth_in_mid_frame_leaves_the_frames_whole(broker, publisher, received):
    broker.clock.hold()
    rule = broker.faults.bandwidth(50)
    broker.publish("", "work", b"1" * 1000)
    publisher.basic_publish("", "work", b"2" * 1000)
    broker.clock.advance(1, settle=0)

    rule.remove()

    assert received(2) == [(1, b"1" * 1000), (2, b"2" * 1000)]


@pytest.mark.parametrize("direction", ["both", "to_broker"])
def test_what_pika_publishes_into_a_blackhole_arrives_before_what_it_publishes_afterwards(broker, channel, direction):
    rule = broker.faults.blackhole(direction)
    channel.basic_publish("", "work", b"one")

    rule.remove()
    channel.basic_publish("", "work", b"two")

    assert bodies(broker) == [b"one", b"two"]


def test_a_publish_into_a_blackhole_is_confirmed_once_it_has_arrived(broker, plain_connection):
    channel, confirmed = plain_connection.channel(), []
    channel.confirm_select()
    channel.events["basic_ack"].add(lambda tag, multiple: confirmed.append(tag))
    rule = broker.faults.blackhole("to_broker")
    channel.basic_publish(amqp.Message(b"one"), routing_key="work")
    with pytest.raises(socket.timeout):
        plain_connection.drain_events(timeout=0.01)

    rule.remove()
    while not confirmed:
        plain_connection.drain_events(timeout=PATIENCE)

    assert (confirmed, bodies(broker)) == ([1], [b"one"])


def test_a_fault_removed_behind_another_hands_nothing_past_it(broker, publisher, received):
    outer = broker.faults.stall()
    with broker.faults.bandwidth(1):
        broker.publish("", "work", b"first")
        publisher.basic_publish("", "work", b"second")
    publisher.basic_publish("", "work", b"third")

    outer.remove()

    assert received(3) == [(1, b"first"), (2, b"second"), (3, b"third")]


def test_faults_on_bytes_act_inside_tls():
    with Broker(tls=True) as broker:
        broker.declare_queue("work")
        parameters = pika.URLParameters(broker.tls.url)
        parameters.ssl_options = pika.SSLOptions(broker.tls.certificates.client_context(), broker.host)
        broker.faults.slicer(1, on="accept")
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            with broker.faults.stall():
                channel.basic_publish("", "work", b"one")
            channel.basic_publish("", "work", b"two")
            broker.faults.corrupt(1)
            # A wrong byte of TLS itself would be an SSLError.
            with pytest.raises(AMQPError, match="Invalid frame"):
                channel.queue_declare("work", passive=True)

        assert bodies(broker) == [b"one", b"two"]
