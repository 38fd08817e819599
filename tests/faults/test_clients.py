"""What client libraries, unmodified, make of faults: over real sockets, each with what its users would write."""

from __future__ import annotations

import asyncio
import contextlib

import aio_pika
import aiormq
import amqp
import kombu
import pika
import pytest
from aio_pika.exceptions import DeliveryError
from pika.exceptions import (
    AMQPConnectionError,
    AMQPError,
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    NackError,
    ProbableAuthenticationError,
    StreamLostError,
)

from leveret import Broker, WaitedTooLong

PATIENCE = 5

pytestmark = pytest.mark.timeout(4 * PATIENCE)


@pytest.fixture
def broker():
    with Broker() as broker:
        broker.declare_queue("work")
        yield broker


@pytest.fixture
def connect(broker):
    opened = []

    def connect(**options):
        parameters = pika.URLParameters(broker.url)
        parameters.socket_timeout = PATIENCE
        for name, value in options.items():
            setattr(parameters, name, value)
        opened.append(pika.BlockingConnection(parameters))
        return opened[-1]

    yield connect
    for connection in opened:
        if connection.is_open:
            with contextlib.suppress(Exception):
                connection.close()


@pytest.fixture
def channel(connect):
    return connect().channel()


def bodies(broker):
    return [message.body for message in broker.queue("work").ready]


class SkippingLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock a test can move."""

    skipped = 0.0

    def time(self) -> float:
        return super().time() + self.skipped


def test_aio_pika_reconnects_after_the_connection_is_lost_between_delivery_and_ack(broker):
    rule = broker.faults.drop_connection(on="basic.ack")
    broker.publish("", "work", b"job")

    async def main():
        connection = await aio_pika.connect_robust(broker.url, reconnect_interval=0.01, timeout=PATIENCE)
        channel = await connection.channel()
        queue = await channel.declare_queue("work", durable=True)
        deliveries = asyncio.Queue()
        await queue.consume(deliveries.put)
        first = await asyncio.wait_for(deliveries.get(), PATIENCE)
        await first.ack()
        second = await asyncio.wait_for(deliveries.get(), PATIENCE)
        await second.ack()
        await broker.aio.wait_idle()
        await connection.close()
        return [(message.body, message.redelivered) for message in (first, second)]

    assert asyncio.run(main()) == [(b"job", False), (b"job", True)]
    assert rule.fired == 1
    broker.assert_acked("work", body=b"job", times=1)


def test_aio_pika_raises_for_a_nacked_publish(broker):
    broker.faults.nack_publishes(body=b"no")

    async def main():
        async with await aio_pika.connect(broker.url, timeout=PATIENCE) as connection:
            channel = await connection.channel()
            await channel.default_exchange.publish(aio_pika.Message(b"yes"), "work")
            with pytest.raises(DeliveryError):
                await channel.default_exchange.publish(aio_pika.Message(b"no"), "work")

    asyncio.run(main())
    assert bodies(broker) == [b"yes"]


def test_aio_pika_gives_up_on_a_confirm_that_never_comes(broker):
    broker.faults.withhold_confirms()

    async def main():
        async with await aio_pika.connect(broker.url, timeout=PATIENCE) as connection:
            channel = await connection.channel()
            with pytest.raises(asyncio.TimeoutError):
                await channel.default_exchange.publish(aio_pika.Message(b"x"), "work", timeout=0.05)

    asyncio.run(main())
    assert bodies(broker) == [b"x"]


def test_aio_pika_waits_for_an_answer_that_comes_with_the_brokers_time(broker):
    broker.clock.hold()
    broker.faults.delay("queue.declare-ok", seconds=3600, times=1)

    async def main():
        async with await aio_pika.connect(broker.url, timeout=PATIENCE) as connection:
            channel = await connection.channel()
            declaring = asyncio.ensure_future(channel.declare_queue("new", durable=True))
            while not any(queue.name == "new" for queue in broker.queues):
                await asyncio.wait([declaring], timeout=0.01)
            assert not declaring.done()
            await broker.aio.clock.advance(3600)
            return (await asyncio.wait_for(declaring, PATIENCE)).name

    assert asyncio.run(main()) == "new"


def test_aiormq_notices_missed_heartbeats_when_the_peer_goes_silent(broker):
    loop = SkippingLoop()

    async def main():
        connection = await aiormq.connect(f"{broker.url}?heartbeat=60")
        broker.faults.go_silent()
        loop.skipped += 1000
        await asyncio.wait([connection.closing], timeout=PATIENCE)
        is_noticed = connection.is_closed
        loop.skipped += 1000
        return is_noticed

    try:
        assert loop.run_until_complete(main())
    finally:
        loop.close()


def test_pika_learns_of_a_nacked_publish(broker, channel):
    channel.confirm_delivery()
    rule = broker.faults.nack_publishes(after=2, times=1)

    channel.basic_publish("", "work", b"1")
    channel.basic_publish("", "work", b"2")
    with pytest.raises(NackError):
        channel.basic_publish("", "work", b"3")
    channel.basic_publish("", "work", b"4")

    assert rule.fired == 1
    assert bodies(broker) == [b"1", b"2", b"4"]


def test_pika_is_told_of_blocking_and_of_its_end(broker, connect):
    connection = connect()
    told = []
    connection.add_on_connection_blocked_callback(lambda _, frame: told.append(frame.method.reason))
    connection.add_on_connection_unblocked_callback(lambda _, frame: told.append("go on"))
    channel = connection.channel()
    rule = broker.faults.block_publishers()

    channel.basic_publish("", "work", b"x")
    while not told:
        connection.process_data_events(PATIENCE)
    rule.remove()
    while len(told) < 2:
        connection.process_data_events(PATIENCE)

    assert told == ["low on memory", "go on"]
    assert bodies(broker) == [b"x"]


def test_pika_raises_what_a_channel_is_closed_with(broker, channel):
    broker.faults.close_channel(403, "not you", on="queue.declare")

    with pytest.raises(ChannelClosedByBroker) as closed:
        channel.queue_declare("new", durable=True)

    assert (closed.value.reply_code, closed.value.reply_text) == (403, "ACCESS_REFUSED - not you")


def test_pika_raises_what_a_connection_is_closed_with(broker, channel):
    broker.faults.close_connection(320, "bye", on="queue.declare")

    with pytest.raises(ConnectionClosedByBroker, match="CONNECTION_FORCED - bye"):
        channel.queue_declare("new", durable=True)


def test_pika_loses_its_connection_after_a_publish_that_was_taken(broker, channel):
    channel.confirm_delivery()
    broker.faults.drop_connection(on="basic.publish", when="after")

    with pytest.raises(StreamLostError):
        channel.basic_publish("", "work", b"x")

    assert bodies(broker) == [b"x"]


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("reset", (AMQPConnectionError, ValueError)),
        ("login", ProbableAuthenticationError),
        ("close", AMQPConnectionError),
    ],
)
def test_pika_is_not_let_in_until_the_rule_is_removed(broker, connect, how, error):
    with broker.faults.refuse_connections(how), pytest.raises(error):
        connect()

    assert connect().is_open


def test_pika_hears_that_its_consumer_is_cancelled(broker, channel):
    channel.basic_consume("work", lambda *_: None)
    cancelled = []
    channel.add_on_cancel_callback(cancelled.append)

    broker.faults.cancel_consumers(queue="work")
    channel.connection.process_data_events(PATIENCE)

    assert len(cancelled) == 1


def test_pika_is_given_a_message_twice_and_out_of_order(broker, channel):
    broker.faults.redeliver(body=b"1", times=1)
    broker.faults.reorder(3, times=3, optional=True)
    for number in range(3):
        broker.publish("", "work", b"%d" % number)

    seen = []
    for method, _, body in channel.consume("work", inactivity_timeout=PATIENCE):
        seen.append((body, method.redelivered))
        channel.basic_ack(method.delivery_tag)
        if len(seen) == 4:
            break

    assert sorted(seen) == [(b"0", False), (b"1", False), (b"1", True), (b"2", False)]


@pytest.mark.parametrize(
    ("set_fault", "text"),
    [
        (
            lambda faults: faults.reorder(3, seconds=60),
            "2 deliveries from work held back by the fault reorder for 1 min",
        ),
        (lambda faults: faults.delay("basic.deliver", seconds=90, body=b"2"), "1 delivery from work held back by the"),
    ],
)
def test_a_broker_is_not_idle_while_a_fault_keeps_messages_of_pika_back(broker, channel, set_fault, text):
    broker.clock.hold()
    set_fault(broker.faults)
    channel.basic_consume("work", lambda *_: None, auto_ack=True)
    broker.publish("", "work", b"1")
    broker.publish("", "work", b"2")

    with pytest.raises(WaitedTooLong, match=text):
        broker.wait_idle(timeout=0.01)
    broker.clock.advance(90)

    broker.wait_idle()
    broker.assert_delivered("work", times=2)


def test_a_broker_waits_for_an_answer_to_pika_that_a_fault_keeps_back(broker, connect):
    broker.clock.hold()
    broker.faults.delay("basic.publish", seconds=60)
    connect().channel().basic_publish("", "work", b"x")

    with pytest.raises(WaitedTooLong, match=r"1 basic\.publish held back by the fault delay for 1 min 0 s more of"):
        broker.wait_idle(timeout=0.01)
    broker.clock.advance(60)

    broker.wait_idle()
    assert bodies(broker) == [b"x"]


def test_time_leaps_to_the_end_of_what_a_fault_keeps_back_from_pika(broker, channel):
    broker.faults.delay("basic.deliver", seconds=3600)
    broker.publish("", "work", b"x")

    with broker.clock.autojump():
        _, _, body = next(channel.consume("work", auto_ack=True, inactivity_timeout=PATIENCE))

    assert body == b"x"


def test_pika_never_learns_that_a_confirmed_message_was_lost(broker, channel):
    channel.confirm_delivery()
    broker.faults.lose()

    channel.basic_publish("", "work", b"x")

    assert bodies(broker) == []
    assert len(broker.trace.query("dropped", reason="fault")) == 1


@pytest.mark.parametrize("size", [1, 7])
def test_pika_puts_pieces_together(broker, channel, size):
    broker.publish("", "work", b"x" * 100)
    broker.faults.slice(size)

    _, _, body = channel.basic_get("work", auto_ack=True)

    assert body == b"x" * 100


def test_pika_notices_a_wrong_octet(broker, channel):
    # The first octet of a frame is its kind.
    broker.faults.corrupt(1)

    with pytest.raises(AMQPError):
        channel.queue_declare("work", durable=True)


def test_pika_loses_its_connection_in_the_middle_of_a_frame(broker, channel):
    broker.faults.cut(6)

    with pytest.raises(StreamLostError):
        channel.queue_declare("work", durable=True)


def test_pika_reads_to_an_end_after_a_publish_that_was_taken(broker, channel):
    channel.confirm_delivery()
    broker.faults.half_close(on="basic.publish")

    with pytest.raises(StreamLostError):
        channel.basic_publish("", "work", b"x")

    assert bodies(broker) == [b"x"]


def test_the_broker_hears_an_ack_of_py_amqp_over_the_half_of_a_connection_that_is_left(broker):
    connection = amqp.Connection(broker.url.removeprefix("amqp://guest:guest@"), connect_timeout=PATIENCE)
    connection.connect()
    broker.publish("", "work", b"x")
    message = connection.channel().basic_get("work")

    broker.faults.half_close()
    message.channel.basic_ack(message.delivery_tag)

    broker.assert_acked("work", body=b"x", within=PATIENCE)
    with pytest.raises(connection.recoverable_connection_errors):
        connection.drain_events(timeout=PATIENCE)


def test_py_amqp_meets_a_restart_in_the_midst_of_a_declaration(broker):
    broker.faults.restart(on="queue.declare")
    connection = amqp.Connection(broker.url.removeprefix("amqp://guest:guest@"), connect_timeout=PATIENCE)
    connection.connect()

    with pytest.raises(connection.recoverable_connection_errors):
        connection.channel().queue_declare("new", durable=True)

    assert [queue.name for queue in broker.queues] == ["work"]


def test_kombu_publishes_again_after_its_connection_was_lost(broker):
    rule = broker.faults.drop_connection(on="basic.publish")

    with kombu.Connection(broker.url, transport_options={"confirm_publish": True}) as connection:
        producer = connection.Producer()
        producer.publish("x", routing_key="work", retry=True, retry_policy={"max_retries": 3, "interval_start": 0})

    assert rule.fired == 1
    assert len(bodies(broker)) == 1


def test_a_reset_forgets_the_faults(broker):
    broker.faults.drop_connection(on="basic.ack")

    broker.reset()

    assert broker.faults.rules == []
