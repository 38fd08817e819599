"""The contract of the event kinds about a copy, as a state machine that follows every copy through a trace.

A copy is enqueued, is ready or held, and ends once, by acked, expired, dropped, dead_lettered or purged. After expired,
dead_lettered may follow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from leveret.core.model.node import Node
from leveret.core.model.queues.queue import Queue
from leveret.core.model.queues.quorum import QuorumQueue
from leveret.trace import events
from leveret.trace.events import Event, RawEvent

READY, HELD, REFUSED, EXPIRED, ENDED = "ready", "held", "refused", "expired", "ended"

# For each event, the states in which it may happen and the state of the copy afterwards.
STEPS: dict[str, tuple[tuple[str, ...], str]] = {
    events.DELIVERED: ((READY,), HELD),
    events.GOT: ((READY,), HELD),
    events.ACKED: ((HELD,), ENDED),
    events.NACKED: ((HELD,), REFUSED),
    events.REJECTED: ((HELD,), REFUSED),
    events.REQUEUED: ((HELD, REFUSED), READY),
    events.EXPIRED: ((READY,), EXPIRED),
    events.DROPPED: ((READY, REFUSED, HELD), ENDED),
    events.DEAD_LETTERED: ((READY, REFUSED, EXPIRED, HELD), ENDED),
    events.PURGED: ((READY, HELD), ENDED),
}


@dataclass
class Ledger:
    """The place of every copy, according to a trace."""

    state: dict[int, str] = field(default_factory=dict)
    queue: dict[int, str] = field(default_factory=dict)
    message: dict[int, int] = field(default_factory=dict)
    # Published and not yet in any queue.
    unplaced: dict[int, None] = field(default_factory=dict)
    confirmed: dict[tuple[int, int, int], int] = field(default_factory=dict)

    def follow(self, trace: Iterable[RawEvent]) -> None:
        for raw in trace:
            event = Event(raw)
            if event.kind == events.PUBLISHED:
                self.unplaced[event.message.id] = None
            elif event.kind == events.ENQUEUED:
                self._begin(event)
            elif event.kind in STEPS:
                self._continue(event)
            elif event.kind == events.RETURNED:
                self.unplaced.pop(event.message.id, None)

    def _begin(self, event: Event) -> None:
        copy = event.copy
        assert copy is not None
        assert copy not in self.state, f"copy {copy} was enqueued twice"
        if event.src_copy is None:
            self.unplaced.pop(event.message.id, None)
        else:
            assert self.state[event.src_copy] == ENDED, f"{event!r} stems from a copy that lives"
            assert self.message[event.src_copy] == event.message.id, f"{event!r} stems from another message"
        self.state[copy], self.queue[copy], self.message[copy] = READY, str(event.queue), event.message.id

    def _continue(self, event: Event) -> None:
        copy = event.copy
        if copy is None:
            self.unplaced.pop(event.message.id, None)
            return
        allowed, after = STEPS[event.kind]
        before = self.state[copy]
        assert before in allowed, f"copy {copy} was {before} when this came: {event!r}"
        assert self.queue[copy] == event.queue, f"copy {copy} lies in {self.queue[copy]}, not as this says: {event!r}"
        self.state[copy] = after

    def compare(self, node: Node) -> None:
        """Check that every copy is where the node has it, and nowhere else."""
        ready, held = [], []
        for vhost in node.vhosts.values():
            for queue in vhost.queues.values():
                assert isinstance(queue, Queue)
                ready += [entry.copy for entry in queue.ready]
                held += list(queue.unacked)
                if isinstance(queue, QuorumQueue):
                    ready += list(queue.delayed)
        assert sorted(ready) == self.copies_that_are(READY)
        assert sorted(held) == self.copies_that_are(HELD)
        assert self.copies_that_are(REFUSED) == []

    def copies_that_are(self, state: str) -> list[int]:
        return sorted(copy for copy, found in self.state.items() if found == state)
