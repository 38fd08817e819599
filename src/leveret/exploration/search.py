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
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import combinations
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Final

from leveret.exploration.kinds import OUT_OF_ORDER
from leveret.exploration.schedule import Placement, Schedule, Seen, Step
from leveret.wording import count_text, span_text

if TYPE_CHECKING:
    from leveret.exploration.run import Run

Execute = Callable[[Schedule], "Run"]

_LOG: Final = logging.getLogger("leveret.exploration")
# The number of schedules between two lines of the log.
_LOG_INTERVAL: Final = 20
# The number of draws between two changes of the connections' priorities, and the most faults of one schedule.
_CHANGE_INTERVAL: Final = 10
_MOST_FAULTS: Final = 3
_DECLARATIONS: Final = [
    f"{what}{answer}"
    for what in ("exchange.declare", "exchange.bind", "queue.declare", "queue.bind")
    for answer in ("", "-ok")
]


@dataclass(slots=True, repr=False)
class Exploration:
    """What an exploration found."""

    plain: Run
    # How many schedules were run without the plain run, and how many of them passed.
    run_count: int = 0
    passed_count: int = 0
    # The runs that failed, shortest schedule first.
    failed_runs: list[Run] = field(default_factory=list)
    # The runs in which a step did not occur again, so that a fault never applied.
    diverged_runs: list[Run] = field(default_factory=list)
    # How long the schedules took in all, in seconds.
    seconds: float = 0
    # The slowest schedule, and how long it took.
    slowest: tuple[float, str] = (0, "")
    # Where threads of scenarios were still running at the end.
    strays: list[str] = field(default_factory=list)
    # How often each sequence of steps occurred.
    outcomes: Counter[tuple[Step, ...]] = field(default_factory=Counter)
    # How many schedules there was no time for: those with one fault, and those with more that could be drawn next.
    untried_count: int = 0
    # The steps that only one of two plain runs had.
    unsteady: list[str] = field(default_factory=list)

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
        untried = count_text(self.untried_count, "schedule")
        lines += [f"not tried, because the time was up: {untried}"] if self.untried_count else []
        lines += [f"only one of two runs without a fault had {step}" for step in self.unsteady]
        lines += [f"still running: {stray}; let the scenario end them" for stray in self.strays]
        return "\n  ".join(lines)

    def _outcomes_text(self) -> str:
        schedules, steps = count_text(self.run_count, "schedule"), count_text(len(self.steps), "step")
        if self.passed_count == self.run_count:
            return f"All {schedules} over {steps} passed."
        parts = [f"{self.passed_count} passed"] if self.passed_count else []
        parts += [f"{len(self.failed_runs)} failed"] if self.failed_runs else []
        parts += [f"{len(self.diverged_runs)} diverged"] if self.diverged_runs else []
        return f"Of {schedules} over {steps}, {', '.join(parts)}."

    def note(self, run: Run, seconds: float) -> None:
        """Note a run and how long it took."""
        self.run_count += 1
        self.seconds += seconds
        self.slowest = max(self.slowest, (seconds, str(run.schedule)))
        self.outcomes[_outcome(run)] += 1

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

    def __post_init__(self) -> None:
        self._patterns = (self.on,) if isinstance(self.on, str) else tuple(self.on)
        self._limit = inf if self.seconds is None else perf_counter() + self.seconds
        self._random = random.Random(self.seed)

    def explore(self, plain: Run) -> Exploration:
        """Run all schedules. `plain` is the run without a fault, which has passed."""
        exploration = Exploration(plain)
        prefixes: list[_Prefix] = []
        placements = list(self._placements(plain.seen))
        for done_count, placement in enumerate(placements):
            if self._is_time_up():
                exploration.untried_count = len(placements) - done_count
                return exploration
            self._try(exploration, (placement,), prefixes)
            if exploration.failed_runs and not self.keep_going:
                return exploration
        if not exploration.failed_runs:
            self._draw(exploration, prefixes)
        return exploration

    def _is_time_up(self) -> bool:
        return perf_counter() > self._limit

    def _try(self, exploration: Exploration, placements: tuple[Placement, ...], prefixes: list[_Prefix]) -> Run:
        """Run one schedule. If it passes, faults that follow its own can be drawn."""
        run = self._run(exploration, Schedule(placements))
        if not run.has_failed and not run.missing and len(placements) < _MOST_FAULTS:
            following = list(self._placements(_after_faults(run.seen)))
            prefixes.append(_Prefix(placements, following, _outcome(run)))
        return run

    def _draw(self, exploration: Exploration, prefixes: list[_Prefix]) -> None:
        """Run schedules of more than one fault: as many pairs as wanted, or pairs and triples until the time is up."""
        most = _MOST_FAULTS if self.seconds is not None and not self.pairs else 2
        left = self.pairs or (inf if self.seconds is not None else 0)
        priorities: dict[int | str, float] = {}
        draw_count = 0
        while left > draw_count:
            open_prefixes = [it for it in prefixes if it.following and len(it.placements) < most]
            if not open_prefixes:
                return
            if self._is_time_up():
                exploration.untried_count = sum(len(it.following) for it in open_prefixes)
                return
            if draw_count % _CHANGE_INTERVAL == 0:
                priorities.clear()
            draw_count += 1
            placements = self._drawn(open_prefixes, exploration.outcomes, priorities)
            run = self._try(exploration, placements, prefixes)
            if run.has_failed:
                self._shrink(exploration, run)
                if not self.keep_going:
                    return

    def _drawn(
        self,
        prefixes: list[_Prefix],
        outcomes: Counter[tuple[Step, ...]],
        priorities: dict[int | str, float],
    ) -> tuple[Placement, ...]:
        """Take one more fault from the schedules that can be drawn."""

        def priority(placement: Placement) -> float:
            return priorities.setdefault(placement.step.connection, self._random.random())

        rarities = [priority(it.placements[-1]) / outcomes[it.outcome] for it in prefixes]
        (prefix,) = self._random.choices(prefixes, rarities)
        weights = [priority(it) for it in prefix.following]
        (index,) = self._random.choices(range(len(weights)), weights)
        return (*prefix.placements, prefix.following.pop(index))

    def replay(self, plain: Run, schedule: Schedule) -> Exploration:
        """Run one schedule alone."""
        exploration = Exploration(plain)
        self._run(exploration, schedule)
        return exploration

    def _shrink(self, exploration: Exploration, run: Run) -> None:
        """Report a run of fewer faults instead of this one, if one fails."""
        placements = run.schedule.placements
        for count in range(1, len(placements)):
            for fewer in combinations(placements, count):
                smaller = self.execute(Schedule(fewer))
                if smaller.has_failed:
                    exploration.failed_runs[exploration.failed_runs.index(run)] = smaller
                    return

    def _run(self, exploration: Exploration, schedule: Schedule) -> Run:
        if exploration.run_count and exploration.run_count % _LOG_INTERVAL == 0:
            step_count = count_text(len(exploration.plain.seen), "step")
            _LOG.info("%d schedules over %s run, now: %s", exploration.run_count, step_count, schedule)
        began = perf_counter()
        run = self.execute(schedule)
        if run.missing and not run.has_failed:
            # The clients' threads may have run in a different order this time, so try once more.
            run = self.execute(schedule)
        exploration.note(run, perf_counter() - began)
        if run.has_failed:
            exploration.failed_runs.append(run)
        elif run.missing:
            exploration.diverged_runs.append(run)
        else:
            exploration.passed_count += 1
        if not run.has_failed:
            # Free the events: only failed runs are reported, and there may be thousands of runs.
            run.raw_events = []
        return run

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
