"""The failure of an assertion as values: what was asked, what came nearest, in what it differs, and what became of it.

The error carries the failure, and its text is made beside it. So a page, a trace file and the control API have the
facts and read no text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from leveret.story.entities import CopyLife
from leveret.trace.redaction import plain

_ATTRIBUTE: Final = "leveret_failure"


class Differing(NamedTuple):
    """In what a message differs: a keyword of the assertion, or "outcome", "queue" and the like."""

    what: str
    expected: object = None
    found: object = None


class Stand(NamedTuple):
    """How a copy of a message stands."""

    queue: str
    state: str
    reason: object
    deliveries: int

    @classmethod
    def of(cls, copy: CopyLife) -> Stand:
        """Return how a copy stands."""
        return cls(copy.queue.name, copy.stand, copy.last.get("reason"), len(copy.deliveries))


class Near(NamedTuple):
    """A message that came near: its number, the broker if it is another than asked, and what differs."""

    message: int
    broker: str | None
    differs: tuple[Differing, ...]
    stands: tuple[Stand, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an assertion fails, and the messages and queues that its report should show first."""

    text: str
    messages: tuple[int, ...]
    queues: tuple[str, ...]
    # What was asked: the call as the user wrote it, what should have happened, where, and how often.
    call: str = ""
    expected: str = ""
    place: str | None = None
    vhost: str = "/"
    times: int | None = None
    seen: int = 0
    nearest: tuple[Near, ...] = ()

    def error(self, note: str) -> AssertionError:
        """Return the error with its text, a note, and the failure itself."""
        error = AssertionError(self.text)
        setattr(error, _ATTRIBUTE, self)
        error.add_note(note)
        return error

    @property
    def subject(self) -> dict[str, list[object]]:
        """What it is about: the numbers of messages, and the names of queues."""
        return {"messages": list(self.messages), "queues": list(self.queues)}

    def as_json(self) -> dict[str, object]:
        """Return the failure as a value of JSON, without its text."""
        return {
            "asked": {
                "call": self.call,
                "expected": self.expected,
                "place": self.place,
                "vhost": self.vhost,
                "times": self.times,
            },
            "seen": self.seen,
            **self.subject,
            "nearest": [
                {
                    **near._asdict(),
                    "differs": list(map(_as_json, near.differs)),
                    "stands": list(map(_as_json, near.stands)),
                }
                for near in self.nearest
            ],
        }


def failure_of(error: BaseException | None) -> Failure | None:
    """Return the failure that an error carries, or the first of those in a group; None if there is none."""
    found = getattr(error, _ATTRIBUTE, None)
    if isinstance(found, Failure):
        return found
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return next((failure for one in inner if (failure := failure_of(one)) is not None), None)


def _as_json(value: Differing | Stand) -> dict[str, object]:
    return {name: plain(part) for name, part in value._asdict().items()}
