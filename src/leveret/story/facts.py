"""Counted facts: what happened in a trial, and what trials without a treatment do not agree on by themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple


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


def noise_of(runs: Sequence[Facts]) -> set[CountedFact]:
    """Return the facts, without their values, that runs of the same trial do not have alike."""
    return {fact.spot for fact in set().union(*runs) if len({facts[fact] for facts in runs}) > 1}


def without_noise(facts: Facts, noise: set[CountedFact]) -> Facts:
    """Return facts in which those of `noise` have no value."""
    plain = Facts()
    for fact, count in facts.items():
        plain[fact.spot if fact.spot in noise else fact] += count
    return plain
