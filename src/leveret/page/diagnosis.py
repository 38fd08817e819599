"""What went wrong in a test, as a page and its file of facts hold it: the causes of its diagnosis, the worst first."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any, Protocol

from leveret.page.readings.reading import Reading
from leveret.story.causes import Cause, sentence
from leveret.story.diagnosis import CAUSES_MAX
from leveret.story.facts import Fact
from leveret.trace.redaction import Redaction, plain


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


def causes_of(stories: Sequence[Shown]) -> list[dict[str, Any]]:
    """Return what went wrong in a test."""
    causes = [(broker, cause) for broker in stories for cause in broker.reading.causes]
    if len(stories) > 1:
        causes.sort(key=lambda one: one[1].rank)
    return [_shown(broker, cause) for broker, cause in causes[:CAUSES_MAX]]


def _shown(broker: Shown, cause: Cause) -> dict[str, Any]:
    messages = [broker.number_of(number) for number in cause.messages]
    return {
        "broker": broker.id,
        "sentence": broker.redaction.text(sentence(cause)),
        "rank": cause.rank,
        **_facts(cause),
        "messages": [number for number in dict.fromkeys(messages) if number in broker.messages],
        "events": broker.events_of(cause.evidence),
    }


def _facts(cause: Cause) -> dict[str, Any]:
    """Return a cause as a value of JSON, without its evidence."""
    because = {} if cause.because is None else {"because": _facts(cause.because)}
    return {"kind": cause.kind, "names": plain(dict(cause.names)), "numbers": dict(cause.numbers), **because}
