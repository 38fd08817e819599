"""The search: which schedules are run, in which order, and when it ends.

First the plain run, which numbers the steps; then each fault at each step; then, if all of that went well and pairs are
asked for, so many pairs of an earlier run's fault and one at a step that came after it. It stops at the first failure,
unless it is to keep going: as every schedule before had at most as many faults, the first is a shortest.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from leveret.exploration.kinds import OUT_OF_ORDER, Kind
from leveret.exploration.schedule import Placement, Schedule
from leveret.exploration.step import Step
from leveret.observe.wording import count_text

if TYPE_CHECKING:
    from leveret.exploration.run import Run
    from leveret.exploration.step import Seen

Execute = Callable[[Schedule], "Run"]

_LOG: Final = logging.getLogger("leveret.exploration")
# So many schedules are run between two lines of the log.
_TOLD_EACH: Final = 20


@dataclass(slots=True, repr=False)
class Exploration:
    """This is what an exploration found."""

    plain: Run
    # How many schedules were run, the plain one not counted, and how many of them went well.
    run_count: int = 0
    passed_count: int = 0
    # Those that failed, shortest first.
    failed_runs: list[Run] = field(default_factory=list)
    # Those of which a step did not come again, so that their fault never happened.
    diverged_runs: list[Run] = field(default_factory=list)

    @property
    def steps(self) -> list[str]:
        """The steps of the plain run, in order."""
        return [str(seen.step) for seen in self.plain.seen]

    def __str__(self) -> str:
        schedules, steps = count_text(self.run_count, "schedule"), count_text(len(self.steps), "step")
        if self.passed_count == self.run_count:
            return f"All {schedules} over {steps} went well."
        parts = [f"{self.passed_count} went well"] if self.passed_count else []
        parts += [f"{len(self.failed_runs)} failed"] if self.failed_runs else []
        parts += [f"{len(self.diverged_runs)} diverged"] if self.diverged_runs else []
        return f"Of {schedules} over {steps}, {', '.join(parts)}."

    @property
    def failed(self) -> list[str]:
        """The schedules that failed, in the words that replay them."""
        return [str(run.schedule) for run in self.failed_runs]

    @property
    def diverged(self) -> list[str]:
        """The schedules of which a step did not come again."""
        return [str(run.schedule) for run in self.diverged_runs]


class Search:
    """This runs schedules until it has found what there is to find."""

    def __init__(
        self,
        execute: Execute,
        kinds: Mapping[str, Kind],
        *,
        on: str | Iterable[str],
        pairs: int,
        seed: int,
        keep_going: bool,
    ) -> None:
        """`on` are patterns for methods, or whole names of steps, at which faults are placed."""
        self._execute: Final = execute
        self._kinds: Final = kinds
        self._patterns: Final = (on,) if isinstance(on, str) else tuple(on)
        self._pairs: Final = pairs
        self._dice: Final = random.Random(seed)
        self._keep_going: Final = keep_going

    def explore(self, plain: Run) -> Exploration:
        """Run everything; `plain` went well."""
        found = Exploration(plain)
        seconds: list[tuple[Placement, list[Placement]]] = []
        for placement in self._placements(plain.seen):
            run = self._run(found, Schedule((placement,)))
            if found.failed_runs and not self._keep_going:
                return found
            if not run.has_failed and not run.missing:
                seconds.append((placement, list(self._placements(_after_strike(run.seen)))))
        if not found.failed_runs:
            self._explore_pairs(found, seconds)
        return found

    def replay(self, plain: Run, schedule: Schedule) -> Exploration:
        """Run one schedule alone."""
        found = Exploration(plain)
        self._run(found, schedule)
        return found

    def _explore_pairs(self, found: Exploration, seconds: list[tuple[Placement, list[Placement]]]) -> None:
        choices = [(first, second) for first, others in seconds for second in others]
        for index in sorted(self._dice.sample(range(len(choices)), min(self._pairs, len(choices)))):
            run = self._run(found, Schedule(choices[index]))
            if run.has_failed:
                self._shrink(found, run)
                if not self._keep_going:
                    return

    def _shrink(self, found: Exploration, run: Run) -> None:
        """See whether one of a pair's faults is enough, and report that then."""
        for placement in run.schedule.placements:
            alone = self._execute(Schedule((placement,)))
            if alone.has_failed:
                found.failed_runs[found.failed_runs.index(run)] = alone
                return

    def _run(self, found: Exploration, schedule: Schedule) -> Run:
        if found.run_count and found.run_count % _TOLD_EACH == 0:
            step_count = count_text(len(found.plain.seen), "step")
            _LOG.info("%d schedules over %s run, now: %s", found.run_count, step_count, schedule)
        run = self._execute(schedule)
        if run.missing and not run.has_failed:
            # Threads may have come in another order this once.
            run = self._execute(schedule)
        found.run_count += 1
        if run.has_failed:
            found.failed_runs.append(run)
        elif run.missing:
            found.diverged_runs.append(run)
        else:
            found.passed_count += 1
        if not run.has_failed:
            # Of no more interest, and there may be thousands.
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
                # What comes last cannot be overtaken.
                if name != OUT_OF_ORDER or last_delivery[step.connection, step.channel] != step:
                    yield Placement(name, step)

    def _is_wanted(self, step: Step) -> bool:
        return any(fnmatchcase(step.method, it) or fnmatchcase(str(step), it) for it in self._patterns)


def _after_strike(seen_steps: list[Seen]) -> list[Seen]:
    at = max(index for index, seen in enumerate(seen_steps) if seen.struck is not None)
    return seen_steps[at + 1 :]
