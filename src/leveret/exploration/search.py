"""The search: which schedules are run, in which order, and when the search ends.

The plain run comes first and numbers the steps. Then each fault is run at each step. If all of these pass, schedules
with more faults are drawn: an earlier schedule, and one more fault at a step that came after its faults. The draw
prefers schedules whose events few others had, and connections with a high priority. Priorities are random and change
now and then, because many bugs need one client to be ahead of the others for a while (Burckhardt and others, "A
Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", 2010). The search stops at the first failure,
unless it keeps going, and shrinks what failed to the faults that are needed.
"""

from __future__ import annotations

import logging
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import combinations
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Final

from leveret.exploration.kinds import OUT_OF_ORDER
from leveret.exploration.run import Execute, Run, attempt
from leveret.exploration.schedule import Placement, Schedule, Seen, Step
from leveret.wording import count_text, span_text, texts_in

if TYPE_CHECKING:
    from leveret.exploration.processes import Players
    from leveret.exploration.shrinking import Shrinker

_LOG: Final = logging.getLogger("leveret.exploration")
# The number of schedules, or else of seconds, between two reports of progress.
_LINE_INTERVAL: Final = 20
_LINE_INTERVAL_S: Final = 10.0
# The number of schedules that are drawn at once, with equal priorities, and the most faults of one schedule.
_BATCH: Final = 10
_MOST_FAULTS: Final = 3
# Processes start once what is left would take longer than this.
_LONG_S: Final = 5.0
# How often a schedule that failed in another process runs here before it counts as passed.
_TRIES: Final = 3
_DECLARATIONS: Final = [
    f"{what}{answer}"
    for what in ("exchange.declare", "exchange.bind", "queue.declare", "queue.bind")
    for answer in ("", "-ok")
]


@dataclass(slots=True, repr=False)
class Exploration:
    """What an exploration found."""

    plain: Run
    # The second run without a fault, if there was one.
    again: Run | None = None
    # How many schedules were run without the plain run, and how many of them passed.
    run_count: int = 0
    passed_count: int = 0
    # The schedules under which the test skipped itself, so that they show nothing.
    skipped: list[str] = field(default_factory=list)
    # The runs that failed, shortest schedule first.
    failed_runs: list[Run] = field(default_factory=list)
    # Smaller runs that fail as the first of these does, if there are any.
    smaller: Shrinker | None = None
    # The runs in which a step did not occur again, so that a fault never applied.
    diverged_runs: list[Run] = field(default_factory=list)
    # How long the schedules took in all, with the search for a smaller failure, in seconds.
    seconds: float = 0
    # The slowest schedule, and how long it took.
    slowest: tuple[float, str] = (0, "")
    # Where threads of scenarios were still running at the end.
    strays: list[str] = field(default_factory=list)
    # How often each sequence of steps occurred.
    outcomes: Counter[tuple[Step, ...]] = field(default_factory=Counter)
    # How many schedules were left when the time was up, or when the first failure ended the search: those with one
    # fault, and those with more that could be drawn next.
    untried_count: int = 0
    is_time_up: bool = False
    # The most faults that a schedule has had.
    most_faults: int = 0
    # The steps that only one of two plain runs had.
    unsteady: list[str] = field(default_factory=list)
    # The schedules that failed in another process, beside others, and passed when they ran again alone.
    unrepeated: list[str] = field(default_factory=list)

    @property
    def steps(self) -> list[str]:
        """The steps of the plain run, in order."""
        return [str(seen.step) for seen in self.plain.seen]

    def __str__(self) -> str:
        declarations = sum(seen.step.method in _DECLARATIONS for seen in self.plain.seen)
        seconds, slowest = self.slowest
        lines = [self._outcomes_text()]
        lines += [f"declarations among the steps: {declarations}"] if declarations else []
        lines += [f"it took {_span(self.seconds)}, the slowest schedule {_span(seconds)}: {slowest}"] if slowest else []
        lines += [f"distinct outcomes: {len(self.outcomes)}"] if self.outcomes else []
        lines += self._untried_lines()
        lines += [f"only one of two runs without a fault had {step}" for step in self.unsteady]
        lines += [f"failed in another process, and passed when it ran again alone: {it}" for it in self.unrepeated]
        lines += [f"still running: {stray}; let the scenario end them" for stray in self.strays]
        return "\n  ".join(lines)

    def _untried_lines(self) -> list[str]:
        if self.untried_count:
            why = (
                "the time was up" if self.is_time_up else "the first failure ends the search (keep_going=True goes on)"
            )
            return [f"not tried, because {why}: {count_text(self.untried_count, 'schedule')}"]
        if self.most_faults == 1 and not self.failed_runs:
            return ["not tried: more than one fault in a run; seconds=60 adds such schedules"]
        return []

    def _outcomes_text(self) -> str:
        schedules, steps = count_text(self.run_count, "schedule"), count_text(len(self.steps), "step")
        if self.passed_count == self.run_count:
            return f"All {schedules} over {steps} passed."
        parts = [f"{self.passed_count} passed"] if self.passed_count else []
        parts += [f"{len(self.failed_runs)} failed"] if self.failed_runs else []
        parts += [f"{len(self.diverged_runs)} diverged"] if self.diverged_runs else []
        parts += [f"{len(self.skipped)} skipped"] if self.skipped else []
        return f"Of {schedules} over {steps}, {', '.join(parts)}."

    def note(self, run: Run) -> None:
        """Note a run."""
        self.run_count += 1
        self.seconds += run.seconds
        self.slowest = max(self.slowest, (run.seconds, str(run.schedule)))
        self.outcomes[_outcome(run)] += 1
        self.most_faults = max(self.most_faults, len(run.schedule.placements))

    @property
    def failed(self) -> list[str]:
        """The schedules that failed, as `only` takes them."""
        return [str(run.schedule) for run in self.failed_runs]

    @property
    def diverged(self) -> list[str]:
        """The schedules of which a step did not occur again."""
        return [str(run.schedule) for run in self.diverged_runs]


class ExplorationFailedError(AssertionError):
    """A scenario that fails under some schedule of faults; `exploration` is the `Exploration` with everything found."""

    def __init__(self, text: str, exploration: Exploration) -> None:
        super().__init__(text)
        self.exploration = exploration


@dataclass(slots=True)
class _Prefix:
    """A schedule that passed, and the faults that can follow its own."""

    placements: tuple[Placement, ...]
    following: list[Placement]
    outcome: tuple[Step, ...]


@dataclass
class Search:
    """The search for schedules that fail."""

    execute: Execute
    # A pattern, or several, for the methods or the whole names of the steps at which faults are placed.
    on: str | Iterable[str]
    pairs: int
    seed: int
    keep_going: bool
    # The seconds of real time for the search. What the single faults leave goes to schedules of two and three.
    seconds: float | None = None
    # Other processes for the schedules, and whether they are wanted however short the search is.
    pool: Players | None = None
    is_pool_wanted: bool = False

    def __post_init__(self) -> None:
        self._is_spread = self.is_pool_wanted
        self._patterns = texts_in(self.on)
        self._limit = inf if self.seconds is None else perf_counter() + self.seconds
        self._random = random.Random(self.seed)
        # The schedules that passed, to which a fault can be added.
        self._prefixes: list[_Prefix] = []
        # How many schedules the last line of progress counted, and when.
        self._reported_count, self._reported_at = 0, perf_counter()

    def explore(self, plain: Run) -> Exploration:
        """Run all schedules. `plain` is the run without a fault, which has passed."""
        found = self._found = Exploration(plain)
        schedules = [Schedule((it,)) for it in self._placements(plain.seen)]
        left_count = self._run_in_turn(schedules)
        if left_count:
            found.untried_count = left_count
        elif not found.failed_runs:
            self._draw()
        return found

    def replay(self, plain: Run, schedule: Schedule) -> Exploration:
        """Run one schedule alone."""
        self._found = Exploration(plain)
        self._note(attempt(self.execute, schedule))
        return self._found

    def _run_in_turn(self, schedules: list[Schedule]) -> int:
        """Run schedules until one fails or the time is up, and return how many are left."""
        attempts = self._attempts(schedules)
        for left_count in range(len(schedules), 0, -1):
            if perf_counter() > self._limit:
                self._found.is_time_up = True
                return left_count
            run = self._note(next(attempts))
            if run.has_failed and len(run.schedule.placements) > 1:
                self._shrink(run)
            if run.has_failed and not self.keep_going:
                return left_count - 1
        return 0

    def _attempts(self, schedules: list[Schedule]) -> Iterator[Run]:
        """Run schedules in turn, and in other processes once what is left would take long here."""
        for index, schedule in enumerate(schedules):
            if self._has_pool(len(schedules) - index):
                assert self.pool is not None
                for run in self.pool.attempts(schedules[index:]):
                    yield self._repeated(run, self.pool)
                return
            yield attempt(self.execute, schedule)

    def _has_pool(self, left_count: int) -> bool:
        found = self._found
        if self.pool is not None and not self._is_spread and found.run_count:
            left_s = found.seconds / found.run_count * left_count
            if min(left_s, self._limit - perf_counter()) > _LONG_S:
                try:
                    self.pool.start()
                except ValueError as error:
                    report(f"all schedules run in this process: {error}")
                    self.pool = None
                self._is_spread = True
        return self.pool is not None and self._is_spread

    def _repeated(self, run: Run, pool: Players) -> Run:
        """Run again here what failed in another process, because only what fails alone is a failure."""
        if not (run.has_failed or run.missing):
            return run
        pool.rest()
        for _ in range(_TRIES):
            again = attempt(self.execute, run.schedule)
            if again.has_failed or not run.has_failed:
                return again
        self._found.unrepeated.append(str(run.schedule))
        return again

    def _draw(self) -> None:
        """Run schedules of more than one fault: as many pairs as wanted, or pairs and triples until the time is up."""
        most = _MOST_FAULTS if self.seconds is not None and not self.pairs else 2
        left = self.pairs or (inf if self.seconds is not None else 0)
        while left > 0 and (batch := self._batch(most, min(left, _BATCH))):
            left -= len(batch)
            left_count = self._run_in_turn(batch)
            if self._found.is_time_up:
                undrawn_count = sum(len(it.following) for it in self._prefixes if len(it.placements) < most)
                self._found.untried_count = undrawn_count + left_count
                return
            if self._found.failed_runs and not self.keep_going:
                return

    def _batch(self, most: int, count: float) -> list[Schedule]:
        """Draw schedules. How many does not depend on the number of processes, so that equal seeds draw the same."""
        priorities: dict[int | str, float] = {}
        batch: list[Schedule] = []
        while len(batch) < count:
            open_prefixes = [it for it in self._prefixes if it.following and len(it.placements) < most]
            if not open_prefixes:
                break
            batch.append(Schedule(self._drawn(open_prefixes, priorities)))
        return batch

    def _drawn(self, prefixes: list[_Prefix], priorities: dict[int | str, float]) -> tuple[Placement, ...]:
        """Take one more fault from the schedules that can be drawn."""

        def priority(placement: Placement) -> float:
            return priorities.setdefault(placement.step.connection, self._random.random())

        rarities = [priority(it.placements[-1]) / self._found.outcomes[it.outcome] for it in prefixes]
        (prefix,) = self._random.choices(prefixes, rarities)
        weights = [priority(it) for it in prefix.following]
        (index,) = self._random.choices(range(len(weights)), weights)
        return (*prefix.placements, prefix.following.pop(index))

    def _shrink(self, run: Run) -> None:
        """Report a run of fewer faults instead of this one, if one fails."""
        failed_runs, placements = self._found.failed_runs, run.schedule.placements
        for count in range(1, len(placements)):
            for fewer in combinations(placements, count):
                smaller = self.execute(Schedule(fewer))
                if smaller.has_failed:
                    failed_runs[failed_runs.index(run)] = smaller
                    return

    def _note(self, run: Run) -> Run:
        """Note what came of a schedule. If it has passed, faults that follow its own can be drawn."""
        found, placements = self._found, run.schedule.placements
        found.note(run)
        self._report_progress(run.schedule)
        if run.has_failed:
            found.failed_runs.append(run)
            return run
        # Free the events: only failed runs are reported, and there may be thousands of runs.
        run.raw_events = []
        if run.is_skipped:
            found.skipped.append(str(run.schedule))
            return run
        if run.missing:
            found.diverged_runs.append(run)
            return run
        found.passed_count += 1
        if len(placements) < _MOST_FAULTS:
            following = list(self._placements(_after_faults(run.seen)))
            self._prefixes.append(_Prefix(placements, following, _outcome(run)))
        return run

    def _report_progress(self, last: Schedule) -> None:
        count, now = self._found.run_count, perf_counter()
        if count - self._reported_count >= _LINE_INTERVAL or now - self._reported_at > _LINE_INTERVAL_S:
            self._reported_count, self._reported_at = count, now
            steps, schedules = count_text(len(self._found.plain.seen), "step"), count_text(count, "schedule")
            report(f"{schedules} over {steps} run, the last: {last}")

    def _placements(self, seen_steps: list[Seen]) -> Iterator[Placement]:
        last_delivery: dict[tuple[int | str, int], Step] = {}
        for seen in seen_steps:
            if seen.step.method == "basic.deliver":
                last_delivery[seen.step.connection, seen.step.channel] = seen.step
        for seen in seen_steps:
            step = seen.step
            if not self._is_wanted(step):
                continue
            for name in seen.kinds:
                # The last delivery cannot be overtaken.
                if name != OUT_OF_ORDER or last_delivery[step.connection, step.channel] != step:
                    yield Placement(name, step)

    def _is_wanted(self, step: Step) -> bool:
        return any(fnmatchcase(step.method, it) or fnmatchcase(str(step), it) for it in self._patterns)


def report(text: str) -> None:
    """Log the progress of a search, and print it where the user watches and has set up no log."""
    _LOG.info("%s", text)
    if not _LOG.isEnabledFor(logging.INFO) and sys.stderr is not None and sys.stderr.isatty():
        print(text, file=sys.stderr)


def differing_steps(first: Run, second: Run) -> list[str]:
    """Return the steps that only one of two runs had."""
    steps = [[seen.step for seen in run.seen] for run in (first, second)]
    return [str(step) for own, other in (steps, steps[::-1]) for step in own if step not in other]


def _outcome(run: Run) -> tuple[Step, ...]:
    return tuple(seen.step for seen in run.seen)


def _after_faults(seen_steps: list[Seen]) -> list[Seen]:
    at = max(index for index, seen in enumerate(seen_steps) if seen.applied is not None)
    return seen_steps[at + 1 :]


def _span(seconds: float) -> str:
    return span_text(round(seconds * 1_000_000))
