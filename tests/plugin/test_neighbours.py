"""The plugin beside other plugins and libraries that change how tests run.

Tests that change the process as a whole (its clock, threads, signals) run in a process of their own.
"""

from __future__ import annotations

from importlib.util import find_spec

import pytest

ASYNC_TEST = """
    import aio_pika
    import pytest

    {marker}
    async def test_it(leveret):
        connection = await aio_pika.connect(leveret.url)
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue("orders", durable=True)
            leveret.publish("", "orders", b"hello")
            message = await queue.get()
            await message.ack()
            await leveret.aio.assert_acked("orders", body=b"hello", timeout=5)
            await leveret.aio.wait_idle()
"""


@pytest.mark.parametrize(("mode", "marker"), [("auto", ""), ("strict", "@pytest.mark.asyncio")])
def test_coroutines_of_pytest_asyncio_use_it(run, mode, marker):
    scope = ("-o", "asyncio_default_fixture_loop_scope=function")
    result = run(ASYNC_TEST.format(marker=marker), f"--asyncio-mode={mode}", *scope, "-p", "pytest_asyncio.plugin")

    result.assert_outcomes(passed=1)


def test_asyncio_tests_of_anyio_use_it(run):
    source = ASYNC_TEST.format(marker="@pytest.mark.anyio")
    backend = "@pytest.fixture\n    def anyio_backend(): return 'asyncio'\n\n    @pytest.mark.anyio"

    result = run(source.replace("@pytest.mark.anyio", backend), "-p", "anyio.pytest_plugin")

    result.assert_outcomes(passed=1)


def test_trio_tests_of_anyio_use_it(run_apart):
    result = run_apart(
        """
        import pytest
        import trio
        from client import connect
        from leveret import BrokerError

        @pytest.fixture
        def anyio_backend():
            return "trio"

        def publish(url):
            with connect(url) as connection:
                connection.channel().basic_publish("amq.topic", "order.created", b"hello")

        @pytest.mark.anyio
        async def test_it(leveret):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.to_thread.run_sync, publish, leveret.url)
                await leveret.aio.assert_published("amq.topic", routing_key="order.*", timeout=5)
            with pytest.raises(BrokerError, match="await broker.aio.wait_idle"):
                leveret.wait_idle()
        """,
        beside=("anyio.pytest_plugin",),
    )

    result.assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("module", "freeze"),
    [("freezegun", "freezegun.freeze_time('2020-02-02')"), ("time_machine", "time_machine.travel(0, tick=False)")],
)
def test_a_frozen_date_does_not_freeze_the_broker(run_apart, module, freeze):
    result = run_apart(f"""
        import {module}
        from client import connect

        @{freeze}
        def test_it(leveret):
            with connect(leveret.url) as connection:
                channel = connection.channel()
                channel.queue_declare("orders", durable=True, arguments={{"x-message-ttl": 1}})
                channel.basic_publish("", "orders", b"hello")
                leveret.assert_dropped("orders", reason="expired", timeout=5)
            leveret.wait_idle()
    """)

    result.assert_outcomes(passed=1)


def test_a_test_stopped_by_pytest_timeout_shows_its_broker(run_apart):
    result = run_apart(
        """
        import signal
        import pytest
        from client import connect

        @pytest.mark.timeout(60)
        def test_stuck(leveret):
            leveret.declare_queue("orders")
            leveret.publish("", "orders", b"hello")
            connection = connect(leveret.url, name="lazy worker")
            connection.channel().basic_get("orders")
            # The timer of pytest-timeout, which is now due at once.
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            leveret.wait_idle(timeout=60)

        def test_next(leveret):
            connect(leveret.url).close()
        """,
        beside=("pytest_timeout",),
    )

    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        ["*Timeout*", "*- leveret: *", "queues: orders 0 ready, 1 unacked held by a basic.get of lazy worker for *"]
    )


@pytest.mark.parametrize(
    ("library", "patch"),
    [
        ("gevent", "from gevent import monkey; monkey.patch_all()"),
        ("eventlet", "import eventlet; eventlet.monkey_patch()"),
    ],
)
def test_greenlets_use_it(run_apart, suite, library, patch):
    if find_spec(library) is None:
        pytest.skip(f"needs {library}")
    suite.makepyfile(early=patch)

    result = run_apart(
        f"""
        from {library} import spawn
        from client import connect

        def publish(url, number):
            with connect(url) as connection:
                connection.channel().basic_publish("", "orders", str(number).encode())

        def test_it(leveret):
            leveret.declare_queue("orders")
            for number in range(3):
                spawn(publish, leveret.url, number)
            leveret.assert_published("", routing_key="orders", times=3, timeout=5)
            assert len(leveret.queue("orders").ready) == 3
            leveret.wait_idle()
        """,
        *("-p", "early", "-W", "ignore"),
    )

    result.assert_outcomes(passed=1)


def test_a_forked_child_is_a_client_and_leaves_the_broker_to_its_parent(run_apart):
    result = run_apart("""
        import multiprocessing
        import pytest
        from client import connect
        from leveret import BrokerError

        def work(leveret, url):
            with connect(url, name="child") as connection:
                connection.channel().basic_publish("", "orders", b"hello")
            with pytest.raises(BrokerError, match="belongs to process"):
                leveret.queues

        def test_it(leveret):
            leveret.declare_queue("orders")
            child = multiprocessing.get_context("fork").Process(target=work, args=(leveret, leveret.url))
            child.start()
            child.join()
            assert child.exitcode == 0
            assert [message.body for message in leveret.queue("orders").ready] == [b"hello"]
    """)

    result.assert_outcomes(passed=1)


def test_a_test_that_forks_and_fails_in_the_child_affects_no_other_test(run_apart):
    result = run_apart("""
        import os

        def test_it(leveret):
            child = os.fork()
            assert child, "this is the child"
            os.waitpid(child, 0)
            leveret.declare_queue("orders")
    """)

    assert "1 passed" in result.stdout.str()
    assert "started by process" in result.stdout.str()


def test_cases_of_unittest_use_a_broker_without_pytest(pytester):
    path = pytester.makepyfile("""
        import unittest
        from leveret import Broker

        class OrderTest(unittest.TestCase):
            def setUp(self):
                self.leveret = self.enterContext(Broker())

            def test_it(self):
                self.assertEqual(self.leveret.queues, [])

        unittest.main()
    """)

    result = pytester.runpython(path)

    result.stderr.fnmatch_lines(["OK"])


def test_garbage_that_parses_source_does_not_end_the_run(run_apart):
    result = run_apart(
        """
        import ast
        import gc

        class Parsing:
            def __init__(self):
                self.cycle = self

            def __del__(self):
                parse(50)
                Parsing()

        def parse(depth):
            # The parser notices only if it is called from deeper than the other one stands.
            parse(depth - 1) if depth else ast.parse("1 + 1")

        def test_failed(leveret):
            # Almost every object that the parser makes starts a collection, and each collection runs a finalizer.
            Parsing()
            gc.set_threshold(1)
            assert leveret.queues

        def test_the_collector_is_on_again():
            assert gc.isenabled()
        """
    )

    result.assert_outcomes(failed=1, passed=1)
