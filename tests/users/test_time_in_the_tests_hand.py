"""What people reported that they could not test in reasonable time, each as a test that takes milliseconds."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Iterator

import aio_pika
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from leveret import Broker, WaitTimeoutError

# Messages that expire are what this is about, wherever they go.
pytestmark = pytest.mark.leveret(checks="expired_into_nothing=off")

PATIENCE = 30
DAY_MS = 86_400_000


@pytest.fixture
def channel(leveret: Broker) -> Iterator[BlockingChannel]:
    with pika.BlockingConnection(pika.URLParameters(leveret.url)) as connection:
        yield connection.channel()


def declare_delays(broker: Broker) -> None:
    """An exchange that delays what goes to the queue `work`."""
    broker.declare_exchange("delays", type="x-delayed-message", arguments={"x-delayed-type": "direct"})
    broker.declare_queue("work")
    broker.bind_queue("work", "delays", "work")


def test_dramatiq_57_a_backoff_of_seven_days_passes_at_once_and_is_reported(leveret: Broker) -> None:
    """dramatiq#57: a failed task is retried after up to seven days, so a test seems to hang silently.

    dramatiq's worker keeps such a message and counts the days by Python's clock. leveret
    reports who holds which message. To pass the days, move Python's clock, here with time-machine.
    """
    dramatiq = pytest.importorskip("dramatiq")
    time_machine = pytest.importorskip("time_machine")
    from dramatiq.brokers.rabbitmq import RabbitmqBroker

    broker = RabbitmqBroker(url=leveret.url)
    tries = []

    def fail_once() -> None:
        tries.append(datetime.datetime.now(datetime.UTC))
        if len(tries) == 1:
            raise ConnectionError

    actor = dramatiq.actor(fail_once, broker=broker, min_backoff=7 * DAY_MS, max_backoff=7 * DAY_MS)
    with time_machine.travel(datetime.datetime.now(datetime.UTC)) as traveller:
        worker = dramatiq.Worker(broker, worker_timeout=5, worker_threads=1)
        actor.send()
        worker.start()
        leveret.assert_delivered("default.DQ", timeout=5)
        with pytest.raises(WaitTimeoutError, match=r"1 unacked on default\.DQ held by"):
            leveret.wait_idle(timeout=0.01)

        traveller.shift(datetime.timedelta(days=7))

        leveret.assert_acked("default", times=2, timeout=PATIENCE)
        worker.stop()
        broker.close()
    assert tries[1] - tries[0] > datetime.timedelta(days=3)


def test_dramatiq_197_a_failing_task_with_backoff_does_not_slow_a_test(
    leveret: Broker, channel: BlockingChannel
) -> None:
    """dramatiq#197: a test that waits for a task to give up waits through every backoff of it."""
    declare_delays(leveret)
    given_up = []

    def work(channel, method, properties, body) -> None:
        tries = properties.headers["tries"]
        channel.basic_ack(method.delivery_tag)
        if tries == 20:
            given_up.append(body)
            channel.stop_consuming()
            return
        headers = {"tries": tries + 1, "x-delay": 15_000 * 2**tries}
        channel.basic_publish("delays", "work", body, pika.BasicProperties(headers=headers))

    channel.basic_consume("work", work)
    with leveret.clock.autojump():
        leveret.publish("delays", "work", b"x", headers={"tries": 0})
        channel.start_consuming()

    assert given_up == [b"x"]


def test_messenger_test_66_work_scheduled_days_ahead_runs_when_time_is_advanced(
    leveret: Broker, channel: BlockingChannel
) -> None:
    """zenstruck/messenger-test#66: dispatch for in three days and in five, then look after each."""
    declare_delays(leveret)
    leveret.clock.hold()
    for days in (5, 3):
        leveret.publish("delays", "work", b"in %d days" % days, headers={"x-delay": days * DAY_MS})

    leveret.clock.advance(days=3)
    assert channel.basic_get("work", auto_ack=True)[2] == b"in 3 days"
    leveret.assert_empty("work")

    leveret.clock.advance(days=2)
    assert channel.basic_get("work", auto_ack=True)[2] == b"in 5 days"


def test_pulsar_10078_a_test_knows_without_waiting_that_no_message_arrives(
    leveret: Broker, channel: BlockingChannel
) -> None:
    """apache/pulsar#10078: a test that relies on the time-out of a receive to say that nothing comes."""
    declare_delays(leveret)
    leveret.clock.hold()
    channel.basic_publish("delays", "work", b"x", pika.BasicProperties(headers={"x-delay": 1000}))

    leveret.clock.advance(ms=999)

    leveret.assert_empty("work")


def test_activemq_1626_an_expired_message_is_dead_lettered_when_it_expires(leveret: Broker) -> None:
    """apache/activemq#1626: a message that lives for 100 ms is waited for at the dead letters for 30 s."""
    leveret.declare_queue("dead")
    leveret.declare_queue("orders", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    leveret.publish("", "orders", b"x", expiration="100")

    leveret.clock.advance(ms=100)

    leveret.assert_dead_lettered("orders", to="dead", reason="expired", body=b"x")


def test_nservicebus_4601_a_deferred_message_arrives_exactly_on_time(leveret: Broker) -> None:
    """Particular/NServiceBus#4601: deferral can be tested in short time or reliably, not both, where the broker has
    a clock of its own."""
    declare_delays(leveret)
    leveret.clock.hold()
    sent_at = leveret.clock.now
    leveret.publish("delays", "work", headers={"x-delay": 2_000})

    leveret.clock.advance(1, ms=999)
    leveret.assert_empty("work")
    leveret.clock.advance(ms=1)

    (arrived,) = leveret.events.query("enqueued", queue="work")
    assert arrived.at / 1_000_000 == pytest.approx(sent_at + 2)


def test_celery_once_99_a_lock_held_by_a_message_is_released_when_it_expires(
    leveret: Broker, channel: BlockingChannel
) -> None:
    """celery-once#99: a task that may be queued once in an hour, and a test that has to see when it may be again.

    Here the lock is the broker's own: a queue for one message, which refuses a second one until the first is gone.
    """
    once = {"x-max-length": 1, "x-overflow": "reject-publish", "x-message-ttl": 3_600_000}
    leveret.declare_queue("lock", arguments=once)
    channel.confirm_delivery()

    channel.basic_publish("", "lock", b"")
    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish("", "lock", b"")
    leveret.clock.advance(hours=1)
    channel.basic_publish("", "lock", b"")


def test_taskbroker_309_delayed_tasks_all_become_due(leveret: Broker) -> None:
    """getsentry/taskbroker#309: write many delayed tasks, then look again every second until the last one is due."""
    declare_delays(leveret)
    leveret.clock.hold()
    for number in range(100):
        leveret.publish("delays", "work", b"%d" % number, headers={"x-delay": 1_000 * (100 - number)})

    leveret.clock.advance(seconds=50)
    assert len(leveret.queue("work").ready) == 50
    leveret.clock.advance(seconds=50)

    assert [int(message.body) for message in leveret.queue("work").ready] == list(range(99, -1, -1))


@pytest.mark.asyncio
@pytest.mark.leveret(rabbitmq="3.13", checks="unseen_channel_error=off")
async def test_aio_pika_288_a_message_held_for_half_an_hour_closes_the_channel(leveret: Broker) -> None:
    """aio-pika#288: a handler forgot to acknowledge; after 30 minutes RabbitMQ closed the channel, and no
    test could show how the application reacts."""
    async with await aio_pika.connect(leveret.url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("orders", durable=True)
        got = asyncio.Event()

        async def forget(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            got.set()

        await queue.consume(forget)
        leveret.publish("", "orders", b"x")
        await got.wait()

        await leveret.aio.clock.advance(minutes=29, settle=0)
        assert not channel.is_closed
        # RabbitMQ looks once a minute.
        await leveret.aio.clock.advance(minutes=2, settle=0)

        await asyncio.wait_for(channel.closed(), PATIENCE)
        leveret.assert_requeued("orders", body=b"x")
        (refusal,) = leveret.events.query("refused", code=406)
        assert "delivery acknowledgement on channel 1 timed out. Timeout value used: 1800000 ms" in refusal.text


@pytest.mark.asyncio
async def test_aio_pika_288_a_message_held_for_half_an_hour_cancels_the_consumer_on_4_3(leveret: Broker) -> None:
    """aio-pika#288, on RabbitMQ 4.3: quorum queues only; a client that accepts basic.cancel loses only its consumer."""
    async with await aio_pika.connect(leveret.url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("orders", durable=True, arguments={"x-queue-type": "quorum"})
        got = asyncio.Event()

        async def forget(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            got.set()

        await queue.consume(forget)
        leveret.publish("", "orders", b"x")
        await got.wait()

        await leveret.aio.clock.advance(minutes=30, settle=0)

        leveret.assert_requeued("orders", reason="consumer_timeout", body=b"x")
        # It is counted until it has acknowledged the message, and gets no other.
        (consumer,) = leveret.consumers
        assert not consumer.active


def test_pytest_httpserver_a_reply_that_takes_two_seconds_takes_none(leveret: Broker, channel: BlockingChannel) -> None:
    """pytest-httpserver's documentation on a slow answer: "the test takes 2 seconds to complete"."""
    declare_delays(leveret)
    leveret.publish("delays", "work", b"late", headers={"x-delay": 2_000})

    with leveret.clock.autojump():
        _, _, body = next(channel.consume("work", auto_ack=True, inactivity_timeout=1.5))

    assert body == b"late"
