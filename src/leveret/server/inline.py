"""A host without a thread and without sockets: clients live on the thread that serves them.

`InlineLoop` takes its turns whenever a client waits for something, or the test looks or acts. So what happens has one
order, the same in each run, and needs neither threads nor a network: a page in a browser has none. The turns and all
that lies above are those of `Loop`; a `MemoryLink` stands for a transport.

A client that blocks, such as pika's `BlockingConnection`, need not know. While an inline broker runs, `socket.socket`
is a class that connects to it in memory, and to everything else as usual. `select.select` knows such sockets and lets
the broker work before it waits; the other ways to wait are hidden, so that clients take this one. pika looks up an
address on a timer's thread: a timer without delay runs at once. All of it ends with the last inline broker.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from math import inf
from typing import Any, Final, cast
from weakref import WeakValueDictionary

from leveret.clocks import SystemClock, unpatched
from leveret.errors import BrokerError
from leveret.server import native
from leveret.server.listener import Address, Listener
from leveret.server.loop import Loop
from leveret.server.pollers import READABLE, Poller
from leveret.server.rendezvous import Turns
from leveret.server.transport import READ_BYTES, Conversation, Transport

# These ports lie below those that systems give away by themselves.
FIRST_PORT: Final = 10_672
FIRST_CLIENT_PORT: Final = 20_001
# Pyodide has the classes of sockets, but no network.
_HAS_NETWORK: Final[bool] = sys.platform != "emscripten"

_REAL: Final = SystemClock()
_pause: Final[Callable[[float], object]] = unpatched("time").sleep
_real_select: Final[Any] = select.select
_numbers: Final = count(1)
_loops: Final[list[InlineLoop]] = []
# What clients can connect to by port, and their sockets by descriptor.
_listeners: Final[dict[int, InlineListener]] = {}
_clients: Final[WeakValueDictionary[int, ClientSocket]] = WeakValueDictionary()
_patches: Final = ExitStack()


class MemoryLink:
    """A connection in memory. To the loop it is a transport, and a `ClientSocket` has the other side."""

    # Nothing waits for room in memory.
    outbox_bytes = 0
    has_unread = False

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.fd = next(_numbers)
        self.is_open = True
        self.to_broker, self.to_client = bytearray(), bytearray()
        # Whether the client has closed its side.
        self.is_left = False
        # Whether the client gets no more than is on its way, and whether it was reset, which it learns once.
        self.is_ended = False
        self.is_reset = False

    @property
    def is_reading(self) -> bool:
        """Whether the conversation takes more."""
        return not (self.conversation.is_reading_paused or self.conversation.is_closed)

    @property
    def is_ready(self) -> bool:
        """Whether there is something to read, or the end."""
        return self.is_reading and (bool(self.to_broker) or self.is_left)

    def on_ready(self, _events: int) -> None:
        """Pass one piece of input to the conversation, or the end."""
        if not self.to_broker:
            self.lose()
            return
        data = bytes(self.to_broker[:READ_BYTES])
        del self.to_broker[:READ_BYTES]
        self.conversation.receive_data(data)
        if self.conversation.is_closed or self.conversation.is_reset:
            self.flush()

    def drain(self) -> bool:
        """Pass on everything that the client has sent. Return whether there was anything, including the end."""
        was_ready = self.is_ready
        while self.is_open and self.is_ready:
            self.on_ready(READABLE)
        return was_ready

    def flush(self) -> None:
        """Give the client all output. RabbitMQ ends a connection by a reset, which drops nothing here."""
        if self.is_open:
            self.to_client += b"".join(self.conversation.data_to_send())
            self.is_ended |= self.conversation.is_half_closed
            if self.conversation.is_closed or self.conversation.is_reset:
                self.reset()

    def reset(self) -> None:
        """End it for the client, and notify the conversation."""
        self.is_reset = True
        self.lose()

    def lose(self) -> None:
        """End it, also for the client, and notify the conversation."""
        self.is_open = False
        self.is_ended = True
        self.conversation.connection_lost()

    def abandon(self) -> None:
        """Forget it in a forked child."""
        self.is_open = False


class InlineListener:
    """A port in memory that clients in this process can connect to."""

    accept_again_at: int | None = None
    # What connects a client, from its address and the listener's.
    admit: Callable[[Address, Address], MemoryLink]

    def __init__(self, host: str, port: int) -> None:
        """Take the port, or the next free one if it is 0. Raises OSError if another listener has it."""
        port = port or next(number for number in count(FIRST_PORT) if number not in _listeners)
        if port in _listeners:
            raise OSError(errno.EADDRINUSE, f"another inline broker listens on port {port}; port 0 takes a free one")
        self.address: Address = (host, port)
        self.fd = next(_numbers)
        self.client_ports = count(FIRST_CLIENT_PORT)
        _listeners[port] = self

    def watch(self, _poller: Poller) -> None:
        """Do nothing: a client connects at once."""

    def accept(self, _wall_now: int) -> Iterator[tuple[Any, Address, Address]]:
        """Return nothing: no connection waits to be accepted."""
        return iter(())

    def close(self) -> None:
        """Free the port."""
        _listeners.pop(self.address[1], None)

    abandon = close


class InlineLoop(Loop):
    """The turns that serve the conversations of one broker, on the thread of its clients."""

    is_inline = True
    listener_type = cast("type[Listener]", InlineListener)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Create a loop that is not running yet, as `Loop` does."""
        super().__init__(*arguments, **options)
        self.turns = Turns(self._rest_until_due)
        # Whether the last wait would have ended before anything happened.
        self._is_still = False
        self._beside: deque[Callable[[], None]] = deque()

    @property
    def has_turns(self) -> bool:
        """Whether another turn may come while this thread waits."""
        return super().has_turns and not self._is_still

    def listen(self, *listeners: Listener) -> None:
        """Serve clients that connect to these listeners."""
        super().listen(*listeners)
        for listener in listeners:
            cast(InlineListener, listener).admit = self.admit

    def admit(self, peer: Address, own: Address) -> MemoryLink:
        """Connect a client of that address."""
        with self._lock:
            link = MemoryLink(self.connect(peer, own))
            self.arrival_count += 1
            self._transports[link.fd] = self._by_conversation[link.conversation] = cast(Transport, link)
        return link

    def _open_own(self) -> None:
        self._wake_read_fd = 0

    def _close_own(self) -> None:
        self._poller.close()
        if self in _loops:
            _loops.remove(self)
        if not _loops:
            _patches.close()

    def _begin(self) -> int:
        if not _loops:
            _patch()
        _loops.append(self)
        # No thread has this number.
        return -1

    def run_beside(self, work: Callable[[], None]) -> None:
        """Run code of the test outside the lock, after this turn."""
        self._beside.append(work)

    def wake(self) -> None:
        """Take turns until there is nothing to do. If this thread holds the lock, leave that to the next call."""
        if self._is_stopping and self.is_running:
            self._conclude()
            self._finished.release()
        if self._is_ended or not self.is_running or native.is_held(self._lock):
            return
        self._is_still = False
        with self._lock:
            timeout = self._whole_turn(self._events())
            while (events := self._events()) or timeout == 0 or self.host.left_over:
                timeout = self._whole_turn(events)
        self.turns.complete()
        if self._beside:
            self._beside.popleft()()
            self.wake()

    def _events(self) -> list[tuple[int, int]]:
        return [(fd, READABLE) for fd, link in self._transports.items() if cast(MemoryLink, link).is_ready]

    def seconds_until_due(self) -> float:
        """Return the seconds until something is due by itself, inf if nothing is."""
        with self._lock:
            seconds = self._seconds_to_deadline(self._wall.now())
        return inf if seconds is None else seconds

    def _rest_until_due(self, limit: float) -> None:
        """Sleep until something is due, and do it. If that is later than `limit` seconds, do not sleep at all."""
        seconds = self.seconds_until_due()
        self._is_still = seconds > limit
        if not self._is_still:
            _pause(seconds)
            self.wake()


def _let_work(is_ready: Callable[[], bool], timeout: float | None, pause: Callable[[float], object] = _pause) -> None:
    """Let the brokers work until something is ready, or for `timeout` seconds.

    Raises BrokerError for a wait without end.
    """
    limit = inf if timeout is None else _REAL.now() + timeout * 1_000_000
    while True:
        for loop in list(_loops):
            loop.wake()
        left = (limit - _REAL.now()) / 1_000_000
        if is_ready() or left <= 0:
            return
        left = min([left, *(loop.seconds_until_due() for loop in _loops)])
        if left == inf:
            raise BrokerError(
                "this client would wait for ever: nothing is on its way to it, and nothing happens on an inline broker "
                "while its client waits; publish first, or wait with a timeout"
            )
        pause(left)


class InlineSocket(socket.socket):
    """What `socket.socket` is while an inline broker runs."""

    def connect(self, address: Any) -> None:
        """Connect to an inline broker at that address, or else as usual."""
        listener = _listeners.get(address[1]) if isinstance(address, tuple) else None
        if listener is not None and (listener.address[0] == address[0] or not _HAS_NETWORK):
            if sys._getframe(1).f_globals.get("__name__", "").startswith("asyncio"):
                raise BrokerError("inline=True serves clients that block; for clients on asyncio, leave it out")
            own = (listener.address[0], next(listener.client_ports))
            ClientSocket.adopt(self, listener.admit(own, listener.address), own, listener.address)
        elif _HAS_NETWORK:
            super().connect(address)
        else:
            raise OSError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))


class ClientSocket(InlineSocket):
    """A socket of a client that is connected in memory."""

    _link: MemoryLink
    _own: Address
    _peer: Address

    @staticmethod
    def adopt(usual: socket.socket, link: MemoryLink, own: Address, peer: Address) -> None:
        """Connect a usual socket in memory: from now on it is of this class."""
        usual.__class__ = ClientSocket
        connected = cast(ClientSocket, usual)
        connected._link, connected._own, connected._peer = link, own, peer
        _clients[usual.fileno()] = connected

    def getsockname(self) -> Any:
        """Return its own address."""
        return self._own

    def getpeername(self) -> Any:
        """Return the broker's address."""
        return self._peer

    @property
    def is_readable(self) -> bool:
        """Whether `recv` would not block."""
        return bool(self._link.to_client) or self._link.is_ended

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Return what has arrived, b"" at the end. If nothing has, the broker works first."""
        if not self.is_readable:
            _let_work(lambda: self.is_readable, self.gettimeout())
        if not self.is_readable:
            raise TimeoutError("timed out") if self.gettimeout() else OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        data = bytes(self._link.to_client[:size])
        del self._link.to_client[:size]
        if not data:
            self._raise_reset()
        return data

    def send(self, data: Any, flags: int = 0) -> int:
        """Send everything, which the broker reads once its client waits."""
        self._raise_reset()
        if not self._link.is_open:
            raise OSError(errno.EPIPE, os.strerror(errno.EPIPE))
        self._link.to_broker += data
        return memoryview(data).nbytes

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Send everything."""
        self.send(data)

    def _raise_reset(self) -> None:
        if self._link.is_reset:
            self._link.is_reset = False
            raise OSError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))

    def shutdown(self, how: int) -> None:
        """End the direction to the broker."""
        self._link.is_left |= how != socket.SHUT_RD

    def close(self) -> None:
        """End the connection."""
        self._link.is_left = True
        super().close()

    def __del__(self) -> None:
        self._link.is_left = True


class _ListeningSocket(InlineSocket):
    """What `socket.socket` is without a network: pika listens with one for its own pair of sockets."""

    def listen(self, *_backlog: int) -> None:
        self._listener = InlineListener("127.0.0.1", 0)
        # What goes in comes out again.
        self._echo = MemoryLink(cast(Conversation, None))
        self._echo.to_client = self._echo.to_broker
        self._listener.admit = lambda *_: self._echo

    def getsockname(self) -> Any:
        return self._listener.address

    def accept(self) -> tuple[socket.socket, Any]:
        accepted, address = socket.socket(), self._listener.address
        ClientSocket.adopt(accepted, self._echo, address, address)
        self._listener.close()
        return accepted, address


def inline_select(readers: Any, writers: Any, errors: Any, timeout: float | None = None) -> tuple[list[Any], ...]:
    """What `select.select` is while an inline broker runs: it takes sockets of both kinds."""
    watched = (readers, writers, errors)
    others = [[it for it in some if _client(it) is None] for some in watched]
    if not any(_client(it) for some in watched for it in some):
        return cast("tuple[list[Any], ...]", _real_select(*others, timeout))
    ready: list[list[Any]] = [[], [], []]

    def look(seconds: float = 0) -> bool:
        nonlocal ready
        ready = list(_real_select(*others, seconds)) if any(others) else [[], [], []]
        ready[0] += [it for it in readers if (client := _client(it)) is not None and client.is_readable]
        ready[1] += [it for it in writers if _client(it) is not None]
        return any(ready)

    _let_work(look, timeout, look if any(others) else _pause)
    return tuple(ready)


def _client(watched: Any) -> ClientSocket | None:
    return _clients.get(watched if isinstance(watched, int) else watched.fileno())


class _Timer(threading.Timer):
    """A timer that needs no thread if it has no delay."""

    def start(self) -> None:
        if self.interval:
            super().start()
        else:
            self.run()


def _patch() -> None:
    """Put these where clients look for sockets, and hide the other ways to wait, until `_patches` is closed."""
    own = InlineSocket if _HAS_NETWORK else _ListeningSocket
    for module, name, it in ((socket, "socket", own), (threading, "Timer", _Timer), (select, "select", inline_select)):
        _patches.callback(setattr, module, name, getattr(module, name))
        setattr(module, name, it)
    for name in [name for name in ("poll", "epoll", "kqueue") if hasattr(select, name)]:
        _patches.callback(setattr, select, name, getattr(select, name))
        delattr(select, name)
