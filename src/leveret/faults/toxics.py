"""Faults of the bytes of a connection: silence, low bandwidth, small pieces, a stall, a wrong byte, an early end.

A fault of this kind puts an effect on a connection. The effect sees the bytes that are received and those to be sent.
It lasts until the rule is removed or the connection ends. Delays are timers of the broker's clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from leveret.faults.conversation import SECOND_US
from leveret.faults.fault import Fault
from leveret.faults.occasion import Occasion

if TYPE_CHECKING:
    from leveret.core.model.node import Node
    from leveret.core.protocol.connection import Connection

Direction = Literal["both", "to_client", "to_broker"]
_DIRECTIONS = ("both", "to_client", "to_broker")


class Effect:
    """The base class of effects, which lets all bytes pass. Others hold back, change or drop some of them."""

    def __init__(self, connection: Connection, node: Node) -> None:
        self.connection, self.node = connection, node

    def received(self, octets: bytes) -> bytes:
        """Return the bytes that the broker receives now."""
        return octets

    def to_send(self, octets: bytes) -> bytes:
        """Return the bytes that the client receives now."""
        return octets

    def end(self) -> None:
        """End the effect and release the bytes that it holds back."""


class Effects:
    """The effects on one connection, oldest first."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []

    def received(self, octets: bytes) -> bytes:
        """Return the bytes that the broker receives now."""
        for effect in self.effects:
            octets = effect.received(octets)
        return octets

    def to_send(self, chunks: list[bytes]) -> list[bytes]:
        """Return the bytes that the client receives now."""
        octets = b"".join(chunks)
        for effect in self.effects:
            octets = effect.to_send(octets)
        return [octets] if octets else []


class ByteFault(Fault):
    """A fault that puts an effect on a connection."""

    needs_connection = True

    def __init__(self, direction: Direction = "both") -> None:
        if direction not in _DIRECTIONS:
            raise ValueError(f"direction={direction!r} is unknown; expected 'both', 'to_client' or 'to_broker'")
        self.is_to_client = direction != "to_broker"
        self.is_to_broker = direction != "to_client"
        self._effects: list[Effect] = []

    def can_apply(self, occasion: Occasion) -> bool:
        """Return whether the connection does not have this fault's effect yet."""
        return occasion.connection is not None and all(
            effect.connection is not occasion.connection for effect in self._effects
        )

    def apply(self, occasion: Occasion) -> bool:
        """Put the effect on the connection. The broker goes on."""
        connection = occasion.connection
        assert connection is not None
        effect = self.effect(connection, occasion.node)
        self._effects.append(effect)
        if not isinstance(connection.byte_filter, Effects):
            connection.byte_filter = Effects()
        connection.byte_filter.effects.append(effect)
        return False

    def effect(self, connection: Connection, node: Node) -> Effect:
        """Return a new effect for this connection."""
        return Effect(connection, node)

    def end(self, node: Node) -> None:
        """Remove the effects from their connections."""
        for effect in self._effects:
            effects = effect.connection.byte_filter
            assert isinstance(effects, Effects)
            effects.effects.remove(effect)
            effect.end()
            if not effects.effects:
                effect.connection.byte_filter = None
        self._effects.clear()


class Blackhole(ByteFault):
    """A silent connection: nothing gets through, neither heartbeats nor the end of the connection."""

    name = "blackhole"

    def effect(self, connection: Connection, node: Node) -> Effect:
        """Return an effect that drops all bytes."""
        return _Silence(connection, node, to_client=self.is_to_client, to_broker=self.is_to_broker)


class _Silence(Effect):
    def __init__(self, connection: Connection, node: Node, *, to_client: bool, to_broker: bool) -> None:
        super().__init__(connection, node)
        self._to_client, self._to_broker = to_client, to_broker
        # Without this the broker would close the connection for missed heartbeats and so break the silence.
        connection.silence(is_silent=True)

    def received(self, octets: bytes) -> bytes:
        return b"" if self._to_broker else octets

    def to_send(self, octets: bytes) -> bytes:
        return b"" if self._to_client else octets

    def end(self) -> None:
        self.connection.silence(is_silent=False)


class Bandwidth(ByteFault):
    """Low bandwidth: so many bytes a second get through, each way."""

    name = "bandwidth"

    def __init__(self, bytes_per_second: int, direction: Direction = "both") -> None:
        super().__init__(direction)
        if bytes_per_second < 1:
            raise ValueError(f"bytes_per_second={bytes_per_second!r} must be 1 or more")
        self.bytes_per_second = bytes_per_second

    def effect(self, connection: Connection, node: Node) -> Effect:
        """Return an effect that holds back what exceeds the rate."""
        return _Throttle(connection, node, self, self.bytes_per_second)


class Stall(ByteFault):
    """A stall: nothing gets through for a time, or until the rule is removed. Then all of it does."""

    name = "stall"

    def __init__(self, seconds: float | None = None, direction: Direction = "both") -> None:
        super().__init__(direction)
        if seconds is not None and not seconds > 0:
            raise ValueError(f"seconds={seconds!r} must be above 0, or None to stall until the rule is removed")
        self.seconds = seconds

    def effect(self, connection: Connection, node: Node) -> Effect:
        """Return an effect that holds back all bytes."""
        effect = _Throttle(connection, node, self, 0)
        if self.seconds is not None:
            node.timers.add(node.now + round(self.seconds * SECOND_US), effect.end)
        return effect


class _Throttle(Effect):
    """Bytes that wait for their turn: at rate 0 none get through until the effect ends."""

    def __init__(self, connection: Connection, node: Node, fault: ByteFault, rate: int) -> None:
        super().__init__(connection, node)
        self._fault, self._rate = fault, rate
        self._incoming = self._outgoing = b""
        # When the next byte may pass, by direction.
        self._in_at = self._out_at = node.now
        self._is_over = False

    def received(self, octets: bytes) -> bytes:
        if self._is_over or not self._fault.is_to_broker:
            return octets
        self._incoming += octets
        piece, self._in_at = self._allowed(self._incoming, self._in_at, self._receive_more)
        self._incoming = self._incoming[len(piece) :]
        return piece

    def _receive_more(self) -> None:
        piece = self.received(b"")
        if piece:
            self.connection.take_octets(piece)

    def to_send(self, octets: bytes) -> bytes:
        if self._is_over or not self._fault.is_to_client:
            return octets
        self._outgoing += octets
        if self.connection.is_closed or self.connection.is_reset:
            # The end of a connection does not wait for bytes that are held back.
            rest, self._outgoing = self._outgoing, b""
            return rest if self._rate else b""
        piece, self._out_at = self._allowed(self._outgoing, self._out_at, self.connection.mark_dirty)
        self._outgoing = self._outgoing[len(piece) :]
        return piece

    def _allowed(self, waiting: bytes, free_at: int, resume: Callable[[], None]) -> tuple[bytes, int]:
        """Return what may pass now, and when more may. `resume` runs at that time."""
        now = self.node.now
        if not self._rate or not waiting or free_at > now:
            return b"", free_at
        # At most a tenth of a second's worth at a time.
        piece = waiting[: max(1, self._rate // 10)]
        free_at = now + len(piece) * SECOND_US // self._rate
        self.node.timers.add(free_at, resume)
        return piece, free_at

    def end(self) -> None:
        """Release all bytes that wait."""
        if self._is_over:
            return
        self._is_over = True
        incoming, self._incoming = self._incoming, b""
        outgoing, self._outgoing = self._outgoing, b""
        if outgoing:
            self.connection.send(outgoing)
        if incoming:
            self.connection.take_octets(incoming)


class Slicer(ByteFault):
    """Small pieces: bytes get through `size` at a time, each piece in a read or a write of its own."""

    name = "slicer"

    def __init__(self, size: int = 1, direction: Direction = "both") -> None:
        super().__init__(direction)
        if size < 1:
            raise ValueError(f"size={size!r} must be 1 or more bytes")
        self.size = size

    def effect(self, connection: Connection, node: Node) -> Effect:
        """Return an effect that slices."""
        return _Slices(connection, node, self, self.size)


class _Slices(Effect):
    def __init__(self, connection: Connection, node: Node, fault: ByteFault, size: int) -> None:
        super().__init__(connection, node)
        self._fault, self._size = fault, size
        self._outgoing = b""

    def received(self, octets: bytes) -> bytes:
        if not self._fault.is_to_broker:
            return octets
        for at in range(0, len(octets), self._size):
            self.connection.take_octets(octets[at : at + self._size])
        return b""

    def to_send(self, octets: bytes) -> bytes:
        if not self._fault.is_to_client:
            return octets
        self._outgoing += octets
        size = len(self._outgoing) if self.connection.is_closed or self.connection.is_reset else self._size
        piece, self._outgoing = self._outgoing[:size], self._outgoing[size:]
        if self._outgoing:
            self.connection.mark_dirty()
        return piece

    def end(self) -> None:
        rest, self._outgoing = self._outgoing, b""
        if rest:
            self.connection.send(rest)


class Corrupt(ByteFault):
    """A wrong byte: the nth byte from now on is inverted, each way."""

    name = "corrupt"

    def __init__(self, byte: int = 1, direction: Direction = "to_client") -> None:
        super().__init__(direction)
        if byte < 1:
            raise ValueError(f"byte={byte!r} must be 1 or more; 1 is the next byte")
        self.byte = byte

    def effect(self, connection: Connection, node: Node) -> Effect:
        """Return an effect that inverts one byte."""
        return _Corruption(connection, node, self, self.byte)


class _Corruption(Effect):
    def __init__(self, connection: Connection, node: Node, fault: ByteFault, octet: int) -> None:
        super().__init__(connection, node)
        self._in_left = octet if fault.is_to_broker else 0
        self._out_left = octet if fault.is_to_client else 0

    def received(self, octets: bytes) -> bytes:
        octets, self._in_left = _corrupted(octets, self._in_left)
        return octets

    def to_send(self, octets: bytes) -> bytes:
        octets, self._out_left = _corrupted(octets, self._out_left)
        return octets


def _corrupted(octets: bytes, left: int) -> tuple[bytes, int]:
    """Return the bytes with the one at distance `left` inverted, and the distance that is left after them.

    The distance counts from 1; 0 means that the byte has been inverted.
    """
    if not left or left > len(octets):
        return octets, max(left - len(octets), 0)
    return octets[: left - 1] + bytes([octets[left - 1] ^ 0xFF]) + octets[left:], 0


class LimitData(ByteFault):
    """A limit of data: the connection is reset after so many bytes to the client, even in the middle of a frame."""

    name = "limit_data"

    def __init__(self, bytes: int = 0) -> None:
        super().__init__("to_client")
        if bytes < 0:
            raise ValueError(f"bytes={bytes!r} must be 0 or more")
        self.bytes = bytes

    def effect(self, connection: Connection, node: Node) -> Effect:
        """Return an effect that resets the connection at the limit."""
        return _Cut(connection, node, self.bytes)


class _Cut(Effect):
    def __init__(self, connection: Connection, node: Node, octets: int) -> None:
        super().__init__(connection, node)
        self._left, self._is_cut = octets, False

    def to_send(self, octets: bytes) -> bytes:
        if self._is_cut:
            return b""
        piece, self._left = octets[: self._left], self._left - min(self._left, len(octets))
        if len(piece) < len(octets):
            self._is_cut = True
            self.connection.reset()
        return piece


class HalfClose(ByteFault):
    """A half-closed connection: the client reads the end of the stream, and the broker still receives what it sends."""

    name = "half_close"

    def __init__(self) -> None:
        super().__init__("to_client")

    def effect(self, connection: Connection, node: Node) -> Effect:
        """Return an effect that sends what is waiting and then closes the broker's side."""
        return _HalfClosed(connection, node)


class _HalfClosed(Effect):
    def __init__(self, connection: Connection, node: Node) -> None:
        super().__init__(connection, node)
        self._left = connection.output_bytes
        connection.mark_dirty()

    def to_send(self, octets: bytes) -> bytes:
        piece = octets[: self._left]
        self._left -= len(piece)
        if not self._left:
            self.connection.half_close()
        return piece

    def end(self) -> None:
        # A half-closed socket cannot be opened again, so the broker's side stays closed.
        self.connection.half_close()
