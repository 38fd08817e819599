"""Exploration: a scenario is run once plainly, then once for each fault at each step, and its shortest failure told.

See docs/exploring.md.
"""

from __future__ import annotations

import fnmatch
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Unpack

from leveret.broker import KEYWORDS
from leveret.errors import ExplorationFailedError, LeveretWarning, did_you_mean, unknown_keyword
from leveret.exploration.kinds import DEFAULT, KINDS, FaultKind, Kind, kinds_of
from leveret.exploration.logs import show_logs
from leveret.exploration.run import Run, Scenario, Stage
from leveret.exploration.schedule import Schedule
from leveret.exploration.search import Execute, Exploration, Search
from leveret.exploration.telling import divergence_text, failure_text, plain_hang_text, replay_line
from leveret.faults import Fault

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
    **options: Unpack[SeedlessBrokerOptions],
) -> Exploration:
    """Run `scenario(broker)` once plainly, then once for each fault at each step, each time on a fresh broker.

    `faults` are names of kinds, or faults of `leveret.faults`; `on` patterns for the methods at which they are placed,
    as "basic.*"; `pairs` how many pairs of faults are run as well, chosen by `seed`; `only` the one schedule to run,
    as a report names it. A run that takes longer than `limit` seconds has failed. The first failure ends it, unless
    `keep_going`. A coroutine function runs in an event loop of its own. `options` are the broker's.

    ExplorationFailedError tells the shortest failing schedule; a scenario that fails plainly raises what it raises.
    """
    __tracebackhide__ = True
    for word in options:
        if word not in KEYWORDS:
            raise unknown_keyword("explore()", word, WORDS, " and the keywords of leveret.Broker")
    settings = Settings(faults, on, pairs, only, limit, keep_going, seed)
    stage = Stage(scenario, settings.kinds, limit=limit, options={"seed": seed, **options})
    plain = stage(Schedule())
    if plain.error is not None:
        plain.error.add_note("This is the plain run: no fault was placed yet.")
        raise plain.error
    if plain.hang is not None:
        raise ExplorationFailedError(plain_hang_text(plain), Exploration(plain))
    found = settings.search(stage, plain)
    settings.speak(found, getattr(scenario, "__name__", "scenario"))
    return found


class Settings:
    """These are the words of an exploration; ValueError and TypeError for what cannot be meant."""

    def __init__(
        self,
        faults: FaultKind | Fault | Iterable[FaultKind | Fault] = DEFAULT,
        on: str | Iterable[str] = "*",
        pairs: int = 0,
        only: str | None = None,
        limit: float = LIMIT_S,
        keep_going: bool = False,
        seed: int = 0,
    ) -> None:
        # What is run alone may be of any kind.
        self.kinds: Mapping[str, Kind] = kinds_of(faults) if only is None else {**KINDS, **kinds_of(faults)}
        if pairs < 0:
            raise ValueError(f"pairs={pairs!r} is no number of pairs")
        if not limit > 0:
            raise ValueError(f"limit={limit!r} seconds leave no time for a run")
        self.only = None if only is None else Schedule.parse(only, self.kinds)
        self.on = on
        self.pairs = pairs
        self.limit = limit
        self.keep_going = keep_going
        self.seed = seed

    def search(self, execute: Execute, plain: Run) -> Exploration:
        """Run what is to be run; `plain` went well."""
        search = Search(execute, self.kinds, on=self.on, pairs=self.pairs, seed=self.seed, keep_going=self.keep_going)
        return search.explore(plain) if self.only is None else search.replay(plain, self.only)

    def speak(self, found: Exploration, name: str) -> None:
        """Raise what failed, and warn of what diverged; an `only` that did is a failure."""
        __tracebackhide__ = True
        if found.failed_runs:
            run = found.failed_runs[0]
            show_logs(run.logs)
            line = replay_line(name, run.schedule.placements, str(run.schedule), KINDS)
            raise ExplorationFailedError(failure_text(found, self.kinds, line), found) from run.error
        if found.diverged_runs and self.only is not None:
            raise ExplorationFailedError(f"{divergence_text(found)}\nnothing was explored", found)
        if found.diverged_runs:
            warnings.warn(divergence_text(found), LeveretWarning, stacklevel=3)
        if not found.run_count:
            raise ValueError(self.nothing_text(found))

    def nothing_text(self, found: Exploration) -> str:
        """What to say when there was no step to place a fault at."""
        names = ", ".join(self.kinds)
        if not found.steps:
            return "no client has spoken to the broker, so there is no step to place a fault at"
        methods = dict.fromkeys(seen.step.method for seen in found.plain.seen)
        hint = ""
        if isinstance(self.on, str) and not fnmatch.filter(methods, self.on):
            hint = did_you_mean(self.on, methods)
        hint = hint or f"; the steps are {', '.join(found.steps)}"
        return f"there is no step for on={self.on!r} and {names}{hint}"


# What `explore` takes itself.
WORDS: Final = tuple(explore.__kwdefaults__ or ())

# Known by the names they are imported by: that is what a summary line of a failing test shows.
for _public in (ExplorationFailedError, Exploration):
    _public.__module__ = "leveret"
