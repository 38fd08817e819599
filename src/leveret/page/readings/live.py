"""The reading of a live broker: its timeline, its state, its faults, and what strict checks have found so far.

The caller holds the broker's lock. Nothing is changed, and no finding counts as reported.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from leveret.observe.checks.texts import PublisherTexts, group_text
from leveret.observe.views.views import ExchangeView, QueueFacts, exchange_view, queue_facts
from leveret.page.readings.reading import PageFault, PageFinding, Picture, Reading, RealTime, Times
from leveret.page.story import Test
from leveret.trace import events
from leveret.trace.events import Event, RawEvent
from leveret.trace.redaction import Redaction

if TYPE_CHECKING:
    from leveret.core.model.exchanges.exchange import Exchange
    from leveret.core.model.node import Node
    from leveret.core.model.queues.stored_queue import StoredQueue
    from leveret.core.model.vhost import VirtualHost
    from leveret.observe.checks.judge import Judge
    from leveret.story.entities import Fact
    from leveret.story.timeline import Timeline
    from leveret.trace.ring import KeptEvents

# The most events of a test on a running broker that a page shows: as many as are read in some seconds.
_EVENTS_MAX: Final = 20_000


def reading_of(
    node: Node,
    recorder: KeptEvents,
    timeline: Timeline,
    *,
    test: str | None,
    title: str,
    seed: int,
    moves: Collection[tuple[int, int]],
    redact: Iterable[str] | str,
    faults: Sequence[PageFault],
    judge: Judge,
    vhost: str | None = None,
) -> Reading:
    """Return what happened in a broker since a test began, and how things stand: of a long test, the latest.

    Without a mark of its start, it begins with the oldest event. `moves` are those of the broker's clock. With `vhost`,
    only findings of that virtual host count.
    """
    redaction, real_time = Redaction(redact), RealTime(moves)

    def times(fact: Fact) -> Times:
        return fact.at, real_time.of(fact.at) if moves else fact.at

    began = timeline.began_of(test)
    first = max(began, len(timeline.facts) - _EVENTS_MAX)
    found = [finding for group in judge.found_so_far(vhost).values() for finding in group]
    return Reading(
        timeline,
        times,
        first,
        title=title,
        rabbitmq=node.compat.version,
        seed=seed,
        clock="held" if moves else "real",
        picture=picture_of(node, redaction),
        faults=list(faults),
        checks=checks_of(judge, recorder.raw(), vhost),
        noticed=[finding.cause for finding in found],
        dropped_count=int(recorder.has_dropped),
        cut_count=first - began,
        redaction=redaction,
        now=node.now,
        moves=tuple(moves),
    )


def test_of(raw_events: Sequence[RawEvent]) -> Test:
    """Return the test that began last, as far as it has come."""
    for raw in reversed(raw_events):
        if raw[0] == events.TEST_START:
            return Test(Event(raw).test)
    return Test()


def checks_of(judge: Judge, raw_events: Sequence[RawEvent], vhost: str | None = None) -> list[PageFinding]:
    """Return what strict checks have found so far, of one virtual host or of all. It stays to be reported."""
    groups = judge.found_so_far(vhost)
    publishers = PublisherTexts(raw_events if groups else ())
    return [
        PageFinding(
            name,
            "error" if judge.level_of(name) == "error" else "warn",
            group_text(name, findings, publishers, judge.handle),
            list(dict.fromkeys(finding.message.id for finding in findings if finding.message is not None)),
        )
        for name, findings in groups.items()
    ]


def picture_of(node: Node, redaction: Redaction) -> Picture:
    """Return the picture of a node."""

    def queue_of(queue: StoredQueue, vhost: VirtualHost) -> QueueFacts:
        facts, shown = queue_facts(queue, vhost), redaction.shown
        return replace(facts, arguments=shown(facts.arguments), policy_keys=shown(facts.policy_keys))

    def exchange_of(exchange: Exchange, vhost_name: str) -> ExchangeView:
        view = exchange_view(exchange, vhost_name)
        bindings = tuple(replace(each, arguments=redaction.shown(each.arguments)) for each in view.bindings)
        return replace(view, arguments=redaction.shown(view.arguments), bindings=bindings)

    vhosts = node.vhosts.values()
    return Picture(
        [queue_of(queue, vhost) for vhost in vhosts for queue in vhost.queues.values()],
        [exchange_of(exchange, vhost.name) for vhost in vhosts for exchange in vhost.exchanges.values()],
    )
