"""The exceptions and warnings that users of leveret meet, and the spelling suggestions of their messages.

A client's mistake is answered on the wire, as RabbitMQ answers it. These exceptions are raised in the test instead, at
the line that made the call. This file imports nothing else of leveret, so every package can raise from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final


class BrokerError(RuntimeError):
    """A call that cannot be carried out; the text says why and what to do instead."""


class RefusedError(BrokerError):
    """A call that RabbitMQ would refuse; `code` and the text are those of its reply.

    If the refusal is about a deprecated feature, a note says how to permit it.
    """

    def __init__(self, code: int, text: str, notes: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.code = code
        for note in notes:
            self.add_note(note)


class WaitTimeoutError(TimeoutError):
    """A wait that timed out; a note shows the state of the broker."""


class EndlessTimeError(BrokerError):
    """Time that was moved from deadline to deadline without reaching an end; the text names what repeats."""


class NotDeclaredError(LookupError):
    """A queue, exchange, virtual host or client that never existed; a typo must not make a test pass."""


class EventsMissingError(RuntimeError):
    """A question that the recorded events cannot answer; the text names the option that records more."""


class CheckFailedError(AssertionError):
    """A finding of a strict check at level "error"; the text says how to allow it."""


class LeveretWarning(UserWarning):
    """A finding of a strict check at level "warning", or something it could not examine or record."""


class UnreadableTraceError(ValueError):
    """A file that cannot be read as a trace; the text names the file and the reason."""


class NoTracesError(ValueError):
    """A path without trace files; the text says what was searched for, and where."""


class NoWarehouseError(ValueError):
    """A folder that is not a warehouse; the text says how to create one."""


class NoSuchRunError(ValueError):
    """A run or commit that the warehouse does not have; the text lists those it has."""


class ConflictError(RuntimeError):
    """A change of the warehouse by another process after its state was read."""


class NoJavaError(RuntimeError):
    """A missing Java, which Spark needs; the text says what to install."""


class JavaStartError(RuntimeError):
    """A JVM that exited before Spark answered; the text holds the end of its output."""


class OptionError(ValueError):
    """An option of a format of leveret's in Spark that is missing, unknown or invalid; the text says what is valid."""


class LinkError(RuntimeError):
    """A Spark job's login or queue that the broker refused; a retry would not help."""


class LinkLostError(LinkError):
    """A Spark job's connection that failed or was lost; unacknowledged messages are back in their queue."""


class PublishError(RuntimeError):
    """Messages of a Spark job that the broker returned, nacked or did not confirm in time."""


# A failing test's summary shows where an exception comes from: the name that users import it by.
for _public in (
    *(BrokerError, RefusedError, WaitTimeoutError, EndlessTimeError, NotDeclaredError, EventsMissingError),
    *(CheckFailedError, LeveretWarning),
):
    _public.__module__ = "leveret"


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Return at most three of the known names with a similar spelling, nearest first."""
    # Imported here because only a mistake needs it.
    from difflib import get_close_matches

    # Ignore case, because Spark passes the names of options in lower case.
    words: dict[str, list[str]] = {}
    for one in known:
        words.setdefault(one.lower(), []).append(one)
    words.pop("", None)
    return [one for word in get_close_matches(name.lower(), words, n=3, cutoff=0.7) for one in words[word]][:3]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" to end a message about an unknown name, or "" if no known name is near."""
    close = nearest(name, known)
    return f"; did you mean {close[0]!r}?" if close else ""


# The words of calls that end or remove something. Only a text with such a word, or a misspelling of one, leads to them.
_DESTRUCTIVE: Final = frozenset(
    (
        *("cancel", "clear", "close", "corrupt", "delete", "drain", "drop"),
        *("expire", "purge", "remove", "reset", "restart", "stop", "unbind"),
    )
)
_NEGATING: Final = ("un", "n", "not")


def nearest_call(name: str, known: Iterable[str]) -> list[str]:
    """Return what `nearest` does for names of calls and keywords, without opposites and unasked-for destruction."""
    return [one for one in nearest(name, known) if not _misleads(name.lower().split("_"), one.split("_"))]


def _misleads(asked: list[str], words: list[str]) -> bool:
    from difflib import get_close_matches

    negated = [{prefix + word for prefix in _NEGATING for word in some} for some in (asked, words)]
    is_opposite = negated[0].intersection(words) or negated[1].intersection(asked)
    if is_opposite or ("not" in asked) != ("not" in words):
        return True
    # A first word in common, such as "assert", makes any two names alike.
    if asked[0] == words[0] and not get_close_matches("_".join(asked[1:]), ["_".join(words[1:])]):
        return True
    return any(not get_close_matches(word, asked, cutoff=0.9) for word in words if word in _DESTRUCTIVE)


def expected(name: str, known: Iterable[str], *, most: int | None = None) -> str:
    """Return what `did_you_mean` does, or if no name is near, a list of all known names or of the first `most`."""
    words = list(known)
    if not words:
        return "; none exists yet"
    more = ", ..." if most is not None and len(words) > most else ""
    return did_you_mean(name, words) or f"; expected one of {', '.join(words[:most])}{more}"


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Return the message about an unknown word: "unknown event 'x'; expected one of ..."."""
    return f"unknown {what} {name!r}{expected(name, known)}"


# What people write for keywords that calls have under another name, with the value that they probably mean. The first
# counts that the call has.
_OTHER_KEYWORDS: Final[Mapping[str, str | tuple[str, ...]]] = {
    **dict.fromkeys(("within", "wait", "timeout_s", "max_wait"), "timeout"),
    **dict.fromkeys(("count", "n", "number", "exactly"), "times"),
    **dict.fromkeys(("key", "binding_key", "topic"), "routing_key"),
    **dict.fromkeys(("connection_name", "client_name"), "client"),
    **dict.fromkeys(("payload", "data", "message", "content"), "body"),
    **dict.fromkeys(("version", "rabbitmq_version", "server_version"), "rabbitmq"),
    **dict.fromkeys(("strict", "strict_checks"), 'checks="error"'),
    **dict.fromkeys(("virtual_host", "virtual_hosts"), "vhosts"),
    **dict.fromkeys(("user", "username", "password", "credentials"), "users"),
    **dict.fromkeys(("trace", "traces"), "trace_dir"),
    **dict.fromkeys(("args", "x_arguments"), "arguments"),
    **dict.fromkeys(("auto_ack", "noack", "no_ack"), 'ack="auto"'),
    **dict.fromkeys(("queue", "queue_name"), ("routing_key", "name")),
    **dict.fromkeys(("match", "contains", "partial"), "json_contains"),
    **dict.fromkeys(("seconds", "duration"), "timeout"),
    "persistent": "delivery_mode=2",
    "ttl": ("expiration", 'arguments={"x-message-ttl": 60_000}'),
    **dict.fromkeys(("type", "queue_type"), 'arguments={"x-queue-type": "quorum"}'),
    **dict.fromkeys(("dead_letter_exchange", "dlx"), 'arguments={"x-dead-letter-exchange": "name"}'),
    "max_length": 'arguments={"x-max-length": 100}',
    "max_priority": 'arguments={"x-max-priority": 10}',
    **dict.fromkeys(("prefetch_count", "qos"), "prefetch"),
    **dict.fromkeys(("ssl", "secure"), "tls"),
    **dict.fromkeys(("management_api", "http"), "management"),
}


def keyword_hint(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" about an unknown keyword, or "" if it resembles none."""
    words = list(known)
    others = _OTHER_KEYWORDS.get(word, ())
    for other in (others,) if isinstance(others, str) else others:
        if other.partition("=")[0] in words:
            return f"; did you mean {other!r}?"
    # The keyword of assertions is no misspelt timestamp.
    return "" if word == "times" else did_you_mean(word, words)


def unknown_keyword(call: str, word: str, known: Iterable[str], more: str = "") -> TypeError:
    """Return the error for a keyword that `call` does not have, with the one it may mean, or all of them and `more`."""
    words = list(known)
    hint = keyword_hint(word, words) or f"; it takes {', '.join(words) or 'none'}{more}"
    return TypeError(f"{call} has no keyword {word!r}{hint}")
