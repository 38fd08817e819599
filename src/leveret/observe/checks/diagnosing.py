"""The diagnosis of a broker in which a test has failed: the findings of its checks, and what its events show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from leveret.observe.texts.redelivery import loops
from leveret.observe.texts.routes import why_unrouted
from leveret.story.clients import Clients
from leveret.story.deletions import Deletions
from leveret.story.diagnosis import diagnosis
from leveret.trace import events
from leveret.trace.events import Event

if TYPE_CHECKING:
    from leveret.core.model.node import Node
    from leveret.observe.checks.finding import Finding
    from leveret.observe.checks.judge import Judge
    from leveret.story.causes import Cause
    from leveret.story.diagnosis import Asked
    from leveret.trace.events import RawEvent

# What happened before the test and explains it.
_EXPLAINING: Final = frozenset(
    name for name, kind in events.TABLE.items() if kind.category in ("conversation", "topology")
) - {events.REFUSED}
_UNROUTABLE: Final = "unroutable"


def diagnosed(
    node: Node, raw_events: Sequence[RawEvent], judge: Judge, test: str, asked: Asked, *, later_count: int
) -> list[Cause]:
    """Return what went wrong in a test before its last `later_count` events, the worst first.

    The caller has passed the barrier and holds the lock.
    """
    until = len(raw_events) - later_count
    began = max((at for at, raw in enumerate(raw_events[:until]) if _begins(raw, test)), default=0)
    before = [raw for raw in raw_events[:began] if raw[0] in _EXPLAINING]
    facts = [Event(raw) for raw in [*before, *raw_events[began:until]]]
    later = {id(raw) for raw in raw_events[until:]}
    findings = [
        finding
        for group in judge.found_so_far().values()
        for finding in group
        if not any(id(event.raw) in later for event in finding.evidence)
    ]
    return diagnosis(facts, _causes(node, facts, findings), asked)


def _begins(raw: RawEvent, test: str) -> bool:
    return (raw[0], raw[-1]) == (events.TEST_START, test)


def _causes(node: Node, facts: Sequence[Event], findings: Sequence[Finding]) -> Iterator[Cause]:
    deletions = Deletions(clients := Clients())
    for fact in facts if any(finding.check == _UNROUTABLE for finding in findings) else ():
        if fact.kind in Clients.KINDS:
            clients.take(fact)
        if fact.kind in Deletions.KINDS:
            deletions.take(fact)
    for finding in findings:
        cause, message = finding.cause, finding.message
        if finding.check == _UNROUTABLE and message is not None:
            # A queue may have been bound, declared or deleted since the check looked.
            deleted = deletions.text(finding.vhost, message.routing_key, finding.evidence[-1].at)
            why = why_unrouted(node, finding.vhost, message, deleted=deleted)
            cause = cause._replace(because=why)
        yield cause
    yield from loops(node)
