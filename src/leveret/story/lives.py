"""The lives of messages: the copies of each, what happened to them, and how they stand or ended.

A life takes the facts about one message in order. What it holds are facts and counts; `end_text` words how a copy
stands. A reader that knows more of a message extends `MessageLife`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar, cast

from leveret.story.facts import HAS_ACKS, Fact
from leveret.story.words import AGAIN, BY_REASON, READY, UNACKED, end_of, filled
from leveret.trace import events

F = TypeVar("F", bound=Fact)

# How a copy stands after an event of a kind. After any other, the kind itself says it.
_STATES: Final = {
    **dict.fromkeys(events.ARRIVALS, READY),
    **dict.fromkeys(events.REQUEUES, AGAIN),
    **dict.fromkeys(events.DELIVERIES, UNACKED),
}


@dataclass(slots=True)
class CopyLife(Generic[F]):
    """The life of one message in one queue."""

    number: int
    vhost: str
    queue: str
    # Everything that happened to it, in order, and its deliveries among that.
    facts: list[F] = field(default_factory=list)
    deliveries: list[F] = field(default_factory=list)
    requeue_count: int = 0
    # The copy that this one is the dead letter of.
    source: int | None = None
    # How it stands: READY, AGAIN, UNACKED, or how it ended, as `words.ENDS` names it.
    state: str = READY
    # How many of the facts are of earlier tests.
    earlier_count: int = 0

    @property
    def recent(self) -> list[F]:
        """What happened to it in this test."""
        return self.facts[self.earlier_count :]

    @property
    def is_ready(self) -> bool:
        """Whether it waits in its queue."""
        return self.state in (READY, AGAIN)

    @property
    def is_dead_lettered(self) -> bool:
        """Whether it was dead-lettered."""
        return self.state in events.DEATHS

    def take(self, fact: F) -> None:
        """Take the next fact about this copy."""
        kind = fact.kind
        self.facts.append(fact)
        state = _STATES.get(kind)
        if kind in events.DELIVERIES:
            self.deliveries.append(fact)
            state = "delivered" if fact.get(HAS_ACKS) is False else state
        elif kind in events.ARRIVALS:
            self.source = cast("int | None", fact.get("src_copy"))
        elif kind in events.REQUEUES:
            self.requeue_count += 1
        self.state = state or BY_REASON.get((kind, fact.get("reason")), kind)


@dataclass(slots=True)
class MessageLife(Generic[F]):
    """The life of one message: its publish, its copies in order, and what happened to it outside any queue."""

    number: int
    vhost: str
    copies: dict[int, CopyLife[F]] = field(default_factory=dict)
    published: F | None = None
    # The publish, and whether it was returned, dropped, confirmed or nacked.
    facts: list[F] = field(default_factory=list)
    # Why it reached no queue, if it did not: its return says more than its drop.
    lost: F | None = None
    # How the broker answered its publisher.
    answer: F | None = None
    # Whether anything happened to it in the current test, and how many of its own facts are of earlier ones.
    is_recent: bool = False
    earlier_count: int = 0

    @property
    def recent(self) -> list[F]:
        """Its own facts of this test."""
        return self.facts[self.earlier_count :]

    @property
    def last_ends(self) -> list[CopyLife[F]]:
        """The copies that say how it stands: not those that live on as their dead letters."""
        continued = {copy.source for copy in self.copies.values()}
        last = [copy for copy in self.copies.values() if not (copy.is_dead_lettered and copy.number in continued)]
        return last or list(self.copies.values())[-1:]

    def has_reached(self, queue: str | None) -> bool:
        """Return whether a copy of it was ever in this queue."""
        return any(copy.queue == queue for copy in self.copies.values())

    def arrivals(self, copy: int) -> list[str]:
        """Return the queues in which the dead letter of a copy arrived."""
        return [other.queue for other in self.copies.values() if other.source == copy]

    def live(self, fact: F, *, is_recent: bool = True) -> CopyLife[F] | None:
        """Take the next fact about this message, and return the copy that it is about."""
        self.is_recent = self.is_recent or is_recent
        number = cast("int | None", fact.get("copy"))
        if number is None:
            self._happened(fact)
            self.earlier_count += not is_recent
            return None
        copy = self.copies.get(number)
        if copy is None:
            where = (str(fact.get("vhost") or "/"), str(fact.get("queue") or ""))
            copy = self.copies[number] = CopyLife(number, *where)
        copy.take(fact)
        copy.earlier_count += not is_recent
        return copy

    def _happened(self, fact: F) -> None:
        kind = fact.kind
        self.facts.append(fact)
        if kind == events.PUBLISHED:
            self.published = fact
        elif kind in events.ANSWERS:
            self.answer = self.answer or fact
        elif kind in events.RETURNS or (kind in events.LOSSES and self.lost is None):
            self.lost = fact


def end_text(copy: CopyLife[F], slot: Callable[[str], str], *, is_drawn: bool = False) -> str:
    """Return how a copy stands, as a clause about the message; `slot` fills what the clause leaves open."""
    clause = end_of(copy.state).clause
    return filled(clause, lambda name: copy.state if name == "kind" else slot(name), is_drawn=is_drawn)
