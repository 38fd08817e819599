"""The operating system's own threads, locks and sockets, even beside the patches of gevent or eventlet.

A broker must go on while a test's thread is busy or blocked, so its loop needs a real thread and real locks. A patched
thread would be a greenlet of the hub that started it. These come from copies of their modules that nothing patches.
`_socket` lies below what both libraries patch.

A hub runs the greenlets of one thread, and with them the clients. A test that waits on such a thread waits at a
gate that gives way to the hub. Threads without a hub, such as the broker's own, simply block.
"""

from __future__ import annotations

import _socket
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from leveret.clocks import unpatched

if TYPE_CHECKING:
    import threading

    PlainLock = threading.Lock
    ReentrantLock = threading.RLock


_thread = unpatched("_thread")
Socket = _socket.socket
allocate_lock: Callable[[], PlainLock] = _thread.allocate_lock
start_new_thread: Callable[[Callable[..., object], tuple[object, ...]], int] = _thread.start_new_thread
thread_ident: Callable[[], int] = _thread.get_ident
# A system without threads, such as a browser, may lack it.
native_id: Callable[[], int] = getattr(_thread, "get_native_id", thread_ident)
# Its type is the copy's own. eventlet replaces all locks of the usual type that it finds, even those in use.
reentrant_lock: Callable[[], ReentrantLock] = _thread.RLock


def shut_gate() -> _ThreadGate | _HubGate:
    """Return a gate for this thread to wait at. If the thread has a hub, its greenlets run meanwhile."""
    own_hub = hub()
    return _ThreadGate() if own_hub is None else _HubGate(own_hub)


def pause(seconds: float) -> None:
    """Let other threads run for so long, and the greenlets of this one."""
    gate = shut_gate()
    gate.wait(seconds)
    gate.open()


def hub() -> Any:
    """Return the hub of gevent or eventlet that runs greenlets on this thread, or None.

    The hub's own callbacks get None, because they cannot give way to it.
    """
    hubs = []
    if "gevent._hub_local" in sys.modules:
        hubs.append(sys.modules["gevent._hub_local"].get_hub_if_exists())
    if "eventlet.hubs" in sys.modules:
        hubs.append(getattr(sys.modules["eventlet.hubs"]._threadlocal, "hub", None))
    running = sys.modules["greenlet"].getcurrent() if hubs else None
    return next((hub for hub in hubs if hub is not None and running is not _greenlet_of(hub)), None)


def _greenlet_of(hub: Any) -> Any:
    """Return the greenlet that a hub runs in. gevent's hub is that greenlet."""
    return getattr(hub, "greenlet", hub)


class _ThreadGate:
    """A gate that one thread waits at until another one opens it: it blocks the thread."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._lock.acquire()
        self.open = self._lock.release

    def wait(self, timeout: float) -> None:
        self._lock.acquire(timeout=timeout)


class _HubGate:
    """A gate that blocks one greenlet: its hub waits for a byte, which any thread can send."""

    def __init__(self, hub: Any) -> None:
        self._is_gevents = _greenlet_of(hub) is hub
        self._near, self._far = socket_pair()

    def open(self) -> None:
        # The greenlet may have gone on already and closed its end.
        with suppress(OSError):
            self._far.send(b"\0")
        self._far.close()

    def wait(self, timeout: float) -> None:
        with suppress(TimeoutError):
            if self._is_gevents:
                import_module("gevent.socket").wait_read(self._near.fileno(), timeout, TimeoutError())
            else:
                import_module("eventlet.hubs").trampoline(
                    self._near.fileno(), read=True, timeout=timeout, timeout_exc=TimeoutError
                )
        self._near.close()


def is_held(lock: ReentrantLock) -> bool:
    """Return whether the calling thread holds a re-entrant lock."""
    return bool(lock._is_owned())  # type: ignore[attr-defined]


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
