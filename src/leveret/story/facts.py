"""Counted facts: what happened in a trial, and what trials without a treatment do not agree on by themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from time import time
from typing import Final, NamedTuple

_DAY_S: Final = 86_400
# A number of seconds since 1970 that is as large lies in the year 5138.
MILLISECONDS_MIN: Final = 100_000_000_000


class CountedFact(NamedTuple):
    """Something that happened: what, where, in which field, and with which value."""

    what: str
    where: str
    path: str = ""
    value: str = ""

    @property
    def spot(self) -> CountedFact:
        """The fact without its value."""
        return self._replace(value="")


Facts = Counter[CountedFact]


def is_of_now(value: object) -> bool:
    """Return whether a value is an instant within a day of now: it may be made anew in each run."""
    at: float | None = None
    if isinstance(value, datetime):
        at = value.timestamp()
    elif isinstance(value, str) and value[4:5] == "-":
        with suppress(ValueError):
            at = datetime.fromisoformat(value).timestamp()
    elif isinstance(value, int | float):
        at = value / 1000 if value > MILLISECONDS_MIN else value
    return at is not None and abs(at - time()) < _DAY_S


def noise_of(runs: Sequence[Facts]) -> set[CountedFact]:
    """Return the facts, without their values, that runs of the same trial do not have alike."""
    return {fact.spot for fact in set().union(*runs) if len({facts[fact] for facts in runs}) > 1}


def without_noise(facts: Facts, noise: set[CountedFact]) -> Facts:
    """Return facts in which those of `noise` have no value."""
    plain = Facts()
    for fact, count in facts.items():
        plain[fact.spot if fact.spot in noise else fact] += count
    return plain
