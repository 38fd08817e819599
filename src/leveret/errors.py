"""Every exception and warning that a user of leveret can meet, and how a message suggests the right spelling.

What a client does wrong is answered on the wire, as RabbitMQ answers it. These are raised in the test instead, at the
line that made the call. This file imports nothing else of leveret, so every package can raise from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Protocol

    class Explored(Protocol):
        """What an `Exploration` found, as far as a failure says it."""

        run_count: int
        passed_count: int

        @property
        def steps(self) -> list[str]:
            """The steps of the plain run, in order."""

        @property
        def failed(self) -> list[str]:
            """The schedules that failed, in the words that replay them."""

        @property
        def diverged(self) -> list[str]:
            """The schedules with a step that did not come again."""


class BrokerError(RuntimeError):
    """The call cannot be carried out; the text says why and what to do instead."""


class RefusedError(BrokerError):
    """RabbitMQ would refuse this call: `code` and the text are those of its reply.

    If the refusal is about a deprecated feature, a note says how to permit it.
    """

    def __init__(self, code: int, text: str, notes: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.code = code
        for note in notes:
            self.add_note(note)


class WaitTimeoutError(TimeoutError):
    """A wait timed out; the text shows the state of the broker."""


class EndlessTimeError(BrokerError):
    """Time was moved from deadline to deadline without reaching an end; the text names what repeats."""


class NotDeclaredError(LookupError):
    """No queue, exchange or virtual host of this name was ever declared; a typo must not make a test pass."""


class EventsMissingError(RuntimeError):
    """The recorded events are not enough to answer; the text names the option that records more."""


class CheckFailedError(AssertionError):
    """A strict check at level "error" found something; the text says how to allow it."""


class ExplorationFailedError(AssertionError):
    """A scenario fails under some schedule of faults; `exploration` is the `Exploration` with everything found."""

    def __init__(self, text: str, exploration: Explored) -> None:
        super().__init__(text)
        self.exploration = exploration


class LeveretWarning(UserWarning):
    """A strict check at level "warning" found something, or could not examine everything."""


class UnreadableTraceError(ValueError):
    """A file cannot be read as a trace; the text names the file and the reason."""


class NoTracesError(ValueError):
    """The given path holds no trace files; the text says what was searched for, and where."""


class NoWarehouseError(ValueError):
    """The given folder is not a warehouse; the text says how to create one."""


class NoSuchRunError(ValueError):
    """The warehouse has no run or commit of this name; the text lists those it has."""


class ConflictError(RuntimeError):
    """Another process changed the warehouse after its state was read."""


class NoJavaError(RuntimeError):
    """Spark needs a Java and found none; the text says what to install."""


class JavaStartError(RuntimeError):
    """The JVM exited before Spark answered; the text holds the end of its output."""


class OptionError(ValueError):
    """An option of Spark's format("amqp") is missing, unknown or invalid; the text says what is valid."""


class LinkError(RuntimeError):
    """The broker refused a Spark job's login or queue; a retry would not help."""


class LinkLostError(LinkError):
    """A Spark job could not connect, or lost its connection; unacknowledged messages are back in their queue."""


class PublishError(RuntimeError):
    """The broker returned, nacked or did not confirm messages of a Spark job in time."""


# A failing test's summary shows where an exception comes from: the name that users import it by.
for _public in (
    *(BrokerError, RefusedError, WaitTimeoutError, EndlessTimeError, NotDeclaredError, EventsMissingError),
    *(CheckFailedError, ExplorationFailedError, LeveretWarning),
):
    _public.__module__ = "leveret"


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Return at most three of the known names that are spelt like this one, nearest first."""
    # Imported here because only a mistake needs it.
    from difflib import get_close_matches

    # Case is no difference in spelling: Spark hands over the names of options in lower case.
    words: dict[str, list[str]] = {}
    for one in known:
        words.setdefault(one.lower(), []).append(one)
    words.pop("", None)
    return [one for word in get_close_matches(name.lower(), words, n=3, cutoff=0.6) for one in words[word]][:3]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" to end a message about an unknown name, or "" if no known name is near."""
    close = nearest(name, known)
    return f"; did you mean {close[0]!r}?" if close else ""


def expected(name: str, known: Iterable[str], *, most: int | None = None) -> str:
    """Return what `did_you_mean` does, or if nothing is near, the list of all known names or of the first `most`."""
    words = list(known)
    if not words:
        return "; none exists"
    more = ", ..." if most is not None and len(words) > most else ""
    return did_you_mean(name, words) or f"; expected one of {', '.join(words[:most])}{more}"


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Return the message about a word that is none of those known: "unknown event 'x'; expected one of ..."."""
    return f"unknown {what} {name!r}{expected(name, known)}"


def unknown_keyword(call: str, word: str, known: Iterable[str], more: str = "") -> TypeError:
    """Return the error for a keyword that `call` does not have, with the nearest one or all of them and `more`."""
    words = list(known)
    hint = did_you_mean(word, words) or f"; it takes {', '.join(words)}{more}"
    return TypeError(f"{call} has no keyword {word!r}{hint}")
