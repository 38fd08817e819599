"""The moment when a test failed: the report shows the broker as it was then, and what came later as clean-up."""

from __future__ import annotations

import pytest

from tests.plugin.conftest import Run

WORKER = """
import asyncio
import contextlib

import pytest
from client import connect

@contextlib.contextmanager
def worker(url):
    with connect(url) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=1)
        taken = []
        channel.basic_consume("orders", lambda channel, method, properties, body: taken.append(body))
        while not taken:
            connection.process_data_events(0.01)
        yield taken

def publish(leveret):
    leveret.declare_queue("orders")
    for body in (b"1", b"2"):
        leveret.publish("", "orders", body)
"""
HELD = "worker held #1 of 'orders' without an ack*; its prefetch of 1 kept #2 back"
THEN = "queues when the test failed: orders 1 ready, 1 unacked, 1 consumer"
LATER = "queues after its clean-up: orders 2 ready, no consumers"


@pytest.mark.parametrize(
    "test",
    [
        """
        def test_it(leveret):
            publish(leveret)
            with worker(leveret.url) as taken:
                assert taken == [b"1", b"2"]
        """,
        """
        def test_it(leveret):
            async def scenario():
                with worker(leveret.url) as taken:
                    assert taken == [b"1", b"2"]

            publish(leveret)
            asyncio.run(scenario())
        """,
        """
        @pytest.mark.timeout(1, method="signal")
        def test_it(leveret):
            publish(leveret)
            with worker(leveret.url) as taken:
                while len(taken) < 2:
                    leveret.sync()
        """,
    ],
    ids=["a plain assert", "an assert of a coroutine", "a time limit"],
)
def test_a_failure_within_a_block_shows_the_broker_before_the_block_ended(run: Run, test: str) -> None:
    result = run(WORKER + test.replace("\n        ", "\n"), "-p", "pytest_timeout")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*leveret: what went wrong*", HELD, "*leveret: state of*", THEN, LATER])


def test_a_wait_of_leveret_within_a_block_shows_the_broker_before_the_block_ended(run: Run) -> None:
    test = """
def test_it(leveret):
    publish(leveret)
    with worker(leveret.url):
        leveret.assert_acked("orders", body=b"2")
"""
    result = run(WORKER + test)

    result.stdout.fnmatch_lines(["*leveret: what went wrong*", HELD, "*queues: orders 1 ready, 1 unacked held by *"])


def test_a_comparison_that_the_test_expects_to_fail_is_not_the_moment(run: Run) -> None:
    test = """
def test_it(leveret):
    publish(leveret)
    with worker(leveret.url) as taken, pytest.raises(AssertionError):
        assert taken == [b"1", b"2"]
    raise RuntimeError("later")
"""
    result = run(WORKER + test)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["queues: orders 2 ready, no consumers"])
    result.stdout.no_fnmatch_line("*when the test failed*")


def test_a_test_that_fails_without_a_cause_has_no_such_section(run: Run) -> None:
    result = run("""
        def test_it(leveret):
            leveret.declare_queue("orders")
            assert 1 + 1 == 3
    """)

    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*what went wrong*")


def test_a_value_that_a_plain_assert_misses_is_looked_up_in_the_bodies(run: Run) -> None:
    result = run("""
        from client import connect

        def test_it(leveret):
            leveret.declare_queue("orders")
            for body in (b'{"id": 70}', b'{"id": 71}'):
                leveret.publish("", "orders", body)
            channel = connect(leveret.url).channel()
            for _ in range(2):
                method, _, _ = channel.basic_get("orders")
                channel.basic_ack(method.delivery_tag)
            assert [70] == [70, 71]
    """)

    result.stdout.fnmatch_lines(["*leveret: also noticed*", "71 is in #2, which was acked in 'orders' by worker"])


def test_a_task_in_which_the_test_itself_failed_has_not_died(run: Run) -> None:
    result = run("""
        import asyncio
        import gc
        import pytest

        async def handle():
            pytest.fail("Timeout (>4.0s) from pytest-timeout.")

        async def scenario():
            asyncio.ensure_future(handle())
            await asyncio.sleep(0)
            gc.collect()

        def test_it(leveret):
            asyncio.run(scenario())
            assert 1 == 2
    """)

    result.stdout.fnmatch_lines(["*Task exception was never retrieved*"])
    result.stdout.no_fnmatch_line("*died of*")


def test_what_explains_no_failure_is_no_cause(run: Run) -> None:
    result = run("""
        from client import connect

        def test_it(leveret):
            leveret.declare_queue("orders")
            leveret.declare_queue("later", arguments={"x-dead-letter-exchange": "", "x-message-ttl": 60_000})
            leveret.publish("", "orders", b"1")
            channel = connect(leveret.url).channel()
            channel.basic_consume("orders", lambda *_: None, auto_ack=True)
            channel.basic_publish("", "later", b"2")
            leveret.sync()
            assert 1 + 1 == 3
    """)

    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*what went wrong*")


def test_a_task_of_an_earlier_test_that_is_collected_now_has_nothing_to_do_with_this_one(run: Run) -> None:
    result = run("""
        import asyncio
        import gc

        import aio_pika

        kept = []

        def taken(leveret, handle):
            async def take():
                async with await aio_pika.connect(leveret.url) as connection:
                    queue = await (await connection.channel()).declare_queue("orders", durable=True)
                    await queue.consume(handle)
                    leveret.publish("", "orders", b"1")
                    await leveret.aio.wait_idle()

            asyncio.run(take())

        def test_earlier(leveret):
            async def handle(message):
                async def lose():
                    raise RuntimeError("an earlier one", message)

                kept.append(asyncio.ensure_future(lose()))
                await message.ack()

            taken(leveret, handle)

        def test_now(leveret):
            seen = []

            async def handle(message):
                async with message.process():
                    seen.append({}["price"])

            taken(leveret, handle)
            kept.clear()
            gc.collect()
            assert seen == ["1"]
    """)

    result.stdout.fnmatch_lines(["aiormq rejected #1 in 'orders' after KeyError: 'price' at *"])
    assert "an earlier one" not in result.stdout.str().partition("what went wrong")[2].partition("state of")[0]
