"""The operating system's own threads, locks, sockets and pollers, also in a process that gevent has patched.

A broker has to go on while a test's thread is busy or blocked, so its loop needs a real thread and real locks: a
patched one would be a greenlet of whichever hub started it. Names bound here before gevent patches stay what they are;
for those bound after it, gevent is asked for the original. `_socket` lies below what gevent patches.
"""

from __future__ import annotations

import _socket
import importlib
import sys
from collections.abc import Callable
from typing import Any, Protocol


class Lock(Protocol):
    """This is what a lock and a re-entrant lock have in common."""

    def __enter__(self) -> bool: ...
    def __exit__(self, *exception: object) -> None: ...


class Gate(Protocol):
    """This is a lock that one thread takes and another one opens."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """This waits until it is open, and shuts it."""
        ...

    def release(self) -> None:
        """This opens it."""
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
    """This makes a lock that its holder may take again."""
    return _rlock()


def wait_at(gate: Gate, timeout: float) -> None:
    """This waits until the gate is opened, at most `timeout` seconds; under gevent other greenlets run meanwhile."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and monkey.is_module_patched("threading"):
        sys.modules["gevent"].get_hub().threadpool.apply(gate.acquire, (True, timeout))
    else:
        gate.acquire(timeout=timeout)


def socket_pair() -> tuple[Socket, Socket]:
    """This makes two connected sockets, neither of which blocks; over loopback where there is no socketpair."""
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
    """This accepts one connection; OSError as the system says."""
    fd, address = listener._accept()  # type: ignore[attr-defined]
    return Socket(listener.family, listener.type, listener.proto, fileno=fd), address


READABLE = 1
WRITABLE = 4
# What a poller reports unasked: the connection is gone.
BROKEN = 8 | 16


class Poller(Protocol):
    """This watches sockets; events are READABLE, WRITABLE and BROKEN added up, as epoll numbers them."""

    def watch(self, fd: int, events: int) -> None:
        """This starts watching a socket."""
        ...

    def change(self, fd: int, events: int) -> None:
        """This watches it for something else."""
        ...

    def forget(self, fd: int) -> None:
        """This stops watching it; to be called before the socket is closed."""
        ...

    def wait(self, timeout: float | None) -> list[tuple[int, int]]:
        """This returns what is ready, after at most `timeout` seconds (None: no limit)."""
        ...

    def close(self) -> None:
        """This gives the poller back to the system."""
        ...


class SelectorPoller:
    """This is a poller for systems without epoll."""

    def __init__(self) -> None:
        import selectors

        self._selector = selectors.DefaultSelector()
        # Sockets watched for nothing: a selector cannot hold them.
        self._silent: set[int] = set()

    def watch(self, fd: int, events: int) -> None:
        """This starts watching a socket."""
        if events:
            self._selector.register(fd, self._mask(events))
        else:
            self._silent.add(fd)

    def change(self, fd: int, events: int) -> None:
        """This watches it for something else."""
        self.forget(fd)
        self.watch(fd, events)

    def forget(self, fd: int) -> None:
        """This stops watching it."""
        if fd in self._silent:
            self._silent.remove(fd)
        else:
            self._selector.unregister(fd)

    def wait(self, timeout: float | None) -> list[tuple[int, int]]:
        """This returns what is ready."""
        return [
            (key.fd, (READABLE if mask & 1 else 0) | (WRITABLE if mask & 2 else 0))
            for key, mask in self._selector.select(timeout)
        ]

    def close(self) -> None:
        """This gives the selector back."""
        self._selector.close()

    @staticmethod
    def _mask(events: int) -> int:
        return (1 if events & READABLE else 0) | (2 if events & WRITABLE else 0)


if sys.platform == "linux":

    class EpollPoller:
        """This is epoll, asked directly: a selector's bookkeeping costs more than the system call."""

        def __init__(self) -> None:
            epoll = _original("select", "epoll")()
            self.watch: Callable[[int, int], None] = epoll.register
            self.change: Callable[[int, int], None] = epoll.modify
            self.forget: Callable[[int], None] = epoll.unregister
            self.wait: Callable[[float | None], list[tuple[int, int]]] = epoll.poll
            self.close: Callable[[], None] = epoll.close


def new_poller() -> Poller:
    """This makes the best poller the system has."""
    if sys.platform == "linux":
        return EpollPoller()
    return SelectorPoller()
