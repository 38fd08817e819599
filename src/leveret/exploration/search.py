"""The search: which schedules are run, in which order, and when the search ends.

The plain run comes first and numbers the steps. Then each fault is run at each step. If all of these pass, pairs are
run: a fault of an earlier run, and a second one at a step that came after it. The search stops at the first failure,
unless it keeps going. No schedule before it had more faults, so the first failure is a shortest one.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
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

    def note_time(self, seconds: float, schedule: Schedule) -> None:
        """Note how long a schedule took."""
        self.seconds += seconds
        self.slowest = max(self.slowest, (seconds, str(schedule)))

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


@dataclass
class Search:
    """The search for schedules that fail."""

    execute: Execute
    # A pattern, or several, for the methods or the whole names of the steps at which faults are placed.
    on: str | Iterable[str]
    pairs: int
    seed: int
    keep_going: bool

    def __post_init__(self) -> None:
        self._patterns = (self.on,) if isinstance(self.on, str) else tuple(self.on)

    def explore(self, plain: Run) -> Exploration:
        """Run all schedules. `plain` is the run without a fault, which has passed."""
        exploration = Exploration(plain)
        seconds: list[tuple[Placement, list[Placement]]] = []
        for placement in self._placements(plain.seen):
            run = self._run(exploration, Schedule((placement,)))
            if exploration.failed_runs and not self.keep_going:
                return exploration
            if not run.has_failed and not run.missing:
                seconds.append((placement, list(self._placements(_after_faults(run.seen)))))
        if not exploration.failed_runs:
            self._explore_pairs(exploration, seconds)
        return exploration

    def replay(self, plain: Run, schedule: Schedule) -> Exploration:
        """Run one schedule alone."""
        exploration = Exploration(plain)
        self._run(exploration, schedule)
        return exploration

    def _explore_pairs(self, exploration: Exploration, seconds: list[tuple[Placement, list[Placement]]]) -> None:
        choices = [(first, second) for first, others in seconds for second in others]
        for index in sorted(random.Random(self.seed).sample(range(len(choices)), min(self.pairs, len(choices)))):
            run = self._run(exploration, Schedule(choices[index]))
            if run.has_failed:
                self._shrink(exploration, run)
                if not self.keep_going:
                    return

    def _shrink(self, exploration: Exploration, run: Run) -> None:
        """Run each fault of a failing pair alone. If one is enough, report that run instead."""
        for placement in run.schedule.placements:
            alone = self.execute(Schedule((placement,)))
            if alone.has_failed:
                exploration.failed_runs[exploration.failed_runs.index(run)] = alone
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
        exploration.note_time(perf_counter() - began, schedule)
        exploration.run_count += 1
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


def _after_faults(seen_steps: list[Seen]) -> list[Seen]:
    at = max(index for index, seen in enumerate(seen_steps) if seen.applied is not None)
    return seen_steps[at + 1 :]


def _span(seconds: float) -> str:
    return span_text(round(seconds * 1_000_000))
