"""Schedules in several processes at once. Each process imports the scenario, and runs schedules until it is hung up on.

A process reports whether a schedule failed, and its steps. Whatever failed runs again in the test's own process, while
the others pause: so its error has a traceback, and runs that disturb each other are no failure.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, Final

from leveret.engine.urls import VARIABLES
from leveret.exploration.kinds import FaultKind, kinds_of
from leveret.exploration.logs import STRAYS, lines_of
from leveret.exploration.run import Run, ScenarioRunner, attempt, new_folder
from leveret.exploration.schedule import Schedule
from leveret.faults import Fault
from leveret.trials.pool import Address, NotStartedError, Pool, serve
from leveret.workers import fork_server
from leveret.workers.processes import Note, Process, forked

# How long a process may take to answer beyond the limits of the two runs of a schedule.
_ANSWER_S: Final = 30.0
_SHOWN_LINES: Final = 20


class Players:
    """Processes that run the schedules of one scenario. They start with the first schedule."""

    def __init__(self, runner: ScenarioRunner, faults: Sequence[FaultKind | Fault], count: int) -> None:
        """Raises ValueError if another process cannot import the scenario."""
        function: Any = runner.scenario
        while isinstance(function, partial):
            function = function.func
        module = sys.modules.get(getattr(function, "__module__", ""))
        if module is None or module.__name__ == "__main__":
            raise ValueError("another process cannot import the scenario; define it in a module of its own")
        self._module: Final = module
        try:
            self._content: Final = pickle.dumps((runner.scenario, faults, runner.limit, runner.options, VARIABLES))
        except Exception as error:
            raise ValueError(
                f"another process cannot import the scenario ({error}); define it at the top of a module"
            ) from error
        self._pool: Final = Pool[Schedule | None, Run | list[str]](
            self._begun, count=count, hang_s=2 * runner.limit + _ANSWER_S
        )
        # Removes what processes leave that are killed.
        self._ending: Final = ExitStack()
        self._folder = ""

    def start(self) -> None:
        """Start the processes, unless they run. Raises ValueError if the scenario fails in them without a fault."""
        if self._folder:
            return
        self._folder = self._ending.enter_context(new_folder())
        count = self._pool.count
        for run in self._runs([Schedule()] * count):
            if run.has_failed:
                why = f"the scenario passes here and fails in another process: {run.hang or run.error}"
                raise ValueError(f"processes={count}: {why}; pass processes=1 to run it here")

    def attempts(self, schedules: Sequence[Schedule]) -> Iterator[Run]:
        """Run schedules side by side, and yield what came of each, in their order."""
        self.start()
        return self._runs(schedules)

    def rest(self) -> None:
        """Wait until no schedule runs. The next begins when another run is asked for."""
        self._pool.rest()

    def close(self) -> list[str]:
        """End the processes, and return the lines at which threads of theirs were still running."""
        with self._ending, self._pool:
            lines = [line for strays in self._pool.dismiss(None) if isinstance(strays, list) for line in strays]
        return list(dict.fromkeys(lines))

    def _runs(self, schedules: Sequence[Schedule]) -> Iterator[Run]:
        try:
            for done in self._pool.each(schedules):
                run, schedule = done.outcome, done.job
                assert schedule is not None
                yield run if isinstance(run, Run) else Run(schedule, error=ChildProcessError(done.error))
        except NotStartedError as error:
            said = "\n".join((error.output or "").splitlines()[-_SHOWN_LINES:])
            why = f"another process cannot run the scenario; it printed:\n{said}"
            raise ValueError(f"processes={self._pool.count}: {why}; pass processes=1 to run it here") from None

    def _begun(self, address: Address, note: Note) -> Process:
        file = getattr(self._module, "__file__", None) or ""
        arguments = (address, self._folder, self._module.__name__, file, self._content)
        return forked(_play, arguments, os.environ, None, note)


def _play(address: Address, folder: str, module: str, file: str, content: bytes) -> None:
    """Run schedules in this process, as the test's process asks through a socket."""
    fork_server.load_module(module, file)
    scenario, faults, limit, options, variables = pickle.loads(content)
    VARIABLES.update(variables)
    runner = ScenarioRunner(scenario, kinds_of(faults), limit, options, folder)
    before, strays = frozenset(threading.enumerate()), list[threading.Thread]()

    def run(schedule: Schedule | None) -> tuple[Run | list[str], bool]:
        if schedule is None:
            return lines_of(strays), True
        outcome = _portable(attempt(runner, schedule))
        strays.extend(STRAYS.note(before))
        return outcome, False

    serve(address.connect(), run)


def _portable(run: Run) -> Run:
    """Return a run without what a process keeps for itself."""
    text = "" if run.error is None else "".join(traceback.format_exception_only(run.error)).strip()
    return replace(run, error=run.error and ChildProcessError(text), logs=[], raw_events=[])
