"""A finding: one thing that a strict check means, where it happened, and what a test may allow it by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leveret.observe.matching import is_equal, topic_matches

if TYPE_CHECKING:
    from leveret.model.message import Message
    from leveret.trace.events import Event

# The keywords of `allow`.
PLACES = ("queue", "exchange", "routing_key", "client", "vhost")


@dataclass(slots=True)
class Finding:
    """One thing."""

    check: str
    vhost: str
    # What happened, without the message it happened to.
    text: str
    queue: str | None = None
    exchange: str | None = None
    routing_key: str | None = None
    # The client's own name for its connection; None is the test itself.
    client: str | None = None
    message: Message | None = None
    # How many this one stands for.
    count: int = 1
    # What a client was told, where it is about a refusal.
    refusal: str | None = None


@dataclass(slots=True, eq=False)
class Allowance:
    """What a test allows: a check, and the places where; no place is everywhere."""

    check: str
    places: dict[str, object]

    def covers(self, finding: Finding) -> bool:
        """Whether this finding is allowed."""
        return self.check == finding.check and all(
            _fits(name, expected, getattr(finding, name)) for name, expected in self.places.items()
        )


def _fits(name: str, expected: object, actual: object) -> bool:
    if name == "routing_key" and isinstance(expected, str) and ("*" in expected or "#" in expected):
        return isinstance(actual, str) and topic_matches(expected, actual)
    return is_equal(expected, actual)


def refusal_text(event: Event) -> str:
    """Whom a refusal met, and its first line."""
    channel = "" if event.chan is None else f", channel {event.chan}"
    return f"{event.client} (connection {event.conn}{channel}): {event.text.partition(chr(10))[0]}"
