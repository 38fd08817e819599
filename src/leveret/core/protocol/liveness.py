"""The time limits of a connection: those of handshake and close, and heartbeats.

They run on the wall clock, because peers send heartbeats in real time. A test that moves the broker's clock by an hour
must not cost its clients their connections.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from leveret.core.model.node import Node
from leveret.core.model.timers import Timer

SECOND_US: Final = 1_000_000
HANDSHAKE_LIMIT_US: Final = 10 * SECOND_US
# How long RabbitMQ waits before it resets a peer whose handshake it has rejected.
RESET_DELAY_US: Final = 3 * SECOND_US
CLOSE_LIMIT_S: Final = 30
# A peer is given up at the second check in a row that finds no byte since the one before. Checks are an interval apart
# and start at tune-ok, so a silent peer lasts two to three intervals (rabbit_heartbeat).
MISSED_CHECKS: Final = 2
# Checks come at every second tick. The first tick sends a heartbeat, and so does each that finds nothing sent since the
# last one (seen on 3.10, 4.0 and 4.3).
TICKS_PER_CHECK: Final = 2


class Liveness:
    """The time limits of one connection; `on_dead` resets it, `on_beat` sends a heartbeat."""

    __slots__ = (
        "_beat",
        "_heartbeat_s",
        "_limit",
        "_missed_count",
        "_node",
        "_on_beat",
        "_on_dead",
        "_tick_count",
        "has_received",
        "has_sent",
        "is_paused",
    )

    def __init__(self, node: Node, *, on_dead: Callable[[], None], on_beat: Callable[[], None]) -> None:
        self._node = node
        self._on_dead = on_dead
        self._on_beat = on_beat
        self._limit: Timer | None = None
        self._beat: Timer | None = None
        self._heartbeat_s = 0
        self._tick_count = 0
        # The number of checks in a row that found no byte of the peer.
        self._missed_count = 0
        # Whether anything but a heartbeat was sent since the last tick. A busy connection needs no heartbeats.
        self.has_sent = False
        # Whether anything has arrived since the last check.
        self.has_received = True
        # True while the connection is not read: its heartbeats cannot arrive then, so they are not missed.
        self.is_paused = False
        self.limit(HANDSHAKE_LIMIT_US)

    def limit(self, span_us: int) -> None:
        """Reset the connection after a time, unless `unlimit` comes first."""
        self.unlimit()
        self._limit = self._node.liveness.add(self._node.wall_now + span_us, self._on_dead)

    def limit_close(self) -> None:
        """Give the peer as long as RabbitMQ does to close the socket."""
        self.limit(min(self._heartbeat_s or CLOSE_LIMIT_S, CLOSE_LIMIT_S) * SECOND_US)

    def unlimit(self) -> None:
        """Cancel the limit."""
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def start_heartbeats(self, interval_s: int) -> None:
        """Send a heartbeat after half an interval of silence, and expect the peer's; 0 switches both off."""
        self._heartbeat_s = interval_s
        if interval_s:
            self._schedule()

    def stop(self) -> None:
        """Cancel all timers, because the connection is gone."""
        self.unlimit()
        if self._beat is not None:
            self._beat.cancel()

    def _schedule(self) -> None:
        at = self._node.wall_now + self._heartbeat_s * SECOND_US // TICKS_PER_CHECK
        self._beat = self._node.liveness.add(at, self._tick, is_recurring=True)

    def _tick(self) -> None:
        self._tick_count += 1
        if self._tick_count % TICKS_PER_CHECK == 0 and self._has_missed_enough():
            self._on_dead()
            return
        if not self.has_sent or self._tick_count == 1:
            self._on_beat()
        self.has_sent = False
        self._schedule()

    def _has_missed_enough(self) -> bool:
        self._missed_count = 0 if self.has_received or self.is_paused else self._missed_count + 1
        self.has_received = False
        return self._missed_count == MISSED_CHECKS
