"""The diagnosis of a broker in which a test has failed: the findings of its checks, what its events show, its state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, cast

from leveret.core.model.operators.policy import PolicySet
from leveret.observe.assertions.searching import NOT_COMMITTED
from leveret.observe.texts.redelivery import loops
from leveret.observe.texts.routes import Unrouted
from leveret.observe.texts.state import connections, uncommitted
from leveret.story.asked import Asked
from leveret.story.causes import Cause
from leveret.story.diagnosis import Diagnosis, diagnosis
from leveret.story.timeline import Timeline
from leveret.story.ways.inquiry import Ended, HiddenState, IdlePolicy
from leveret.trace import events

if TYPE_CHECKING:
    from leveret.core.model.message import Message
    from leveret.core.model.node import Node
    from leveret.observe.checks.finding import Finding
    from leveret.observe.checks.judge import Judge

# What explains a test although it happened before.
_EXPLAINING: Final = events.EXPLAINING - {events.REFUSED}
_DEAD_LETTERS: Final = ("dead-letter-exchange", "dead-letter-routing-key")
_ALL: Final = ("all", "queues")
_UNROUTABLE: Final = "unroutable"
# Why a message found no queue, if what it was published to was deleted since. The check has seen more.
_GONE: Final = "exchange_gone"


def diagnosed(
    node: Node,
    whole: Timeline,
    judge: Judge,
    test: str,
    asked: Asked,
    *,
    later_count: int,
    forgotten_count: int = 0,
    is_clock_held: bool = False,
    ended: Sequence[Ended] = (),
) -> Diagnosis:
    """Return what went wrong in a test before the last `later_count` facts, and what else was noticed.

    The broker has recorded `forgotten_count` events before those of the `whole` timeline. The caller has passed the
    barrier and holds the lock.
    """
    until = len(whole.facts) - later_count
    timeline = whole.at(until)
    began = timeline.began_of(test)
    before = [fact for fact in timeline.facts[:began] if fact.kind in _EXPLAINING]
    if len(before) < began:
        # What earlier tests sent to each other is no part of this one.
        timeline = Timeline(fact.raw for fact in (*before, *timeline.facts[began:]))
    later = {id(fact.raw) for fact in whole.facts[until:]}
    findings = [
        finding
        for group in judge.found_so_far().values()
        for finding in group
        if not any(id(event.raw) in later for event in finding.evidence)
    ]
    # What has a place among all events has one on the timeline.
    moved = len(before) - began - forgotten_count
    asked.deaths = [one._replace(place=None if one.place is None else one.place + moved) for one in asked.deaths]
    asked.caught = [one._replace(place=one.place + moved) for one in asked.caught]
    state = _state(node, timeline, is_clock_held=is_clock_held, ended=ended)
    # The blocks of the test may have closed their channels since.
    later_lost = ((it, it.lost) for it in whole.messages.values() if it.lost is not None and it.lost.place >= until)
    rolled_back = {
        it.number: whole.name(it.publisher) for it, lost in later_lost if lost.get("reason") in NOT_COMMITTED
    }
    state.uncommitted = {**rolled_back, **state.uncommitted}
    state.now = whole.facts[until].at if later_count else node.now
    unrouted = Unrouted(node)
    asked.messages = [*asked.messages, *_answered(timeline, asked, len(before))]
    found = [*_causes(node, unrouted, timeline, findings), *_returned(unrouted, timeline, asked)]
    return diagnosis(timeline, asked, found, state, began=len(before))


def _state(node: Node, timeline: Timeline, *, is_clock_held: bool, ended: Sequence[Ended]) -> HiddenState:
    alarms = ", ".join(node.alarms)
    settled = {
        delivery.entry.copy: str(connection.client_name or "a client")
        for connection in connections(node)
        for channel in connection.channels.values()
        for delivery in (() if channel.transaction is None else channel.transaction.deliveries)
    }
    return HiddenState(
        uncommitted(node),
        settled,
        {connection.number: alarms or "a fault" for connection in connections(node) if connection.is_blocked},
        dict(_refused(node, timeline)),
        is_clock_held,
        ended=ended,
        idle_policies=list(_idle_policies(node)),
    )


def _idle_policies(node: Node) -> Iterator[IdlePolicy]:
    """Yield the policies about dead letters that apply to nothing, with a queue that another policy has taken."""
    for vhost in node.vhosts.values():
        for policy in vhost.policies.user.by_name.values():
            applied = {name: vhost.policies.for_queue(name, queue.type_name)[0] for name, queue in vhost.queues.items()}
            if policy in applied.values() or policy.apply_to == "exchanges":
                continue
            leads_to = {str(policy.definition[one]) for one in _DEAD_LETTERS if one in policy.definition}
            alone = PolicySet("user", node.compat)
            alone.keep(policy)
            taken = ((name, other) for name, other in applied.items() if other is not None and alone.match(name, _ALL))
            queue, other = next(taken, (None, None))
            shown = None if other is None else other.name
            yield IdlePolicy(policy.name, policy.pattern, frozenset(leads_to), queue, shown)


def _refused(node: Node, timeline: Timeline) -> Iterator[tuple[int, tuple[str, str]]]:
    """Yield the messages that entered no queue although a binding led to one: it was full and refused them."""
    held = uncommitted(node)
    for life in timeline.messages.values():
        if life.copies or life.lost is not None or life.published is None or life.number in held:
            continue
        vhost = node.vhosts.get(life.vhost)
        exchange = None if vhost is None else vhost.exchanges.get(life.message.exchange)
        if vhost is None or exchange is None or exchange.type_name not in ("direct", "fanout", "topic", "headers"):
            continue
        for queue in vhost.route(exchange, cast("Message", life.message)):
            settings = getattr(queue, "settings", None)
            if settings is not None and settings.is_refusing:
                limit = settings.max_length if settings.max_length is not None else settings.max_length_bytes
                yield life.number, (queue.name, f"x-max-length {limit}, {settings.overflow}")


def _answered(timeline: Timeline, asked: Asked, began: int) -> Iterator[int]:
    """Yield the messages that were returned or nacked, as the client says by whose error the test failed.

    All that the error may be about came from one client, went one way and had one body.
    """
    for error in asked.raised if any(one.answer for one in asked.raised) else ():
        known = {
            ((life.message.exchange, life.message.routing_key, life.message.body), life.publisher): life.number
            for life in timeline.messages.values()
            if any(fact.kind == error.answer and fact.place >= began for fact in life.facts)
        }
        named = [number for (one, _), number in known.items() if not error.messages or one in error.messages]
        yield from named if len(named) == 1 else ()


def _returned(unrouted: Unrouted, timeline: Timeline, asked: Asked) -> Iterator[Cause]:
    """Yield what was returned of the messages that a failed assertion is about: the client knows, the test did not."""
    for number in asked.messages:
        life = timeline.messages.get(number)
        if life is not None and life.lost is not None and life.lost.kind in events.RETURNS:
            message = cast("Message", life.message)
            why = unrouted.why(life.vhost, message)
            names = {"exchange": message.exchange, "routing_key": message.routing_key}
            yield Cause(_UNROUTABLE, names, {"message": message.id, "messages": 1}, (life.lost,), why)


def _causes(node: Node, unrouted: Unrouted, timeline: Timeline, findings: Sequence[Finding]) -> Iterator[Cause]:
    for finding in findings:
        cause, message = finding.cause, finding.message
        if finding.check == _UNROUTABLE and message is not None:
            # A queue may have been bound, declared or deleted since the check looked.
            deleted = timeline.deletion_text(finding.vhost, message.routing_key, finding.evidence[-1].at)
            why = unrouted.why(finding.vhost, message, deleted=deleted)
            cause = cause if why.kind == _GONE else cause._replace(because=why)
        yield cause
    yield from loops(node)
