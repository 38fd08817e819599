"""Delays of what passes between clients and the broker, as a loaded server or network causes them.

The caller decides how long each method, reply and delivery waits. This module keeps what AMQP promises meanwhile: what
the broker sends a client stays in order, and so does what a client sends on one connection. Heartbeats never wait. A
method never waits beyond the barrier, because by then leveret has promised to have handled it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from leveret.engine.harness import Harness
from leveret.faults.plan import Treatment

if TYPE_CHECKING:
    from leveret.broker import Broker
    from leveret.core.protocol.connection import Connection
    from leveret.faults import Occasion

NAME: Final = "delays"
# What ends a connection or a channel, or the deliveries of a consumer: nothing that was sent before may come after it.
_ENDS: Final = frozenset(
    f"{name}{answer}" for name in ("connection.close", "channel.close", "basic.cancel") for answer in ("", "-ok")
)


class Wait(NamedTuple):
    """How long something waits, in microseconds of real time."""

    span_us: int
    # Whether it waits even if the test passes the barrier meanwhile.
    is_firm: bool = False
    # Whether it counts as sent at once, and only its bytes are slow, with all that follow them.
    is_on_its_way: bool = False


class Delays:
    """The delays of one broker."""

    def __init__(self, broker: Broker, wait_of: Callable[[Occasion], Wait], passed: Callable[[Occasion], None]) -> None:
        """Under the broker's lock, `wait_of` gets each occasion once, and `passed` gets it when it goes on."""
        self.harness: Final = Harness(broker)
        self._wait_of: Final = wait_of
        self._passed: Final = passed
        # What waits to be sent, in order, and the method of each connection that waits to be handled.
        self._outgoing: Final[dict[Connection, deque[tuple[Occasion, Wait]]]] = {}
        self._incoming: Final[dict[Connection, tuple[Occasion, Wait]]] = {}
        self._wires: Final[dict[Connection, _Wire]] = {}
        self._is_catching_up = False

    def start(self) -> None:
        """Start delaying."""
        self.harness.treat(Treatment("--leveret-flaky", self._on_occasion, self._catch_up))

    def stop(self) -> None:
        """Stop delaying, and let go of everything that waits."""
        self.harness.end_treatment(self._let_all_pass)

    def release(self, occasion: Occasion) -> None:
        """Let what waits go on before its time, at the end of the broker's current step."""
        occasion.call_soon(partial(self._end_wait, occasion))

    def shut(self, only: Connection | None) -> None:
        """Keep all that goes to the clients, or to one of them, until `open`."""
        for connection, wire in self._wires.items():
            if only is None or connection is only:
                wire.shut()

    def open(self) -> None:
        """Send what was kept, as soon as the broker is at it."""
        self.harness.call_in_real_time(0, self._open_all)

    def _open_all(self) -> None:
        for wire in self._wires.values():
            wire.open()

    def _let_all_pass(self) -> None:
        self._open_all()
        for connection in list(self._incoming):
            self._let_all_in(connection)
        for connection in list(self._outgoing):
            self._let_all_out(connection)

    def _on_occasion(self, occasion: Occasion) -> bool:
        connection = occasion.connection
        if connection is None or not connection.is_client:
            return False
        if connection.byte_filter is None:
            connection.byte_filter = self._wires[connection] = _Wire(connection, self._let_all_in)
        if occasion.point == "method":
            return self._holds_method(occasion, connection)
        return self._holds_output(occasion, connection)

    def _holds_method(self, occasion: Occasion, connection: Connection) -> bool:
        # Another channel's: what the client sent before it comes first.
        self._let_all_in(connection)
        if occasion.on in _ENDS:
            self._let_all_out(connection)
        wait = self._wait_of(occasion)
        # What follows the close of a connection has no effect, so the close does not wait on channel 0.
        if not (wait.span_us and occasion.channel_number) or (self._is_catching_up and not wait.is_firm):
            self._passed(occasion)
            return False
        self._incoming[connection] = (occasion, wait)
        connection.hold(occasion.channel_number)
        self._begin_wait(occasion, wait)
        return True

    def _holds_output(self, occasion: Occasion, connection: Connection) -> bool:
        waiting = self._outgoing.setdefault(connection, deque())
        wait = self._wait_of(occasion)
        if isinstance(connection.byte_filter, _Wire) and occasion.on in _ENDS:
            connection.byte_filter.open()
        if occasion.on in _ENDS:
            # The core is in the middle of a step, in which no delivery may return to its queue.
            for held, _ in [it for it in waiting if it[0].point == "reply"]:
                self._send(held, waiting)
            occasion.call_soon(partial(self._let_all_out, connection))
        elif wait.is_on_its_way and not waiting and isinstance(connection.byte_filter, _Wire):
            connection.byte_filter.shut()
            occasion.call_in_real_time(wait.span_us, connection.byte_filter.open)
        elif waiting or wait.span_us:
            waiting.append((occasion, wait))
            occasion.hold(NAME, occasion.node.now + wait.span_us)
            if len(waiting) == 1:
                self._begin_wait(occasion, wait)
            return True
        self._passed(occasion)
        return False

    def _begin_wait(self, occasion: Occasion, wait: Wait) -> None:
        occasion.hold(NAME, occasion.node.now + wait.span_us)
        occasion.call_in_real_time(wait.span_us, partial(self._end_wait, occasion))

    def _end_wait(self, occasion: Occasion) -> None:
        """Let an occasion pass if it is still the first that waits."""
        connection = occasion.connection
        assert connection is not None
        if occasion.point == "method":
            if connection in self._incoming and self._incoming[connection][0] is occasion:
                self._let_in(connection)
        elif (waiting := self._outgoing.get(connection)) and waiting[0][0] is occasion:
            self._send(occasion, waiting)
            while waiting and not waiting[0][1].span_us:
                self._send(waiting[0][0], waiting)
            if waiting:
                self._begin_wait(*waiting[0])

    def _send(self, occasion: Occasion, waiting: deque[tuple[Occasion, Wait]]) -> None:
        waiting.remove(next(it for it in waiting if it[0] is occasion))
        occasion.release()
        self._passed(occasion)
        assert occasion.connection is not None
        if occasion.point == "deliver" or not occasion.connection.state.is_over:
            occasion.proceed()

    def _let_all_out(self, connection: Connection) -> None:
        waiting = self._outgoing.get(connection, deque())
        while waiting:
            self._send(waiting[0][0], waiting)

    def _let_all_in(self, connection: Connection) -> None:
        while connection in self._incoming:
            self._let_in(connection)

    def _let_in(self, connection: Connection) -> None:
        """Handle the method of a connection that waits. The one behind it may wait now."""
        occasion, _ = self._incoming.pop(connection)
        if occasion.on in _ENDS:
            self._let_all_out(connection)
        occasion.release()
        self._passed(occasion)
        connection.release(occasion.channel_number or 0, occasion.proceed)

    def _catch_up(self) -> None:
        """Handle what clients have sent so far, because the test passes the barrier."""
        self._is_catching_up = True
        for connection in [it for it, (_, wait) in self._incoming.items() if not wait.is_firm]:
            self._let_in(connection)
        self._is_catching_up = False


class _Wire:
    """The way between a client and the broker: it may be slow towards the client, and loses nothing at its end."""

    def __init__(self, connection: Connection, let_in: Callable[[Connection], None]) -> None:
        self._connection: Final = connection
        self._let_in: Final = let_in
        self._waiting: Final[list[bytes]] = []
        self._is_shut = False

    def shut(self) -> None:
        """Keep what the broker sends from now on."""
        self._is_shut = True

    def open(self) -> None:
        """Send what was kept, and all that follows at once."""
        self._is_shut = False
        self._connection.mark_dirty()

    def received(self, octets: bytes) -> None:
        """Pass on what the client has sent."""
        self._connection.take_octets(octets)

    def to_send(self, chunks: list[bytes]) -> list[bytes]:
        """Pass on what the broker sends, unless it waits."""
        self._waiting.extend(chunks)
        if self._is_shut and not (self._connection.is_closed or self._connection.is_reset):
            return []
        sent = list(self._waiting)
        self._waiting.clear()
        return sent

    def connection_lost(self) -> None:
        """Handle what the client had sent."""
        self._let_in(self._connection)
