"""Differences between two runs or commits: queues, dead letters, tests, violations, refusals, types of messages.

A commit stands for all its runs, and its numbers are means over them. So you can compare three runs of one commit with
one of another. Runs that were cut are left out of a commit that has whole ones. Times are left out, because they differ
in any two runs.

Differences that come from tests known to be flaky are kept apart: those that disappear when the messages of these tests
are left out. An outcome that such a test never had before is no such difference.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from leveret.pipeline.kernel.grouping import Row, grouped
from leveret.pipeline.kernel.subjects.across import flaky
from leveret.pipeline.kernel.subjects.shapes import PRESENT
from leveret.pipeline.reading import Read, cut_among
from leveret.pipeline.wording import copies, label, measure
from leveret.wording import count_text

if TYPE_CHECKING:
    from leveret.pipeline.report.subject import Subject

_OF_QUEUES: Final = (
    *("copies", "deliveries", "redeliveries", "acked", "leaked"),
    *("dead_rejected", "dead_expired", "dead_maxlen", "dead_delivery_limit", "dropped", "max_depth", "late"),
)
_KIND: Final = ("vhost", "exchange", "routing_key", "name")
_WAY: Final = ("vhost", "from_queue", "reason", "to_queue")
_PLACES_KEPT: Final = 3
# The flaky tests that a line names.
_TESTS_NAMED: Final = 5


class DiffPlace(NamedTuple):
    """What a difference is about: the kind of thing, its name, the order for display, and the number or behaviour."""

    side: str
    queue: str | None
    position: int
    difference: str

    @property
    def order(self) -> tuple[Any, ...]:
        """A key to sort by; a missing name comes first."""
        return (self.side, self.queue is not None, self.queue or "", self.position, self.difference)


@dataclass(frozen=True, slots=True)
class RunDifference:
    """A value that differs. `left` or `right` is None if that side has none."""

    place: DiffPlace
    left: str | None
    right: str | None


@dataclass(frozen=True, slots=True)
class Counted:
    """A side of a comparison: the runs whose numbers count, and the runs that were cut.

    The numbers of a commit are means over its whole runs. If a side has cut runs only, they count.
    """

    name: str
    runs: tuple[str, ...]
    cut: frozenset[str]

    @property
    def is_cut(self) -> bool:
        """Whether the numbers are those of cut runs."""
        return bool(self.cut) and self.cut.issuperset(self.runs)

    def __str__(self) -> str:
        many = len(self.cut) > 1
        if self.is_cut:
            these = "its runs were" if many else "its run was" if self.name.startswith("commit ") else "it was"
            return f"{self.name}; {these} cut, so tests and messages are missing"
        if self.cut:
            return f"{self.name}, without {len(self.cut)} run{'s' if many else ''} that {'were' if many else 'was'} cut"
        return self.name


@dataclass(frozen=True, slots=True)
class Compared:
    """The result of `diff`, in order of place.

    `of_flaky` holds the differences that come from tests known to be flaky, and `flaky_tests` names those tests.
    """

    left: Counted
    right: Counted
    differences: list[RunDifference]
    of_flaky: list[RunDifference]
    flaky_tests: list[str]

    @property
    def all(self) -> list[RunDifference]:
        """All differences, in order of place."""
        return _sorted([*self.differences, *self.of_flaky])


@dataclass(frozen=True, slots=True)
class _Side:
    """The numbers of a run or commit, summed over its runs, and the behaviours of its tests."""

    runs: tuple[str, ...]
    numbers: Counter[DiffPlace]
    behaviours: dict[DiffPlace, str]
    # The outcomes and fingerprints of each test.
    endings: dict[str, set[tuple[str | None, str]]]

    def values(self) -> dict[DiffPlace, str]:
        """Return all values as text; of numbers, the means."""
        means = {place: _mean(value, len(self.runs)) for place, value in self.numbers.items() if value}
        return {**means, **self.behaviours}


def diff(read: Read, left: Subject, right: Subject) -> Compared:
    """Compare two runs or commits.

    A test is known to be flaky if its messages differed in runs of one commit, or if it more than once came back to an
    earlier behaviour. The runs on the right do not count for that. An outcome that it had in none of the others is
    shown.
    """
    counted = _counted(read, left), _counted(read, right)
    sides = [_side(read, each.runs) for each in counted]
    differing = _differing(*sides)
    tests = _several(*(side.endings for side in sides)) if differing else set()
    known = _flaky_among(read, tests, right.runs) if tests else {}
    if not known:
        return Compared(*counted, _sorted(differing.values()), [], [])
    steady = _differing(*(_without(read, side, known) for side in sides))
    own = {place for place in differing if _is_own(place, steady, known, sides[1])}
    others = _sorted(difference for place, difference in differing.items() if place not in own)
    return Compared(*counted, _sorted(differing[place] for place in own), others, sorted(known) if others else [])


def lines(compared: Compared, *, with_flaky: bool = False) -> list[str]:
    """Return a line for each difference, and a last one for all of flaky tests, unless they are wanted too.

    Two lines before them say what is on the left and right, if anything differs or a run was cut.
    """
    found = []
    for each in compared.all if with_flaky else compared.differences:
        side, queue, _, what = each.place
        where = side if queue is None else f"{side} {queue}"
        found.append(f"{where}, {measure(what)}: {named(each.left)} | {named(each.right)}")
    if compared.of_flaky and not with_flaky:
        tests, count = compared.flaky_tests, len(compared.of_flaky)
        others = f" and {len(tests) - _TESTS_NAMED} others" if len(tests) > _TESTS_NAMED else ""
        found.append(
            f"flaky tests: {count_text(count, 'more difference')}, which --flaky lists, from "
            f"{', '.join(tests[:_TESTS_NAMED])}{others}"
        )
    if found or compared.left.cut or compared.right.cut:
        found[:0] = [f"left: {compared.left}", f"right: {compared.right}"]
    return found


def named(value: str | None) -> str:
    """Return a value as text: "none" for None."""
    return "none" if value is None else value


def _counted(read: Read, subject: Subject) -> Counted:
    cut = cut_among(read, subject.runs)
    whole = tuple(run for run in subject.runs if run not in cut)
    return Counted(str(subject), whole or subject.runs, cut)


def _is_own(place: DiffPlace, steady: Collection[DiffPlace], flaky: Mapping[str, set[str]], right: _Side) -> bool:
    """Return whether a difference remains without the `flaky` tests, given with the outcomes that they had before."""
    if place.side != "test" or place.queue is None or place.queue not in flaky:
        return place in steady
    outcomes = {outcome for outcome, _ in right.endings.get(place.queue, ())}
    return place.difference == "outcome" and not outcomes <= flaky[place.queue]


def _sorted(differences: Iterable[RunDifference]) -> list[RunDifference]:
    return sorted(differences, key=lambda difference: difference.place.order)


def _differing(left: _Side, right: _Side) -> dict[DiffPlace, RunDifference]:
    lefts, rights = left.values(), right.values()
    return {
        place: RunDifference(place, lefts.get(place), rights.get(place))
        for place in {**lefts, **rights}
        if lefts.get(place) != rights.get(place)
    }


def _side(read: Read, runs: tuple[str, ...]) -> _Side:
    numbers = _of_tests(read, runs, lambda rows: rows)
    fingerprints = read("fingerprints", runs=runs, columns=("test", "outcome", "fp", "parts"))
    first = fingerprints.append_column("row", pa.array(range(len(fingerprints)), pa.int64()))
    rows = [row["row"] for row in grouped(first, ("test", "outcome", "fp"), lowest=["row"])]
    distinct = fingerprints.take(pa.array(rows, pa.int64())).to_pylist()
    endings: dict[str, set[tuple[str | None, str]]] = defaultdict(set)
    for row in distinct:
        endings[row["test"]].add((row["outcome"], row["fp"]))
    return _Side(runs, numbers, _behaviours(distinct) | _shapes(read, runs), endings)


def _shapes(read: Read, runs: Collection[str]) -> dict[DiffPlace, str]:
    """Return the types of each field of each kind of message, as `contract drift` reads them."""
    types: dict[DiffPlace, list[str]] = defaultdict(list)
    rows = read("message_shapes", runs=runs, columns=(*_KIND, "field", "type"), where={"word": [None]})
    for row in rows.to_pylist():
        if row["type"] != PRESENT:
            kind = " ".join(row[name] for name in _KIND[1:] if row[name])
            place = kind if row["vhost"] in (None, "/") else f"{row['vhost']}/{kind}"
            types[DiffPlace("messages", place, 0, row["field"])].append(row["type"])
    return {place: " | ".join(sorted(of)) for place, of in types.items()}


def _of_tests(read: Read, runs: Collection[str], kept: Callable[[pa.Table], pa.Table]) -> Counter[DiffPlace]:
    """Sum the numbers of queues, dead letters and violations over the rows that are kept."""
    numbers: Counter[DiffPlace] = Counter()
    summed = [name for name in _OF_QUEUES if name != "max_depth"]
    queues = kept(read("test_queues", runs=runs, columns=("run", "test", "vhost", "queue", *_OF_QUEUES)))
    for row in grouped(queues, ("run", "vhost", "queue"), sums=summed, highest=["max_depth"]):
        for position, name in enumerate(_OF_QUEUES):
            numbers[DiffPlace("queue", label(row), position, name)] += row[name]
    letters = kept(read("run_lineage", runs=runs, columns=("test", *_WAY, "n")))
    for row in grouped(letters, _WAY, sums=["n"]):
        way = " to ".join(name for name in (row["reason"], row["to_queue"]) if name is not None)
        source = row["from_queue"] and label({"vhost": row["vhost"], "queue": row["from_queue"]})
        numbers[DiffPlace("dead letters", source, 0, way)] += row["n"]
    for row in grouped(kept(read("violations", runs=runs, columns=("test", "queue", "rule"))), ("queue", "rule")):
        numbers[DiffPlace("violations", row["queue"], 0, row["rule"])] += row["count"]
    refused = kept(read("run_counts", runs=runs, columns=("test", "reason", "n"), where={"measure": ["refused"]}))
    for row in grouped(refused, ["reason"], sums=["n"]):
        numbers[DiffPlace("refusals", None, 0, f"code {row['reason']}")] += row["n"]
    return numbers


def _without(read: Read, side: _Side, tests: Collection[str]) -> _Side:
    """Return a side without the messages of these tests."""
    others = pa.array(list(tests), pa.string())
    numbers = _of_tests(read, side.runs, lambda rows: rows.filter(pc.invert(pc.is_in(rows["test"], value_set=others))))
    return _Side(side.runs, numbers, side.behaviours, side.endings)


def _several(
    left: Mapping[str, set[tuple[str | None, str]]], right: Mapping[str, set[tuple[str | None, str]]]
) -> set[str]:
    """Return the tests that ended in more than one way. They differ, or they differ in how often."""
    return {test for test in {**left, **right} if len(left.get(test, set()) | right.get(test, set())) > 1}


def _flaky_among(read: Read, tests: Collection[str], without: Collection[str]) -> dict[str, set[str]]:
    """Return which of these tests are flaky, judged by all runs but those `without`; and their outcomes in these runs.

    A test is flaky if it differed in runs of one commit, or if it came back to an earlier behaviour more than once.
    """
    columns = ("run", "commit", "test", "outcome", "fp", "parts")
    rows = read("fingerprints", columns=columns, where={"test": tests})
    others = pc.invert(pc.is_in(rows["run"], value_set=pa.array(list(without), pa.string())))
    rows = rows.filter(pc.and_(others, pc.is_valid(rows["commit"])))
    found = flaky(rows)
    known: dict[str, set[str]] = {
        test: set() for test in found.filter(pc.greater(found["behaviours"], 1))["test"].to_pylist()
    }
    known |= {test: set() for test in _unsteady(read, rows)}
    for row in grouped(rows, ("test", "outcome")):
        if row["test"] in known and row["outcome"] is not None:
            known[row["test"]].add(row["outcome"])
    return known


def _unsteady(read: Read, fingerprints: pa.Table) -> list[str]:
    """Return the tests that came back to an earlier behaviour more than once, in the order in which runs began.

    Once may be a change that was taken back.
    """
    tests = fingerprints["test"].unique().to_pylist()
    starts = read("run_counts", columns=("run", "began"), where={"test": tests, "measure": ["outcome"]}).to_pylist()
    began = {row["run"]: (row["began"] or 0, row["run"]) for row in starts}
    behaviours: dict[str, list[str]] = defaultdict(list)
    ended = fingerprints.select(["run", "test", "fp"]).filter(pc.is_valid(fingerprints["outcome"])).to_pylist()
    for row in sorted(ended, key=lambda row: began[row["run"]]):
        behaviours[row["test"]].append(row["fp"])
    return [test for test, of in behaviours.items() if _returns(of) > 1]


def _returns(behaviours: Sequence[str]) -> int:
    seen: set[str] = set()
    count = 0
    for before, behaviour in pairwise(behaviours):
        seen.add(before)
        count += behaviour != before and behaviour in seen
    return count


def _behaviours(distinct: Iterable[Row]) -> dict[DiffPlace, str]:
    """Return the outcomes of each test and what happened in its queues, each behaviour once."""
    outcomes, flows = defaultdict(set), defaultdict(set)
    for row in distinct:
        outcomes[row["test"]].add(row["outcome"] or "without an end")
        flows[row["test"]].add(_flow(row["parts"]))
    return {
        **_joined(outcomes, 0, "outcome", ", "),
        # A test that never had a message is known by its outcome.
        **_joined({test: of for test, of in flows.items() if of != {"no message"}}, 1, "flow", " | "),
    }


def _joined(texts: Mapping[str, set[str]], position: int, difference: str, separator: str) -> dict[DiffPlace, str]:
    return {DiffPlace("test", test, position, difference): separator.join(sorted(of)) for test, of in texts.items()}


def _flow(parts: Iterable[Row]) -> str:
    by_queue: dict[str, list[str]] = defaultdict(list)
    for part in parts:
        by_queue[part["queue"]].append(copies(part))
    return "; ".join(f"{queue}: {', '.join(of)}" for queue, of in by_queue.items()) or "no message"


def _mean(value: float, runs: int) -> str:
    mean = round(value / runs, _PLACES_KEPT)
    return str(int(mean)) if mean == int(mean) else str(mean)
