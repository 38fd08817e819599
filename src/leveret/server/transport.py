"""One socket and one conversation, and the bytes between them.

A transport knows bytes, not AMQP. It reads a bounded piece at a time, so that no peer starves another. If the bytes of
a peer that floods are costly to handle, the pieces get smaller. It keeps what a slow peer has not taken yet. It ends a
socket in one of three ways: the peer left, leveret closes after the last byte, or leveret resets. It may also end its
own side first and read on. All of it runs on the loop's thread under the broker's lock. No call blocks, and none raises
for what a peer does.
"""

from __future__ import annotations

import _socket
import struct
import sys
from collections import deque
from contextlib import suppress
from typing import Protocol

from leveret.clocks import CpuClock
from leveret.server.native import Socket
from leveret.server.pollers import BROKEN, READABLE, WRITABLE, Poller

READ_BYTES = 65536
# The least and the most that a read takes, and the processor time that handling one full read should take at most. Two
# frames of the usual size fit into the most, so large bodies are cut out of few reads.
READ_BYTES_MIN = 2048
READ_BYTES_MAX = 262144
READ_NS = 1_000_000
# A peer that does not take its output is not read until it does, because it asks for more than it reads.
OUTBOX_FULL_BYTES = 16 * 1024 * 1024
OUTBOX_LOW_BYTES = 4 * 1024 * 1024
# Writes in one turn to one peer. A peer that reads as fast as leveret writes must not hold up the others.
WRITES_PER_FLUSH = 16
# Pieces of output that one write joins. They are sent while they are still in the processor's cache. A piece that is
# large itself is sent alone, because a copy of it would cost more than a write.
PIECES_PER_WRITE = 1024
LARGE_PIECE_BYTES = 65536
# The most that a barrier reads from one peer. This is more than the system's buffers hold, so it covers what was sent
# before the barrier, and ends even if the peer keeps sending.
DRAIN_BYTES = 64 * 1024 * 1024

# RabbitMQ resets every socket that it ends (rabbit_net:fast_close). Only on Linux can the peer still read what was sent
# before, and only what has left this end: a reset drops the rest.
_CLOSES_BY_RESET = sys.platform == "linux"
# The request for the number of bytes that the system has taken and not sent yet.
_SIOCOUTQNSD = 0x894B
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_TCP_QUICKACK: int | None = getattr(_socket, "TCP_QUICKACK", None)


class Conversation(Protocol):
    """What a transport needs of a connection."""

    @property
    def is_closed(self) -> bool:
        """Whether to close the socket after the last byte."""

    @property
    def is_reset(self) -> bool:
        """Whether to reset the socket."""

    @property
    def is_half_closed(self) -> bool:
        """Whether to end this side of the socket after the last byte, and read on."""

    @property
    def is_reading_paused(self) -> bool:
        """Whether to stop reading for now."""

    def receive_data(self, data: bytes) -> None:
        """Handle bytes that arrived."""
        ...

    def data_to_send(self) -> list[bytes]:
        """Return what is to be sent."""
        ...

    def connection_lost(self) -> None:
        """Handle the end of the socket."""
        ...


class Transport:
    """One conversation over one socket."""

    __slots__ = (
        "_cpu_clock",
        "_events",
        "_has_been_full",
        "_is_choked",
        "_is_shut",
        "_outbox",
        "_poller",
        "_socket",
        "conversation",
        "fd",
        "has_unread",
        "is_open",
        "outbox_bytes",
        "read_bytes",
    )

    def __init__(self, socket: Socket, conversation: Conversation, poller: Poller, cpu_clock: CpuClock) -> None:
        self._socket = socket
        self._poller = poller
        self._cpu_clock = cpu_clock
        self._outbox: deque[bytes | memoryview] = deque()
        self._is_choked = False
        # Whether the peer ever had more to read than the system's buffers hold. They may be full again.
        self._has_been_full = False
        # Whether this side of the socket has ended, so there is nothing more to send.
        self._is_shut = False
        self._events = READABLE
        self.outbox_bytes = 0
        # The most that the next read takes, and whether the last one was full, so that there may be more.
        self.read_bytes = READ_BYTES
        self.has_unread = False
        self.conversation = conversation
        self.fd = socket.fileno()
        self.is_open = True
        poller.watch(self.fd, READABLE)

    @property
    def is_reading(self) -> bool:
        """Whether the peer is read: not under an alarm, nor while it leaves too much output unread."""
        return bool(self._events & READABLE)

    # Hot: once per wake-up of a peer.
    def on_ready(self, events: int) -> None:
        """Read or write as the poller reports."""
        if events & WRITABLE:
            self.flush()
        if not self.is_open:
            return
        if events & READABLE:
            self.read()
            self._after_read()
        elif events & BROKEN:
            self.lose()

    # Hot: once per wake-up of a peer.
    def read(self) -> int:
        """Pass one bounded piece of input to the conversation. Return its size, 0 if there is none."""
        try:
            data = self._socket.recv(self.read_bytes)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            data = b""
        if not data:
            self.lose()
            return 0
        size = len(data)
        self.has_unread = size == self.read_bytes
        if self.has_unread:
            self._receive_timed(data)
        else:
            self.conversation.receive_data(data)
        return size

    def _receive_timed(self, data: bytes) -> None:
        """Pass on a full read, and choose the size of the next by what this one cost.

        Processor time leaves out what other threads of this process take meanwhile.
        """
        started = self._cpu_clock()
        self.conversation.receive_data(data)
        cost_ns = self._cpu_clock() - started
        if cost_ns > READ_NS:
            self.read_bytes = max(READ_BYTES_MIN, len(data) * READ_NS // cost_ns)
        elif 2 * cost_ns < READ_NS:
            self.read_bytes = min(READ_BYTES_MAX, 2 * self.read_bytes)

    def drain(self) -> bool:
        """Read everything the peer had sent when the call began, even what is still in its own send buffer.

        Return whether there was anything, including the end.
        """
        left = DRAIN_BYTES
        while left > 0 and self.is_open:
            size = self.read()
            if not size and self.is_open:
                self._acknowledge_now()
                size = self.read()
            self._after_read()
            left -= size
            if not size or not self.is_reading:
                break
        return left < DRAIN_BYTES or not self.is_open

    def _after_read(self) -> None:
        if not self.is_open:
            return
        conversation = self.conversation
        if conversation.is_closed or conversation.is_reset:
            # Send what is left first.
            self.flush()
        elif conversation.is_reading_paused:
            self._watch()

    def _acknowledge_now(self) -> None:
        """Acknowledge at once, because a peer without TCP_NODELAY holds back small writes until then."""
        if _TCP_QUICKACK is not None:
            try:
                self._socket.setsockopt(_socket.IPPROTO_TCP, _TCP_QUICKACK, 1)
            except OSError:
                self.lose()

    # Hot: once per turn and peer with output.
    def flush(self) -> None:
        """Offer the socket all output until it would block, then close it if the conversation is over."""
        if not self.is_open:
            return
        chunks = self.conversation.data_to_send()
        if chunks and not self._is_shut:
            self._outbox.extend(chunks)
            self.outbox_bytes += sum(map(len, chunks))
        if self._outbox:
            self._write()
        if self.is_open:
            self._end_or_watch()

    def _write(self) -> None:
        outbox = self._outbox
        for _ in range(WRITES_PER_FLUSH):
            data = self._next_write()
            try:
                sent = self._socket.send(data)
            except (BlockingIOError, InterruptedError):
                outbox.appendleft(memoryview(data))
                self._has_been_full = True
                return
            except OSError:
                self.lose()
                return
            self.outbox_bytes -= sent
            if sent < len(data):
                outbox.appendleft(memoryview(data)[sent:])
                self._has_been_full = True
            elif not outbox:
                return

    def _next_write(self) -> bytes | memoryview:
        """Return the bytes for one system call: the rest of the last write, else the next pieces joined."""
        outbox = self._outbox
        if len(outbox) == 1 or isinstance(outbox[0], memoryview) or len(outbox[0]) >= LARGE_PIECE_BYTES:
            return outbox.popleft()
        if len(outbox) > PIECES_PER_WRITE:
            return b"".join([outbox.popleft() for _ in range(PIECES_PER_WRITE)])
        data = b"".join(outbox)
        outbox.clear()
        return data

    def _end_or_watch(self) -> None:
        conversation = self.conversation
        if conversation.is_reset:
            self.reset()
        elif conversation.is_closed and not self._outbox:
            self.close()
        else:
            if conversation.is_half_closed and not (self._outbox or self._is_shut):
                self._shut()
            if self._outbox or conversation.is_reading_paused or self._events != READABLE:
                self._watch()

    def _shut(self) -> None:
        self._is_shut = True
        # If the peer has gone, the next read notices.
        with suppress(OSError):
            self._socket.shutdown(_socket.SHUT_WR)

    def _watch(self) -> None:
        self._is_choked = self.outbox_bytes > (OUTBOX_LOW_BYTES if self._is_choked else OUTBOX_FULL_BYTES)
        conversation = self.conversation
        is_reading = not (conversation.is_reading_paused or conversation.is_closed or self._is_choked)
        events = (READABLE if is_reading else 0) | (WRITABLE if self._outbox else 0)
        if events != self._events:
            self._events = events
            self._poller.change(self.fd, events)

    def lose(self) -> None:
        """End the socket, and notify the conversation."""
        if self.is_open:
            self.is_open = False
            self._outbox.clear()
            self.outbox_bytes = 0
            self._poller.forget(self.fd)
            self._socket.close()
        self.conversation.connection_lost()

    def close(self) -> None:
        """End the socket after the last byte, which the peer still gets."""
        if _CLOSES_BY_RESET and not self._has_been_full and not self._may_have_unsent():
            self.reset()
            return
        with suppress(OSError):
            self._socket.shutdown(_socket.SHUT_WR)
            # Closing a socket with unread input would reset it, and the peer would lose what was sent last.
            for _ in range(WRITES_PER_FLUSH):
                self._socket.recv(READ_BYTES)
        self.lose()

    def _may_have_unsent(self) -> bool:
        """Return whether the peer may have had no room for something yet. Not every Linux knows."""
        # Windows has no such module.
        import fcntl

        with suppress(OSError):
            return any(fcntl.ioctl(self.fd, _SIOCOUTQNSD, bytes(4)))
        return True

    def reset(self) -> None:
        """End the socket at once. The peer sees a reset."""
        with suppress(OSError):
            self._socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_LINGER, _RESET_ON_CLOSE)
        self.lose()

    def abandon(self) -> None:
        """Forget the socket in a forked child. It stays open in the parent."""
        self.is_open = False
        self._socket.close()
