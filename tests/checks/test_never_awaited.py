"""Calls of `broker.aio` that the test never awaited."""

from __future__ import annotations

import asyncio
import inspect

import pytest
import trio

from leveret import Broker, CheckFailedError
from leveret.time.aio import Aio, AioClock
from tests.plugin.conftest import no_options_of_ours, run, suite

__all__ = ["no_options_of_ours", "run", "suite"]

TWINS = [
    *(f"aio.{name}" for name, value in vars(Aio).items() if inspect.isfunction(value) and name[0] != "_"),
    *(f"aio.clock.{name}" for name, value in vars(AioClock).items() if inspect.isfunction(value) and name[0] != "_"),
]


def twin_of(broker, path):
    for name in path.split("."):
        broker = getattr(broker, name)
    return broker


@pytest.mark.parametrize("path", TWINS)
def test_a_twin_that_was_never_awaited_is_reported_with_its_line(broker, found, path):
    twin = twin_of(broker, path)
    # A wrong argument would raise at once.
    twin(1) if twin.__name__ in ("wait_idle", "advance") else twin(404) if "refused" in path else twin("orders.work")

    text = found(broker)["never_awaited"]

    assert text.startswith("never_awaited: 1 call that was never awaited")
    assert f"  broker.{path}(...), at " in text
    assert "test_never_awaited.py:" in text
    assert f", did nothing: write await broker.{path}(...)" in text


def test_a_consumers_next_that_was_never_awaited_is_reported(broker, found):
    broker.consume("orders.work").aio.next()

    assert "consumer.aio.next(...), at " in found(broker)["never_awaited"]


def test_a_forgotten_await_fails_a_with_block():
    with pytest.raises(CheckFailedError, match=r"never_awaited: 1 call"), Broker() as broker:
        broker.aio.wait_idle()


def test_each_forgotten_await_is_reported_once(broker, found):
    broker.aio.wait_idle()

    assert "never_awaited" in found(broker)
    assert "never_awaited" not in found(broker)


def test_coroutines_that_are_awaited_later_are_not_reported(broker, found):
    async def act():
        first, second = broker.aio.wait_idle(), broker.aio.assert_empty("orders.work")
        task = asyncio.create_task(broker.aio.wait_idle())
        await asyncio.gather(first, second)
        await task
        await asyncio.wait_for(broker.aio.wait_idle(), 5)

    asyncio.run(act())

    assert "never_awaited" not in found(broker)


def test_a_coroutine_that_was_cancelled_before_it_began_is_not_reported(broker, found):
    async def act():
        asyncio.create_task(broker.aio.wait_idle()).cancel()
        broker.aio.wait_idle().close()

    asyncio.run(act())

    assert "never_awaited" not in found(broker)


def test_a_task_that_has_not_begun_yet_is_not_reported(broker, found):
    async def act():
        task = asyncio.create_task(broker.aio.wait_idle())
        assert "never_awaited" not in found(broker)
        await task

    asyncio.run(act())


def test_calls_from_trio_are_not_reported(broker, found):
    async def act():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.aio.wait_idle)

    trio.run(act)

    assert "never_awaited" not in found(broker)


@pytest.mark.parametrize(("marker", "plugin"), [("asyncio", "pytest_asyncio.plugin"), ("anyio", "anyio.pytest_plugin")])
def test_a_forgotten_await_fails_the_test_and_names_its_line(run, marker, plugin):
    source = f"""
        import asyncio
        import pytest

        @pytest.fixture
        def anyio_backend(): return "asyncio"

        @pytest.mark.{marker}
        async def test_forgets(leveret):
            leveret.aio.assert_published("orders", timeout=5)

        @pytest.mark.{marker}
        async def test_waits(leveret):
            waiting = leveret.aio.wait_idle()
            await asyncio.gather(waiting, leveret.aio.wait_idle())
            asyncio.create_task(leveret.aio.wait_idle())
        """

    result = run(source, "-p", plugin, "-o", "asyncio_default_fixture_loop_scope=function")

    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*CheckFailedError: never_awaited: 1 call that was never awaited*"])
    result.stdout.fnmatch_lines(["*broker.aio.assert_published(...), at *.py:9 in test_forgets*"])


def test_a_test_that_failed_keeps_its_own_error(run):
    result = run("""
        async def boom(): raise ValueError("boom")

        def test_it(leveret):
            import asyncio

            async def act():
                waiting = leveret.aio.wait_idle()
                await asyncio.gather(await boom(), waiting)

            asyncio.run(act())
    """)

    result.assert_outcomes(failed=1, errors=0)


def run_with_task(broker, end):
    """Assert in a task what is not so, and run `end` with the task once it has failed."""

    async def check():
        await broker.aio.assert_published("orders")

    async def test():
        task = asyncio.create_task(check())
        await asyncio.wait([task], timeout=10)
        await end(task)

    asyncio.run(test())


async def drop(task):
    del task


async def catch(task):
    with pytest.raises(AssertionError):
        await task


async def look(task):
    assert task.exception() is not None


async def gather(task):
    await asyncio.gather(task, return_exceptions=True)


def test_an_assertion_that_failed_in_a_task_that_nothing_awaits_is_reported_with_its_line(broker, found):
    run_with_task(broker, drop)

    text = found(broker)["never_awaited"]

    assert "the task that failed, at " in text
    assert "in check: write await task, so that the test sees AssertionError: assert_published('orders'): " in text
    assert "never_awaited" not in found(broker)


@pytest.mark.parametrize("end", [catch, look, gather])
def test_a_failed_task_whose_error_the_test_retrieves_is_no_finding(broker, found, end):
    run_with_task(broker, end)

    assert "never_awaited" not in found(broker)


def test_a_task_that_handles_the_failure_is_no_finding(broker, found):
    async def check():
        with pytest.raises(AssertionError):
            await broker.aio.assert_published("orders")

    async def test():
        await asyncio.wait([asyncio.create_task(check())], timeout=10)

    asyncio.run(test())

    assert "never_awaited" not in found(broker)


def test_a_failure_in_trio_is_raised_by_its_nursery(broker, found):
    async def test():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.aio.assert_published, "orders")

    with pytest.raises(BaseExceptionGroup):
        trio.run(test)

    assert "never_awaited" not in found(broker)
