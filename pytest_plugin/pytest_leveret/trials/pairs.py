"""Which features of leveret go together: those that run a test again, watch its broker, or say where it runs.

A run has one treatment at most, and what treats a run says what else it refuses. A run that asks for two features that
do not go together ends before its first test. docs/reference/pairs.md says what comes of each pair, and
tests/plugin/test_pairs.py runs all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Final, NamedTuple

import pytest

from pytest_leveret import contract, needs
from pytest_leveret.options import read_settings
from pytest_leveret.options.markers import EXPLORE_NAME
from pytest_leveret.options.table import REAL as REAL_OPTIONS

FLAKY: Final = "--leveret-flaky"
SEED: Final = "--leveret-flaky-seed"
NEEDS: Final = "leveret needs"
EXPLORE: Final = "the marker leveret_explore"
VERSIONS: Final = "several versions in leveret_rabbitmq"
REAL: Final = "--leveret-real"
XDIST: Final = "pytest-xdist"
WRITE: Final = "--leveret-contract=write"
CHECK: Final = "--leveret-contract=check"
REPORTS: Final = "pages, spans and traces"
MATCH: Final = "leveret_declare = must_match"
FEATURES: Final = (FLAKY, SEED, NEEDS, EXPLORE, VERSIONS, REAL, XDIST, WRITE, CHECK, REPORTS, MATCH)


class Refused(NamedTuple):
    """Two features that do not go together: why, and what to do instead."""

    why: str
    instead: str


# The one treatment of a run: what it has of each of these features.
_TREATMENTS: Final = {FLAKY: "an order", SEED: "an order", NEEDS: "a changed message", EXPLORE: "a fault"}
# What these do to what a broker sends. On a server, a test with the marker is skipped instead.
_DOES: Final = {FLAKY: "delay", SEED: "delay", NEEDS: "change"}
_OWN: Final = {
    (FLAKY, SEED): Refused("the doctor chooses the seeds", "give one of the two"),
    (FLAKY, NEEDS): Refused("both run the tests in their own way", "run one after the other"),
    (FLAKY, XDIST): Refused("the doctor starts processes of its own", "leave out -n, or use -n 0"),
    (FLAKY, WRITE): Refused("a lock is of runs without delays", "leave out --leveret-contract"),
    (SEED, NEEDS): Refused("delays change what a consumer does in time", "leave out --leveret-flaky-seed"),
    (NEEDS, WRITE): Refused(
        "a lock is of messages without a change", "write it first, then give it with leveret needs --lock"
    ),
    (NEEDS, CHECK): Refused("a changed message is to differ from the lock", "leave out --leveret-contract"),
}


def refused(first: str, second: str) -> Refused | None:
    """Return why two features do not go together, in the order of FEATURES; None if they do."""
    if second == REAL and first in _DOES:
        return Refused(f"leveret cannot {_DOES[first]} what a server sends", "leave out --leveret-real")
    if second == EXPLORE:
        return Refused(
            f"a run would have either {_TREATMENTS[first]} or {_TREATMENTS[second]}",
            "remove the marker, or leave the test out with -m 'not leveret_explore'",
        )
    return _OWN.get((first, second))


def refuse_pairs(config: pytest.Config, items: Sequence[pytest.Item] = ()) -> None:
    """Raise UsageError if the run, with these tests, asks for two features that do not go together."""
    mode = contract.mode_of(config)
    asked = {
        FLAKY: config.getoption("leveret_flaky") is not None,
        SEED: config.getoption("leveret_flaky_seed") is not None,
        NEEDS: config.stash.get(needs.IS_SURVEY, False),
        EXPLORE: any(item.get_closest_marker(EXPLORE_NAME) for item in items),
        REAL: "real" in read_settings(config, REAL_OPTIONS),
        XDIST: bool(config.getoption("tx", None)),
        WRITE: mode in contract.WRITING,
        CHECK: mode == "check" and bool(config.getini(contract.INI)),
    }
    for first, second in combinations([name for name in FEATURES if asked.get(name)], 2):
        if (pair := refused(first, second)) is not None:
            raise pytest.UsageError(f"{first} does not go together with {second}: {pair.why}; {pair.instead}")
