"""The bytes of a connection under faults: one queue for each direction.

The promise: for each connection and direction, the receiver gets what the sender sent, in order. Faults may delay the
bytes, cut them into pieces, end them early, or invert the byte that `corrupt` names. They never reorder bytes and never
leave a hole, whichever faults are combined, and whenever one is removed.

One rule keeps it. While a fault affects a connection, every byte enters the queue of its direction at the tail and
leaves it at the head. Faults hold no bytes themselves: an `Effect` limits how many of the waiting bytes pass now, and
the lowest limit wins. So there is nothing to hand over when an effect ends. The queue is asked again what may pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from leveret.core.model.node import Node
from leveret.core.protocol.connection import Connection

Direction = Literal["both", "to_client", "to_broker"]


class Effect:
    """One fault's effect on one direction of a connection. The base class limits and changes nothing."""

    # Whether the broker must not expect heartbeats, because the fault lets none through.
    is_silent = False

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def limit(self, waiting: int) -> int:
        """Return how many of the waiting bytes may pass now. Called often, so it must change nothing."""
        return waiting

    def passing(self, data: bytes) -> bytes:
        """Note the bytes that pass now, and return what the receiver gets instead."""
        return data

    def end(self) -> None:
        """Cancel what is still due, because the rule is removed or the connection has ended."""


class Stream:
    """The bytes of a connection in one direction."""

    def __init__(self, connection: Connection, node: Node, resume: Callable[[], None]) -> None:
        self.connection, self.node = connection, node
        # Passes on what may pass now. Safe to call at any time.
        self.resume = resume
        self.effects: list[Effect] = []
        # Whether the receiver gets nothing more.
        self.is_ended = False
        self._waiting = bytearray()
        # How many more bytes pass before the broker closes its side; None if it does not.
        self._left: int | None = None

    def __len__(self) -> int:
        """Return the number of waiting bytes."""
        return len(self._waiting)

    @property
    def is_idle(self) -> bool:
        """Whether no fault needs this stream any longer."""
        return not (self.effects or self._waiting or self.is_ended or self._left is not None)

    def add(self, octets: bytes) -> None:
        """Let bytes wait behind all others."""
        if not self.is_ended:
            self._waiting += octets

    def passing_count(self) -> int:
        """Return how many bytes may pass now."""
        waiting = len(self._waiting)
        return min([waiting, *(effect.limit(waiting) for effect in self.effects)]) if waiting else 0

    def pop_passing(self) -> bytes:
        """Remove the bytes that may pass now and return them; none if all have to wait."""
        size = self.passing_count()
        if not size:
            return b""
        if self._left is not None:
            size = min(size, self._left)
            self._left -= size
        octets = bytes(self._waiting[:size])
        del self._waiting[:size]
        for effect in self.effects:
            octets = effect.passing(octets)
        self._close_at_end()
        return octets

    def half_close_after(self, count: int) -> None:
        """Close the broker's side of the connection after that many more bytes. This cannot be undone."""
        if self._left is None:
            self._left = count
            self._close_at_end()

    def _close_at_end(self) -> None:
        if self._left == 0:
            self.end()
            self.connection.half_close()

    def end(self) -> None:
        """Pass nothing more, and forget what waits."""
        self.is_ended = True
        self._waiting.clear()


class Streams:
    """Both directions of one connection, the filter through which all of its bytes pass."""

    def __init__(self, connection: Connection, node: Node) -> None:
        self.to_broker = Stream(connection, node, self._receive)
        self.to_client = Stream(connection, node, connection.mark_dirty)
        # Whether the socket is gone.
        self.is_lost = False
        self._connection = connection
        self._is_receiving = self._is_silent = False

    @classmethod
    def around(cls, connection: Connection, node: Node) -> Streams:
        """Return the streams of a connection. From now on, its bytes pass through them."""
        streams = connection.byte_filter
        if not isinstance(streams, Streams):
            connection.byte_filter = streams = Streams(connection, node)
        return streams

    def towards(self, direction: Direction) -> list[Stream]:
        """Return the streams of a direction."""
        if direction == "both":
            return [self.to_client, self.to_broker]
        return [self.to_client if direction == "to_client" else self.to_broker]

    def add(self, effect: Effect) -> None:
        """Have an effect act on its stream from now on."""
        effect.stream.effects.append(effect)
        self._listen()

    def remove(self, effect: Effect) -> None:
        """End an effect, unless the connection has ended before, and pass on what it alone held back."""
        if effect in effect.stream.effects:
            effect.stream.effects.remove(effect)
            effect.end()
            self._listen()
            effect.stream.resume()
            self._leave_if_idle()

    def received(self, octets: bytes) -> None:
        """Take bytes that have arrived, and pass on those that the broker gets now."""
        self.to_broker.add(octets)
        self._receive()

    def to_send(self, chunks: list[bytes]) -> list[bytes]:
        """Take bytes that the broker sends, and return those that the client gets now."""
        stream = self.to_client
        for chunk in chunks:
            stream.add(chunk)
        octets = stream.pop_passing()
        if stream.passing_count():
            # The next piece gets a write of its own.
            self._connection.mark_dirty()
        self._leave_if_idle()
        return [octets] if octets else []

    def connection_lost(self) -> None:
        """End both streams, because the socket is gone."""
        self.is_lost = True
        for stream in (self.to_broker, self.to_client):
            stream.end()
            for effect in stream.effects:
                effect.end()
            stream.effects.clear()

    def _receive(self) -> None:
        # While the broker handles a piece, a rule may add or remove an effect. The loop below asks again after it.
        if self._is_receiving:
            return
        self._is_receiving = True
        try:
            while not self._connection.is_reset and (octets := self.to_broker.pop_passing()):
                self._connection.take_octets(octets)
        finally:
            self._is_receiving = False
        self._leave_if_idle()

    def _listen(self) -> None:
        """Expect heartbeats exactly while no effect swallows them."""
        is_silent = any(effect.is_silent for effect in (*self.to_broker.effects, *self.to_client.effects))
        if is_silent != self._is_silent:
            self._is_silent = is_silent
            self._connection.silence(is_silent=is_silent)

    def _leave_if_idle(self) -> None:
        is_idle = self.to_broker.is_idle and self.to_client.is_idle and not self._is_receiving
        if is_idle and self._connection.byte_filter is self:
            self._connection.byte_filter = None
