"""The runtime of a node: its clocks, deadlines, work, ids and chance, which everything in it shares.

Time comes in by `advance`, chance by the dice handed to the constructor; the same inputs give the same bytes. Deadlines
of the broker (TTL, expiry, delays) and of liveness (heartbeats, handshake and close limits) are kept apart: a test may
hold the first clock, never the second. It knows no virtual hosts and no connections: those are the node's.
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

# Far above any chain of dead letters a finite queue can cause; beyond it, leveret itself is looping.
WORK_LIMIT = 10_000_000


class NodeDice(Dice, Protocol):
    """Seeded chance: `random.Random` is one."""

    def randbytes(self, n: int, /) -> bytes:
        """So many random octets."""


class Runtime:
    """What everything in a node shares."""

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
        # The broker's clock and the wall's, in microseconds since the epoch.
        self.now = now
        self.wall_now = now
        self.timers = Timers()
        self.liveness = Timers()
        # The nearest deadline of the broker's clock, and that of the wall clock: asked for at every turn.
        self.next_deadline = self.timers.next_deadline
        self.next_liveness_deadline = self.liveness.next_deadline
        self.work: deque[Callable[[], None]] = deque()
        # The last id given to a message, and to a copy of one in a queue.
        self.last_message_id = 0
        self.last_copy = 0
        # Counts whatever may change where a message goes, so that a remembered route can be doubted.
        self.topology_version = 0
        # How long a delivery may be held, where the queue does not say (RabbitMQ's consumer_timeout: 30 minutes).
        self.consumer_timeout_us = self.settings.consumer_timeout * 1000

    def new_message_id(self) -> int:
        """The next id of a published message."""
        self.last_message_id += 1
        return self.last_message_id

    def new_name(self, prefix: str) -> str:
        """A name such as RabbitMQ makes for queues and consumers: the prefix and 22 URL-safe characters."""
        from base64 import urlsafe_b64encode

        return prefix + urlsafe_b64encode(self.random_octets(16)).decode().rstrip("=")

    def random_octets(self, count: int) -> bytes:
        """So many octets of seeded chance."""
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
        """Do what other work has left to do, until nothing is left."""
        work = self.work
        for _ in range(WORK_LIMIT):
            if not work:
                return
            work.popleft()()
        raise AssertionError("work caused work without end")
