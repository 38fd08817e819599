"""Streams as unmodified clients use them: reading again, resuming at an offset, two readers, a restart."""

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker

STREAM = {"x-queue-type": "stream"}


@pytest.fixture
def connect(broker_url):
    """Return a function that opens a channel on a connection of its own."""
    opened = []

    def open_channel():
        connection = pika.BlockingConnection(pika.URLParameters(broker_url))
        opened.append(connection)
        return connection.channel()

    yield open_channel
    for connection in opened:
        if connection.is_open:
            connection.close()


@pytest.fixture
def publisher(connect):
    """A confirming channel on which the stream `events` was declared."""
    channel = connect()
    channel.queue_declare("events", durable=True, arguments=STREAM)
    channel.confirm_delivery()
    return channel


def publish(channel, *bodies, **properties):
    for body in bodies:
        channel.basic_publish("", "events", body, pika.BasicProperties(**properties))


def read(channel, count, offset, *, patience, prefetch_count=10, **arguments):
    """Return the bodies and offsets of a number of messages from this offset on, after acknowledging each."""
    channel.basic_qos(prefetch_count=prefetch_count)
    found = []
    deliveries = channel.consume(
        "events", arguments={"x-stream-offset": offset, **arguments}, inactivity_timeout=patience
    )
    for method, properties, body in deliveries:
        assert method is not None, f"only {found} came"
        channel.basic_ack(method.delivery_tag)
        found.append((body, properties.headers["x-stream-offset"]))
        if len(found) == count:
            break
    channel.cancel()
    return found


def test_a_stream_can_be_read_any_number_of_times(connect, publisher, patience):
    publish(publisher, b"a", b"b", b"c")

    first = read(connect(), 3, "first", patience=patience, prefetch_count=1)
    second = read(connect(), 3, "first", patience=patience)

    assert first == second == [(b"a", 0), (b"b", 1), (b"c", 2)]


def test_a_reader_resumes_at_the_offset_it_remembers(connect, publisher, patience):
    publish(publisher, b"a", b"b", b"c")
    (_, seen), *_ = read(connect(), 1, "first", patience=patience)

    assert read(connect(), 2, seen + 1, patience=patience) == [(b"b", 1), (b"c", 2)]


def test_a_filter_selects_the_messages_to_read(connect, publisher, patience):
    for value in ("eu", "us", "eu"):
        publish(publisher, value.encode(), headers={"x-stream-filter-value": value})

    found = read(connect(), 2, "first", patience=patience, **{"x-stream-filter": "eu"})

    assert found == [(b"eu", 0), (b"eu", 2)]


def test_a_reader_without_a_prefetch_is_refused(connect, publisher):
    with pytest.raises(ChannelClosedByBroker) as refusal:
        connect().basic_consume("events", lambda *_: None)

    assert refusal.value.reply_code == 406
    assert "prefetch" in refusal.value.reply_text


def test_a_stream_survives_a_restart_with_transient_messages(make_broker, patience):
    with make_broker() as broker:
        parameters = pika.URLParameters(broker.url)
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            channel.queue_declare("events", durable=True, arguments=STREAM)
            channel.confirm_delivery()
            publish(channel, b"a", delivery_mode=1)

        broker.restart()

        with pika.BlockingConnection(parameters) as connection:
            assert read(connection.channel(), 1, "first", patience=patience) == [(b"a", 0)]


def test_a_test_sees_the_whole_log_and_the_holder_of_each_message(make_broker, patience):
    with make_broker() as broker, pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("events", durable=True, arguments=STREAM)
        channel.confirm_delivery()
        publish(channel, b"a", b"b")
        channel.basic_qos(prefetch_count=1)
        deliveries = channel.consume("events", arguments={"x-stream-offset": "first"}, inactivity_timeout=patience)
        method, _, _ = next(deliveries)

        view = broker.queue("events")
        assert [message.body for message in view.ready] == [b"a", b"b"]
        assert [message.body for message in view.unacked] == [b"a"]
        assert [message.headers["x-stream-offset"] for message in view.ready] == [0, 1]

        channel.basic_ack(method.delivery_tag)
        method, _, _ = next(deliveries)
        channel.basic_ack(method.delivery_tag)
        connection.process_data_events(0)
        broker.wait_idle()
        broker.assert_delivered("events", body=b"a")
        broker.assert_acked("events", times=2)
        assert len(broker.queue("events").ready) == 2
        channel.cancel()
