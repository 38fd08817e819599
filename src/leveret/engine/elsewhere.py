"""Run a blocking call beside a running event loop, asyncio's or trio's, without importing either."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from leveret.server import native

T = TypeVar("T")


async def elsewhere(act: Callable[[], T]) -> T:
    """This runs `act` on another thread and returns what it returns, or raises what it raises."""
    __tracebackhide__ = True
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        result: T = await trio.to_thread.run_sync(act, abandon_on_cancel=True)
        return result
    return await _beside_asyncio(act)


async def _beside_asyncio(act: Callable[[], T]) -> T:
    __tracebackhide__ = True
    import asyncio

    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def conclude(settle: Callable[[Any], None], outcome: object) -> None:
        if not future.done():
            settle(outcome)

    def run() -> None:
        settle: Callable[[Any], None] = future.set_result
        outcome: object
        try:
            outcome = act()
        except BaseException as error:
            settle, outcome = future.set_exception, error
        # An error here says that the event loop has ended: whoever asked is gone.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(conclude, settle, outcome)

    native.start_new_thread(run, ())
    return await future
