"""The operating system's own threads, locks, sockets and pollers, even in a process that gevent has patched.

A broker must go on while a test's thread is busy or blocked, so its loop needs a real thread and real locks. A patched
thread would be a greenlet of the hub that started it. Names bound here before gevent patches stay real. For names bound
later, gevent returns the original. `_socket` lies below what gevent patches.
"""

from __future__ import annotations

import _socket
import importlib
import sys
from collections.abc import Callable
from typing import Any, Protocol


class Lock(Protocol):
    """What a lock and a re-entrant lock have in common."""

    def __enter__(self) -> bool: ...
    def __exit__(self, *exception: object) -> None: ...


class Gate(Protocol):
    """A lock that one thread takes and another one releases."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Wait until the gate is open, and shut it."""
        ...

    def release(self) -> None:
        """Open the gate."""
        ...


def _original(module_name: str, name: str) -> Any:
    monkey = sys.modules.get("gevent.monkey")
    if monkey is None:
        return getattr(importlib.import_module(module_name), name)
    return monkey.get_original(module_name, name)


Socket = _socket.socket
allocate_lock: Callable[[], Gate] = _original("_thread", "allocate_lock")
start_new_thread: Callable[[Callable[..., object], tuple[object, ...]], int] = _original("_thread", "start_new_thread")
thread_ident: Callable[[], int] = _original("_thread", "get_ident")
native_id: Callable[[], int] = _original("_thread", "get_native_id")
_rlock: Callable[[], Lock] = _original("_thread", "RLock")


def reentrant_lock() -> Lock:
    """Return a lock that its holder may take again."""
    return _rlock()


def wait_at(gate: Gate, timeout: float) -> None:
    """Wait until the gate is open, at most `timeout` seconds. Under gevent, other greenlets run meanwhile."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and monkey.is_module_patched("threading"):
        sys.modules["gevent"].get_hub().threadpool.apply(gate.acquire, (True, timeout))
    else:
        gate.acquire(timeout=timeout)


def socket_pair() -> tuple[Socket, Socket]:
    """Return two connected non-blocking sockets, over loopback if the system has no socketpair."""
    pair = _socket.socketpair() if hasattr(_socket, "socketpair") else _loopback_pair()
    for end in pair:
        end.setblocking(False)
    return pair


def _loopback_pair() -> tuple[Socket, Socket]:
    listener = Socket(_socket.AF_INET, _socket.SOCK_STREAM)
    near = Socket(_socket.AF_INET, _socket.SOCK_STREAM)
    try:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        near.connect(listener.getsockname())
        while True:
            far, address = accept(listener)
            if address == near.getsockname():
                return near, far
            far.close()
    finally:
        listener.close()


def accept(listener: Socket) -> tuple[Socket, Any]:
    """Accept one connection. Raises OSError as the system reports it."""
    fd, address = listener._accept()  # type: ignore[attr-defined]
    return Socket(listener.family, listener.type, listener.proto, fileno=fd), address


READABLE = 1
WRITABLE = 4
# A poller reports without being asked that a connection is gone.
BROKEN = 8 | 16


class Poller(Protocol):
    """A poller of sockets. Events are READABLE, WRITABLE and BROKEN combined, numbered as epoll does."""

    def watch(self, fd: int, events: int) -> None:
        """Start watching a socket."""
        ...

    def change(self, fd: int, events: int) -> None:
        """Watch a socket for other events."""
        ...

    def forget(self, fd: int) -> None:
        """Stop watching a socket. Call it before the socket is closed."""
        ...

    def wait(self, timeout: float | None) -> list[tuple[int, int]]:
        """Return what is ready, after at most `timeout` seconds (None: no limit)."""
        ...

    def close(self) -> None:
        """Close the poller."""
        ...


class SelectorPoller:
    """A poller for systems without epoll."""

    def __init__(self) -> None:
        import selectors

        self._selector = selectors.DefaultSelector()
        # Sockets watched for no event, which a selector cannot hold.
        self._silent: set[int] = set()

    def watch(self, fd: int, events: int) -> None:
        """Start watching a socket."""
        if events:
            self._selector.register(fd, self._mask(events))
        else:
            self._silent.add(fd)

    def change(self, fd: int, events: int) -> None:
        """Watch a socket for other events."""
        self.forget(fd)
        self.watch(fd, events)

    def forget(self, fd: int) -> None:
        """Stop watching a socket."""
        if fd in self._silent:
            self._silent.remove(fd)
        else:
            self._selector.unregister(fd)

    def wait(self, timeout: float | None) -> list[tuple[int, int]]:
        """Return what is ready."""
        return [
            (key.fd, (READABLE if mask & 1 else 0) | (WRITABLE if mask & 2 else 0))
            for key, mask in self._selector.select(timeout)
        ]

    def close(self) -> None:
        """Close the selector."""
        self._selector.close()

    @staticmethod
    def _mask(events: int) -> int:
        return (1 if events & READABLE else 0) | (2 if events & WRITABLE else 0)


if sys.platform == "linux":

    class EpollPoller:
        """A poller that calls epoll directly. A selector's bookkeeping costs more than the system call."""

        def __init__(self) -> None:
            epoll = _original("select", "epoll")()
            self.watch: Callable[[int, int], None] = epoll.register
            self.change: Callable[[int, int], None] = epoll.modify
            self.forget: Callable[[int], None] = epoll.unregister
            self.wait: Callable[[float | None], list[tuple[int, int]]] = epoll.poll
            self.close: Callable[[], None] = epoll.close


def new_poller() -> Poller:
    """Return the best poller that the system has."""
    if sys.platform == "linux":
        return EpollPoller()
    return SelectorPoller()
