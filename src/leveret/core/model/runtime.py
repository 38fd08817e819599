"""The runtime of a node: the clocks, deadlines, work, ids and chance that everything in it shares.

Time comes in through `advance`, chance through the dice given to the constructor, so the same inputs give the same
bytes. Deadlines of the broker (TTL, expiry, delays) and of liveness (heartbeats, handshake and close limits) are kept
apart: a test may hold the first clock, but never the second. The runtime knows no virtual hosts and no connections.
Those belong to the node.

Work that causes more work is a cascade: one frame, timer or call caused all of it, and its pieces run in order. The
core has no clock to limit a long cascade by, so it counts pieces. The loop sets an `allowance` for each turn. A cascade
that exceeds it is left over, and `go_on` continues it in a later turn. Only cascades of different causes can overtake
each other, as in RabbitMQ, where queues run side by side.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from typing import Final

from leveret.core.compat import Compat
from leveret.core.hooks import Hooks
from leveret.core.model.exchanges.exchange import Dice
from leveret.core.model.operators.node_settings import NodeSettings
from leveret.core.model.timers import Timers

# Far above any chain of dead letters that a finite queue can cause. Beyond it, leveret itself is looping.
WORK_LIMIT = 10_000_000
# The pieces of one cascade before the next one that is left over takes its turn.
PIECES_PER_CASCADE: Final = 16

Piece = Callable[[], None]


class Cascade:
    """The work that one cause has led to, in order."""

    __slots__ = ("done_count", "pieces", "then")

    def __init__(self, pieces: deque[Piece], then: Piece | None) -> None:
        self.pieces = pieces
        # Called once all of it is done, if it did not finish in its first turn.
        self.then = then
        self.done_count = 0


class Runtime:
    """The clocks, deadlines, work, ids and chance of one node."""

    def __init__(
        self,
        *,
        compat: Compat,
        dice: Dice,
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
        # The work that the present cause has led to.
        self.work: deque[Piece] = deque()
        # Cascades for later turns, the next one first.
        self.left_over: deque[Cascade] = deque()
        # How many pieces of work and copies of messages this turn may still make.
        self.allowance: float = inf
        self._is_working = False
        # The last id of a message, and the last number of a copy in a queue.
        self.last_message_id = 0
        self.last_copy = 0
        # Counts every change that may affect routing, so that callers know when a remembered route is stale.
        self.topology_version = 0

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
        if self.left_over and self.allowance == inf:
            self.finish_work()
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
        # What is beyond the allowance is still due in the next turn.
        while self.allowance > 0 and (timer := self.timers.pop_due(now)) is not None:
            self.now = max(self.now, timer.deadline)
            self.allowance -= 1
            if timer.action is not None:
                timer.action()
            self.run_work()

    @property
    def work_count(self) -> int:
        """The number of pieces of work that wait to be done."""
        return len(self.work) + sum(len(cascade.pieces) for cascade in self.left_over)

    def run_work(self, then: Piece | None = None) -> bool:
        """Do the work on the list, and the work that it adds, until the list is empty.

        If the allowance ends first, leave the rest over and return False. Call `then` once the rest is done.
        """
        return not self.work or self._run(Cascade(self.work, then), self.allowance)

    def go_on(self) -> None:
        """Continue each cascade that is left over, in turn, as far as the allowance goes."""
        self.run_work()
        while self.left_over and self.allowance > 0:
            self._resume(min(self.allowance, PIECES_PER_CASCADE))

    def finish_work(self) -> None:
        """Do all work. From now on the allowance has no limit."""
        self.allowance = inf
        self.run_work()
        while self.left_over:
            self._resume(inf)

    def _resume(self, limit: float) -> None:
        cascade = self.left_over.popleft()
        try:
            is_done = self._run(cascade, limit)
        except Exception:
            self.left_over.append(cascade)
            raise
        if is_done and cascade.then is not None:
            cascade.then()

    def _run(self, cascade: Cascade, limit: float) -> bool:
        """Run pieces of a cascade until they and the copies they make reach the limit. Return whether it is done."""
        pieces, first_copy, done_count = cascade.pieces, self.last_copy, 0
        present, self.work = self.work, pieces
        # A piece that needs its own work done, such as the end of a connection, does all of it.
        is_nested, self._is_working = self._is_working, True
        try:
            while pieces:
                if not is_nested and done_count + self.last_copy - first_copy >= limit:
                    self.left_over.append(cascade)
                    return False
                pieces.popleft()()
                done_count += 1
                if cascade.done_count + done_count > WORK_LIMIT:
                    raise AssertionError(f"leveret is looping: there is work left after {WORK_LIMIT:,} steps")
            return True
        finally:
            self._is_working = is_nested
            cascade.done_count += done_count
            self.allowance -= done_count + self.last_copy - first_copy
            if present is not pieces:
                self.work = present
            elif self.left_over and self.left_over[-1] is cascade:
                self.work = deque()
