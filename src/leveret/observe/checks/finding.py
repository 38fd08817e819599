"""A finding of a strict check: what happened and where, and the allowance that covers it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.wording import client_place_text

if TYPE_CHECKING:
    from leveret.core.model.message import Message
    from leveret.core.model.node import Reacts
    from leveret.trace.events import Event

# The keywords of `allow`.
PLACES = ("queue", "exchange", "routing_key", "client", "vhost")


class Finding:
    """A finding of a strict check."""

    __slots__ = (
        "check",
        "client",
        "count",
        "exchange",
        "message",
        "publisher",
        "queue",
        "reaction",
        "refusal",
        "routing_key",
        "text",
        "vhost",
    )

    def __init__(
        self,
        check: str,
        vhost: str,
        text: str,
        queue: str | None = None,
        exchange: str | None = None,
        routing_key: str | None = None,
        client: str | None = None,
        message: Message | None = None,
        count: int = 1,
        refusal: str | None = None,
    ) -> None:
        self.check = check
        self.vhost = vhost
        # What happened, without the message.
        self.text = text
        self.queue = queue
        self.exchange = exchange
        self.routing_key = routing_key
        # The client's name for its connection. None is the test itself.
        self.client = client
        self.message = message
        # Who published the message, once the broker has forgotten the event that shows it.
        self.publisher: str | None = None
        # How many messages or other things this finding stands for.
        self.count = count
        # The text sent to the client, if the finding is about a refusal.
        self.refusal = refusal
        # How the client reacts to the error, if that may still show that the error was seen.
        self.reaction: Reacts | None = None


class Allowance:
    """What a test allows: a check and where. Without places the check is allowed everywhere."""

    __slots__ = ("check", "places")

    def __init__(self, check: str, places: dict[str, object]) -> None:
        self.check = check
        self.places = places

    def covers(self, finding: Finding) -> bool:
        """Return whether this allowance covers a finding."""
        return self.check == finding.check and all(
            _fits(name, expected, getattr(finding, name)) for name, expected in self.places.items()
        )


def _fits(name: str, expected: object, actual: object) -> bool:
    from leveret.core.model.exchanges.topic import topic_matches
    from leveret.observe.assertions.matching import is_equal

    if name == "routing_key" and isinstance(expected, str) and ("*" in expected or "#" in expected):
        return isinstance(actual, str) and topic_matches(expected, actual)
    return is_equal(expected, actual)


def refusal_text(event: Event) -> str:
    """Return which client got a refusal, the first line of its text, and its cause if that is known."""
    where = event.client if event.conn is None else client_place_text(event.client, event.conn, event.chan)
    because = "" if event.cause is None else f" ({event.cause})"
    return f"{where}: {event.text.partition(chr(10))[0]}{because}"
