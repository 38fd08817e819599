"""The callers: the line of the user's code behind an event, and whether a debugger holds it up.

A broker runs in the process of its clients, so it can inspect their threads. User code is all code outside Python's
library, installed packages and leveret. A line of user code waits for a client if a frame of an installed package, the
client, lies between that line and the point where its thread or task waits. If several lines wait, the broker names all
of them, because it cannot know which one it serves.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import accumulate, chain, dropwhile, repeat, starmap, takewhile
from operator import itemgetter
from traceback import walk_tb
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from leveret.observe.calls.hinting import CHECKED_CALL
from leveret.server import native
from leveret.trace.caller import Caller

if TYPE_CHECKING:
    import asyncio

_OURS: Final = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), "")
_PYTHONS: Final = os.path.join(os.path.dirname(os.__file__), "")
_INSTALLED: Final = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
_PYTEST: Final = f"{os.sep}_pytest{os.sep}"
_NAMED_LINES: Final = 3
CLIENTS: Final = ("pika", "aio_pika", "aiormq", "amqp", "kombu", "amqpstorm")
# What may run on top of the line that fails.
_TOOLS: Final = ("leveret", "pytest_leveret", "_pytest", "pluggy", "pytest_timeout")
# The HTTP requests that threads answer now, by thread, such as "PUT /api/queues/%2F/orders".
_requests: Final[dict[int, str]] = {}


class Stack(NamedTuple):
    """Where a thread or a task stands: its name, and file, line and function of its frames, the innermost first."""

    name: str
    frames: list[tuple[str, int, str]]


def stacks_of_users(but_for: int | None = None) -> list[Stack]:
    """Return where the threads stand, but for one, that run user code or a client, and the tasks that run user code.

    The other tasks are a client's own: they wait for its socket.
    """
    import threading

    names = {thread.ident: thread.name for thread in threading.enumerate()}
    shown = []
    for thread in _threads():
        for task, stack in _named_stacks(thread) if thread != but_for else ():
            inner = dropwhile(_is_of_tools, _frames_of(thread) if task is None else stack)
            frames = list(takewhile(lambda frame: _PYTEST not in frame.f_code.co_filename, inner))
            if any(is_of_user(frame) or (task is None and is_of_client(frame)) for frame in frames):
                name = f"thread {names.get(thread, thread)!r}" if task is None else f"task {task.get_name()!r}"
                places = [(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name) for frame in frames]
                shown.append(Stack(name, places))
    return shown


def waiting_line() -> Caller | None:
    """Return the line of user code that waits for a client now, with the line that called it; None if none waits."""
    return _joined(map(_line_behind_client, _stacks_of_others()))


def standing() -> frozenset[tuple[int, int]]:
    """Return where the other threads and tasks stand now, for `handling_line`."""
    return frozenset(_position(stack[0]) for stack in _stacks_of_others() if stack)


def handling_line(but_for: Collection[tuple[int, int]] = ()) -> Caller | None:
    """Return the line of user code that may handle a message now: it waits for something other than its next message.

    A handler that a client has called counts whatever it waits for. What stands where it stood before the message was
    delivered, `but_for`, does not handle it.
    """
    stacks = (stack for stack in _stacks_of_others() if stack and _position(stack[0]) not in but_for)
    return _joined(map(_line_in_handler, stacks))


def _position(frame: FrameType) -> tuple[int, int]:
    return id(frame), frame.f_lasti


def line_of(frame: FrameType | None) -> Caller | None:
    """Return the innermost line of user code from this frame on, with the line that called it."""
    return _line(list(_outwards(frame)))


def is_of_user(frame: FrameType) -> bool:
    """Return whether a frame runs user code. The plugin may lie beside it, in a checkout."""
    return _owner(frame.f_code.co_filename) == "user" and not _is_of_tools(frame)


def is_users(path: str) -> bool:
    """Return whether a file holds user code."""
    return _owner(path) == "user"


def client_calls() -> list[tuple[list[str], bool]]:
    """Return the calls of clients that threads and tasks are in now.

    Each is the names of its functions, innermost first, and whether a line of user code has made it.
    """
    return [_client_call(stack) for stack in _stacks_of_others()]


def _client_call(stack: list[FrameType]) -> tuple[list[str], bool]:
    names: list[str] = []
    for frame in stack:
        owner = _owner(frame.f_code.co_filename)
        if owner == "user":
            return names, True
        names += [frame.f_code.co_qualname] if owner == "installed" else []
    return names, False


def client_line(thread: int) -> Caller | None:
    """Return the line of user code at which a thread or its event loop is in an AMQP client; None if it is in none."""
    return _joined(_line(stack) for stack in _stacks(thread) if any(map(is_of_client, stack)))


def standing_line(thread: int) -> Caller | None:
    """Return the line of user code that a thread or its event loop is at, with the line that called it."""
    return _joined(_line(stack) for stack in _stacks(thread))


def modules_on(thread: int) -> list[str]:
    """Return the names of the modules on a thread's stack, innermost first."""
    return [str(frame.f_globals.get("__name__", "")) for frame in _frames_of(thread)]


def modules_of_others() -> set[str]:
    """Return the names of the modules on the stacks of all threads but this one."""
    own = native.thread_ident()
    return {name for thread in _threads() if thread != own for name in modules_on(thread)}


def raising_line(error: BaseException) -> Caller | None:
    """Return the line of user code that raised an error, or called what did, with the line that called it."""
    return _line([frame for frame, _ in walk_tb(error.__traceback__)][::-1])


@contextmanager
def answering(request: str) -> Iterator[None]:
    """Do on this thread what an HTTP request asks for. What happens is then the request's doing."""
    thread = native.thread_ident()
    _requests[thread] = request
    try:
        yield
    finally:
        del _requests[thread]


def calling_line() -> tuple[str, Caller | None]:
    """Return the broker's method that this thread is calling, and the line of user code that calls it.

    On a thread that answers an HTTP request, both are the request.
    """
    if _requests and (request := _requests.get(native.thread_ident())) is not None:
        return request, Caller(request)
    call, stack = "", list(_outwards(sys._getframe(1)))
    for index, frame in enumerate(stack):
        owner = _owner(frame.f_code.co_filename)
        if owner == "leveret":
            call = call if frame.f_code is CHECKED_CALL else frame.f_code.co_name
        elif owner != "python":
            return call, _line(stack[index:])
    return call, None


def _joined(lines: Iterable[Caller | None]) -> Caller | None:
    distinct = list(dict.fromkeys(line for line in lines if line is not None))[:_NAMED_LINES]
    if not distinct:
        return None
    first, *others = distinct
    return Caller(first.path, first.line, first.function, first.called_from, tuple(others))


def _line_behind_client(stack: list[FrameType]) -> Caller | None:
    """Return the innermost line of user code in a stack, if it waits inside a client. The innermost frame is first."""
    is_in_client = False
    for index, frame in enumerate(stack):
        owner = _owner(frame.f_code.co_filename)
        if owner == "leveret":
            return None
        if owner == "user":
            return _line(stack[index:]) if is_in_client else None
        is_in_client = is_in_client or owner == "installed"
    return None


def _line_in_handler(stack: list[FrameType]) -> Caller | None:
    """Return the innermost line of user code in a stack, unless it waits in an AMQP client that has not called it."""
    owners = [_owner(frame.f_code.co_filename) for frame in stack]
    if "user" not in owners:
        return None
    at = owners.index("user")
    if "leveret" in owners[:at]:
        return None
    is_idle = any(map(is_of_client, stack[:at])) and not any(map(is_of_client, stack[at:]))
    return None if is_idle else _line(stack[at:])


def is_of_client(frame: FrameType) -> bool:
    """Return whether a frame runs the code of a client of AMQP."""
    return _package(frame) in CLIENTS


def _is_of_tools(frame: FrameType) -> bool:
    return _package(frame) in _TOOLS


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _line(stack: list[FrameType]) -> Caller | None:
    """Return the innermost line of user code, and the outermost within the test if it is in another function."""
    within = takewhile(lambda frame: _PYTEST not in frame.f_code.co_filename, stack)
    frames = [frame for frame in within if _owner(frame.f_code.co_filename) == "user"]
    if not frames:
        return None
    inner, outer = frames[0], frames[-1]
    return _caller(inner, None if inner is outer else _caller(outer))


def _caller(frame: FrameType, called_from: Caller | None = None) -> Caller:
    code = frame.f_code
    return Caller(_short(code.co_filename), frame.f_lineno, code.co_name, called_from)


def _short(path: str) -> str:
    try:
        here = os.path.join(os.getcwd(), "")
    except OSError:
        # The test may have removed its working directory.
        return path
    return path.removeprefix(here)


@cache
def _owner(path: str) -> str:
    """Return whose code a file holds: "user", "installed", "python" or "leveret"."""
    if path.startswith(_OURS):
        return "leveret"
    if any(part in path for part in _INSTALLED):
        return "installed"
    if path.startswith((_PYTHONS, "<")):
        return "python"
    return "user"


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _threads() -> list[int]:
    # CPython 3.11 holds a lock here that an ending thread needs too. A finalizer that runs meanwhile would deadlock.
    with _inspection:
        return list(sys._current_frames())


def _frames_of(thread: int) -> list[FrameType]:
    """Return the frames of another thread, innermost first; empty if it has ended.

    A single call reads all of them, so that the interpreter does not switch threads. If the other thread ran on between
    two frames, a generator could yield meanwhile. CPython 3.11 would then follow it to what replaced its caller, and
    the process would crash or loop.
    """
    frames: list[FrameType | None] = []
    innermost = map(itemgetter(thread), starmap(sys._current_frames, [()]))
    with suppress(KeyError, AttributeError), _inspection:
        # The chain ends with an AttributeError, because the `f_back` of the outermost frame is None.
        frames.extend(accumulate(chain(innermost, repeat("f_back")), getattr))
    return [frame for frame in frames if frame is not None]


class _Inspection:
    """A lock for reading the frames of other threads, which also disables garbage collection.

    Before CPython 3.12 a collection may run during the read, and a finalizer in it lets the other thread run.
    """

    def __init__(self) -> None:
        self._lock = native.reentrant_lock()
        self._was_collecting = False

    def __enter__(self) -> None:
        self._lock.__enter__()
        self._was_collecting = gc.isenabled()
        gc.disable()

    def __exit__(self, *exception: Any) -> None:
        self._resume_collecting()
        self._lock.__exit__(*exception)

    def release_in_child(self) -> None:
        """Release the lock in a forked child, where the thread that holds it does not exist."""
        self._lock = native.reentrant_lock()
        self._resume_collecting()

    def _resume_collecting(self) -> None:
        if self._was_collecting:
            self._was_collecting = False
            gc.enable()


_inspection = _Inspection()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_inspection.release_in_child)


def _stacks_of_others() -> Iterator[list[FrameType]]:
    """Return the stacks of all threads but this one, and of the suspended tasks of their loops."""
    own = native.thread_ident()
    return chain.from_iterable(_stacks(thread) for thread in _threads() if thread != own)


def _stacks(thread: int) -> Iterator[list[FrameType]]:
    """Yield the stacks of a thread and of the suspended tasks of its asyncio loop, the innermost frame first."""
    return (stack for _, stack in _named_stacks(thread))


def _named_stacks(thread: int) -> Iterator[tuple[asyncio.Task[object] | None, list[FrameType]]]:
    """Yield what `_stacks` does, each with its task, or None for the thread itself."""
    asyncio = sys.modules.get("asyncio")
    stack = _frames_of(thread)
    for index, frame in enumerate(stack):
        if asyncio is not None and frame.f_code.co_name == "run_forever":
            loop = frame.f_locals.get("self")
            if isinstance(loop, asyncio.AbstractEventLoop):
                # The frames that called the loop wait for the loop and not for a client.
                yield None, stack[:index]
                yield from _stacks_of_tasks(asyncio.all_tasks(loop))
                return
    yield None, stack


def _stacks_of_tasks(
    tasks: Iterable[asyncio.Task[object]],
) -> Iterator[tuple[asyncio.Task[object], list[FrameType]]]:
    """Yield suspended tasks with their frames, followed by those of the tasks that wait for them, innermost first."""
    own = {task: _awaiting(task.get_coro()) for task in tasks}
    # `asyncio.wait_for` and the like run the client in a task of its own, so the test's line is in another task.
    waiting = {awaited: task for task, frames in own.items() for awaited in _awaited_by(task, frames) if awaited in own}
    for task in own:
        frames, seen, at = [], {task}, task
        frames += own[task]
        while (at := waiting.get(at, at)) not in seen:
            seen.add(at)
            frames += own[at]
        yield task, frames


def _awaited_by(task: asyncio.Task[object], frames: list[FrameType]) -> list[asyncio.Task[object]]:
    """Return the tasks that a suspended task may wait for."""
    asyncio = sys.modules["asyncio"]
    future = getattr(task, "_fut_waiter", None)
    candidates = [future, *(getattr(future, "_children", None) or ())]
    # Python's own coroutines hold the task that they wait for in a local variable.
    innermost = frames[0] if frames and _owner(frames[0].f_code.co_filename) == "python" else None
    candidates += [] if innermost is None else list(innermost.f_locals.values())
    return [candidate for candidate in candidates if isinstance(candidate, asyncio.Task) and candidate is not task]


def _awaiting(coroutine: object) -> list[FrameType]:
    """Return the frames of a suspended coroutine down to where it waits, innermost first."""
    frames: list[FrameType] = []
    while coroutine is not None:
        kind = next((kind for kind in ("cr", "gi", "ag") if hasattr(coroutine, f"{kind}_frame")), None)
        if kind is None:
            break
        frame = getattr(coroutine, f"{kind}_frame")
        if frame is not None:
            frames.append(frame)
        coroutine = getattr(coroutine, "gi_yieldfrom" if kind == "gi" else f"{kind}_await")
    return frames[::-1]


# The modules of pdb and debuggers built on bdb, of PyCharm's debugger and of VS Code's.
_DEBUGGERS: Final = ("bdb", "pdb", "pydevd", "debugpy")


def is_debugged() -> bool:
    """Return whether a debugger traces this thread or, if that can be detected, is attached to the process.

    A tracer that is not a debugger, such as coverage, does not count.
    """
    debugpy = sys.modules.get("debugpy")
    if debugpy is not None and debugpy.is_client_connected():
        return True
    tracer = sys.gettrace()
    if tracer is not None and _is_of_debugger(tracer):
        return True
    monitoring = getattr(sys, "monitoring", None)
    return monitoring is not None and monitoring.get_tool(monitoring.DEBUGGER_ID) is not None


def is_at_prompt(thread: int) -> bool:
    """Return whether another thread is in a debugger, or a debugger is attached to the process."""
    return is_debugged() or is_in_debugger(thread)


def is_in_debugger(thread: int) -> bool:
    """Return whether code of a debugger is on a thread's stack, as at its prompt."""
    return any(name.startswith(_DEBUGGERS) for name in modules_on(thread))


def _is_of_debugger(tracer: object) -> bool:
    owner = type(getattr(tracer, "__self__", tracer))
    names = [getattr(tracer, "__module__", None), *(base.__module__ for base in owner.__mro__)]
    parts = [part for name in names if isinstance(name, str) for part in name.split(".")]
    return any(part.startswith(_DEBUGGERS) for part in parts)
