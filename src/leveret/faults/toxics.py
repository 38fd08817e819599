"""Faults of the bytes of a connection: silence, low bandwidth, small pieces, a stall, a wrong byte, an early end.

A fault of this kind puts an effect on each direction that it covers. The effect lasts until the rule is removed or the
connection ends. `streams.py` keeps the order of the bytes, so no fault here can reorder them or leave a hole.
Delays are timers of the broker's clock.
"""

from __future__ import annotations

from typing import Final, get_args

from leveret.core.model.node import Node
from leveret.core.model.timers import Timer
from leveret.faults.fault import SECOND_US, Fault
from leveret.faults.occasion import Occasion
from leveret.faults.streams import Direction, Effect, Stream, Streams

_DIRECTIONS: Final = get_args(Direction)


class ByteFault(Fault):
    """A fault that puts an effect on a connection, in one direction or in both."""

    needs_connection = True

    def __init__(self, direction: Direction = "both") -> None:
        __tracebackhide__ = True
        if direction not in _DIRECTIONS:
            raise ValueError(f"direction={direction!r} is unknown; expected 'both', 'to_client' or 'to_broker'")
        self.direction = direction
        # Its effects on each connection, by the connection's streams.
        self._effects: dict[Streams, list[Effect]] = {}

    def can_apply(self, occasion: Occasion) -> bool:
        """Return whether the connection does not have this fault's effect yet."""
        return occasion.connection is not None and occasion.connection.byte_filter not in self._effects

    def apply(self, occasion: Occasion) -> bool:
        """Put the effect on the connection. The broker goes on."""
        assert occasion.connection is not None
        if not self.can_apply(occasion):
            # Two events of one step have fired the rule before the first could apply.
            return False
        streams = Streams.around(occasion.connection, occasion.node)
        for ended in [other for other in self._effects if other.is_lost]:
            del self._effects[ended]
        self._effects[streams] = [self.effect(stream) for stream in streams.towards(self.direction)]
        for effect in self._effects[streams]:
            streams.add(effect)
        return False

    def effect(self, stream: Stream) -> Effect:
        """Return a new effect for one direction of a connection."""
        return Effect(stream)

    def end(self, node: Node) -> None:
        """Remove the effects from their connections, which pass on what waits."""
        affected, self._effects = self._effects, {}
        for streams, effects in affected.items():
            for effect in effects:
                streams.remove(effect)


class _Barrier(Effect):
    """No byte passes until the effect ends, or for a time."""

    def __init__(self, stream: Stream, seconds: float | None = None) -> None:
        super().__init__(stream)
        self._is_over = False
        self._timer: Timer | None = None
        if seconds is not None:
            self._timer = stream.node.timers.add(stream.node.now + round(seconds * SECOND_US), self._pass_on)

    def limit(self, waiting: int) -> int:
        return waiting if self._is_over else 0

    def _pass_on(self) -> None:
        self._is_over = True
        self.stream.resume()

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class Blackhole(ByteFault):
    """A silent connection: nothing gets through, not even heartbeats. When it ends, what was sent meanwhile arrives.

    TCP sends again what a network loses. So a silence that ends while both sides still have the connection is a delay.
    """

    name = "blackhole"

    def effect(self, stream: Stream) -> Effect:
        """Return an effect that lets no byte pass."""
        return _Silence(stream)


class _Silence(_Barrier):
    # Without this the broker would close the connection for missed heartbeats and so break the silence.
    is_silent = True


class Stall(ByteFault):
    """A stall: nothing gets through for a time, or until the rule is removed. Then all of it does."""

    name = "stall"

    def __init__(self, seconds: float | None = None, direction: Direction = "both") -> None:
        __tracebackhide__ = True
        super().__init__(direction)
        if seconds is not None and not seconds > 0:
            raise ValueError(f"seconds={seconds!r} must be above 0, or None to stall until the rule is removed")
        self.seconds = seconds

    def effect(self, stream: Stream) -> Effect:
        """Return an effect that lets no byte pass, for the time of the stall."""
        return _Barrier(stream, self.seconds)


class Bandwidth(ByteFault):
    """Low bandwidth: so many bytes a second get through, each way."""

    name = "bandwidth"

    def __init__(self, bytes_per_second: int, direction: Direction = "both") -> None:
        __tracebackhide__ = True
        super().__init__(direction)
        self.bytes_per_second = bytes_per_second

    def effect(self, stream: Stream) -> Effect:
        """Return an effect that holds back what exceeds the rate."""
        return _Throttle(stream, self.bytes_per_second)


class _Throttle(Effect):
    """Bytes pass a tenth of a second's worth at a time, and then none until that time is over."""

    def __init__(self, stream: Stream, rate: int) -> None:
        super().__init__(stream)
        self._rate = rate
        # When the next byte may pass, and what this instant, in whole microseconds, leaves out.
        self._free_at, self._remainder = stream.node.now, 0
        self._timer: Timer | None = None

    def limit(self, waiting: int) -> int:
        return 0 if self._free_at > self.stream.node.now else max(1, self._rate // 10)

    def passing(self, data: bytes) -> bytes:
        node = self.stream.node
        span_us, self._remainder = divmod(len(data) * SECOND_US + self._remainder, self._rate)
        if span_us:
            self._free_at = node.now + span_us
            self._timer = node.timers.add(self._free_at, self.stream.resume)
        return data

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class Slicer(ByteFault):
    """Small pieces: bytes get through `size` at a time, each piece in a read or a write of its own."""

    name = "slicer"

    def __init__(self, size: int = 1, direction: Direction = "both") -> None:
        __tracebackhide__ = True
        super().__init__(direction)
        self.size = size

    def effect(self, stream: Stream) -> Effect:
        """Return an effect that slices."""
        return _Slices(stream, self.size)


class _Slices(Effect):
    def __init__(self, stream: Stream, size: int) -> None:
        super().__init__(stream)
        self._size = size

    def limit(self, waiting: int) -> int:
        # A connection that is reset writes only once more.
        return waiting if self.stream.connection.is_reset else self._size


class Corrupt(ByteFault):
    """A wrong byte: the nth byte that the receiver gets from now on is inverted, each way."""

    name = "corrupt"

    def __init__(self, byte: int = 1, direction: Direction = "to_client") -> None:
        __tracebackhide__ = True
        super().__init__(direction)
        self.byte = byte

    def effect(self, stream: Stream) -> Effect:
        """Return an effect that inverts one byte."""
        return _Corruption(stream, self.byte)


class _Corruption(Effect):
    def __init__(self, stream: Stream, byte: int) -> None:
        super().__init__(stream)
        # The distance to the byte, from 1; 0 or less once it has passed.
        self._left = byte

    def passing(self, data: bytes) -> bytes:
        at = self._left - 1
        self._left -= len(data)
        if not 0 <= at < len(data):
            return data
        return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


class LimitData(ByteFault):
    """A limit of data: the connection is reset after so many bytes to the client, even in the middle of a frame."""

    name = "limit_data"

    def __init__(self, bytes: int = 0) -> None:
        super().__init__("to_client")
        self.bytes = bytes

    def effect(self, stream: Stream) -> Effect:
        """Return an effect that resets the connection at the limit."""
        return _Cut(stream, self.bytes)


class _Cut(Effect):
    def __init__(self, stream: Stream, count: int) -> None:
        super().__init__(stream)
        self._left = count

    def passing(self, data: bytes) -> bytes:
        piece = data[: self._left]
        self._left -= len(piece)
        # The first byte beyond the limit ends the stream, so that a connection with nothing to send stays.
        if len(piece) < len(data):
            self.stream.end()
            self.stream.connection.reset()
        return piece


class HalfClose(ByteFault):
    """A half-closed connection: the client reads the end of the stream, and the broker still receives what it sends."""

    name = "half_close"

    def __init__(self) -> None:
        super().__init__("to_client")

    def effect(self, stream: Stream) -> Effect:
        """Have the broker's side closed after what is on its way. That outlasts the effect, which limits nothing."""
        stream.half_close_after(len(stream) + stream.connection.output_bytes)
        return Effect(stream)
