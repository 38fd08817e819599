"""The strict checks: a row each, with the level each has unless a test asks for another, and how levels are written.

A level is "error" (the test fails at its end), "warning" (a LeveretWarning) or "off". Levels are written as
"unroutable=error"; a name alone means error, a level alone is meant for every check, and what comes later wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Final, Literal, NamedTuple, get_args

from leveret.errors import unknown

CheckLevel = Literal["error", "warning", "off"]
# Every check, for type checkers, in the order of the table.
CheckName = Literal[
    "unroutable",
    "rejected_into_nothing",
    "expired_into_nothing",
    "overflowed_into_nothing",
    "auto_ack_lost",
    "redeclared_differently",
    "unseen_channel_error",
    "unacked_at_end",
    "left_ready",
    "unlimited_prefetch",
    "connection_not_closed",
    "channel_not_closed",
    "unused_fault",
]
# What `Broker(checks=...)` takes. A mapping is iterable too, so `Iterable[str]` would let a misspelt name pass.
Wanted = str | Sequence[str] | Set[str] | Mapping[CheckName | Literal["all"], CheckLevel]

LEVELS: Final[tuple[CheckLevel, ...]] = get_args(CheckLevel)


class Check(NamedTuple):
    """One row."""

    name: CheckName
    level: CheckLevel
    # What it says of so many findings: "{count} reached no queue".
    text: str
    # What is counted: "message", "connection".
    noun: str
    # Whether it asks the trace; otherwise it looks at what is there in the end.
    needs_trace: bool = True
    # How to say, where it is done, that it is meant.
    way_out: str | None = None


_ROWS: Final = (
    Check("unroutable", "warning", "published without mandatory reached no queue: lost", "message"),
    Check("rejected_into_nothing", "warning", "rejected without another queue to go to: lost", "message"),
    Check("expired_into_nothing", "warning", "expired without another queue to go to: lost", "message"),
    Check("overflowed_into_nothing", "warning", "pushed out of a full queue without another to go to: lost", "message"),
    Check(
        "auto_ack_lost", "warning", "acknowledged automatically before the connection broke: handled or not", "message"
    ),
    Check("redeclared_differently", "warning", "refused because what is there was declared otherwise", "declaration"),
    Check("unseen_channel_error", "warning", "that no call of this process was there to hear of", "error"),
    Check("unacked_at_end", "warning", "delivered and not settled when the test ended", "message", needs_trace=False),
    Check("left_ready", "off", "still ready when the test ended", "message", needs_trace=False),
    Check("unlimited_prefetch", "off", "with manual ack and without a prefetch limit", "consumer"),
    Check("connection_not_closed", "off", "open when the test ended", "connection", needs_trace=False),
    Check("channel_not_closed", "off", "open when the test ended", "channel", needs_trace=False),
    Check(
        "unused_fault",
        "error",
        "that the test asked for did not happen",
        "fault",
        needs_trace=False,
        way_out="optional=True",
    ),
)
CHECKS: Final[Mapping[str, Check]] = {row.name: row for row in _ROWS}


class Levels:
    """The level of every check for one broker."""

    __slots__ = ("_asked", "_levels")

    def __init__(self, wanted: Wanted = ()) -> None:
        """The defaults, and what is wanted otherwise; ValueError for a check or a level that does not exist."""
        self._levels: dict[str, CheckLevel] = {name: check.level for name, check in CHECKS.items()}
        self._asked: dict[str, None] = {}
        for name, level in _pairs(wanted):
            for one in CHECKS if name is None else (name,):
                self._levels[one] = level
                self._asked[one] = None

    def of(self, name: str) -> CheckLevel:
        """The level of this check."""
        return self._levels[name]

    def is_on(self, name: str) -> bool:
        """Whether anybody wants to hear of it."""
        return self._levels[name] != "off"

    @property
    def asked_for(self) -> list[str]:
        """The checks that are on because somebody said so."""
        return [name for name in self._asked if self.is_on(name)]


def known_check(name: str) -> str:
    """The name of a check; ValueError for one that does not exist, with the nearest that does."""
    if name not in CHECKS:
        raise ValueError(unknown("check", name, CHECKS))
    return name


def _pairs(wanted: Wanted) -> list[tuple[str | None, CheckLevel]]:
    """Names and levels in order; None names every check."""
    if isinstance(wanted, Mapping):
        return [(None if name == "all" else known_check(name), _level(level)) for name, level in wanted.items()]
    words = wanted.replace(",", " ").split() if isinstance(wanted, str) else wanted
    return [_pair(word) for word in words]


def _pair(word: str) -> tuple[str | None, CheckLevel]:
    name, equals, level = word.partition("=")
    if equals:
        return None if name == "all" else known_check(name), _level(level)
    return (None, _level(name)) if name in LEVELS else (known_check(name), "error")


def _level(word: str) -> CheckLevel:
    if word not in LEVELS:
        raise ValueError(unknown("level of a check", word, LEVELS))
    return word
