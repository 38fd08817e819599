"""Callers: the line of the user's code behind what a broker sees, and whether a debugger holds it up.

A broker runs in the process of its clients, so it can look at their threads. User code is whatever lies neither in
Python's library nor in installed packages nor in leveret. A line of it waits for a client if a frame of an installed
package, the client, stands between that line and the point where its thread or task waits. If several lines do, all of
them are named, because the broker cannot know which one it serves.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from itertools import accumulate, chain, repeat, starmap, takewhile
from operator import itemgetter
from types import FrameType
from typing import Final

from leveret.server import native

_OURS: Final = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")
_PYTHONS: Final = os.path.join(os.path.dirname(os.__file__), "")
_INSTALLED: Final = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
_PYTEST: Final = f"{os.sep}_pytest{os.sep}"
_NAMED_LINES: Final = 3


def waiting_line() -> str | None:
    """The line of the user's code that waits for a client just now, and the one that called it; None if none does."""
    own = native.thread_ident()
    return _told(_line_behind_client(stack) for thread in _threads() if thread != own for stack in _stacks(thread))


def standing_line(thread: int) -> str | None:
    """Where a thread, or what runs in its event loop, stands in the user's code, and the line that called that."""
    return _told(_line(stack) for stack in _stacks(thread))


def modules_on(thread: int) -> list[str]:
    """The modules whose code a thread is in, innermost first."""
    return [str(frame.f_globals.get("__name__", "")) for frame in _frames_of(thread)]


def calling_line() -> tuple[str, str | None]:
    """The broker's method that is being called on this thread, and the line of the user's code that calls it."""
    call, stack = "", list(_outwards(sys._getframe(1)))
    for index, frame in enumerate(stack):
        place = _place(frame.f_code.co_filename)
        if place == "leveret":
            call = frame.f_code.co_name
        elif place != "python":
            return call, _line(stack[index:])
    return call, None


def _told(lines: Iterable[str | None]) -> str | None:
    known = dict.fromkeys(line for line in lines if line is not None)
    return " or ".join(list(known)[:_NAMED_LINES]) or None


def _line_behind_client(stack: list[FrameType]) -> str | None:
    """The user's innermost line in a stack, innermost frame first, if it waits inside a client."""
    is_in_client = False
    for index, frame in enumerate(stack):
        place = _place(frame.f_code.co_filename)
        if place == "leveret":
            return None
        if place == "user":
            return _line(stack[index:]) if is_in_client else None
        is_in_client = is_in_client or place == "installed"
    return None


def _line(stack: list[FrameType]) -> str | None:
    """The innermost line of the user's code, and the outermost within a test if that is another function's."""
    within = takewhile(lambda frame: _PYTEST not in frame.f_code.co_filename, stack)
    frames = [frame for frame in within if _place(frame.f_code.co_filename) == "user"]
    if not frames:
        return None
    inner, outer = frames[0], frames[-1]
    if inner is outer:
        return _frame_text(inner)
    return f"{_frame_text(inner)}, called from {_frame_text(outer)}"


def _frame_text(frame: FrameType) -> str:
    code = frame.f_code
    return f"{_short(code.co_filename)}:{frame.f_lineno} in {code.co_name}"


def _short(path: str) -> str:
    try:
        here = os.path.join(os.getcwd(), "")
    except OSError:
        # A test may have removed the directory it is in.
        return path
    return path.removeprefix(here)


@cache
def _place(path: str) -> str:
    """Whose code a file holds: "user", "installed", "python" or "leveret"."""
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
    # CPython 3.11 holds a lock here that a thread which ends needs too: a finalizer run meanwhile would deadlock.
    with _looking:
        return list(sys._current_frames())


def _frames_of(thread: int) -> list[FrameType]:
    """The frames of another thread, innermost first; none when it has ended.

    One call, in which the interpreter stays with this thread: were the other one to run on between two frames, CPython
    3.11 would follow a generator that has yielded meanwhile to whatever lies in its caller's place, and the process
    crash or go round in circles.
    """
    frames: list[FrameType | None] = []
    innermost = map(itemgetter(thread), starmap(sys._current_frames, [()]))
    with suppress(KeyError, AttributeError), _looking:
        # It ends with an error where the outermost frame is called by None.
        frames.extend(accumulate(chain(innermost, repeat("f_back")), getattr))
    return [frame for frame in frames if frame is not None]


class _Looking:
    """Garbage stays where it is during a look, and one thread looks at a time.

    Before CPython 3.12 a collection may run within the look, and a finalizer within that lets the other thread go on.
    """

    def __init__(self) -> None:
        self._lock = native.reentrant_lock()
        self._is_to_collect_again = False

    def __enter__(self) -> None:
        self._lock.__enter__()
        self._is_to_collect_again = gc.isenabled()
        gc.disable()

    def __exit__(self, *exception: object) -> None:
        self._collect_again()
        self._lock.__exit__(*exception)

    def leave_behind(self) -> None:
        """A forked child has no thread that would finish its parent's look."""
        self._lock = native.reentrant_lock()
        self._collect_again()

    def _collect_again(self) -> None:
        if self._is_to_collect_again:
            self._is_to_collect_again = False
            gc.enable()


_looking = _Looking()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_looking.leave_behind)


def _stacks(thread: int) -> Iterator[list[FrameType]]:
    """What runs on a thread and, where an asyncio loop does, what that has put aside; innermost frame first."""
    asyncio = sys.modules.get("asyncio")
    stack = _frames_of(thread)
    for index, frame in enumerate(stack):
        if asyncio is not None and frame.f_code.co_name == "run_forever":
            loop = frame.f_locals.get("self")
            if isinstance(loop, asyncio.AbstractEventLoop):
                # Who called the loop waits for it, and not for a client.
                yield stack[:index]
                yield from (_awaiting(task.get_coro()) for task in asyncio.all_tasks(loop))
                return
    yield stack


def _awaiting(coroutine: object) -> list[FrameType]:
    """The frames of a suspended coroutine, down to what it waits for; innermost first."""
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


# Modules of debuggers: of pdb and its like, and of PyCharm's and VS Code's.
_DEBUGGERS: Final = ("bdb", "pdb", "pydevd", "debugpy")


def is_debugged() -> bool:
    """Whether a debugger follows this thread or, where it can tell, is attached to the process.

    A tracer that is none, as that of coverage, does not count.
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
    """Whether another thread stands in a debugger, or one is attached to the process."""
    return is_debugged() or any(name.startswith(_DEBUGGERS) for name in modules_on(thread))


def _is_of_debugger(tracer: object) -> bool:
    owner = type(getattr(tracer, "__self__", tracer))
    names = [getattr(tracer, "__module__", None), *(base.__module__ for base in owner.__mro__)]
    parts = [part for name in names if isinstance(name, str) for part in name.split(".")]
    return any(part.startswith(_DEBUGGERS) for part in parts)
