"""The runtime of a node: the clocks, deadlines, work, ids and chance that everything in it shares.

Time comes in through `advance`, chance through the dice given to the constructor, so the same inputs give the same
bytes. Deadlines of the broker (TTL, expiry, delays) and of liveness (heartbeats, handshake and close limits) are kept
apart: a test may hold the first clock, but never the second. The runtime knows no virtual hosts and no connections.
Those belong to the node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from leveret.core.compat import Compat
from leveret.core.hooks import Hooks
from leveret.core.model.exchanges.exchange import Dice
from leveret.core.model.node_settings import NodeSettings
from leveret.core.model.timers import Timers

# Far above any chain of dead letters that a finite queue can cause. Beyond it, leveret itself is looping.
WORK_LIMIT = 10_000_000


class NodeDice(Dice, Protocol):
    """Seeded chance; `random.Random` implements it."""

    def randbytes(self, n: int, /) -> bytes:
        """Return `n` random bytes."""


class Runtime:
    """The clocks, deadlines, work, ids and chance of one node."""

    def __init__(
        self,
        *,
        compat: Compat,
        dice: NodeDice,
        now: int = 0,
        hooks: Hooks | None = None,
        permit: frozenset[str] = frozenset(),
        settings: NodeSettings | None = None,
    ) -> None:
        self.compat = compat.permitting(permit)
        self.settings = settings if settings is not None else NodeSettings()
        self.dice = dice
        self.hooks = hooks if hooks is not None else Hooks()
        # The broker's clock and the wall clock, in microseconds since the epoch.
        self.now = now
        self.wall_now = now
        self.timers = Timers()
        self.liveness = Timers()
        # The nearest deadlines of the broker's clock and of the wall clock. The loop asks for both in every turn.
        self.next_deadline = self.timers.next_deadline
        self.next_liveness_deadline = self.liveness.next_deadline
        self.work: deque[Callable[[], None]] = deque()
        # The last id of a message, and the last number of a copy in a queue.
        self.last_message_id = 0
        self.last_copy = 0
        # Counts every change that may affect routing, so that callers know when a remembered route is stale.
        self.topology_version = 0
        # How long a delivery may be held if the queue sets no limit (RabbitMQ's consumer_timeout: 30 minutes).
        self.consumer_timeout_us = self.settings.consumer_timeout * 1000

    def new_message_id(self) -> int:
        """Return the next id of a published message."""
        self.last_message_id += 1
        return self.last_message_id

    def new_name(self, prefix: str) -> str:
        """Return a name as RabbitMQ generates it for queues and consumers: the prefix and 22 URL-safe characters."""
        from base64 import urlsafe_b64encode

        return prefix + urlsafe_b64encode(self.random_octets(16)).decode().rstrip("=")

    def random_octets(self, count: int) -> bytes:
        """Return `count` random bytes from the seeded dice."""
        return self.dice.randbytes(count)

    def advance(self, now: int, wall_now: int) -> None:
        """Let time pass: run what is due on both clocks, each at its own instant, and the work it causes."""
        # Hot: once per turn.
        if wall_now > self.wall_now:
            self.wall_now = wall_now
        if self.liveness.first_at <= self.wall_now or self.timers.first_at <= now:
            self._run_due(now)
        if now > self.now:
            self.now = now
        if self.work:
            self.run_work()

    def _run_due(self, now: int) -> None:
        while (timer := self.liveness.pop_due(self.wall_now)) is not None:
            if timer.action is not None:
                timer.action()
        while (timer := self.timers.pop_due(now)) is not None:
            self.now = max(self.now, timer.deadline)
            if timer.action is not None:
                timer.action()
            self.run_work()

    def run_work(self) -> None:
        """Do the work on the list, and the work that it adds, until the list is empty."""
        work = self.work
        for _ in range(WORK_LIMIT):
            if not work:
                return
            work.popleft()()
        raise AssertionError(f"leveret is looping: there is work left after {WORK_LIMIT:,} steps")
