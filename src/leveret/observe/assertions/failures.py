"""The text of a failing assertion.

It says what the assertion expects and how often that happened. Then it names the nearest messages among everything that
happened, on every broker of the test: what differs, and what became of them. It never has more than twelve lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from leveret.observe.assertions.history import Histories
from leveret.observe.assertions.nearest import Nearest, NearMiss, missed_text
from leveret.observe.assertions.searching import EventSearch, Occurrence, Question
from leveret.observe.texts.routes import ways_to
from leveret.observe.texts.state import holder_text
from leveret.observe.views.message_view import MessageView, entry_view
from leveret.observe.views.names import existing_queue
from leveret.story.failure import Failure
from leveret.trace import events
from leveret.wording import count_text, span_text

if TYPE_CHECKING:
    from leveret.core.model.node import Node
    from leveret.core.model.queues.stored_queue import StoredQueue
    from leveret.observe.assertions.matching import Matcher
    from leveret.observe.assertions.source import Source
    from leveret.observe.views.views import QueueView

LINES_MAX: Final = 12
# How many surplus messages the text lists, and how many that were found if more are missing.
_LISTED: Final = 10
_FOUND: Final = 3
# How much further off than the nearest a message may be to be described too.
_NEARLY_AS_NEAR: Final = 0.35


class Here(NamedTuple):
    """What the assertion's own broker shows, all of it at one moment."""

    title: str
    occurrences: Sequence[Occurrence]
    # Everything the broker saw if it saw too much, and then nothing else counts.
    surplus: Failure | None
    near: list[NearMiss]
    listed: list[str]
    # No client has connected to this broker.
    is_unused: bool
    others_count: int
    bound: str
    # What earlier tests have left in the queue, a line each.
    left_over: list[str]


def look_here(source: Source, search: EventSearch, timeout: float | None) -> Here:
    """Return what a broker shows of a failing search. Call it under the lock under which the search failed."""
    question = search.question
    occurrences, histories = search.matches(), Histories(source.timeline(), source.node)
    expected = f"expected {_amount(question.times)} {question.happening.words}"
    saw = len(occurrences) if question.times == 0 else len(occurrences) or "none that matches"
    title = f"{question.call}: {expected}, saw {saw}{_within(timeout)}"
    return Here(
        title=title,
        occurrences=occurrences,
        surplus=_surplus(title, question, occurrences, histories) if len(occurrences) > (question.times or 0) else None,
        near=Nearest(question, histories, source.node).misses(),
        listed=_seen(occurrences[:_FOUND], histories),
        is_unused=not source.timeline().has_clients and not source.recorder.has_dropped,
        others_count=len(histories.recent) - len({occurrence.event.message.id for occurrence in occurrences}),
        bound=_bound_text(source.node, question.vhost, question.place) if question.happening.place == "queue" else "",
        left_over=_left_over(source.node, question, histories),
    )


def _left_over(node: Node, question: Question, histories: Histories) -> list[str]:
    queue = existing_queue(node, question.vhost, question.place)
    if queue is None or question.happening.place == "exchange":
        return []
    recent = {history.number for history in histories.recent}
    messages = (entry.message for entry in islice(queue.ready, _FOUND))
    return [
        f"  ready since before this test: {histories.named_in_queue(message)}"
        for message in messages
        if message.id not in recent
    ]


def explain(source: Source, search: EventSearch, here: Here, timeout: float | None) -> Failure:
    """Return why a broker's trace does not hold what this search asks for. Call it without any broker's lock."""
    if here.surplus is not None:
        return here.surplus
    question, occurrences = search.question, here.occurrences
    elsewhere = _elsewhere(source, question, is_unused=here.is_unused)
    near = sorted(here.near + elsewhere, key=lambda miss: miss.distance)
    seen = _summed_up(question, occurrences) if near else here.listed
    earlier = _seen_earlier(search)
    # All but the title and the count of the rest.
    room = LINES_MAX - 2 - len(seen) - len(earlier)
    lines, rest, shown = _near_lines(near, here.others_count, room=room, timeout=timeout)
    if not near:
        rest = [f"No {'other ' if occurrences else ''}message was published{here.bound}.", *here.left_over]
    intended = (
        *(miss.facts.message for miss in near[:1] if miss.facts.broker is None),
        *(occurrence.event.message.id for occurrence in occurrences[:_FOUND]),
    )
    text = "\n".join([here.title, *lines, *seen, *rest, *earlier])
    return replace(
        _failure(question, text, intended, len(occurrences)), nearest=tuple(miss.facts for miss in near[:shown])
    )


def _surplus(title: str, question: Question, occurrences: Sequence[Occurrence], histories: Histories) -> Failure:
    """Return the failure of an assertion that found more than it expects."""
    text = "\n".join([title, *_seen(occurrences, histories)])
    return _failure(question, text, tuple(occurrence.event.message.id for occurrence in occurrences), len(occurrences))


def _failure(question: Question, text: str, messages: tuple[int, ...], seen: int) -> Failure:
    queues = tuple(name for name in (question.place, question.to) if name is not None)
    asked = (question.call, question.happening.name, question.place, question.vhost, question.times)
    return Failure(text, messages, queues, *asked, seen)


def _bound_text(node: Node, vhost: str, queue: str | None) -> str:
    ways = "" if queue is None else ways_to(node, vhost, queue)
    return f"; {ways}" if ways else ""


def not_empty(source: Source, call: str, queue: QueueView, timeout: float | None) -> Failure:
    """Return the failure of `assert_empty` for a queue that is not empty. Call it under the broker's lock."""
    histories = Histories(source.timeline(), source.node)
    lines = [f"{call}: {len(queue.ready)} ready, {len(queue.unacked)} unacked{_within(timeout)}"]
    lines += _listed("ready", queue.ready, histories)
    lines += _listed("unacked", queue.unacked, histories)
    if not queue.consumers and queue.ready:
        left = histories.circumstances.consumer_left(queue.vhost, queue.name, source.node.now)
        lines.append(f"  the queue has no consumers{f': {left}' if left else ''}")
    messages = tuple(view.source.id for view in (*queue.ready, *queue.unacked))
    place = (queue.name, queue.vhost)
    return Failure("\n".join(lines), messages, (queue.name,), call, "empty", *place, times=0, seen=len(messages))


def not_ready(
    source: Source, call: str, queue: StoredQueue, matcher: Matcher, *, times: int | None, timeout: float | None
) -> Failure:
    """Return the failure of `assert_ready`: what is ready there, what is not, and what became of the other messages."""
    ready = [entry_view(entry, queue) for entry in queue.ready]
    matching = [view for view in ready if matcher.matches(view)]
    title = f"{call}: expected {_amount(times)} ready, saw {len(matching) or 'none that matches'}{_within(timeout)}"
    histories, waiting = Histories(source.timeline(), source.node), {view.source.id for view in ready}
    lines = _listed("ready", matching, histories)
    others = [view for view in ready if not matcher.matches(view)]
    lines += [
        f"  also ready: {_view_text(view, histories)}: {'; '.join(matcher.why_not(view))}" for view in others[:_FOUND]
    ]
    lines += [f"  ... and {len(others) - _FOUND} more"] if len(others) > _FOUND else []
    is_surplus = times is not None and len(matching) > times
    gone = [history for history in histories.recent if history.number not in waiting and not is_surplus]
    # Those that were in the queue first, and of these the youngest.
    gone.sort(key=lambda history: (history.has_reached(queue.name), history.number), reverse=True)
    for history in gone[:_FOUND]:
        missed = missed_text(source.node, histories, history, queue.vhost.name, queue.name)
        lines.append(
            f"  not ready: {histories.named(history)}; it {histories.became(history, first=queue.name)[0]}{missed}"
        )
    if not ready and not gone:
        lines.append(f"No message was published{_bound_text(source.node, queue.vhost.name, queue.name)}.")
    messages = (*(view.source.id for view in ready[:_FOUND]), *(history.number for history in gone[:_FOUND]))
    place = (queue.name, queue.vhost.name)
    return Failure("\n".join([title, *lines]), messages, (queue.name,), call, "ready", *place, times, len(matching))


def _amount(times: int | None) -> str:
    return "none" if times == 0 else "at least 1" if times is None else f"exactly {times}"


def _within(timeout: float | None) -> str:
    return "" if timeout is None else f" within {span_text(round(timeout * 1_000_000))}"


def _elsewhere(source: Source, question: Question, *, is_unused: bool) -> list[NearMiss]:
    """Return what the other brokers of the test have seen. `is_unused`: no client has connected to this one."""
    misses: list[NearMiss] = []
    for other in source.others():
        with other.lock:
            timeline = other.timeline()
            if timeline.ended is not None:
                # A broker of the whole run, which this test does not use.
                continue
            is_mixed_up = is_unused and timeline.has_clients
            near = Nearest(question, Histories(timeline, other.node), other.node).misses(with_matches=True)
            misses += [miss.on(other.name, source.name, is_unused=is_mixed_up) for miss in near]
    return misses


def _near_lines(
    near: Sequence[NearMiss], count: int, *, room: int, timeout: float | None
) -> tuple[list[str], list[str], int]:
    """Return the near misses as text, the nearest and those nearly as near; a line for the others; and their count."""
    lines: list[str] = []
    shown = 0
    for miss in near:
        further = miss.lines("nearest" if not shown else "next")
        if miss.distance > near[0].distance + _NEARLY_AS_NEAR or len(lines) + len(further) > room:
            break
        if miss.is_early and timeout is None:
            further[-1] += "; to wait for it, pass timeout="
        lines += further
        shown += 1
    rest = count - shown
    if not shown or rest <= 0:
        return lines, [], shown
    more = f"{count_text(rest, 'other message')} of this test {'differs' if rest == 1 else 'differ'} more"
    return lines, [more], shown


def _seen(occurrences: Sequence[Occurrence], histories: Histories) -> list[str]:
    lines = [
        f"  {number}. {_occurrence_text(occurrence, histories)}"
        for number, occurrence in enumerate(occurrences[:_LISTED], 1)
    ]
    return lines + ([f"  ... and {len(occurrences) - _LISTED} more"] if len(occurrences) > _LISTED else [])


def _summed_up(question: Question, occurrences: Sequence[Occurrence]) -> list[str]:
    """Return the messages that match, in a line: "acked: #1, #2, #4"."""
    counts = Counter(occurrence.event.message.id for occurrence in occurrences)
    named = [f"#{number}" + (f" ({count} times)" if count > 1 else "") for number, count in counts.items()]
    more = [f"{len(named) - _LISTED} more"] if len(named) > _LISTED else []
    return [f"{question.happening.words}: {', '.join(named[:_LISTED] + more)}"] if occurrences else []


def _seen_earlier(search: EventSearch) -> list[str]:
    """Return how often a match occurred in earlier tests, on a broker that serves several."""
    earlier = search.matches_earlier()
    if not earlier:
        return []
    counts = [
        f"{count} {f'in {test}' if test else 'outside the tests that use this broker'}"
        for test, count in earlier.items()
    ]
    more = f"... and in {len(counts) - _FOUND} more, " if len(counts) > _FOUND else ""
    return [f"before this test began, so not counted: {more}{', '.join(counts[-_FOUND:])}"]


def _occurrence_text(occurrence: Occurrence, histories: Histories) -> str:
    """Return where and by whom it happened, and what became of the message."""
    history = histories.history_of(occurrence.event.message.id)
    where = "" if occurrence.place_kind == "exchange" else f" in {occurrence.place!r}"
    by = ""
    kind = occurrence.event.kind
    if kind in events.BY_SOMEONE and events.TABLE[kind].category == "copy":
        by = f" by {histories.who(occurrence.event)}"
    answer = f"; it {histories.describe_answer(history)}" if kind in events.ANSWERS else ""
    if kind in events.DELIVERIES:
        became = histories.delivery_became(history, occurrence.event)
    else:
        became = histories.became(history, first=occurrence.place)[0]
    return f"{histories.named(history)}{where}{by}{answer}; it {became}"


def _view_text(view: MessageView, histories: Histories) -> str:
    held = "" if view.connection is None else f" held by {holder_text(view.consumer_tag, view.connection)}"
    return f"{histories.named_in_queue(view.source)}{held}"


def _listed(what: str, messages: Sequence[MessageView], histories: Histories) -> list[str]:
    lines = [f"  {what}: {_view_text(message, histories)}" for message in messages[:_FOUND]]
    return lines + ([f"  ... and {len(messages) - _FOUND} more {what}"] if len(messages) > _FOUND else [])
