"""The diagnosis of a broker in which a test has failed: the findings of its checks, and what its events show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, cast

from leveret.observe.texts.redelivery import loops
from leveret.observe.texts.routes import Unrouted
from leveret.story.causes import Cause
from leveret.story.diagnosis import Asked, diagnosis
from leveret.story.scene import Scene
from leveret.trace import events
from leveret.trace.events import Event, RawEvent

if TYPE_CHECKING:
    from leveret.core.model.message import Message
    from leveret.core.model.node import Node
    from leveret.observe.checks.finding import Finding
    from leveret.observe.checks.judge import Judge

_UNROUTABLE: Final = "unroutable"
# Why a message found no queue, if what it was published to was deleted since. The check has seen more.
_GONE: Final = "exchange_gone"


def diagnosed(
    node: Node, raw_events: Sequence[RawEvent], judge: Judge, test: str, asked: Asked, *, later_count: int
) -> list[Cause]:
    """Return what went wrong in a test before its last `later_count` events, the worst first.

    The caller has passed the barrier and holds the lock.
    """
    until = len(raw_events) - later_count
    began = events.began_at(raw_events[:until], test)
    before = [raw for raw in raw_events[:began] if raw[0] in events.EXPLAINING and raw[0] != events.REFUSED]
    own = [raw for raw in raw_events[began:until] if raw[0] != events.CALLED]
    facts = [Event(raw) for raw in (*before, *own)]
    later = {id(raw) for raw in raw_events[until:]}
    findings = [
        finding
        for group in judge.found_so_far().values()
        for finding in group
        if not any(id(event.raw) in later for event in finding.evidence)
    ]
    now = cast("int", raw_events[until][1]) if later_count else node.now
    scene, unrouted = Scene(facts, now), Unrouted(node)
    causes = [*_causes(node, unrouted, scene, findings), *_returned(unrouted, facts, asked)]
    return diagnosis(scene, causes, asked)


def _returned(unrouted: Unrouted, facts: Sequence[Event], asked: Asked) -> Iterator[Cause]:
    """Yield what was returned of the messages that a failed assertion is about: the client knows, the test did not."""
    for fact in facts:
        if fact.kind in events.RETURNS and fact.message.id in asked.messages:
            message = cast("Message", fact.message)
            why = unrouted.why(str(fact.get("vhost") or "/"), message)
            names = {"exchange": message.exchange, "routing_key": message.routing_key}
            yield Cause(_UNROUTABLE, names, {"message": message.id, "messages": 1}, (fact,), why)


def _causes(node: Node, unrouted: Unrouted, scene: Scene, findings: Sequence[Finding]) -> Iterator[Cause]:
    for finding in findings:
        cause, message = finding.cause, finding.message
        if finding.check == _UNROUTABLE and message is not None:
            # A queue may have been bound, declared or deleted since the check looked.
            deleted = scene.deletions.text(finding.vhost, message.routing_key, finding.evidence[-1].at)
            why = unrouted.why(finding.vhost, message, deleted=deleted)
            cause = cause if why.kind == _GONE else cause._replace(because=why)
        yield cause
    yield from loops(node)
