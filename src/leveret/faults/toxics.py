"""What befalls the octets of a connection: silence, a slow line, small pieces, a stall, a wrong octet, an early end.

A fault of this kind puts an effect on the connection it strikes. The effect sees what is received and what is to be
sent, and lasts until the rule is removed or the connection ends. Delays are timers of the broker's clock.
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
    """This lets everything pass; others keep, change or swallow some of it."""

    def __init__(self, connection: Connection, node: Node) -> None:
        self.connection, self.node = connection, node

    def received(self, octets: bytes) -> bytes:
        """What the broker hears now."""
        return octets

    def to_send(self, octets: bytes) -> bytes:
        """What the client hears now."""
        return octets

    def end(self) -> None:
        """Let go of what is kept: the effect is over."""


class Effects:
    """What befalls one connection, in the order it was put there."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []

    def received(self, octets: bytes) -> bytes:
        """What the broker hears now."""
        for effect in self.effects:
            octets = effect.received(octets)
        return octets

    def to_send(self, chunks: list[bytes]) -> list[bytes]:
        """What the client hears now."""
        octets = b"".join(chunks)
        for effect in self.effects:
            octets = effect.to_send(octets)
        return [octets] if octets else []


class ByteFault(Fault):
    """A fault that puts an effect on a connection."""

    needs_connection = True

    def __init__(self, direction: Direction = "both") -> None:
        if direction not in _DIRECTIONS:
            raise ValueError(f"direction={direction!r} is none of {', '.join(_DIRECTIONS)}")
        self.is_to_client = direction != "to_broker"
        self.is_to_broker = direction != "to_client"
        self._struck: list[Effect] = []

    def applies(self, occasion: Occasion) -> bool:
        """Once a connection."""
        return occasion.connection is not None and all(
            effect.connection is not occasion.connection for effect in self._struck
        )

    def strike(self, occasion: Occasion) -> bool:
        """Put the effect there; what is at hand goes on."""
        connection = occasion.connection
        assert connection is not None
        effect = self.effect(connection, occasion.node)
        self._struck.append(effect)
        if not isinstance(connection.byte_filter, Effects):
            connection.byte_filter = Effects()
        connection.byte_filter.effects.append(effect)
        return False

    def effect(self, connection: Connection, node: Node) -> Effect:
        """A new effect for this connection."""
        return Effect(connection, node)

    def end(self, node: Node) -> None:
        """Take the effects away."""
        for effect in self._struck:
            effects = effect.connection.byte_filter
            assert isinstance(effects, Effects)
            effects.effects.remove(effect)
            effect.end()
            if not effects.effects:
                effect.connection.byte_filter = None
        self._struck.clear()


class Blackhole(ByteFault):
    """Nothing comes through any more, heartbeats included, and no end of the connection is seen."""

    name = "blackhole"

    def effect(self, connection: Connection, node: Node) -> Effect:
        """Swallow everything."""
        return _Silence(connection, node, to_client=self.is_to_client, to_broker=self.is_to_broker)


class _Silence(Effect):
    def __init__(self, connection: Connection, node: Node, *, to_client: bool, to_broker: bool) -> None:
        super().__init__(connection, node)
        self._to_client, self._to_broker = to_client, to_broker
        # A broker that gave the peer up would break the silence.
        connection.silence(is_silent=True)

    def received(self, octets: bytes) -> bytes:
        return b"" if self._to_broker else octets

    def to_send(self, octets: bytes) -> bytes:
        return b"" if self._to_client else octets

    def end(self) -> None:
        self.connection.silence(is_silent=False)


class Bandwidth(ByteFault):
    """So many octets a second come through, each way."""

    name = "bandwidth"

    def __init__(self, bytes_per_second: int, direction: Direction = "both") -> None:
        super().__init__(direction)
        if bytes_per_second < 1:
            raise ValueError(f"bytes_per_second={bytes_per_second!r} is no speed")
        self.bytes_per_second = bytes_per_second

    def effect(self, connection: Connection, node: Node) -> Effect:
        """Keep what is too much at a time."""
        return _Kept(connection, node, self, self.bytes_per_second)


class Stall(ByteFault):
    """Nothing comes through for a time, or until the rule is removed; then all of it."""

    name = "stall"

    def __init__(self, seconds: float | None = None, direction: Direction = "both") -> None:
        super().__init__(direction)
        if seconds is not None and not seconds > 0:
            raise ValueError(f"a stall of {seconds!r} seconds is none")
        self.seconds = seconds

    def effect(self, connection: Connection, node: Node) -> Effect:
        """Keep everything."""
        effect = _Kept(connection, node, self, 0)
        if self.seconds is not None:
            node.timers.add(node.now + round(self.seconds * SECOND_US), effect.end)
        return effect


class _Kept(Effect):
    """Octets that wait: none go at rate 0, all of them once it has ended."""

    def __init__(self, connection: Connection, node: Node, fault: ByteFault, rate: int) -> None:
        super().__init__(connection, node)
        self._fault, self._rate = fault, rate
        self._incoming = self._outgoing = b""
        # When the next octet may go, either way.
        self._in_at = self._out_at = node.now
        self._is_over = False

    def received(self, octets: bytes) -> bytes:
        if self._is_over or not self._fault.is_to_broker:
            return octets
        self._incoming += octets
        piece, self._in_at = self._allowed(self._incoming, self._in_at, self._hear)
        self._incoming = self._incoming[len(piece) :]
        return piece

    def _hear(self) -> None:
        piece = self.received(b"")
        if piece:
            self.connection.take_octets(piece)

    def to_send(self, octets: bytes) -> bytes:
        if self._is_over or not self._fault.is_to_client:
            return octets
        self._outgoing += octets
        if self.connection.is_closed or self.connection.is_reset:
            # The end of a connection waits for nobody.
            rest, self._outgoing = self._outgoing, b""
            return rest if self._rate else b""
        piece, self._out_at = self._allowed(self._outgoing, self._out_at, self.connection.mark_dirty)
        self._outgoing = self._outgoing[len(piece) :]
        return piece

    def _allowed(self, kept: bytes, free_at: int, go_on: Callable[[], None]) -> tuple[bytes, int]:
        """What may go now, and when the next may; `go_on` is called then."""
        now = self.node.now
        if not self._rate or not kept or free_at > now:
            return b"", free_at
        # A tenth of a second's worth at a time.
        piece = kept[: max(1, self._rate // 10)]
        free_at = now + len(piece) * SECOND_US // self._rate
        self.node.timers.add(free_at, go_on)
        return piece, free_at

    def end(self) -> None:
        """Let all of it go."""
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
    """Octets come through in pieces of so many: each is a write, and a read, of its own."""

    name = "slicer"

    def __init__(self, size: int = 1, direction: Direction = "both") -> None:
        super().__init__(direction)
        if size < 1:
            raise ValueError(f"pieces of {size!r} octets are none")
        self.size = size

    def effect(self, connection: Connection, node: Node) -> Effect:
        """Cut."""
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
    """The nth octet from here on is another one, each way."""

    name = "corrupt"

    def __init__(self, byte: int = 1, direction: Direction = "to_client") -> None:
        super().__init__(direction)
        if byte < 1:
            raise ValueError(f"byte={byte!r}: count from 1")
        self.byte = byte

    def effect(self, connection: Connection, node: Node) -> Effect:
        """Count, and turn one around."""
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
    """The octets with the one turned around that is `left` away, and how far it is from their end; 0 once done."""
    if not left or left > len(octets):
        return octets, max(left - len(octets), 0)
    return octets[: left - 1] + bytes([octets[left - 1] ^ 0xFF]) + octets[left:], 0


class LimitData(ByteFault):
    """The connection is reset after so many octets to the client, in the middle of a frame if it happens so."""

    name = "limit_data"

    def __init__(self, bytes: int = 0) -> None:
        super().__init__("to_client")
        if bytes < 0:
            raise ValueError(f"bytes={bytes!r} must be 0 or more")
        self.bytes = bytes

    def effect(self, connection: Connection, node: Node) -> Effect:
        """Count, and reset."""
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
    """The broker ends its side of the connection: the client reads to an end, and what it sends is still heard."""

    name = "half_close"

    def __init__(self) -> None:
        super().__init__("to_client")

    def effect(self, connection: Connection, node: Node) -> Effect:
        """Let what waits to be sent through, and end."""
        return _HalfEnd(connection, node)


class _HalfEnd(Effect):
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
        # What has ended does not begin again.
        self.connection.half_close()
