"""The search for the order of two steps that separates the runs that failed from those that passed.

For every pair of steps, each run says which came first. A pair is a candidate if it says so differently in failed runs
and in passed ones. New runs then force candidates, and `_conclude` says what follows from how many of them failed. To
hold back what a client sends does not delay the client itself. So if a line may look at what a client does by itself,
such as a list that its handler fills, a forced run keeps the delivery from the client.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import comb, inf
from typing import Final, Literal

from pytest_leveret.flaky.play import Order, Outcome, is_line
from pytest_leveret.flaky.steps import BEGINNING, LINE, Name, line_name

# How many candidates are forced, and how often each: more often while the runs agree.
_FORCED_MAX: Final = 16
_LOOKS_MAX: Final = 8
_TIMES: Final = (2, 5, 20)
# How many runs must have had an order by themselves before they say anything.
_ENOUGH_SEEN: Final = 10
# The share of the failed runs, and of the passed ones, that may contradict an order. Together they may be so many for
# each failed run.
_SLACK: Final = 0.15
_FOR_EACH_FAILED: Final = 1 / 3
# What ends the work of a client on a message, the surest first, and what may begin it.
_ENDS: Final = ("ack", "reject", "nack", "publish")
_BEGINNINGS: Final = ("delivery", "get-ok", "confirm", "return")

Force = Callable[[Order, int], list[Outcome]]


@dataclass(slots=True)
class Candidate:
    """An order that goes with failing."""

    order: Order
    # How many runs failed in the other order, or passed in this one.
    mismatch_count: int
    rank: tuple[float | str | Name, ...]


@dataclass(slots=True)
class Counts:
    """How many of the runs that had an order passed, failed in the line in which most do, and failed elsewhere."""

    passed: int = 0
    failed: int = 0
    elsewhere: int = 0
    # How many passed that line, and failed in another one, as some runs have by themselves: for another reason.
    known: int = 0
    # How many runs were forced to the order, and had another one. If there are any, those that had it did so for a
    # reason of their own, which may be the cause.
    lost: int = 0

    @property
    def is_forced(self) -> bool:
        """Whether all runs had the order."""
        return not self.lost and self.total > 0

    @property
    def total(self) -> int:
        """How many runs there were."""
        return self.passed + self.failed + self.elsewhere + self.known + self.lost

    @property
    def often_passes(self) -> bool:
        """Whether so many runs passed that the few that would be forced are not missed."""
        return self.passed >= _ENOUGH_SEEN and not self.failed

    @property
    def always_fails(self) -> bool:
        """Whether every run had the order and failed, in the same line."""
        return self.is_forced and self.failed == self.total

    @property
    def always_passes(self) -> bool:
        """Whether every run had the order and passed, apart from failures for a reason that is known."""
        return self.is_forced and self.passed > 0 and self.passed + self.known == self.total


@dataclass(slots=True)
class OrderFinding:
    """What the search has found."""

    # The line in which most runs failed.
    line: int | None
    # "cause": the test fails in the order and passes in the other one. "perhaps": so too, but not both could be forced.
    # "between": the first step is a line, and it looks at what a client does between `received` and the second step.
    # "after": it looks at what a client does after `received`, which is the second step.
    kind: Literal["cause", "between", "after", "perhaps", "none"] = "none"
    order: Order | None = None
    # The orders of new runs which all failed, and which all passed.
    failing: Order | None = None
    passing: Order | None = None
    received: Name | None = None
    mismatch_count: int = 0
    # What became of these new runs.
    failing_runs: Counts = field(default_factory=Counts)
    passing_runs: Counts = field(default_factory=Counts)
    # Candidates that were forced and are no cause, how many orders were forced, and how many candidates were not.
    refuted: list[Order] = field(default_factory=list)
    forced_count: int = 0
    unforced_count: int = 0
    nearest: Candidate | None = None
    # How often a step like the second one has come by then in every run, in the same queue or exchange. None if that
    # differs, so that a wait for so many may be met without the step.
    times: int | None = None
    # How many runs passed in the other order by themselves.
    seen_count: int = 0
    # How many other failed runs failed elsewhere, how many runs were compared, and how many pairs.
    elsewhere_count: int = 0
    run_count: int = 0
    pair_count: int = 0

    @property
    def is_forced_both_ways(self) -> bool:
        """Whether there are new runs which all failed, and others which all passed."""
        return self.failing is not None and self.passing is not None


class _Run:
    """When each step came in a run, and when the line that fails was done."""

    def __init__(self, run: Outcome, line: int | None) -> None:
        self.at: Final[dict[Name, int]] = {}
        self.end: float = inf
        steps = run.steps
        for index, name in enumerate(steps):
            if name.act == LINE and name.about == str(line):
                self.end = index
            if name.act != BEGINNING:
                self.at.setdefault(name, index)
            elif run.has_failed and run.line == line and name.about == str(line):
                # It looked when it began, or when the last function that it called was done. To make the text of its
                # error takes longer than what it did not wait for.
                line_end = name._replace(act=LINE)
                end = steps.index(line_end, index) if line_end in steps[index:] else len(steps)
                self.at[line_end] = max((it for it in range(index + 1, end) if is_line(steps[it])), default=index)

    def has(self, order: Order) -> bool:
        """Return whether the first step came, and the second not before it: it may never have come.

        What comes after the line that fails is a consequence, so it does not count as first.
        """
        at = self.at.get(order.first, inf)
        return at <= self.end and at < self.at.get(order.second, inf)


class _Runs:
    """The runs so far, and new runs in forced orders."""

    def __init__(self, runs: Sequence[Outcome], line: int | None, force: Force) -> None:
        self.line: Final = line
        self.failing: Final = None if line is None else line_name(line, 1)
        self.failed: Final = [_Run(run, line) for run in runs if run.has_failed and run.line == line]
        self.passed: Final = [_Run(run, line) for run in runs if run.outcome == "passed"]
        self.other_lines: Final = {run.line for run in runs if run.has_failed and run.line != line}
        # The other runs that failed, but only after the line.
        others = (_Run(run, line) for run in runs if run.has_failed and run.line != line)
        self.others: Final = [run for run in others if self.failing in run.at]
        counts = Counter(name for run in (*self.failed, *self.passed) for name in run.at)
        total = len(self.failed) + len(self.passed)
        # A step that is rare says nothing about the other runs.
        often = 0.5 * len(self.passed)
        self.names: Final = [it for it, count in counts.items() if count >= (total if is_line(it) else often)]
        self.forced: Final[dict[Order, Counts]] = {}
        self._force: Final = force

    def fails(self, order: Order) -> bool:
        """Return whether new runs in an order all fail, in the same line."""
        return self._agree(order, lambda counts: counts.always_fails)

    def passes(self, order: Order) -> bool:
        """Return whether new runs in an order all pass."""
        return self._agree(order, lambda counts: counts.always_passes)

    def _agree(self, order: Order, does: Callable[[Counts], bool]) -> bool:
        counts = self.forced.setdefault(order, Counts())
        for total in _TIMES:
            if counts.total and not does(counts):
                break
            for run in self._force(order, total - counts.total) if total > counts.total else ():
                seen = _Run(run, self.line)
                if not seen.has(order):
                    counts.lost += 1
                elif not run.has_failed:
                    counts.passed += 1
                elif run.line == self.line:
                    counts.failed += 1
                elif run.line in self.other_lines and self.failing in seen.at:
                    counts.known += 1
                else:
                    counts.elsewhere += 1
        return does(counts)

    def seen(self, order: Order) -> Counts:
        """Return what came of an order in the runs that had it by themselves."""
        return Counts(*(sum(run.has(order) for run in runs) for runs in (self.passed, self.failed)))

    def allows(self, order: Order) -> bool:
        """Return whether no new run passed in an order, and none failed in the other one."""
        forced, reverse = self._both(order)
        return not (forced.passed + forced.elsewhere + reverse.failed + reverse.elsewhere)

    def refutes(self, order: Order) -> bool:
        """Return whether new runs show that neither an order nor what a client does around it is the cause."""
        forced, reverse = self._both(order)
        # What a client sends is late without the client being late. What follows from a step may be what a line needs.
        is_client_late = is_line(order.second) or not order.second.is_sent_by_client
        return bool((is_client_late and forced.passed) or (not is_line(order.first) and reverse.failed))

    def _both(self, order: Order) -> tuple[Counts, Counts]:
        return self.forced.get(order, Counts()), self.forced.get(order.reverse, Counts())

    def times(self, step: Name) -> int | None:
        """Return how often a client has done the same in the same queue or exchange, once a step has come.

        None if a wait for so many would be met without the step in some run, or if its name does not say which key.
        """
        counts, missing = set[int](), [0]
        for at in (run.at for run in (*self.passed, *self.failed, *self.others)):
            like = [at[it] for it in at if it.who and _is_alike(it, step)]
            if step in at:
                counts.add(sum(it <= at[step] for it in like))
            else:
                missing.append(len(like))
        return counts.pop() if len(counts) == 1 and max(missing) < max(counts) else None

    def mean(self, name: Name) -> float:
        """Return when a step comes in runs that pass."""
        at = [run.at[name] for run in self.passed if name in run.at]
        return sum(at) / max(1, len(at))


def search(runs: Sequence[Outcome], force: Force) -> OrderFinding:
    """Return what separates the failed runs from the passed ones."""
    lines = Counter(run.line for run in runs if run.has_failed)
    line, count = lines.most_common(1)[0]
    known = _Runs(runs, line, force)
    finding = _conclude(known)
    if (order := finding.order) is not None:
        finding.times = known.times(order.second)
        finding.seen_count = known.seen(order.reverse).passed
        finding.mismatch_count += sum(run.has(order) for run in known.others)
    finding.failing_runs, finding.passing_runs = (
        Counts() if it is None else known.forced[it] for it in (finding.failing, finding.passing)
    )
    finding.elsewhere_count = sum(lines.values()) - count
    finding.run_count = sum(map(len, (known.failed, known.passed, known.others)))
    line_count = sum(map(is_line, known.names))
    finding.pair_count = comb(len(known.names), 2) - comb(line_count, 2)
    return finding


def _conclude(runs: _Runs) -> OrderFinding:
    """Return the strongest statement that the runs support."""
    line, fails, passes, looks = runs.line, runs.fails, runs.passes, _looks(runs)
    found = _candidates(runs)
    candidates = found[:_FORCED_MAX]
    # Two steps that disagree with some runs may only go along with what a line looks at.
    exact = [it for it in candidates if is_line(it.order.first) or not it.mismatch_count]
    if (cause := _cause(exact, runs)) is not None:
        return cause
    for order, received in looks:
        # The client itself is late, or it is at work when the line waits for what it sends.
        late, reverse = Order(received, order.first, "others"), replace(order.reverse, received=received)
        if fails(late):
            if passes(reverse):
                return OrderFinding(line, "between", order, late, reverse, received)
            if not runs.forced[reverse].is_forced and runs.seen(reverse).often_passes:
                return OrderFinding(line, "between", order, late, None, received)
    if (cause := _cause(candidates, runs)) is not None:
        return cause
    for it in candidates:
        # The line needs what follows from the step, too.
        order, early = it.order, Order(it.order.second, it.order.first)
        if is_line(order.first) and fails(order) and passes(early):
            return OrderFinding(line, "cause", order, order, early, mismatch_count=it.mismatch_count)
    for first, received in dict.fromkeys((*((it.first, received) for it, received in looks), *_beginnings(runs))):
        late, early = Order(received, first, "others"), Order(received, first)
        if fails(late) and passes(early):
            return OrderFinding(line, "after", Order(first, received), late, early, received)
    for order in [it.order for it in candidates if not it.mismatch_count]:
        if runs.allows(order):
            passes(order.reverse)
            has_failed = fails(order)
            if runs.allows(order):
                return OrderFinding(line, "perhaps", order, order if has_failed else None)
    forced = {(order.first, order.second) for order, counts in runs.forced.items() if counts.is_forced}
    return OrderFinding(
        line,
        refuted=[it.order for it in candidates if runs.refutes(it.order)],
        forced_count=len(forced),
        unforced_count=sum((it.order.first, it.order.second) not in forced for it in found),
        nearest=next((it for it in candidates if it.mismatch_count and runs.allows(it.order)), None),
    )


def _cause(candidates: list[Candidate], runs: _Runs) -> OrderFinding | None:
    for it in candidates:
        order, reverse = it.order, it.order.reverse
        if runs.fails(order) and runs.passes(reverse):
            return OrderFinding(runs.line, "cause", order, order, reverse, mismatch_count=it.mismatch_count)
    return None


def _is_alike(one: Name, other: Name) -> bool:
    """Return whether a wait for one step of a client is met by the other."""
    is_about_all = bool(one.place) and one.act not in ("publish", "confirm")
    return (one.act, one.place) == (other.act, other.place) and (is_about_all or one.about == other.about)


def _looks(runs: _Runs) -> list[tuple[Order, Name]]:
    """Return the orders in which a line may look too early at what a client does before it is done with a message.

    With each comes what the client had received. The line that fails comes first, then the latest.
    """
    found = []
    for line in filter(is_line, runs.names):
        for step in runs.names:
            order = Order(line, step)
            if step.act not in _ENDS or runs.seen(order).failed < (1 - _SLACK) * len(runs.failed):
                continue
            way = _ENDS.index(step.act)
            rank = (line != runs.failing, not step.who, way, -runs.mean(line), -runs.mean(step), step)
            found += [(rank, order, it) for it in _received(step, runs) if runs.seen(Order(it, line)).passed]
    found.sort()
    return [(order, received) for _, order, received in found[:_LOOKS_MAX]]


def _received(step: Name, runs: _Runs) -> list[Name]:
    """Return what a client had received when it sent something: the same message, and the last one of all."""
    last = Counter[Name]()
    for at in (run.at for run in runs.passed if step.who and step in run.at):
        before = [it for it in at if it.who == step.who and not it.is_sent_by_client and at[it] < at[step]]
        last.update([max(before, key=at.__getitem__)] if before else [])
    own = step._replace(act="delivery", is_sent_by_client=False)
    return list(dict.fromkeys([own] * (own in runs.names) + [it for it, _ in last.most_common(1)]))


def _beginnings(runs: _Runs) -> list[tuple[Name, Name]]:
    """Return the line that fails with each message that clients receive before it, the latest first."""
    line = runs.failing
    if line is None:
        return []
    steps = [it for it in runs.names if it.act in _BEGINNINGS and it.who and runs.seen(Order(it, line)).passed]
    return [(line, step) for step in sorted(steps, key=runs.mean, reverse=True)[:_LOOKS_MAX]]


def _candidates(runs: _Runs) -> list[Candidate]:
    """Return the orders that go with failing, the best first.

    Nearly all failed runs and nearly all passed ones agree with each, and those that do not are few beside the failed.
    """
    found = []
    for first in runs.names:
        for second in runs.names:
            if first is second or (is_line(first) and is_line(second)):
                continue
            order = Order(first, second)
            failed_count = sum(not run.has(order) for run in runs.failed)
            if failed_count > _SLACK * len(runs.failed):
                continue
            passed_count = sum(run.has(order) for run in runs.passed)
            limit = min(_SLACK * len(runs.passed), _FOR_EACH_FAILED * len(runs.failed) - failed_count)
            if passed_count <= limit:
                rank = (failed_count + passed_count, *_rank(order, runs))
                found.append(Candidate(order, failed_count + passed_count, rank))
    return sorted(found, key=lambda it: it.rank)


def _rank(order: Order, runs: _Runs) -> tuple[float | str | Name, ...]:
    """Put the line that fails first, then the last step that it misses; of two other steps, the earliest."""
    first, second = order.first, order.second
    if first == runs.failing:
        return (0, (not second.who) - runs.mean(second), not second.who, second)
    missing_count = sum((first not in run.at) + (second not in run.at) for run in runs.failed)
    at = [max(run.at.get(first, 10_000), run.at.get(second, 10_000)) for run in (*runs.failed, *runs.passed)]
    return (
        (3 if is_line(first) or is_line(second) else 1) + (missing_count > len(runs.failed) / 2),
        sum(at) / len(at),
        (not first.who) + (not second.who),
        first,
        second,
    )
