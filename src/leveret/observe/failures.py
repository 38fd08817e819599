"""What a failing assertion says: what was expected, how often it was seen, what became of the messages meant, and the
nearest things that did happen.

Written for somebody who reads it at the end of a long day: one thought a line, the closest first, the differing field
beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leveret.observe.fates import Chronicle, Story
from leveret.observe.message_view import MessageView
from leveret.observe.searching import Occurrence, Question, Search
from leveret.observe.views import QueueView
from leveret.observe.wording import span_text
from leveret.trace import events

# Messages told at length, and messages listed.
_SHOWN: Final = 3
_LISTED: Final = 10


def failure_text(search: Search, chronicle: Chronicle, timeout: float | None) -> str:
    """Why the question of this search was answered with no."""
    question, found = search.question, search.found()
    lines = [f"{question.call}: {_expectation(question, len(found), timeout)}"]
    if len(found) > (question.times or 0):
        return "\n".join([*lines, *_seen(search, found, chronicle)])
    lines += _stories(question, chronicle)
    lines += _near_misses(search, chronicle)
    lines += _seen(search, found, chronicle)
    lines += _seen_earlier(search)
    return "\n".join(lines)


def not_empty_text(call: str, queue: QueueView, timeout: float | None) -> str:
    """Why a queue is not empty."""
    lines = [f"{call}: {len(queue.ready)} ready, {len(queue.unacked)} unacked{_waited(timeout)}"]
    lines += _listed("ready", queue.ready)
    lines += _listed("unacked", queue.unacked)
    if not queue.consumers and queue.ready:
        lines.append("  nobody consumes from it")
    return "\n".join(lines)


def _expectation(question: Question, seen: int, timeout: float | None) -> str:
    if question.times == 0:
        return f"expected none {question.happening.words}, saw {seen}{_waited(timeout)}"
    expected = "at least 1" if question.times is None else f"exactly {question.times}"
    return f"expected {expected} {question.happening.words}, saw {seen or 'none'}{_waited(timeout)}"


def _waited(timeout: float | None) -> str:
    return "" if timeout is None else f" within {span_text(round(timeout * 1_000_000))}"


def _stories(question: Question, chronicle: Chronicle) -> list[str]:
    """What became of the messages meant; of a publish there is nothing to tell but the publishes themselves."""
    if question.happening.name == "published":
        return []
    is_of_exchange = question.happening.place == "exchange"
    is_of_answer = any(kind in events.ANSWERS for kind in question.happening.kinds)
    stories = chronicle.stories_of(question.matcher, question.vhost, first=question.place)
    if is_of_exchange and question.place is not None:
        stories = [story for story in stories if story.message.exchange == question.place]
    if not stories:
        return ["No message was published that matches."]
    lines = [f"What became of the messages that match{_cut(stories)}:"]
    for story in stories[:_SHOWN]:
        lines.append(f"  {_published(story, chronicle)}")
        lines += [f"    {chronicle.tell_answer(story)}"] if is_of_answer else []
        lines += [f"    {line}" for line in chronicle.tell(story, first=question.place)]
    return lines


def _published(story: Story, chronicle: Chronicle) -> str:
    by = f" published by {chronicle.who(story.published)}" if story.published is not None else ""
    return f"{MessageView(story.message)!r}{by}"


def _near_misses(search: Search, chronicle: Chronicle) -> list[str]:
    words = search.question.happening.words
    others = search.near_misses()
    if not others:
        return [f"Nothing {'else ' if search.found() else ''}was {words}."]
    lines = [f"Nearest that were {words}, but do not match{_cut(others)}:"]
    for occurrence in others[:_SHOWN]:
        lines.append(f"  {_told(occurrence, chronicle)}")
        lines += [f"    {difference}" for difference in search.why_not(occurrence)]
    return lines


def _seen(search: Search, found: Sequence[Occurrence], chronicle: Chronicle) -> list[str]:
    if not found:
        return []
    lines = [f"  {number}. {_told(occurrence, chronicle)}" for number, occurrence in enumerate(found[:_LISTED], 1)]
    return ["Seen:", *lines, *([f"  ... and {len(found) - _LISTED} more"] if len(found) > _LISTED else [])]


def _seen_earlier(search: Search) -> list[str]:
    """What would have been the answer in a test before this one, on a broker that serves several."""
    earlier = search.found_earlier()
    if not earlier:
        return []
    lines = [f"  {count} in {test or 'what was before the first test'}" for test, count in earlier.items()]
    more = [f"  ... and in {len(lines) - _LISTED} more"] if len(lines) > _LISTED else []
    return ["Before this test began, which does not count:", *lines[-_LISTED:], *more]


def _told(occurrence: Occurrence, chronicle: Chronicle) -> str:
    where = "" if occurrence.place_kind == "exchange" else f" in {occurrence.place!r}"
    if "conn" not in occurrence.event.fields():
        return f"{occurrence.message!r}{where}"
    word = "to" if occurrence.event.kind in (events.RETURNED, *events.ANSWERS) else "by"
    return f"{occurrence.message!r}{where} {word} {chronicle.who(occurrence.event)}"


def _listed(what: str, messages: Sequence[MessageView]) -> list[str]:
    lines = [f"  {what}: {message!r}" for message in messages[:_SHOWN]]
    return lines + ([f"  ... and {len(messages) - _SHOWN} more {what}"] if len(messages) > _SHOWN else [])


def _cut(items: Sequence[object]) -> str:
    return f" ({_SHOWN} of {len(items)})" if len(items) > _SHOWN else ""
