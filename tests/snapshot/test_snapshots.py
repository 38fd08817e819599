"""A test goes back to a state that was built once: `snapshot()` and `restore()`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from leveret import Broker, BrokerError
from leveret.cli import main


@pytest.fixture
def channel(leveret: Broker) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(leveret.url))
    yield connection.channel()
    if connection.is_open:
        with suppress(pika.exceptions.AMQPError):
            connection.close()


def new_channel(broker: Broker) -> BlockingChannel:
    return pika.BlockingConnection(pika.URLParameters(broker.url)).channel()


def test_messages_come_back_in_their_order(leveret: Broker, channel: BlockingChannel) -> None:
    channel.queue_declare("orders", durable=True)
    for number in range(3):
        channel.basic_publish("", "orders", b"%d" % number)
    state = leveret.snapshot()
    channel.queue_purge("orders")

    leveret.restore(state)

    assert [it.body for it in leveret.queue("orders").ready] == [b"0", b"1", b"2"]


def test_a_snapshot_leaves_the_clients_alone(leveret: Broker, channel: BlockingChannel) -> None:
    channel.queue_declare("orders", durable=True)
    channel.basic_publish("", "orders", b"one")
    method, _, _ = channel.basic_get("orders")

    leveret.snapshot()

    channel.basic_ack(method.delivery_tag)
    leveret.assert_acked("orders", body=b"one")


def test_what_a_client_held_is_redelivered(leveret: Broker, channel: BlockingChannel) -> None:
    channel.queue_declare("orders", durable=True)
    channel.basic_publish("", "orders", b"one")
    channel.basic_get("orders")
    state = leveret.snapshot()

    leveret.restore(state)

    method, _, body = new_channel(leveret).basic_get("orders")
    assert (body, method.redelivered) == (b"one", True)


def test_the_connections_of_the_broker_are_closed(leveret: Broker, channel: BlockingChannel) -> None:
    state = leveret.snapshot()

    leveret.restore(state)

    with pytest.raises(pika.exceptions.AMQPError):
        channel.queue_declare("orders", durable=True)


def test_a_state_is_restored_as_often_as_needed(leveret: Broker, channel: BlockingChannel) -> None:
    channel.queue_declare("orders", durable=True)
    channel.basic_publish("", "orders", b"one")
    state = leveret.snapshot()
    for _ in range(3):
        leveret.restore(state)
        assert new_channel(leveret).basic_get("orders", auto_ack=True)[2] == b"one"


def test_the_clock_goes_back_with_the_state(leveret: Broker, channel: BlockingChannel) -> None:
    channel.queue_declare("short", durable=True, arguments={"x-message-ttl": 60_000})
    channel.basic_publish("", "short", b"one")
    leveret.clock.advance(seconds=50)
    state = leveret.snapshot()
    leveret.clock.advance(seconds=50)
    assert len(leveret.queue("short").ready) == 0

    leveret.restore(state)

    leveret.clock.advance(seconds=9)
    assert len(leveret.queue("short").ready) == 1
    leveret.clock.advance(seconds=2)
    assert len(leveret.queue("short").ready) == 0


def test_assertions_know_what_happened_before_the_snapshot(leveret: Broker, channel: BlockingChannel) -> None:
    channel.queue_declare("orders", durable=True)
    channel.basic_publish("", "orders", b"one")
    state = leveret.snapshot()

    leveret.restore(state)

    leveret.assert_published("", routing_key="orders", body=b"one")


def test_the_oldest_of_many_events_is_known_after_a_restore(leveret: Broker) -> None:
    leveret.declare_queue("orders")
    # More than the recorder keeps as the broker made them.
    for number in range(9_000):
        leveret.publish("", "orders", b"%d" % number)

    leveret.restore(leveret.snapshot())

    leveret.assert_published("", body=b"0")
    leveret.assert_published("", body=b"8999")


def test_a_finding_about_the_past_is_not_reported_again() -> None:
    with Broker(checks="unroutable=error") as broker, Broker(checks="unroutable=error") as other:
        broker.declare_queue("orders")
        broker.publish("", "nowhere", b"one")
        state = broker.snapshot()
        with pytest.raises(AssertionError, match="unroutable"):
            broker.check()

        other.restore(state)

        other.check()


def test_a_copy_that_was_reported_is_not_reported_again_after_a_restore(channel: BlockingChannel) -> None:
    with Broker(checks="redelivered_too_often=error", max_redeliveries=2) as broker:
        broker.declare_queue("orders")
        broker.publish("", "orders", b"one")
        with broker.consume("orders") as consumer:
            for _ in range(3):
                consumer.next().nack()
        state = broker.snapshot()
        with pytest.raises(AssertionError, match="redelivered_too_often"):
            broker.check()
        broker.restore(state)

        with broker.consume("orders") as consumer:
            consumer.next()

        broker.check()


def test_a_restored_broker_explains_by_the_line_that_published(leveret: Broker, channel: BlockingChannel) -> None:
    leveret.declare_queue("orders")
    leveret.publish("", "orders", b"one")
    state = leveret.snapshot()

    leveret.restore(state)

    with pytest.raises(AssertionError, match=r"test_snapshots\.py"):
        leveret.assert_acked("orders", timeout=0)


def test_the_past_of_a_restored_broker_was_relayed_by_no_client(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Broker(trace_dir=tmp_path) as broker:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            for name in ("orders", "bills"):
                channel.queue_declare(name, durable=True)
            channel.basic_publish("", "orders", b"one")
            channel.basic_publish("", "bills", channel.basic_get("orders", auto_ack=True)[2])
        broker.restore(broker.snapshot())
        path = broker.events.path

    main(["trace", "show", str(path)])

    shown = capsys.readouterr().out
    assert "#1 of b2" in shown
    assert "relayed" not in shown


def test_a_snapshot_of_another_version_is_refused(leveret: Broker) -> None:
    with Broker(rabbitmq="4.0") as other, pytest.raises(BrokerError, match=r"rabbitmq='4\.0', and this one has"):
        leveret.restore(other.snapshot())


def test_a_snapshot_serves_other_brokers(leveret: Broker, channel: BlockingChannel) -> None:
    channel.queue_declare("orders", durable=True)
    with Broker() as other:
        other.restore(leveret.snapshot())

        new_channel(other).queue_declare("orders", durable=True)


def test_a_reply_that_is_still_to_come_is_not_sent_by_the_copy(leveret: Broker) -> None:
    leveret.clock.hold()
    leveret.declare_queue("replies")
    leveret.respond("requests", "pong", delay=5)
    leveret.publish("", "requests", b"ping", reply_to="replies")
    with Broker() as other:
        other.restore(leveret.snapshot())

        other.clock.advance(seconds=10)

    assert len(leveret.queue("replies").ready) == 0


def test_what_a_fault_held_back_is_in_its_queue(leveret: Broker, channel: BlockingChannel) -> None:
    leveret.faults.delay("basic.deliver", seconds=60)
    channel.queue_declare("orders", durable=True)
    channel.basic_consume("orders", lambda *delivery: None)
    channel.basic_publish("", "orders", b"one")
    leveret.sync()
    with Broker() as other:
        other.restore(leveret.snapshot())

        assert len(other.queue("orders").ready) == 1


def test_a_chain_of_exchanges_may_be_long(leveret: Broker) -> None:
    for number in range(300):
        leveret.declare_exchange(f"x{number}", "fanout")
        if number:
            leveret.bind_exchange(f"x{number}", f"x{number - 1}")
    leveret.declare_queue("end")
    leveret.bind_queue("end", "x299")
    leveret.restore(leveret.snapshot())

    leveret.publish("x0", "", b"one")

    assert len(leveret.queue("end").ready) == 1


def test_a_snapshot_without_events_is_refused_where_events_are_kept(leveret: Broker) -> None:
    with Broker(record="off") as other, pytest.raises(BrokerError, match="record='off'"):
        leveret.restore(other.snapshot())
