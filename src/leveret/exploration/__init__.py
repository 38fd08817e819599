"""Exploration: run a scenario once without a fault, then once for each fault at each step, and report what fails.

See docs/how-to/exploring.md.
"""

from __future__ import annotations

import fnmatch
import logging
import os
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Final, Unpack

from leveret.broker import KEYWORDS
from leveret.errors import LeveretWarning, did_you_mean, unknown_keyword
from leveret.exploration.kinds import DEFAULT, KINDS, FaultKind, FaultMaker, kinds_of
from leveret.exploration.logs import STRAYS, buffered_logs, lines_of
from leveret.exploration.processes import Players
from leveret.exploration.report import (
    divergence_text,
    failure_text,
    plain_hang_text,
    replay_line,
    skipped_text,
    unrepeated_text,
)
from leveret.exploration.run import Execute, Run, Scenario, ScenarioRunner, attempt
from leveret.exploration.schedule import Schedule
from leveret.exploration.search import Exploration, ExplorationFailedError, Search, differing_steps, report
from leveret.exploration.shrinking import Shrinker
from leveret.faults import Fault
from leveret.wording import texts_in

if TYPE_CHECKING:
    from leveret.engine.broker_options import SeedlessBrokerOptions

__all__ = ["DEFAULT", "KINDS", "Exploration", "ExplorationFailedError", "Run", "Schedule", "Settings", "explore"]

LIMIT_S: Final = 10.0


def explore(
    scenario: Scenario,
    *,
    faults: FaultKind | Fault | Iterable[FaultKind | Fault] = DEFAULT,
    on: str | Iterable[str] = "*",
    pairs: int = 0,
    only: str | None = None,
    limit: float = LIMIT_S,
    keep_going: bool = False,
    seed: int = 0,
    seconds: float | None = None,
    processes: int | None = None,
    **options: Unpack[SeedlessBrokerOptions],
) -> Exploration:
    """Run `scenario(broker)` once without a fault, then once for each fault at each step, each time on a fresh broker.

    `faults` are names of kinds of fault, or faults of `leveret.faults`. `on` is a pattern, or several, for the methods
    at which faults are placed, such as "basic.*". `pairs` is how many pairs of faults to run as well, chosen by
    `seed`. `seconds` is the time for the whole search: what single faults leave of it goes to pairs and triples of
    faults. `only` is the one schedule to run, as a report names it. A run that takes longer than `limit` seconds has
    failed. The first failure ends the exploration, unless `keep_going`. A coroutine function runs in an event loop of
    its own. `processes` is how many processes run schedules; by default, as many as cores if another process can import
    the scenario and the search takes longer than some seconds. `options` are keywords of `leveret.Broker`.

    Raises ExplorationFailedError, which reports the shortest schedule that fails. If the scenario fails without a
    fault, its own exception is raised.
    """
    __tracebackhide__ = True
    for word in options:
        if word not in KEYWORDS:
            raise unknown_keyword("explore()", word, WORDS, " and the keywords of leveret.Broker")
    if not callable(scenario):
        raise TypeError(_not_a_scenario_text(scenario))
    settings = Settings(faults, on, pairs, only, limit, keep_going, seed, seconds, processes)
    runner = ScenarioRunner(scenario, settings.kinds, limit, {"seed": seed, **options})
    pool = settings.pool(runner)
    plain = _passed(attempt(runner, Schedule()), "This is the plain run: it had no fault.")
    again = "This is the second plain run. The first passed, so the scenario fails now and then without a fault."
    second: Run | None = None
    if only is None:
        with buffered_logs([]):
            second = _passed(runner(Schedule()), again)
    exploration = settings.search(runner, plain, pool)
    if second is not None:
        exploration.again, exploration.unsteady = second, differing_steps(plain, second)
    if exploration.failed_runs and only is None:
        began = perf_counter()
        shrinker = Shrinker(runner, exploration.failed_runs[0], plain)
        exploration.smaller = shrinker if shrinker.shrink() else None
        exploration.seconds += perf_counter() - began
    name = getattr(scenario, "__name__", "scenario")
    for text in settings.conclude(exploration, lambda schedule: replay_line(name, schedule, settings.kinds)):
        warnings.warn(text, LeveretWarning, stacklevel=2)
    return exploration


def _passed(plain: Run, note: str) -> Run:
    """Return a run without a fault that has passed. Raises what it failed with, with this note."""
    __tracebackhide__ = True
    if plain.error is not None:
        plain.error.add_note(note)
        raise plain.error
    if plain.hang is not None:
        raise ExplorationFailedError(plain_hang_text(plain), Exploration(plain))
    return plain


def _not_a_scenario_text(given: object) -> str:
    if isinstance(given, Coroutine):
        given.close()
    return (
        f"explore() takes a function that it calls with each broker, not {given!r}; pass the function uncalled, as in "
        "explore(scenario), and for more arguments explore(lambda broker: scenario(broker, 3))"
    )


@dataclass
class Settings:
    """The settings of an exploration. Raises ValueError or TypeError if one is invalid."""

    faults: FaultKind | Fault | Iterable[FaultKind | Fault] = DEFAULT
    on: str | Iterable[str] = "*"
    pairs: int = 0
    only: str | None = None
    limit: float = LIMIT_S
    keep_going: bool = False
    seed: int = 0
    seconds: float | None = None
    processes: int | None = None

    def __post_init__(self) -> None:
        self._faults = (self.faults,) if isinstance(self.faults, str | Fault) else tuple(self.faults)
        kinds = kinds_of(self._faults)
        # The one schedule to run may use any kind.
        self.kinds: Mapping[str, FaultMaker] = kinds if self.only is None else {**KINDS, **kinds}
        for name, number in (("pairs", self.pairs), ("limit", self.limit), ("seconds", self.seconds or 0)):
            if not isinstance(number, int | float):
                raise TypeError(f"{name}={number!r} must be a number")
        if self.pairs < 0:
            raise ValueError(f"pairs={self.pairs!r} must be 0 or more")
        if self.seconds is not None and not self.seconds > 0:
            raise ValueError(f"seconds={self.seconds!r} must be above 0; leave it out to run all schedules")
        if self.processes is not None and self.processes < 1:
            raise ValueError(f"processes={self.processes!r} must be 1 or more; leave it out for as many as cores")
        if not self.limit > 0:
            raise ValueError(f"limit={self.limit!r} must be above 0, in seconds for each run")
        self.schedule = None if self.only is None else Schedule.parse(self.only, self.kinds)
        # Those that are running before the first run.
        self._threads = frozenset(threading.enumerate())

    def pool(self, runner: ScenarioRunner) -> Players | None:
        """Return the processes that may run schedules. Raises ValueError if they are wanted and cannot run them."""
        # Under pytest-xdist, other tests use the other cores.
        default = 1 if "PYTEST_XDIST_WORKER" in os.environ else os.cpu_count() or 1
        count = self.processes or default
        if count == 1 or self.only is not None:
            return None
        try:
            return Players(runner, self._faults, count)
        except ValueError as error:
            if self.processes is None:
                return None
            raise ValueError(f"processes={count}: {error}, or leave processes out") from None

    def search(self, execute: Execute, plain: Run, pool: Players | None = None) -> Exploration:
        """Run all schedules, or the one of `only`. `plain` is the run without a fault, which has passed."""
        began = perf_counter()
        strays = STRAYS.note(self._threads)

        def run(schedule: Schedule) -> Run:
            done = execute(schedule)
            strays.extend(STRAYS.note(self._threads))
            return done

        search = Search(
            *(run, self.on, self.pairs, self.seed, self.keep_going, self.seconds, pool), self.processes is not None
        )
        elsewhere: list[str] = []
        try:
            exploration = search.explore(plain) if self.schedule is None else search.replay(plain, self.schedule)
        finally:
            if pool is not None:
                elsewhere = pool.close()
        exploration.seconds = perf_counter() - began
        # Look once more: a thread may have been between two calls of its client.
        exploration.strays = [*lines_of([*strays, *STRAYS.note(self._threads)]), *elsewhere]
        STRAYS.hide(logging.getLogger().handlers)
        return exploration

    def conclude(self, exploration: Exploration, replay: Callable[[Schedule], str]) -> list[str]:
        """Log the summary, and return what to warn of. `replay` returns how to run one schedule again.

        Raises ExplorationFailedError if a schedule failed, or diverged and was the only one. Raises ValueError if there
        was none.
        """
        __tracebackhide__ = True
        if exploration.failed_runs:
            run = exploration.failed_runs[0]
            for record in run.logs:
                logging.getLogger(record.name).handle(record)
            text = failure_text(exploration, self.kinds, replay(run.schedule))
            raise ExplorationFailedError(text, exploration) from run.error
        if exploration.diverged_runs and self.only is not None:
            raise ExplorationFailedError(f"{divergence_text(exploration)}\nnothing was explored", exploration)
        if not exploration.run_count:
            raise ValueError(self._no_steps_text(exploration))
        report(str(exploration))
        warned = {
            divergence_text: exploration.diverged_runs,
            skipped_text: exploration.skipped,
            unrepeated_text: exploration.unrepeated,
        }
        return [text_of(exploration) for text_of, found in warned.items() if found]

    def _no_steps_text(self, exploration: Exploration) -> str:
        """Return the error for an exploration without a step at which a fault can be placed."""
        names = ", ".join(self.kinds)
        if not exploration.steps:
            return "no client connected to the broker, so no fault can be placed; connect to the broker under test"
        if {"killed before", "killed after"}.issuperset(self.kinds) and not any(
            it.kinds for it in exploration.plain.seen
        ):
            return (
                f"{names}: only connections of workers are killed, and none of a worker has come; start your program "
                "with broker.worker() in the scenario"
            )
        methods = dict.fromkeys(seen.step.method for seen in exploration.plain.seen)
        patterns = texts_in(self.on)
        missed = [pattern for pattern in patterns if not fnmatch.filter(methods, pattern)]
        hint = next((hint for pattern in missed if (hint := did_you_mean(pattern, methods))), "")
        if not hint:
            what, known = ("steps", exploration.steps) if " " in "".join(patterns) else ("methods", list(methods))
            hint = f"; the {what} are {', '.join(known)}"
        return f"on={self.on!r} matches no step for {names}{hint}"


# The keywords of `explore` itself.
WORDS: Final = tuple(explore.__kwdefaults__ or ())

# The summary line of a failing test then shows the names under which users import them.
for _public in (ExplorationFailedError, Exploration):
    _public.__module__ = "leveret"
