"""`clock.autojump`: whenever no client is at work, time jumps to the next deadline."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from itertools import pairwise

import aio_pika
import pika
import pytest

from leveret import Broker, BrokerError, EndlessTimeError, WaitTimeoutError
from leveret.time.autojump import Autojump
from tests.time.workers import FAILED, JOBS, PATIENCE, compute, pika_worker, rejecting_worker

# Messages expire on purpose here, also where no queue takes them.
pytestmark = pytest.mark.leveret(checks="expired_into_nothing=off")

HOUR = 3600
TO_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


def declare_loop(broker: Broker) -> None:
    """Declare queues in which a message rejected from `jobs` waits a second and comes back."""
    broker.declare_queue("jobs", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"})
    back = {"x-message-ttl": 1_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "jobs"}
    broker.declare_queue("wait", arguments=back)


def wait_until_off(jumping: Autojump) -> None:
    """Wait in a way that the broker cannot notice."""
    while jumping.is_on:
        threading.Event().wait(0.001)


def test_time_jumps_while_a_test_waits(leveret: Broker) -> None:
    leveret.declare_queue("dead")
    leveret.declare_queue("orders", arguments={"x-message-ttl": 24 * HOUR * 1000, **TO_DEAD})
    with leveret.clock.autojump():
        started = leveret.clock.now
        leveret.publish("", "orders", b"x")

        leveret.assert_dead_lettered("orders", to="dead", timeout=PATIENCE)

        assert leveret.clock.now == pytest.approx(started + 24 * HOUR)


def test_time_jumps_only_as_far_as_a_test_waits(leveret: Broker) -> None:
    leveret.declare_queue("soon", arguments={"x-message-ttl": 60_000})
    leveret.declare_queue("late", arguments={"x-message-ttl": 3_600_000})
    with leveret.clock.autojump():
        leveret.publish("", "late")
        leveret.publish("", "soon")

        leveret.assert_dropped("soon", reason="expired", timeout=PATIENCE)

        compute()
        assert len(leveret.queue("late").ready) == 1


def test_time_jumps_while_a_test_waits_in_its_own_client(leveret: Broker) -> None:
    """pika's consume generator runs on the test's own thread: the broker sees that the thread waits."""
    leveret.declare_queue("dead")
    leveret.declare_queue("orders", arguments={"x-message-ttl": HOUR * 1000, **TO_DEAD})
    with pika.BlockingConnection(pika.URLParameters(leveret.url)) as connection, leveret.clock.autojump():
        channel = connection.channel()
        channel.basic_publish("", "orders", b"x")

        method, _, body = next(channel.consume("dead", auto_ack=True, inactivity_timeout=PATIENCE))

        assert method is not None
        assert body == b"x"


def test_time_stands_still_while_a_thread_computes(leveret: Broker) -> None:
    leveret.declare_queue("orders", arguments={"x-message-ttl": HOUR * 1000})
    leveret.publish("", "orders")
    with leveret.clock.autojump():
        for _ in range(20):
            compute()
            assert len(leveret.queue("orders").ready) == 1


@pytest.mark.leveret(checks="unseen_channel_error=off")
def test_time_stands_still_while_a_client_holds_a_message(leveret: Broker) -> None:
    """The consumer may be waiting for a web service, so time does not jump to the half-hour delivery timeout."""
    leveret.declare_queue("orders", arguments={"x-queue-type": "quorum"})
    with pika.BlockingConnection(pika.URLParameters(leveret.url)) as connection:
        channel = connection.channel()
        leveret.publish("", "orders")
        channel.basic_get("orders")
        with leveret.clock.autojump() as jumping:
            with pytest.raises(WaitTimeoutError, match=r"1 unacked on orders held by"):
                leveret.wait_idle(timeout=0.05)
            assert jumping.jump_count == 0

        with leveret.clock.autojump(while_held=True):
            leveret.assert_requeued("orders", reason="consumer_timeout", timeout=5)


def test_time_does_not_jump_without_a_deadline(leveret: Broker) -> None:
    """Time never jumps to heartbeats and other ticks that recur for ever."""
    with pika.BlockingConnection(pika.URLParameters(leveret.url)), leveret.clock.autojump() as jumping:
        leveret.wait_idle()
        now = leveret.clock.now
        with pytest.raises(AssertionError):
            leveret.assert_published("amq.fanout", timeout=0.02)

        assert (leveret.clock.now, jumping.jump_count) == (now, 0)


def test_the_clock_is_left_as_it_was_found(leveret: Broker) -> None:
    with leveret.clock.autojump():
        assert leveret.clock.is_held
    assert not leveret.clock.is_held

    leveret.clock.hold()
    with leveret.clock.autojump():
        pass
    assert leveret.clock.is_held


def test_it_can_be_switched_on_and_off(leveret: Broker) -> None:
    leveret.declare_queue("orders", arguments={"x-message-ttl": HOUR * 1000})
    jumping = leveret.clock.autojump()
    leveret.publish("", "orders")
    leveret.assert_dropped("orders", timeout=PATIENCE)
    assert jumping.is_on

    leveret.clock.hold()

    assert not jumping.is_on
    leveret.publish("", "orders")
    with pytest.raises(AssertionError):
        leveret.assert_dropped("orders", times=2, timeout=0.02)


def test_a_new_one_replaces_the_old_and_advance_ends_it(leveret: Broker) -> None:
    first = leveret.clock.autojump()
    second = leveret.clock.autojump()
    assert (first.is_on, second.is_on) == (False, True)

    leveret.clock.advance(1)

    assert not second.is_on


def test_a_loop_without_end_fails_the_test_that_waits(leveret: Broker) -> None:
    declare_loop(leveret)
    with rejecting_worker(leveret.url, "jobs"):
        leveret.publish("", "jobs")
        leveret.clock.autojump(limit=20)

        with pytest.raises(
            EndlessTimeError, match=r"(?s)20 times.*rejected it of .jobs.*expired in .wait.*higher limit="
        ):
            leveret.assert_acked("jobs", timeout=PATIENCE)


def test_a_loop_without_end_fails_at_the_end_of_the_block(leveret: Broker) -> None:
    declare_loop(leveret)
    with rejecting_worker(leveret.url, "jobs"):
        leveret.publish("", "jobs")
        with (
            pytest.raises(EndlessTimeError, match="dead-lettered it from 'wait'"),
            leveret.clock.autojump(limit=5) as jumping,
        ):
            wait_until_off(jumping)


def test_an_endless_loop_without_a_waiting_call_is_reported_at_the_end(leveret: Broker) -> None:
    """`check` reports it. Leaving a broker's own block calls `check`; the plugin's fixtures fail the test too."""
    declare_loop(leveret)
    with rejecting_worker(leveret.url, "jobs"):
        leveret.publish("", "jobs")
        wait_until_off(leveret.clock.autojump(limit=5))

    with pytest.raises(EndlessTimeError):
        leveret.check()


def test_a_broker_that_has_not_started_cannot_jump() -> None:
    with pytest.raises(BrokerError, match="autojump needs a running broker; start the broker first"):
        Broker().clock.autojump()


def test_a_broker_stops_while_it_jumps() -> None:
    with Broker() as broker:
        jumping = broker.clock.autojump()

    assert not jumping.is_on


def test_a_reset_ends_it(leveret: Broker) -> None:
    jumping = leveret.clock.autojump()

    leveret.reset()

    assert not jumping.is_on
    assert not leveret.clock.is_held


@pytest.mark.asyncio
async def test_time_jumps_while_an_event_loop_waits(leveret: Broker) -> None:
    """No awaitable form is needed: an event loop that waits for a message is a thread that waits."""
    leveret.declare_queue("dead")
    leveret.declare_queue("orders", arguments={"x-message-ttl": HOUR * 1000, **TO_DEAD})
    async with await aio_pika.connect(leveret.url) as connection:
        channel = await connection.channel()
        dead = await channel.declare_queue("dead", passive=True)
        with leveret.clock.autojump():
            await channel.default_exchange.publish(aio_pika.Message(b"x"), "orders")
            async with asyncio.timeout(PATIENCE), dead.iterator(no_ack=True) as messages:
                async for message in messages:
                    assert message.body == b"x"
                    break


CHILD = """
import sys, pika
from tests.time.workers import pika_worker
with pika_worker(sys.argv[1]):
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_time_jumps_for_a_worker_in_another_process(leveret: Broker, pytestconfig: pytest.Config) -> None:
    """If the system reports what the worker's threads do, they count as this process's; if not, a jump waits longer."""
    command = [sys.executable, "-c", CHILD, leveret.url]
    with subprocess.Popen(
        command, cwd=pytestconfig.rootpath, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        with leveret.clock.autojump():
            leveret.publish("", JOBS)
            leveret.assert_published("", routing_key=FAILED, timeout=5)
        process.stdin.close()

    tries = [event.at for event in leveret.events.query("delivered", queue=JOBS)]
    spans_s = [(after - before) // 1_000_000 for before, after in pairwise(tries)]
    assert spans_s == [60, 600, 3600]


def test_two_brokers_jump_beside_each_other(make_leveret) -> None:
    brokers = [make_leveret(), make_leveret()]
    for broker in brokers:
        broker.declare_queue("orders", arguments={"x-message-ttl": HOUR * 1000})
        broker.clock.autojump()
        broker.publish("", "orders")

    for broker in brokers:
        broker.assert_dropped("orders", timeout=PATIENCE)


def test_time_jumps_for_workers_on_other_threads(leveret: Broker) -> None:
    with pika_worker(leveret.url), leveret.clock.autojump():
        for number in range(5):
            leveret.publish("", JOBS, json=number)

        leveret.assert_published("", routing_key=FAILED, times=5, timeout=PATIENCE)
