"""Which features of leveret go together: those that run a test again, watch its broker, or say where it runs.

`PAIRS` is the one table; only the two modes of one option are no pair. A run that asks for two features that do not go
together ends before its first test, with the sentence of that pair. docs/reference/pairs.md prints the table, and
tests/plugin/test_pairs.py runs each pair of it.
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


class Runs(NamedTuple):
    """Two features that go together, and what comes of them."""

    what: str


class Refused(NamedTuple):
    """Two features that do not, why, and what to do instead."""

    why: str
    instead: str


_WITHOUT_MARK: Final = "remove the marker, or leave the test out with -m 'not leveret_explore'"
_ON_LEVERET: Final = "leave out --leveret-real"
_BY_ITSELF: Final = "Each does what it does alone."
_NO_RECORDS: Final = "None is written of the runs, which are no runs of the suite."
_NO_UNUSED: Final = "Other declarations fail the test. What no test used is not said."

PAIRS: Final[dict[tuple[str, str], Runs | Refused]] = {
    (FLAKY, SEED): Refused("the doctor chooses the seeds", "give one of the two"),
    (FLAKY, NEEDS): Refused("both run the tests in their own way", "run one after the other"),
    (FLAKY, EXPLORE): Refused("a run would have either an order or a fault", _WITHOUT_MARK),
    (FLAKY, VERSIONS): Runs("The doctor examines the version that the name of the test ends with."),
    (FLAKY, REAL): Refused("leveret cannot delay what a server sends", _ON_LEVERET),
    (FLAKY, XDIST): Refused("the doctor starts processes of its own", "leave out -n, or use -n 0"),
    (FLAKY, WRITE): Refused("a lock is of runs without delays", "leave out --leveret-contract"),
    (FLAKY, CHECK): Runs("A run that the contract refuses counts as failed."),
    (FLAKY, REPORTS): Runs(f"{_NO_RECORDS} The doctor's own page shows two of them."),
    (FLAKY, MATCH): Runs(_NO_UNUSED),
    (SEED, NEEDS): Refused("delays change what a consumer does in time", "leave out --leveret-flaky-seed"),
    (SEED, EXPLORE): Refused("a run would have either an order or a fault", _WITHOUT_MARK),
    (SEED, VERSIONS): Runs("Each version runs in the order of the seed."),
    (SEED, REAL): Refused("leveret cannot delay what a server sends", _ON_LEVERET),
    (SEED, XDIST): Runs(_BY_ITSELF),
    (SEED, WRITE): Runs(_BY_ITSELF),
    (SEED, CHECK): Runs(_BY_ITSELF),
    (SEED, REPORTS): Runs("They show the run with its delays."),
    (SEED, MATCH): Runs(_BY_ITSELF),
    (NEEDS, EXPLORE): Refused("a run would have either a changed message or a fault", _WITHOUT_MARK),
    (NEEDS, VERSIONS): Runs("Each version is measured. A field that one of them needs is needed."),
    (NEEDS, REAL): Refused("leveret cannot change what a server sends", _ON_LEVERET),
    (NEEDS, XDIST): Runs("Processes of its own take the place of the workers."),
    (NEEDS, WRITE): Refused(
        "a lock is of messages without a change", "write it first, then give it with leveret needs --lock"
    ),
    (NEEDS, CHECK): Refused("a changed message is to differ from the lock", "leave out --leveret-contract"),
    (NEEDS, REPORTS): Runs(_NO_RECORDS),
    (NEEDS, MATCH): Runs(_NO_UNUSED),
    (EXPLORE, VERSIONS): Runs("Each version is explored. The run without a fault is the one that is compared."),
    (EXPLORE, REAL): Runs("A test with the marker is skipped, and the end of the run names it."),
    (EXPLORE, XDIST): Runs(_BY_ITSELF),
    (EXPLORE, WRITE): Runs("The run without a fault is written."),
    (EXPLORE, CHECK): Runs("The run without a fault is checked."),
    (EXPLORE, REPORTS): Runs("The page is that of the run that is reported. Traces have all runs, spans the last."),
    (EXPLORE, MATCH): Runs("The run that is reported counts."),
    (VERSIONS, REAL): Runs("The tests of the server's version run. The report says which versions did not run."),
    (VERSIONS, XDIST): Runs(_BY_ITSELF),
    (VERSIONS, WRITE): Runs("The lock has what any version has shown."),
    (VERSIONS, CHECK): Runs("Each version is checked."),
    (VERSIONS, REPORTS): Runs("Each version has its own."),
    (VERSIONS, MATCH): Runs("What a test used on any version is used."),
    (REAL, XDIST): Runs(_BY_ITSELF),
    (REAL, WRITE): Runs("The lock has what clients sent to the server."),
    (REAL, CHECK): Runs("What clients sent to the server is checked."),
    (REAL, REPORTS): Runs("They show what happened on the server."),
    (REAL, MATCH): Runs(_BY_ITSELF),
    (XDIST, WRITE): Runs("The lock has what the tests of all workers have shown."),
    (XDIST, CHECK): Runs(_BY_ITSELF),
    (XDIST, REPORTS): Runs("Each worker writes its own. One index has all pages."),
    (XDIST, MATCH): Runs("What a test of any worker used is used."),
    (WRITE, REPORTS): Runs(_BY_ITSELF),
    (WRITE, MATCH): Runs(_BY_ITSELF),
    (CHECK, REPORTS): Runs(_BY_ITSELF),
    (CHECK, MATCH): Runs(_BY_ITSELF),
    (REPORTS, MATCH): Runs(_BY_ITSELF),
}


def sentence_of(first: str, second: str) -> str:
    """Return what a run says that asks for two features that do not go together."""
    pair = PAIRS[first, second]
    assert isinstance(pair, Refused)
    return f"{first} does not go together with {second}: {pair.why}; {pair.instead}"


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
    for pair in combinations([name for name in FEATURES if asked.get(name)], 2):
        if isinstance(PAIRS[pair], Refused):
            raise pytest.UsageError(sentence_of(*pair))
