"""The text of a failing assertion.

It says what the assertion expects and how often that happened. Then it names the nearest messages among everything that
happened, on every broker of the test: what differs, and what became of them. It never has more than twelve lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from leveret.observe.history import Histories
from leveret.observe.nearest import Nearest, NearMiss
from leveret.observe.routes import ways_to
from leveret.observe.searching import Occurrence, Question, Search
from leveret.observe.views import MessageView, QueueView
from leveret.observe.wording import count_text, span_text
from leveret.trace import events

if TYPE_CHECKING:
    from leveret.observe.evaluation import Source

LINES_MAX: Final = 12
# How many surplus messages the text lists, and how many that were found if more are missing.
_LISTED: Final = 10
_FOUND: Final = 3
# How much further off than the nearest a message may be to be described too.
_NEARLY_AS_NEAR: Final = 0.35


class Failure(NamedTuple):
    """Why an assertion fails, and the messages and queues that its report should show first."""

    text: str
    messages: tuple[int, ...]
    queues: tuple[str, ...]


def explain(source: Source, search: Search, timeout: float | None) -> Failure:
    """Return why a broker's trace does not hold what this search asks for. Call it without any broker's lock."""
    question = search.question
    with source.lock:
        histories = Histories(source.recorder.raw(), source.node)
        near = Nearest(question, histories, source.node).found()
        found = search.found()
        lines = [f"{question.call}: {_expectation(question, len(found), timeout)}"]
        is_surplus = len(found) > (question.times or 0)
        seen = _seen(found, histories, most=_LISTED if is_surplus else _FOUND)
        bound = (
            ways_to(source.node, question.vhost, question.place or "") if question.happening.place == "queue" else ""
        )
        count = len(histories.recent)
    if not is_surplus:
        near = sorted(near + _elsewhere(source, question), key=lambda one: one.distance)
        lines += _near_lines(
            near, count - len({one.event.message.id for one in found}), room=_room(search, seen), timeout=timeout
        )
        if not near:
            lines.append(f"No {'other ' if found else ''}message was published{f'; {bound}' if bound else ''}.")
    lines += seen
    if not is_surplus:
        lines += _seen_earlier(search)
    meant = (
        [one.event.message.id for one in found]
        if is_surplus
        else [one.message_id for one in near[:1] if not one.broker]
    )
    named = (question.place, question.to)
    return Failure("\n".join(lines), tuple(meant), tuple(name for name in named if name is not None))


def not_empty_text(call: str, queue: QueueView, timeout: float | None) -> str:
    """Return the text of `assert_empty` for a queue that is not empty."""
    lines = [f"{call}: {len(queue.ready)} ready, {len(queue.unacked)} unacked{_within(timeout)}"]
    lines += _listed("ready", queue.ready)
    lines += _listed("unacked", queue.unacked)
    if not queue.consumers and queue.ready:
        lines.append("  the queue has no consumers")
    return "\n".join(lines)


def _expectation(question: Question, seen: int, timeout: float | None) -> str:
    if question.times == 0:
        return f"expected none {question.happening.words}, saw {seen}{_within(timeout)}"
    expected = "at least 1" if question.times is None else f"exactly {question.times}"
    return f"expected {expected} {question.happening.words}, saw {seen or 'none'}{_within(timeout)}"


def _within(timeout: float | None) -> str:
    return "" if timeout is None else f" within {span_text(round(timeout * 1_000_000))}"


def _room(search: Search, seen: Sequence[str]) -> int:
    """Return how many lines are left for near misses: all but the first, the list of what was found, and a rest."""
    return LINES_MAX - 2 - len(seen) - bool(search.found_earlier())


def _elsewhere(source: Source, question: Question) -> list[NearMiss]:
    """Return what the other brokers of the test have seen."""
    found: list[NearMiss] = []
    for other in source.others():
        with other.lock:
            raw_events = other.recorder.raw()
            marks = [raw[0] for raw in raw_events if raw[0] in (events.TEST_START, events.TEST_END)]
            if marks[-1:] == [events.TEST_END]:
                # A broker of the whole run, which this test does not use.
                continue
            near = Nearest(question, Histories(raw_events, other.node), other.node).found(with_matches=True)
            found += [one.on(other.name, source.name) for one in near]
    return found


def _near_lines(near: Sequence[NearMiss], count: int, *, room: int, timeout: float | None) -> list[str]:
    """Return the near misses as text: the nearest, and those that are nearly as near."""
    lines: list[str] = []
    shown = 0
    for one in near:
        further = one.lines("nearest" if not shown else "next")
        if one.distance > near[0].distance + _NEARLY_AS_NEAR or len(lines) + len(further) > room:
            break
        if one.is_early and timeout is None:
            further[-1] += "; to wait for it, pass timeout="
        lines += further
        shown += 1
    rest = count - shown
    return lines + (
        [f"{count_text(rest, 'other message')} of this test {'differs' if rest == 1 else 'differ'} more"]
        if shown and rest > 0
        else []
    )


def _seen(found: Sequence[Occurrence], histories: Histories, *, most: int) -> list[str]:
    lines = [f"  {number}. {_occurrence_text(one, histories)}" for number, one in enumerate(found[:most], 1)]
    return lines + ([f"  ... and {len(found) - most} more"] if len(found) > most else [])


def _seen_earlier(search: Search) -> list[str]:
    """Return how often a match occurred in earlier tests, on a broker that serves several."""
    earlier = search.found_earlier()
    if not earlier:
        return []
    counts = [f"{count} {f'in {test}' if test else 'before the first test'}" for test, count in earlier.items()]
    more = f"... and in {len(counts) - _FOUND} more, " if len(counts) > _FOUND else ""
    return [f"too early, so not counted: {more}{', '.join(counts[-_FOUND:])}"]


def _occurrence_text(occurrence: Occurrence, histories: Histories) -> str:
    """Return where and by whom it happened, and what became of the message."""
    history = histories.of(occurrence.event.message.id)
    where = "" if occurrence.place_kind == "exchange" else f" in {occurrence.place!r}"
    by = ""
    if "conn" in occurrence.event.fields() and occurrence.event.kind != events.PUBLISHED:
        word = "to" if occurrence.event.kind in (events.RETURNED, *events.ANSWERS) else "by"
        by = f" {word} {histories.who(occurrence.event)}"
    return f"{histories.named(history)}{where}{by}; it {histories.became(history, first=occurrence.place)[0]}"


def _listed(what: str, messages: Sequence[MessageView]) -> list[str]:
    lines = [f"  {what}: {message!r}" for message in messages[:_FOUND]]
    return lines + ([f"  ... and {len(messages) - _FOUND} more {what}"] if len(messages) > _FOUND else [])
