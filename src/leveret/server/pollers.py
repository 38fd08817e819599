"""The ways to learn which sockets are ready: epoll, poll and select, whichever the system has.

Each calls the system directly, from a copy of the module `select` that gevent and eventlet cannot patch. Linux has
epoll. macOS and BSD take poll, which is the same code as on Linux. Windows has only select, which takes sockets only
and not many of them.

The environment variable LEVERET_POLLER forces one, so that the tests of leveret can run on each.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from math import ceil
from typing import Any, Final, TypeAlias

from leveret.clocks import unpatched
from leveret.errors import BrokerError

READABLE: Final = 1
WRITABLE: Final = 4
# That a connection is gone. select reports it as READABLE, the others without being asked.
BROKEN: Final = 8 | 16

_VARIABLE: Final = "LEVERET_POLLER"
_IS_WINDOWS: Final = sys.platform == "win32"
# FD_SETSIZE. Python's select takes this many sockets on Windows, and elsewhere those with a number below it.
_SELECT_MAX: Final = 512 if _IS_WINDOWS else 1024

_select: Final[Any] = unpatched("select")


class EpollPoller:
    """A poller that calls epoll. A selector's bookkeeping costs more than the system call."""

    def __init__(self) -> None:
        epoll = _select.epoll()
        self.watch: Callable[[int, int], None] = epoll.register
        self.change: Callable[[int, int], None] = epoll.modify
        self.forget: Callable[[int], None] = epoll.unregister
        self.wait: Callable[[float | None], list[tuple[int, int]]] = epoll.poll
        self.close: Callable[[], None] = epoll.close


class PollPoller:
    """A poller that calls poll."""

    def __init__(self) -> None:
        poll = _select.poll()
        self.watch: Callable[[int, int], None] = poll.register
        self.change: Callable[[int, int], None] = poll.modify
        self.forget: Callable[[int], None] = poll.unregister
        self._poll: Callable[[int | None], list[tuple[int, int]]] = poll.poll

    def wait(self, timeout: float | None) -> list[tuple[int, int]]:
        """Return what is ready."""
        return self._poll(None if timeout is None else ceil(timeout * 1000))

    def close(self) -> None:
        """Do nothing: the system keeps nothing between two calls of poll."""


class SelectPoller:
    """A poller that calls select, which takes a limited number of sockets."""

    def __init__(self) -> None:
        self._events: dict[int, int] = {}

    def watch(self, fd: int, events: int) -> None:
        """Start watching a socket. Raises BrokerError if select does not take it."""
        if (len(self._events) if _IS_WINDOWS else fd) >= _SELECT_MAX:
            what = "sockets" if _IS_WINDOWS else "files and sockets of a process"
            raise BrokerError(
                f"too many connections: leveret waits with select(), which takes {_SELECT_MAX} {what}; close the "
                f"connections that the test no longer needs, or start a second process with `python -m leveret serve`"
            )
        self._events[fd] = events

    def change(self, fd: int, events: int) -> None:
        """Watch a socket for other events."""
        self._events[fd] = events

    def forget(self, fd: int) -> None:
        """Stop watching a socket."""
        del self._events[fd]

    def wait(self, timeout: float | None) -> list[tuple[int, int]]:
        """Return what is ready."""
        readers = [fd for fd, events in self._events.items() if events & READABLE]
        writers = [fd for fd, events in self._events.items() if events & WRITABLE]
        readable, writable, _ = _select.select(readers, writers, (), timeout)
        ready = dict.fromkeys(readable, READABLE)
        for fd in writable:
            ready[fd] = ready.get(fd, 0) | WRITABLE
        return list(ready.items())

    def close(self) -> None:
        """Do nothing: the system keeps nothing between two calls of select."""


# Events are READABLE, WRITABLE and BROKEN combined, numbered as epoll and poll do. Forget a socket before it is closed.
Poller: TypeAlias = EpollPoller | PollPoller | SelectPoller
# Those that this system has, the preferred one first.
_ALL: Final[dict[str, Callable[[], Poller]]] = {
    "epoll": EpollPoller,
    "poll": PollPoller,
    "select": SelectPoller,
}
POLLERS: Final = {name: new for name, new in _ALL.items() if hasattr(_select, name)}


def new_poller() -> Poller:
    """Return the preferred poller of this system, or the one that LEVERET_POLLER names.

    Raises BrokerError if it names none that this system has.
    """
    forced = os.environ.get(_VARIABLE)
    if not forced:
        return next(iter(POLLERS.values()))()
    if forced not in POLLERS:
        raise BrokerError(f"{_VARIABLE}={forced!r} is unknown here; this system has {', '.join(POLLERS)}")
    return POLLERS[forced]()
