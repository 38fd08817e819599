"""What went wrong in a test: the causes that its brokers know, the worst first, as a page and its file of facts hold
them.

A cause that many messages share is one. What the failure of the test is about comes first. Advice is no cause.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any, Final, Protocol

from leveret.page.readings.reading import Reading
from leveret.story.causes import Cause, sentence
from leveret.story.facts import Fact
from leveret.trace.redaction import Redaction, plain

# More causes than this say less than the first of them.
CAUSES_MAX: Final = 3
# Causes from this rank on are advice.
_ADVICE_RANK: Final = 90


class Shown(Protocol):
    """What the causes of a broker need of its story."""

    id: str
    reading: Reading
    redaction: Redaction

    @property
    def messages(self) -> Container[int]:
        """The numbers of the messages that the story shows."""

    def number_of(self, message: int) -> int:
        """Return the number in the story of a message of the broker."""

    def events_of(self, facts: Iterable[Fact]) -> list[int]:
        """Return the places of facts among the events of the story."""


def causes_of(stories: Sequence[Shown], asked: Sequence[int]) -> list[dict[str, Any]]:
    """Return what went wrong in a test, whose failure is about the messages `asked`."""
    alike: dict[tuple[object, ...], list[tuple[Shown, Cause]]] = {}
    for broker in stories:
        for cause in broker.reading.causes:
            if cause.rank < _ADVICE_RANK:
                alike.setdefault((broker.id, *_likeness(cause)), []).append((broker, cause))
    shown = [_shown(group[0][0], [cause for _, cause in group]) for group in alike.values()]
    shown.sort(key=lambda cause: (not any(number in asked for number in cause["messages"]), cause["rank"]))
    return shown[:CAUSES_MAX]


def _likeness(cause: Cause | None) -> tuple[object, ...]:
    return () if cause is None else (cause.kind, repr(cause.names), _likeness(cause.because))


def _shown(broker: Shown, causes: list[Cause]) -> dict[str, Any]:
    messages = [broker.number_of(number) for cause in causes for number in cause.messages]
    return {
        "broker": broker.id,
        "sentence": broker.redaction.text(sentence(causes[0])),
        "rank": causes[0].rank,
        **_facts(causes[0]),
        "messages": [number for number in dict.fromkeys(messages) if number in broker.messages],
        "events": broker.events_of(fact for cause in causes for fact in cause.evidence),
    }


def _facts(cause: Cause) -> dict[str, Any]:
    """Return a cause as a value of JSON, without its evidence."""
    because = {} if cause.because is None else {"because": _facts(cause.because)}
    return {"kind": cause.kind, "names": plain(dict(cause.names)), "numbers": dict(cause.numbers), **because}
