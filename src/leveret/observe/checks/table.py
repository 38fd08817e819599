"""The table of strict checks with their default levels, and the syntax of levels.

A level is "error" (the test fails at its end), "warning" (a LeveretWarning) or "off". Write "unroutable=error" to set a
level. A check alone means error. A level alone applies to the checks that are on, "all=error" to every check. Later
words win over earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Final, Literal, NamedTuple, get_args

from leveret.errors import nearest, unknown

CheckLevel = Literal["error", "warning", "off"]
# Every check, for type checkers, in the order of the table.
CheckName = Literal[
    "unroutable",
    "rejected_into_nothing",
    "expired_into_nothing",
    "overflowed_into_nothing",
    "uncommitted",
    "lost_at_restart",
    "auto_ack_lost",
    "redelivered_too_often",
    "redeclared_differently",
    "not_in_definitions",
    "unknown_argument",
    "unseen_channel_error",
    "trace_context_lost",
    "unacked_at_end",
    "left_ready",
    "unlimited_prefetch",
    "connection_not_closed",
    "channel_not_closed",
    "unused_fault",
    "never_awaited",
    "lost_worker",
    "no_client",
]
# What `Broker(checks=...)` takes. A mapping is iterable too, so `Iterable[str]` would let a misspelt name pass.
Wanted = str | Sequence[str] | Set[str] | Mapping[CheckName | Literal["all"], CheckLevel]

# What `Broker(declare=...)` takes: whether clients may declare what they like beside the definitions.
DeclareRule = Literal["freely", "must_match"]
# The levels that "must_match" begins with.
_MUST_MATCH: Final[tuple[tuple[str, CheckLevel], ...]] = (
    ("redeclared_differently", "error"),
    ("not_in_definitions", "error"),
)

# How often a message may be redelivered from one queue before `redelivered_too_often` reports it.
MAX_REDELIVERIES: Final = 100

LEVELS: Final[tuple[CheckLevel, ...]] = get_args(CheckLevel)
# The word that means every check: "all=error".
_ALL: Final = "all"
# What people write for the levels.
_OTHER_LEVELS: Final[dict[str, CheckLevel]] = {
    **dict.fromkeys(("strict", "fail", "raise", "true", "on", "yes"), "error"),
    **dict.fromkeys(("ignore", "none", "disabled", "false", "no"), "off"),
}


class Check(NamedTuple):
    """A row of the table."""

    name: CheckName
    level: CheckLevel
    # What the report says after the count: "2 messages ..."
    text: str
    # What is counted: "message", "connection".
    noun: str
    # Whether it reads the trace. Otherwise it looks at the state when the test ends.
    needs_trace: bool = True
    # The keyword that allows it in the call itself.
    allowed_by: str | None = None


_ROWS: Final = (
    Check("unroutable", "warning", "lost: routed to no queue, unnoticed by the publisher", "message"),
    Check("rejected_into_nothing", "warning", "lost: rejected with no dead-letter queue to go to", "message"),
    Check("expired_into_nothing", "warning", "lost: expired with no dead-letter queue to go to", "message"),
    Check(
        "overflowed_into_nothing",
        "warning",
        "lost: pushed out of a full queue with no dead-letter queue to go to",
        "message",
    ),
    Check("uncommitted", "warning", "lost: published in a transaction that was not committed", "message"),
    Check("lost_at_restart", "warning", "lost when the broker restarted", "message"),
    Check(
        "auto_ack_lost", "warning", "perhaps lost: acknowledged automatically before the connection broke", "message"
    ),
    Check("redelivered_too_often", "warning", "requeued and redelivered again and again", "message"),
    Check(
        "redeclared_differently", "warning", "refused: the queue or exchange exists with other arguments", "declaration"
    ),
    Check("not_in_definitions", "off", "of what the definitions lack", "declaration"),
    Check("unknown_argument", "warning", "that RabbitMQ does not know and ignores", "argument"),
    Check("unseen_channel_error", "warning", "that no call of a client has raised, as far as leveret sees", "error"),
    Check("trace_context_lost", "warning", "published outside of the trace of the message being handled", "message"),
    Check("unacked_at_end", "warning", "delivered but not acked when the test ended", "message", needs_trace=False),
    Check("left_ready", "off", "still ready when the test ended", "message", needs_trace=False),
    Check("unlimited_prefetch", "off", "with manual acks and no prefetch limit", "consumer"),
    Check("connection_not_closed", "off", "still open when the test ended", "connection", needs_trace=False),
    Check("channel_not_closed", "off", "still open when the test ended", "channel", needs_trace=False),
    Check(
        "unused_fault",
        "error",
        "that the test added did not happen, or too rarely",
        "fault",
        needs_trace=False,
        allowed_by="optional=True",
    ),
    Check("never_awaited", "error", "that was never awaited", "call", needs_trace=False),
    Check("lost_worker", "error", "that did not start, or that failed unseen", "worker", needs_trace=False),
    Check("no_client", "warning", "to which no client came", "broker", needs_trace=False),
)
CHECKS: Final[Mapping[str, Check]] = {row.name: row for row in _ROWS}


class Levels:
    """The level of every check for one broker, and what the checks measure against."""

    __slots__ = ("_asked", "_levels", "max_redeliveries")

    def __init__(
        self, wanted: Wanted = (), *, max_redeliveries: int = MAX_REDELIVERIES, must_match: bool = False
    ) -> None:
        """Change the default levels to those wanted. Raises ValueError if a check or a level is unknown."""
        self.max_redeliveries = max_redeliveries
        self._levels: dict[str, CheckLevel] = {name: check.level for name, check in CHECKS.items()}
        self._asked: dict[str, None] = {}
        self._set((*(_MUST_MATCH if must_match else ()), *_pairs(wanted)))

    def _set(self, pairs: Iterable[tuple[str | None, CheckLevel]]) -> None:
        for name, level in pairs:
            for check_name in self._meant_by(name):
                self._levels[check_name] = level
                self._asked[check_name] = None

    def with_levels(self, wanted: Wanted) -> Levels:
        """Return the same with further levels, which win."""
        levels = Levels(max_redeliveries=self.max_redeliveries)
        levels._levels, levels._asked = dict(self._levels), dict(self._asked)
        levels._set(_pairs(wanted))
        return levels

    def _meant_by(self, name: str | None) -> list[str]:
        """Return the checks that a name means. None, a level alone, leaves a check off that is off by default."""
        if name is None:
            return [check.name for check in _ROWS if check.level != "off" or self.is_on(check.name)]
        return list(CHECKS) if name == _ALL else [name]

    def level_of(self, name: str) -> CheckLevel:
        """Return the level of this check."""
        return self._levels[name]

    def is_on(self, name: str) -> bool:
        """Return whether the level of this check is not "off"."""
        return self._levels[name] != "off"

    @property
    def asked_for(self) -> list[str]:
        """The checks that the user has turned on, rather than the defaults."""
        return [name for name in self._asked if self.is_on(name)]


def known_check(name: str) -> str:
    """Return the name of a check. Raises ValueError if it is unknown, with the closest known name."""
    if name not in CHECKS:
        raise ValueError(unknown("check", name, CHECKS))
    return name


def _pairs(wanted: Wanted) -> list[tuple[str | None, CheckLevel]]:
    """Return names and levels in order. The name None is a level alone."""
    if isinstance(wanted, Mapping):
        return [(_known(name), _level(level)) for name, level in wanted.items()]
    words = wanted.replace(",", " ").split() if isinstance(wanted, str) else wanted
    return [_pair(word) for word in words]


def _pair(word: str) -> tuple[str | None, CheckLevel]:
    name, equals, level = word.partition("=")
    if equals:
        return _known(name), _level(level)
    if name in LEVELS:
        return None, _level(name)
    if name not in CHECKS and (name in _OTHER_LEVELS or nearest(name, LEVELS)):
        raise _unknown_level(name)
    return known_check(name), "error"


def _known(name: str) -> str:
    return name if name == _ALL else known_check(name)


def _level(word: str) -> CheckLevel:
    if word not in LEVELS:
        raise _unknown_level(str(word).lower())
    return word


def _unknown_level(word: str) -> ValueError:
    if word in _OTHER_LEVELS:
        return ValueError(f"unknown level of a check {word!r}; did you mean {_OTHER_LEVELS[word]!r}?")
    return ValueError(unknown("level of a check", word, LEVELS))
