"""One socket and one conversation: octets from the one to the other, and back.

A transport knows octets, not AMQP. It reads a bounded piece at a time so that no peer starves another, keeps what a
slow peer has not taken yet, and ends a socket in one of three ways: the peer left, we close after the last octet, we
reset. It may also end its own side first and read on. All of it runs on the loop's thread under the broker's lock; no
call blocks and none raises for what a peer does.
"""

from __future__ import annotations

import _socket
import struct
import sys
from collections import deque
from contextlib import suppress
from typing import Protocol

from leveret.server.native import BROKEN, READABLE, WRITABLE, Poller, Socket

READ_BYTES = 65536
# A peer that does not take what we send is not read either until it does: it asks for more than it looks at.
OUTBOX_FULL_BYTES = 16 * 1024 * 1024
OUTBOX_LOW_BYTES = 4 * 1024 * 1024
# Writes in one turn to one peer, so that one who reads as fast as we write does not hold up the others.
WRITES_PER_FLUSH = 16
# Pieces of output that one write takes together: what is joined is sent while the processor's cache still has it.
PIECES_PER_WRITE = 1024
# What a barrier reads at most from one peer: more than the system's buffers hold, so it is enough for what had been
# sent before the barrier and ends although the peer goes on sending.
DRAIN_BYTES = 64 * 1024 * 1024

# RabbitMQ resets every socket that it ends (rabbit_net:fast_close). Only here what was sent before is still read then.
_CLOSES_BY_RESET = sys.platform == "linux"
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_TCP_QUICKACK: int | None = getattr(_socket, "TCP_QUICKACK", None)


class Conversation(Protocol):
    """What a transport needs of a connection."""

    @property
    def is_closed(self) -> bool:
        """This says that the socket is to be closed behind the last octet."""

    @property
    def is_reset(self) -> bool:
        """This says that the socket is to be reset."""

    @property
    def is_half_closed(self) -> bool:
        """This says that the peer is to see the end of what we send behind the last octet, and is read on."""

    @property
    def is_reading_paused(self) -> bool:
        """This says that nothing is to be read now."""

    def receive_data(self, data: bytes) -> None:
        """This takes octets that arrived."""
        ...

    def data_to_send(self) -> list[bytes]:
        """This hands over what is to be sent."""
        ...

    def connection_lost(self) -> None:
        """This says that the socket is gone."""
        ...


class Transport:
    """This carries one conversation over one socket."""

    __slots__ = (
        "_events",
        "_has_been_full",
        "_is_choked",
        "_is_shut",
        "_outbox",
        "_poller",
        "_socket",
        "conversation",
        "fd",
        "is_open",
        "outbox_bytes",
        "read_size",
    )

    def __init__(self, socket: Socket, conversation: Conversation, poller: Poller) -> None:
        self._socket = socket
        self._poller = poller
        self._outbox: deque[bytes | memoryview] = deque()
        self._is_choked = False
        # The peer once had more to read than the system's buffers hold: they may be full again.
        self._has_been_full = False
        # Our side of the socket has ended: there is nothing more to send.
        self._is_shut = False
        self._events = READABLE
        self.outbox_bytes = 0
        # What the last read brought, in bytes.
        self.read_size = 0
        self.conversation = conversation
        self.fd = socket.fileno()
        self.is_open = True
        poller.watch(self.fd, READABLE)

    @property
    def is_reading(self) -> bool:
        """This says whether we read what this peer sends: not under an alarm, not while it leaves our output lying."""
        return bool(self._events & READABLE)

    # Hot: once per wake-up of a peer.
    def on_ready(self, events: int) -> None:
        """This reads or writes as the poller says it can."""
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
        """This hands one bounded piece of what arrived to the conversation and returns its size, 0 for none."""
        try:
            data = self._socket.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            data = b""
        if not data:
            self.lose()
            return 0
        self.read_size = len(data)
        self.conversation.receive_data(data)
        return self.read_size

    def drain(self) -> bool:
        """This reads all that the peer had sent when the call began, also what waits in its own send buffer.

        It returns whether there was anything, if only the end.
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
            # The last words first.
            self.flush()
        elif conversation.is_reading_paused:
            self._watch()

    def _acknowledge_now(self) -> None:
        """A peer without TCP_NODELAY keeps a small write to itself until the one before is acknowledged."""
        if _TCP_QUICKACK is not None:
            try:
                self._socket.setsockopt(_socket.IPPROTO_TCP, _TCP_QUICKACK, 1)
            except OSError:
                self.lose()

    # Hot: once per turn and peer with output.
    def flush(self) -> None:
        """This offers the socket all output until it would block, then closes it if the conversation is over."""
        if not self.is_open:
            return
        chunks = self.conversation.data_to_send()
        if chunks and not self._is_shut:
            if len(chunks) == 1 and not self._outbox:
                self._send_at_once(chunks[0])
            else:
                self._outbox.extend(chunks)
                self.outbox_bytes += sum(map(len, chunks))
        if self._outbox:
            self._write()
        if self.is_open:
            self._end_or_watch()

    def _send_at_once(self, data: bytes) -> None:
        """Most answers are one small piece: what the socket takes of it need not be kept for later."""
        try:
            sent = self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            self._outbox.append(data)
            self.outbox_bytes = len(data)
            self._has_been_full = True
        except OSError:
            self.lose()
        else:
            if sent < len(data):
                self._outbox.append(memoryview(data)[sent:])
                self.outbox_bytes = len(data) - sent

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
            elif not outbox:
                return

    def _next_write(self) -> bytes | memoryview:
        """What one call of the system is given: what is left of the last, else the next pieces together."""
        outbox = self._outbox
        if len(outbox) == 1 or isinstance(outbox[0], memoryview):
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
        # A peer that has gone is seen when it is read.
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
        """This ends the socket because the peer is gone, and tells the conversation."""
        self._end()
        self.conversation.connection_lost()

    def close(self) -> None:
        """This ends the socket behind the last octet, which the peer still gets."""
        if _CLOSES_BY_RESET and not self._has_been_full:
            self.reset()
            return
        with suppress(OSError):
            self._socket.shutdown(_socket.SHUT_WR)
            # A socket closed with octets unread would be reset instead, and the peer lose what we said last.
            for _ in range(WRITES_PER_FLUSH):
                self._socket.recv(READ_BYTES)
        self._end()
        self.conversation.connection_lost()

    def reset(self) -> None:
        """This ends the socket at once: the peer sees a reset."""
        with suppress(OSError):
            self._socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_LINGER, _RESET_ON_CLOSE)
        self._end()
        self.conversation.connection_lost()

    def abandon(self) -> None:
        """This forgets the socket in a forked child: it goes on in the parent."""
        self.is_open = False
        self._socket.close()

    def _end(self) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self._outbox.clear()
        self.outbox_bytes = 0
        self._poller.forget(self.fd)
        self._socket.close()
