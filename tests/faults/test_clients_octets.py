"""How unmodified client libraries react to faults on the bytes of their connections, over real sockets."""

from __future__ import annotations

import asyncio
import socket

import aio_pika
import aiormq
import amqp
import pytest
from pika.exceptions import AMQPError, ConnectionClosedByBroker, StreamLostError

from tests.faults.conftest import PATIENCE, bodies


class SkippingLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock a test can move."""

    skipped = 0.0

    def time(self) -> float:
        return super().time() + self.skipped


def test_aiormq_notices_missed_heartbeats_when_the_peer_goes_silent(broker):
    loop = SkippingLoop()

    async def main():
        connection = await aiormq.connect(f"{broker.url}?heartbeat=60")
        broker.faults.blackhole()
        loop.skipped += 1000
        await asyncio.wait([connection.closing], timeout=PATIENCE)
        is_noticed = connection.is_closed
        loop.skipped += 1000
        return is_noticed

    try:
        assert loop.run_until_complete(main())
    finally:
        loop.close()


@pytest.mark.parametrize("size", [1, 7])
def test_pika_reassembles_small_pieces(broker, channel, size):
    broker.publish("", "work", b"x" * 100)
    broker.faults.slicer(size)

    _, _, body = channel.basic_get("work", auto_ack=True)

    assert body == b"x" * 100


def test_pika_notices_a_wrong_byte(broker, channel):
    # The first byte of a frame is its type.
    broker.faults.corrupt(1)

    with pytest.raises(AMQPError):
        channel.queue_declare("work", durable=True)


def test_pika_loses_its_connection_in_the_middle_of_a_frame(broker, channel):
    broker.faults.limit_data(6)

    with pytest.raises(StreamLostError):
        channel.queue_declare("work", durable=True)


def test_pika_reads_the_end_of_the_stream_after_an_accepted_publish(broker, channel):
    channel.confirm_delivery()
    broker.faults.half_close(on="basic.publish")

    with pytest.raises(StreamLostError):
        channel.basic_publish("", "work", b"x")

    assert bodies(broker) == [b"x"]


def test_the_broker_receives_an_ack_of_py_amqp_on_a_half_closed_connection(broker):
    connection = amqp.Connection(broker.url.removeprefix("amqp://guest:guest@"), connect_timeout=PATIENCE)
    connection.connect()
    broker.publish("", "work", b"x")
    message = connection.channel().basic_get("work")

    broker.faults.half_close()
    message.channel.basic_ack(message.delivery_tag)

    broker.assert_acked("work", body=b"x", timeout=PATIENCE)
    with pytest.raises(connection.recoverable_connection_errors):
        connection.drain_events(timeout=PATIENCE)


def test_the_broker_answers_pikas_wrong_byte(broker, channel):
    broker.faults.corrupt(1, direction="to_broker")

    with pytest.raises(ConnectionClosedByBroker, match="FRAME_ERROR"):
        channel.queue_declare("work", durable=True)


def test_the_broker_receives_from_a_py_amqp_that_receives_nothing(broker, plain_connection):
    channel = plain_connection.channel()
    channel.basic_consume("work", callback=lambda message: None, no_ack=True)
    broker.faults.blackhole("to_client")

    channel.queue_declare("new", durable=True, auto_delete=False, nowait=True)
    broker.publish("", "work", b"x")

    assert broker.queue("new").ready == ()
    broker.assert_delivered("work", body=b"x")
    with pytest.raises(socket.timeout):
        plain_connection.drain_events(timeout=0.01)


def test_the_broker_sends_to_a_py_amqp_that_it_does_not_receive_from(broker, plain_connection):
    channel, seen = plain_connection.channel(), []
    channel.basic_consume("work", callback=lambda message: seen.append(message.body), no_ack=True)
    broker.faults.blackhole("to_broker")

    channel.queue_declare("new", durable=True, auto_delete=False, nowait=True)
    broker.publish("", "work", b"x")
    plain_connection.drain_events(timeout=PATIENCE)

    assert seen == [b"x"]
    assert [queue.name for queue in broker.queues] == ["work"]


@pytest.mark.parametrize("direction", ["to_client", "to_broker"])
def test_pika_waits_as_long_as_low_bandwidth_takes(broker, channel, direction):
    channel.confirm_delivery()

    with broker.clock.autojump():
        began = broker.clock.now
        broker.faults.bandwidth(1_000, direction=direction)
        channel.basic_publish("", "work", bytes(3_000))
        _, _, body = channel.basic_get("work", auto_ack=True)

    assert body == bytes(3_000)
    # Three seconds for the body and a little for its frames, whichever direction is slow.
    assert broker.clock.now - began == pytest.approx(3, rel=0.1)


def test_aio_pika_gets_all_that_was_stalled_when_the_stall_is_over(broker):
    broker.clock.hold()
    broker.publish("", "work", b"x")

    async def main():
        async with await aio_pika.connect(broker.url, timeout=PATIENCE) as connection:
            queue = await (await connection.channel()).get_queue("work", ensure=False)
            broker.faults.stall(30)
            getting = asyncio.ensure_future(queue.get(no_ack=True, timeout=None))
            await broker.aio.clock.advance(29)
            is_early = getting.done()
            await broker.aio.clock.advance(1)
            return is_early, (await asyncio.wait_for(getting, PATIENCE)).body

    assert asyncio.run(main()) == (False, b"x")


def test_py_amqp_gets_all_that_was_stalled_when_the_rule_is_removed(broker, plain_connection):
    seen = []
    plain_connection.channel().basic_consume("work", callback=lambda message: seen.append(message.body), no_ack=True)
    rule = broker.faults.stall(direction="to_client")
    broker.publish("", "work", b"x")
    with pytest.raises(socket.timeout):
        plain_connection.drain_events(timeout=0.01)

    rule.remove()
    plain_connection.drain_events(timeout=PATIENCE)

    assert seen == [b"x"]
