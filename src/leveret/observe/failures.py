"""The text of a failing assertion.

It says what the assertion expects and how often that happened, what happened to the matching messages instead, and
which other messages come closest. Each line holds one fact. The closest message comes first, with the fields that
differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leveret.observe.history import Histories, MessageHistory
from leveret.observe.message_view import MessageView
from leveret.observe.searching import Occurrence, Question, Search
from leveret.observe.views import QueueView
from leveret.observe.wording import span_text
from leveret.trace import events

# How many messages the text describes in detail, and how many it lists.
_SHOWN: Final = 3
_LISTED: Final = 10


def failure_text(search: Search, histories: Histories, timeout: float | None) -> str:
    """Return why the trace does not hold what this search asks for."""
    question, found = search.question, search.found()
    lines = [f"{question.call}: {_expectation(question, len(found), timeout)}"]
    if len(found) > (question.times or 0):
        return "\n".join([*lines, *_seen(search, found, histories)])
    lines += _history_lines(question, histories)
    lines += _near_misses(search, histories)
    lines += _seen(search, found, histories)
    lines += _seen_earlier(search)
    return "\n".join(lines)


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


def _history_lines(question: Question, histories: Histories) -> list[str]:
    """Return what happened to the matching messages; empty for a publish, which has no history before it."""
    if question.happening.name == "published":
        return []
    is_of_exchange = question.happening.place == "exchange"
    is_of_answer = any(kind in events.ANSWERS for kind in question.happening.kinds)
    matching = histories.matching(question.matcher, question.vhost, first=question.place)
    if is_of_exchange and question.place is not None:
        matching = [history for history in matching if history.message.exchange == question.place]
    if not matching:
        return ["No matching message was published."]
    lines = [f"What happened to the matching messages{_cut(matching)}:"]
    for history in matching[:_SHOWN]:
        lines.append(f"  {_message_text(history, histories)}")
        lines += [f"    {histories.describe_answer(history)}"] if is_of_answer else []
        lines += [f"    {line}" for line in histories.describe(history, first=question.place)]
    return lines


def _message_text(history: MessageHistory, histories: Histories) -> str:
    by = f" published by {histories.who(history.published)}" if history.published is not None else ""
    return f"{MessageView(history.message)!r}{by}"


def _near_misses(search: Search, histories: Histories) -> list[str]:
    words = search.question.happening.words
    others = search.near_misses()
    if not others:
        return [f"No {'other ' if search.found() else ''}message was {words}."]
    lines = [f"Closest messages that were {words} but do not match{_cut(others)}:"]
    for occurrence in others[:_SHOWN]:
        lines.append(f"  {_occurrence_text(occurrence, histories)}")
        lines += [f"    {difference}" for difference in search.why_not(occurrence)]
    return lines


def _seen(search: Search, found: Sequence[Occurrence], histories: Histories) -> list[str]:
    if not found:
        return []
    lines = [
        f"  {number}. {_occurrence_text(occurrence, histories)}" for number, occurrence in enumerate(found[:_LISTED], 1)
    ]
    return ["Seen:", *lines, *([f"  ... and {len(found) - _LISTED} more"] if len(found) > _LISTED else [])]


def _seen_earlier(search: Search) -> list[str]:
    """Return how often a match occurred in earlier tests, on a broker that serves several."""
    earlier = search.found_earlier()
    if not earlier:
        return []
    lines = [f"  {count} {f'in {test}' if test else 'before the first test'}" for test, count in earlier.items()]
    more = [f"  ... and in {len(lines) - _LISTED} more"] if len(lines) > _LISTED else []
    return ["Seen before this test began, so not counted:", *lines[-_LISTED:], *more]


def _occurrence_text(occurrence: Occurrence, histories: Histories) -> str:
    where = "" if occurrence.place_kind == "exchange" else f" in {occurrence.place!r}"
    if "conn" not in occurrence.event.fields():
        return f"{occurrence.message!r}{where}"
    word = "to" if occurrence.event.kind in (events.RETURNED, *events.ANSWERS) else "by"
    return f"{occurrence.message!r}{where} {word} {histories.who(occurrence.event)}"


def _listed(what: str, messages: Sequence[MessageView]) -> list[str]:
    lines = [f"  {what}: {message!r}" for message in messages[:_SHOWN]]
    return lines + ([f"  ... and {len(messages) - _SHOWN} more {what}"] if len(messages) > _SHOWN else [])


def _cut(items: Sequence[object]) -> str:
    return f" ({_SHOWN} of {len(items)})" if len(items) > _SHOWN else ""
