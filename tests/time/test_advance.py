"""`clock.advance`: from deadline to deadline, each at its own instant, with clients that work in between."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from itertools import pairwise

import aio_pika
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from leveret import Broker, BrokerError, EndlessTimeError, LeveretWarning
from leveret.observe.calls.callers import handling_line, standing
from leveret.server.threads import Threads
from tests.time.workers import PATIENCE, compute, pika_worker, rejecting_worker

# Messages expire on purpose here, also where no queue takes them.
pytestmark = pytest.mark.leveret(checks="expired_into_nothing=off")

MINUTE = 60_000_000
Consume = Callable[[aio_pika.abc.AbstractQueue], Awaitable[None]]


@pytest.fixture
def channel(leveret: Broker) -> Iterator[BlockingChannel]:
    with pika.BlockingConnection(pika.URLParameters(leveret.url)) as connection:
        yield connection.channel()


def expiries(broker: Broker) -> list[int]:
    return [event.at for event in broker.events.query("expired")]


def test_each_deadline_is_met_at_its_own_instant(leveret: Broker) -> None:
    leveret.declare_queue("short", arguments={"x-message-ttl": 60_000})
    leveret.declare_queue("long", arguments={"x-message-ttl": 3_600_000})
    leveret.clock.hold()
    now = round(leveret.clock.now * 1_000_000)
    leveret.publish("", "long")
    leveret.publish("", "short")

    leveret.clock.advance(days=7)

    assert expiries(leveret) == [now + MINUTE, now + 60 * MINUTE]
    assert round(leveret.clock.now * 1_000_000) == now + 7 * 24 * 60 * MINUTE


def test_a_deadline_at_the_very_end_is_met(leveret: Broker) -> None:
    leveret.declare_queue("orders", arguments={"x-message-ttl": 60_000})
    leveret.clock.hold()
    leveret.publish("", "orders")

    leveret.clock.advance(59, ms=999)
    assert len(leveret.queue("orders").ready) == 1
    leveret.clock.advance(ms=1)

    assert leveret.queue("orders").ready == ()


def test_immediate_work_is_done_while_time_is_held(leveret: Broker, channel: BlockingChannel) -> None:
    leveret.declare_queue("dead")
    to_dead = {"x-message-ttl": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    leveret.declare_queue("orders", arguments=to_dead)
    leveret.clock.hold()

    channel.basic_publish("", "orders", b"x")

    leveret.assert_dead_lettered("orders", to="dead", timeout=PATIENCE)


def test_clients_finish_their_work_before_time_moves(leveret: Broker) -> None:
    with pika_worker(leveret.url):
        leveret.clock.hold()
        now = round(leveret.clock.now * 1_000_000)
        leveret.publish("", "jobs")

        # The worker has hardly got the message. Even so, its first retry begins now and not in an hour.
        leveret.clock.advance(hours=1)

        first, second, *_ = expiries(leveret)
        assert (first, second) == (now + MINUTE, now + 11 * MINUTE)


@pytest.mark.skipif(not Threads().can_tell, reason="only Linux reports what the threads of clients do")
def test_a_worker_may_take_its_time_after_it_has_acknowledged(leveret: Broker) -> None:
    """leveret sees that a thread of this process computes, so a pause of twenty milliseconds is as good as none."""
    back = {"x-message-ttl": 60_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders"}
    leveret.declare_queue("orders")
    leveret.declare_queue("again", arguments=back)
    connection = pika.BlockingConnection(pika.URLParameters(leveret.url))
    worker = connection.channel()

    def acknowledge_compute_publish(channel, method, properties, body) -> None:
        channel.basic_ack(method.delivery_tag)
        for _ in range(10):
            compute()
        channel.basic_publish("", "again", body)

    worker.basic_consume("orders", acknowledge_compute_publish)
    thread = threading.Thread(target=worker.start_consuming)
    thread.start()
    leveret.clock.hold()
    leveret.publish("", "orders")

    leveret.clock.advance(minutes=5)

    delivered = [event.at for event in leveret.events.query("delivered", queue="orders")]
    connection.add_callback_threadsafe(worker.stop_consuming)
    thread.join(PATIENCE)
    connection.close()
    assert [after - before for before, after in pairwise(delivered)] == [MINUTE] * 5


def test_time_that_moves_on_without_a_slow_client_says_so(leveret: Broker, channel: BlockingChannel) -> None:
    to_orders = {"x-message-ttl": 60_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders"}
    leveret.declare_queue("orders")
    leveret.declare_queue("later", arguments=to_orders)
    channel.basic_consume("orders", lambda *_: None)
    leveret.publish("", "later")

    with pytest.warns(LeveretWarning, match=r"waited \d+ ms .* 1 unacked on orders held by .* Pass settle="):
        leveret.clock.advance(minutes=5, settle=0.01)


def test_a_client_that_still_holds_a_message_at_the_end_is_named(leveret: Broker, channel: BlockingChannel) -> None:
    to_orders = {"x-message-ttl": 60_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders"}
    leveret.declare_queue("orders")
    leveret.declare_queue("later", arguments=to_orders)
    channel.basic_consume("orders", lambda *_: None)
    leveret.clock.hold()
    leveret.publish("", "later")

    with pytest.warns(LeveretWarning, match="1 unacked on orders held by"):
        leveret.clock.advance(minutes=1, settle=0.01)


@pytest.mark.asyncio
async def test_time_does_not_move_before_a_handler_that_waits_has_settled_its_message(leveret: Broker) -> None:
    """A handler that awaits a web service does not look busy, but it holds a message."""
    back = {"x-message-ttl": 1_800_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders"}
    to_later = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "later"}
    leveret.declare_queue("orders", arguments=to_later)
    leveret.declare_queue("later", arguments=back)
    attempts = []
    connection = await aio_pika.connect(leveret.url)
    queue = await (await connection.channel()).get_queue("orders")

    async def handle(message: aio_pika.abc.AbstractIncomingMessage) -> None:
        attempts.append(leveret.clock.now)
        answered = asyncio.Event()
        asyncio.get_running_loop().call_later(0.1, answered.set)
        await answered.wait()
        await (message.ack() if len(attempts) > 1 else message.reject())

    await queue.consume(handle)
    leveret.clock.hold()
    leveret.publish("", "orders")

    await leveret.aio.clock.advance(minutes=30)

    leveret.assert_acked("orders", times=1)
    assert attempts[1] - attempts[0] == 1_800
    await connection.close()


def awaited_for(seconds: float) -> asyncio.Event:
    """Return an event that is set after so many seconds, as a web service answers."""
    answered = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, answered.set)
    return answered


async def handle_slowly(message: aio_pika.abc.AbstractIncomingMessage) -> None:
    async with message.process():
        await awaited_for(0.7).wait()


async def keep(message: aio_pika.abc.AbstractIncomingMessage) -> None:
    """Leave the message unacknowledged."""


async def called(queue: aio_pika.abc.AbstractQueue) -> None:
    await queue.consume(handle_slowly)


async def looping(queue: aio_pika.abc.AbstractQueue) -> None:
    async with queue.iterator() as messages:
        async for message in messages:
            await handle_slowly(message)


@pytest.mark.asyncio
@pytest.mark.parametrize("consume", [called, looping])
async def test_a_handler_that_awaits_longer_than_settle_is_waited_for(leveret: Broker, consume: Consume) -> None:
    leveret.declare_queue("orders")
    async with await aio_pika.connect(leveret.url) as connection:
        consuming = asyncio.create_task(consume(await (await connection.channel()).get_queue("orders")))
        await leveret.aio.wait_for_consumer("orders")
        leveret.publish("", "orders")
        with warnings.catch_warnings():
            warnings.simplefilter("error", LeveretWarning)
            await leveret.aio.clock.advance(minutes=30, settle=0.5)

        leveret.assert_acked("orders")
        consuming.cancel()


def test_a_handler_on_a_thread_that_waits_longer_than_settle_is_waited_for(leveret: Broker) -> None:
    leveret.declare_queue("orders")

    def handle(channel: BlockingChannel, method: pika.spec.Basic.Deliver, *_: object) -> None:
        # The web service never answers, and the handler gives up.
        threading.Event().wait(0.7)
        channel.basic_ack(method.delivery_tag)
        channel.stop_consuming()

    with pika.BlockingConnection(pika.URLParameters(leveret.url)) as connection:
        consumer = connection.channel()
        consumer.basic_consume("orders", handle)
        worker = threading.Thread(target=consumer.start_consuming)
        worker.start()
        leveret.publish("", "orders")
        with warnings.catch_warnings():
            warnings.simplefilter("error", LeveretWarning)
            leveret.clock.advance(minutes=30, settle=0.5)

        leveret.assert_acked("orders")
        worker.join()


@pytest.mark.asyncio
async def test_the_warning_of_an_awaited_advance_names_the_line_of_the_test(leveret: Broker) -> None:
    leveret.declare_queue("orders")
    async with await aio_pika.connect(leveret.url) as connection:
        queue = await (await connection.channel()).get_queue("orders")
        await queue.consume(keep)
        leveret.publish("", "orders")

        with pytest.warns(LeveretWarning, match="1 unacked on orders held by") as caught:
            await leveret.aio.clock.advance(minutes=1, settle=0.01)

    assert [warning.filename for warning in caught] == [__file__]


def test_a_busy_thread_does_not_name_a_message_again_that_was_waited_for(
    leveret: Broker, channel: BlockingChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    leveret.declare_queue("orders")
    channel.basic_consume("orders", lambda *_: None)
    leveret.publish("", "orders")
    with pytest.warns(LeveretWarning, match="1 unacked on orders held by"):
        leveret.clock.advance(minutes=1, settle=0.01)
    monkeypatch.setattr(leveret.clock._stillness, "are_clients_at_work", lambda: True)

    with warnings.catch_warnings():
        warnings.simplefilter("error", LeveretWarning)
        leveret.clock.advance(minutes=1, settle=0.01)


def test_a_message_that_a_consumer_keeps_is_waited_for_once(leveret: Broker, channel: BlockingChannel) -> None:
    leveret.declare_queue("orders")
    channel.basic_consume("orders", lambda *_: None)
    leveret.publish("", "orders")
    with pytest.warns(LeveretWarning, match="1 unacked on orders held by"):
        leveret.clock.advance(minutes=1, settle=0.01)

    with warnings.catch_warnings():
        warnings.simplefilter("error", LeveretWarning)
        leveret.clock.advance(minutes=1, settle=0.01)


def test_a_message_that_the_test_has_fetched_is_not_waited_for(leveret: Broker, channel: BlockingChannel) -> None:
    leveret.declare_queue("orders")
    leveret.publish("", "orders")
    channel.basic_get("orders")

    with warnings.catch_warnings():
        warnings.simplefilter("error", LeveretWarning)
        leveret.clock.advance(minutes=1, settle=0.01)


def test_a_thread_at_work_is_no_reason_to_name_a_message_that_the_test_has_fetched(
    leveret: Broker, channel: BlockingChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    leveret.declare_queue("orders")
    leveret.publish("", "orders")
    channel.basic_get("orders")
    monkeypatch.setattr(leveret.clock._stillness, "are_clients_at_work", lambda: True)

    with warnings.catch_warnings():
        warnings.simplefilter("error", LeveretWarning)
        leveret.clock.advance(minutes=1, settle=0.01)


def test_a_clock_that_a_client_releases_between_two_steps_is_held_again(leveret: Broker) -> None:
    leveret.declare_queue("orders")
    back = {"x-message-ttl": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders"}
    leveret.declare_queue("later", arguments=back)
    connection = pika.BlockingConnection(pika.URLParameters(leveret.url))
    consumer = connection.channel()

    def release(channel, method, properties, body) -> None:
        leveret.clock.release()
        channel.basic_ack(method.delivery_tag)

    consumer.basic_consume("orders", release)
    thread = threading.Thread(target=consumer.start_consuming)
    thread.start()
    leveret.clock.hold()
    leveret.publish("", "later")

    # While it waits for the consumer, the released clock runs beyond the end.
    leveret.clock.advance(ms=1)

    connection.add_callback_threadsafe(consumer.stop_consuming)
    thread.join(PATIENCE)
    connection.close()
    assert leveret.clock.is_held


def test_a_client_that_is_seen_at_work_gets_more_time_than_settle(
    leveret: Broker, channel: BlockingChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    to_orders = {"x-message-ttl": 60_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders"}
    leveret.declare_queue("orders")
    leveret.declare_queue("later", arguments=to_orders)
    looks = []

    def look() -> bool:
        """See the client at work twice, and then let it acknowledge."""
        unacked = leveret.queue("orders").unacked
        looks.extend(unacked)
        if unacked and len(looks) == 2:
            channel.basic_ack(1)
        return bool(unacked)

    channel.basic_consume("orders", lambda *_: None)
    leveret.publish("", "later")
    monkeypatch.setattr(leveret.clock._stillness, "are_clients_at_work", look)

    with warnings.catch_warnings():
        warnings.simplefilter("error", LeveretWarning)
        leveret.clock.advance(minutes=5, settle=1)

    assert len(looks) == 2
    assert leveret.queue("orders").unacked == ()


@pytest.mark.filterwarnings("ignore:advance:leveret.LeveretWarning")
def test_a_worker_that_never_answers_costs_settle_seconds_and_only_once(
    leveret: Broker, channel: BlockingChannel
) -> None:
    """Later steps do not wait again for the messages that it got before."""
    to_orders = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders"}
    leveret.declare_queue("orders")
    channel.basic_consume("orders", lambda *_: None)
    for minute in range(1, 4):
        leveret.declare_queue(f"in {minute}", arguments={"x-message-ttl": minute * 60_000, **to_orders})
        leveret.publish("", f"in {minute}")

    leveret.clock.advance(minutes=5, settle=0.01)

    assert len(leveret.queue("orders").unacked) == 3


def test_time_runs_again_after_the_block_that_held_it(leveret: Broker) -> None:
    with leveret.clock.hold():
        leveret.declare_queue("q", arguments={"x-message-ttl": 1000})
        leveret.publish("", "q", b"one")
        leveret.clock.advance(ms=999)
        assert leveret.queue("q").ready_count == 1

    assert not leveret.clock.is_held


def test_a_block_that_holds_time_leaves_it_held_if_it_was_before(leveret: Broker) -> None:
    leveret.clock.advance(hours=1)

    with leveret.clock.hold():
        pass

    assert leveret.clock.is_held


def test_time_can_be_held_and_released(leveret: Broker) -> None:
    leveret.declare_queue("orders", arguments={"x-message-ttl": 1})
    leveret.clock.hold()
    leveret.publish("", "orders")
    assert len(leveret.queue("orders").ready) == 1

    leveret.clock.release()

    leveret.assert_empty("orders", timeout=PATIENCE)


def test_a_loop_without_end_is_named(leveret: Broker) -> None:
    """A job that always fails is retried for ever; a year of retries is treated as a mistake."""
    leveret.declare_queue("jobs", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"})
    back = {"x-message-ttl": 1_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "jobs"}
    leveret.declare_queue("wait", arguments=back)
    with rejecting_worker(leveret.url, "jobs"):
        leveret.publish("", "jobs")

        with pytest.raises(
            EndlessTimeError, match=r"(?s)20 times.*rejected it of .jobs.*expired in .wait.*higher limit="
        ):
            leveret.clock.advance(days=365, limit=20)


def test_advance_on_an_event_loop_names_the_awaitable_form(leveret: Broker) -> None:
    async def block() -> None:
        with pytest.raises(BrokerError, match=r"await broker\.aio\.clock\.advance\(\.\.\.\)"):
            leveret.clock.advance(1)
        await leveret.aio.clock.advance(1)

    asyncio.run(block())


def test_time_moves_on_by_a_timedelta(leveret: Broker) -> None:
    leveret.clock.hold()
    before = leveret.clock.now

    leveret.clock.advance(timedelta(minutes=1, milliseconds=500))

    assert leveret.clock.now == pytest.approx(before + 60.5, abs=1e-3)


def test_advance_without_a_span_is_refused(leveret: Broker) -> None:
    with pytest.raises(TypeError, match=r"advance\(\) needs a span: pass seconds, as in advance\(30\), ms=, minutes="):
        leveret.clock.advance()

    leveret.clock.advance(0)


def test_a_thread_that_stood_still_before_a_delivery_does_not_count_as_its_handler(leveret: Broker) -> None:
    reached = threading.Event()
    released = threading.Event()

    def idle() -> None:
        reached.set()
        released.wait()

    thread = threading.Thread(target=idle)
    thread.start()
    reached.wait()
    try:
        while handling_line() is None:
            leveret.sync()
        before = standing()

        assert handling_line(before) is None
    finally:
        released.set()
        thread.join()
