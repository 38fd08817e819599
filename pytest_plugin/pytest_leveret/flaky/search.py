"""The search for the order of two steps that separates the runs that failed from those that passed.

For every pair of steps, each run says which came first. A pair is a candidate if it says so differently in failed runs
and in passed ones. Candidates are then forced both ways in new runs: only the order that makes the test fail, and whose
reverse makes it pass, is a cause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final

from pytest_leveret.flaky.play import Order, Outcome, is_line
from pytest_leveret.flaky.steps import BEGINNING, LINE, Name, line_name

# How many candidates are forced, how often each, and how many of the runs may contradict one.
_FORCED_MAX: Final = 16
_TIMES: Final = 3
_SLACK: Final = 0.15

Force = Callable[[Order, int], list[Outcome]]


@dataclass(slots=True)
class Candidate:
    """An order, and how well it goes with failing."""

    order: Order
    mismatch_count: int
    rank: tuple[float | str | Name, ...]


@dataclass(slots=True)
class Finding:
    """What the search has found."""

    # The line in which most runs failed.
    line: int | None
    # How many other failed runs failed elsewhere.
    elsewhere_count: int = 0
    order: Order | None = None
    mismatch_count: int = 0
    # Whether the order was also forced the other way, in which the test passes.
    is_forced_both_ways: bool = False
    pair_count: int = 0
    # Candidates that were forced and are no cause.
    refuted: list[Order] = field(default_factory=list)
    nearest: Candidate | None = None


def search(runs: Sequence[Outcome], force: Force) -> Finding:
    """Return what separates the failed runs from the passed ones."""
    lines = Counter(run.line for run in runs if run.has_failed)
    line, count = lines.most_common(1)[0]
    finding = Finding(line, sum(lines.values()) - count)
    failed = [_positions(run, line) for run in runs if run.has_failed and run.line == line]
    passed = [_positions(run, line) for run in runs if run.outcome == "passed"]
    candidates, finding.pair_count = _candidates(failed, passed, line)
    limit = max(1, int(_SLACK * (len(failed) + len(passed))))
    finding.nearest = candidates[0] if candidates else None
    one_way: Candidate | None = None
    for candidate in [it for it in candidates if it.mismatch_count <= limit][:_FORCED_MAX]:
        makes_fail = _always(candidate.order, force, is_failing=True)
        makes_pass = _always(candidate.order.reverse, force, is_failing=False)
        if makes_fail and makes_pass:
            finding.order, finding.mismatch_count = candidate.order, candidate.mismatch_count
            finding.is_forced_both_ways = True
            return finding
        if makes_fail and makes_pass is None and one_way is None and not candidate.mismatch_count:
            one_way = candidate
        if makes_fail is False or makes_pass is False:
            finding.refuted.append(candidate.order)
    if one_way is not None:
        finding.order = one_way.order
    return finding


def _always(order: Order, force: Force, *, is_failing: bool) -> bool | None:
    """Return whether every run in this order fails, or passes; None if the order could not be had."""
    runs = force(order, 1)
    if holds(runs[0], order) and runs[0].has_failed == is_failing:
        runs += force(order, _TIMES - 1)
    obeying = [run for run in runs if holds(run, order)]
    if not obeying:
        return None
    return all(run.has_failed == is_failing for run in obeying)


def holds(run: Outcome, order: Order) -> bool:
    """Return whether both steps came, the first before the second, which may still have been held back at the end."""
    at = {name: index for index, name in reversed(list(enumerate(run.steps)))}
    if order.first not in at:
        return False
    return at[order.first] < at[order.second] if order.second in at else run.is_held


def _positions(run: Outcome, line: int | None) -> dict[Name, int]:
    """Return when each step came, up to the end of the line that fails."""
    steps = run.steps
    if line is not None:
        ends = [index for index, name in enumerate(steps) if is_line(name) and name.about == str(line)]
        if ends:
            # What the next line causes is a consequence, but what others do before it may be what the line missed.
            after = (index for index, name in enumerate(steps) if index > ends[-1] and is_line(name))
            steps = steps[: next(after, len(steps))]
    at: dict[Name, int] = {}
    for index, name in enumerate(steps):
        if name.act != BEGINNING:
            at.setdefault(name, index)
        elif run.has_failed and name.about == str(line):
            # It looked when it began, or when the last function that it called was done. To make the text of its error
            # takes longer than what it did not wait for.
            line_end = name._replace(act=LINE)
            end = steps.index(line_end, index) if line_end in steps[index:] else len(steps)
            at[line_end] = max((it for it in range(index + 1, end) if is_line(steps[it])), default=index)
    return at


def _candidates(
    failed: list[dict[Name, int]], passed: list[dict[Name, int]], line: int | None
) -> tuple[list[Candidate], int]:
    """Return the orders that go with failing, the best first, and how many pairs there were."""
    counts = Counter(name for run in (*failed, *passed) for name in run)
    total = len(failed) + len(passed)
    failing = None if line is None else line_name(line, 1)
    # A step that is rare says nothing about the other runs.
    names = [name for name, count in counts.items() if count >= min(len(passed), total) * 0.5 or count >= total * 0.5]
    names = [name for name in names if not is_line(name) or counts[name] == total]
    found = []
    for first in names:
        for second in names:
            if first is second or (is_line(first) and is_line(second)):
                continue
            limit = 0.25 * total
            mismatch_count = 0
            for is_failing, runs in ((True, failed), (False, passed)):
                for at in runs:
                    comes_first = at.get(first, inf) < at.get(second, inf)
                    mismatch_count += comes_first != is_failing
                if mismatch_count > limit:
                    break
            else:
                rank = _rank(first, second, failing, failed, passed)
                found.append(Candidate(Order(first, second), mismatch_count, (mismatch_count, *rank)))
    found.sort(key=lambda it: it.rank)
    return found, len(names) * (len(names) - 1) // 2


def _rank(
    first: Name, second: Name, failing: Name | None, failed: list[dict[Name, int]], passed: list[dict[Name, int]]
) -> tuple[float | str | Name, ...]:
    """Put the line that fails first, then the last step that it misses; of two other steps, the earliest."""
    if first == failing and second != failing:
        at = [run[second] - (not second.who) for run in passed if second in run]
        return (0, -sum(at) / max(1, len(at)), not second.who, second)
    has_line = is_line(first) or is_line(second)
    missing_count = sum((first not in run) + (second not in run) for run in failed)
    at = [max(run.get(first, 10_000), run.get(second, 10_000)) for run in (*failed, *passed)]
    return (
        (3 if has_line else 1) + (missing_count > len(failed) / 2),
        sum(at) / len(at),
        (not first.who) + (not second.who),
        first,
        second,
    )
