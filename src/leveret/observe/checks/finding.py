"""A finding of a strict check: what happened and where, and the allowance that covers it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from leveret.wording import client_place_text

if TYPE_CHECKING:
    from leveret.core.model.message import Message
    from leveret.core.model.node import Reacts
    from leveret.story.causes import Cause
    from leveret.trace.events import Event

# The keywords of `allow`.
PLACES = ("queue", "exchange", "routing_key", "client", "vhost")


class Finding(NamedTuple):
    """A finding of a strict check: facts, of which `leveret.story.causes` makes words once a text is wanted."""

    check: str
    vhost: str
    # What the words of the cause leave open, and where it happened. `client` is the client's name for its connection;
    # without one, it is the test itself.
    names: Mapping[str, object]
    message: Message | None = None
    # The cause that it follows from; one without names is just its kind.
    because: Cause | str | None = None
    # How many messages or other things this finding stands for.
    thing_count: int = 1
    # The events that show it.
    evidence: tuple[Event, ...] = ()
    # The cause that it is; by default, a check has one of its own name.
    kind: str | None = None
    # The text sent to the client, if the finding is about a refusal.
    refusal: str | None = None
    # How the client reacts to the error, if that may still show that the error was seen.
    reaction: Reacts | None = None
    # Who published the message, once the broker has forgotten the event that shows it.
    publisher: str | None = None

    def place(self, name: str) -> object:
        """Return one of the `PLACES` of the finding, None if it has none."""
        if name == "vhost":
            return self.vhost
        if self.message is not None and name in ("exchange", "routing_key"):
            return getattr(self.message, name)
        return self.names.get(name)

    @property
    def cause(self) -> Cause:
        """The finding as a cause, which has words."""
        from leveret.story.causes import Cause

        because = Cause(self.because) if isinstance(self.because, str) else self.because
        names = dict(self.names)
        numbers = {name: value for name, value in names.items() if isinstance(value, int)} | {
            "messages": self.thing_count
        }
        if self.message is not None:
            names |= {"exchange": self.message.exchange, "routing_key": self.message.routing_key}
            numbers["message"] = self.message.id
        return Cause(self.kind or self.check, names, numbers, self.evidence, because)


class Allowance(NamedTuple):
    """What a test allows: a check and where. Without places the check is allowed everywhere."""

    check: str
    places: Mapping[str, object]

    def covers(self, finding: Finding) -> bool:
        """Return whether this allowance covers a finding."""
        from leveret.observe.assertions.matching import is_equal, is_key

        return self.check == finding.check and all(
            (is_key if name == "routing_key" else is_equal)(expected, finding.place(name))
            for name, expected in self.places.items()
        )


def refusal_text(event: Event) -> str:
    """Return which client got a refusal, the first line of its text, and its cause if that is known."""
    where = event.client if event.conn is None else client_place_text(event.client, event.conn, event.chan)
    because = "" if event.cause is None else f" ({event.cause})"
    return f"{where}: {event.text.partition(chr(10))[0]}{because}"
