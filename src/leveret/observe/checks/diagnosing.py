"""The diagnosis of a broker in which a test has failed: the findings of its checks, and what its events show."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, cast

from leveret.observe.texts.redelivery import loops
from leveret.observe.texts.routes import why_unrouted
from leveret.story.causes import Cause
from leveret.story.clients import Clients
from leveret.story.deletions import Deletions
from leveret.story.diagnosis import Asked, diagnosis
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
# The places of fields in the tuples of events.
_MESSAGE: Final[dict[object, int]] = {kind: events.POSITIONS[kind]["message"] for kind in events.ABOUT_MESSAGES}
_AGAIN: Final[dict[object, int]] = {kind: events.POSITIONS[kind]["redelivered"] for kind in events.DELIVERIES}
_CONN: Final = events.CHANNEL.start
_COPY: Final = events.POSITIONS[events.ARRIVALS[0]]["copy"]
_SOURCE: Final = events.POSITIONS[events.ARRIVALS[0]]["src_copy"]
_ACKED_COPY: Final = events.POSITIONS[events.ACKED]["copy"]


def diagnosed(
    node: Node, raw_events: Sequence[RawEvent], judge: Judge, test: str, asked: Asked, *, later_count: int
) -> list[Cause]:
    """Return what went wrong in a test before its last `later_count` events, the worst first.

    The caller has passed the barrier and holds the lock.
    """
    until = len(raw_events) - later_count
    began = events.began_at(raw_events[:until], test)
    before = [raw for raw in raw_events[:began] if raw[0] in events.EXPLAINING and raw[0] != events.REFUSED]
    own = raw_events[began:until]
    telling = _telling(own, asked)
    facts = [Event(raw) for raw in before]
    facts += [
        Event(raw)
        for raw in own
        # Each message is looked up once: a test may have thousands.
        if ((at := _MESSAGE.get(raw[0])) is None and raw[0] != events.CALLED)
        or (at is not None and cast("Message", raw[at]).id in telling)
    ]
    later = {id(raw) for raw in raw_events[until:]}
    findings = [
        finding
        for group in judge.found_so_far().values()
        for finding in group
        if not any(id(event.raw) in later for event in finding.evidence)
    ]
    now = cast("int", raw_events[until][1]) if later_count else node.now
    return diagnosis(facts, [*_causes(node, facts, findings), *_returned(node, facts, asked)], asked, now)


def _returned(node: Node, facts: Sequence[Event], asked: Asked) -> Iterator[Cause]:
    """Yield what was returned of the messages that a failed assertion is about: the client knows, the test did not."""
    for fact in facts:
        if fact.kind in events.RETURNS and fact.message.id in asked.messages:
            message = cast("Message", fact.message)
            why = why_unrouted(node, str(fact.get("vhost") or "/"), message)
            names = {"exchange": message.exchange, "routing_key": message.routing_key}
            yield Cause(_UNROUTABLE, names, {"message": message.id, "messages": 1}, (fact,), why)


def _telling(raw_events: Sequence[RawEvent], asked: Asked) -> set[int]:
    """Return the messages that may explain a failure: not those that went the usual way from publish to ack.

    A test with thousands of messages is diagnosed in a few milliseconds, because most are never looked at twice. Of
    each client and consumer, a usual message stays too.
    """
    telling, waiting, unrouted = set(asked.messages), dict[object, int](), dict[int, None]()
    last, reply_queues = dict[tuple[object, ...], int](), dict[str, None]()
    saying = _saying(asked.values)
    for raw in raw_events:
        at = _MESSAGE.get(raw[0])
        if at is None:
            continue
        kind, message = raw[0], cast("Message", raw[at])
        number = message.id
        if kind == events.PUBLISHED:
            unrouted[number] = None
            last[kind, raw[_CONN]] = number
            reply_to = message.properties.reply_to
            if reply_to is not None:
                reply_queues[reply_to] = None
            if reply_to is not None or message.routing_key in reply_queues or (saying and saying.search(message.body)):
                telling.add(number)
        elif kind in events.ARRIVALS and raw[_SOURCE] is None:
            unrouted.pop(number, None)
            waiting[raw[_COPY]] = number
        elif kind in events.DELIVERIES and not raw[_AGAIN[kind]]:
            last[raw[events.CHANNEL]] = number
        elif kind == events.ACKED:
            waiting.pop(raw[_ACKED_COPY], None)
        elif kind != events.CONFIRMED:
            telling.add(number)
    return telling.union(waiting.values(), unrouted, last.values())


def _saying(values: Sequence[object]) -> re.Pattern[bytes] | None:
    """Return a pattern that a body matches if it may hold one of these values. JSON may escape what is not ASCII."""
    texts = [value if isinstance(value, bytes) else str(value).encode() for value in values]
    if not texts:
        return None
    return re.compile(
        b"|".join(rb"(?<!\w)" + re.escape(text) + rb"(?!\w)" if text.isascii() else b"" for text in texts)
    )


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
            cause = cause if why.kind == _GONE else cause._replace(because=why)
        yield cause
    yield from loops(node)
