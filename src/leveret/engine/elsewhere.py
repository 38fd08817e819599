"""Blocking calls beside a running event loop, asyncio's or trio's, without importing either.

A twin is the awaitable form of a blocking method. It has the signature and the overloads of that method, which are
written once. If it is cancelled, its thread goes on until the call's own time limit.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from functools import partial, wraps
from types import CoroutineType
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Final, ParamSpec, TypeVar, cast

from leveret.errors import LeveretWarning
from leveret.observe.calls.hinting import leave_out_frames
from leveret.server import native
from leveret.trace.events import printable

if TYPE_CHECKING:
    from leveret.engine.harness import HasEngine

P = ParamSpec("P")
T = TypeVar("T")
# Where a call on another thread puts its warnings. The stack of its thread does not lead to the line that awaits it.
_texts: Final[ContextVar[list[str] | None]] = ContextVar("leveret_warnings", default=None)


class Twins:
    """Awaitable twins of the methods of one object."""

    # Where a test finds them: "broker.aio".
    _called: ClassVar[str]

    def __init__(self, owner: HasEngine) -> None:
        self._owner = owner


def twin(act: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Twins, P], Coroutine[Any, Any, T]]:
    """Return the awaitable twin of a method. The broker's checks know its coroutines, in case none awaits them."""

    @wraps(act)
    def awaitable(twins: Twins, /, *arguments: P.args, **options: P.kwargs) -> Coroutine[Any, Any, T]:
        never_awaited = twins._owner._engine.judge.never_awaited
        blocking = getattr(twins._owner, act.__name__)
        call = elsewhere(partial(blocking, *arguments, **options), on_error=never_awaited.note_failure)
        coroutine = cast("CoroutineType[Any, Any, T]", call)
        # Python names a coroutine that was never awaited by this.
        coroutine.__qualname__ = f"{twins._called}.{act.__name__}"
        never_awaited.note(coroutine, coroutine.__qualname__)
        return coroutine

    return awaitable


async def elsewhere(act: Callable[[], T], on_error: Callable[[], None] | None = None) -> T:
    """Run `act` on another thread, and return or raise what it does. Warn here of what it warns of.

    Before it raises, it calls `on_error`.
    """
    __tracebackhide__ = True
    texts: list[str] = []

    def noting() -> T:
        _texts.set(texts)
        return act()

    trio = sys.modules.get("trio")
    try:
        if trio is not None and trio.lowlevel.in_trio_run():
            result: T = await trio.to_thread.run_sync(noting, abandon_on_cancel=True)
        else:
            result = await _in_asyncio(noting)
    except Exception as error:
        leave_out_frames(error)
        if on_error is not None:
            on_error()
        raise
    for text in texts:
        warn(text)
    return result


def warn(text: str) -> None:
    """Warn at the line of the test. If it awaits a call that runs on another thread, leave that to `elsewhere`."""
    texts = _texts.get()
    if texts is None:
        from leveret.observe.checks.judge import stack_level

        warnings.warn(printable(text), LeveretWarning, stacklevel=stack_level())
    else:
        texts.append(text)


async def _in_asyncio(act: Callable[[], T]) -> T:
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
        # An error here means that the event loop has ended, and the caller with it.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(conclude, settle, outcome)

    native.start_new_thread(run, ())
    return await future
