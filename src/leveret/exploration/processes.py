"""Schedules in several processes at once. Each process imports the scenario, and runs schedules until it is hung up on.

A process reports whether a schedule failed, and its steps. Whatever failed runs again in the test's own process, while
the others pause: so its error has a traceback, and runs that disturb each other are no failure.
"""

from __future__ import annotations

import os
import pickle
import secrets
import socket
import sys
import threading
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Client, Connection
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from leveret.engine.urls import VARIABLES
from leveret.exploration.kinds import FaultKind, kinds_of
from leveret.exploration.logs import STRAYS, lines_of
from leveret.exploration.run import Run, Scenario, ScenarioRunner, attempt, new_folder
from leveret.exploration.schedule import Schedule
from leveret.faults import Fault
from leveret.workers import fork_server
from leveret.workers.processes import forked

if TYPE_CHECKING:
    from leveret.engine.broker_options import BrokerOptions

# How long a process may take to start, and how long to answer beyond the limits of the two runs of a schedule.
_START_S: Final = 60.0
_ANSWER_S: Final = 30.0
_LOOK_EVERY_S: Final = 0.2
_END_S: Final = 5.0
_SHOWN_LINES: Final = 20


class Brief(NamedTuple):
    """What a process needs to run a scenario."""

    module: str
    file: str
    # The scenario, the faults, the options of the broker and the variables with the URLs of the run, pickled.
    content: bytes
    limit: float


def brief_of(scenario: Scenario, faults: Sequence[FaultKind | Fault], limit: float, options: BrokerOptions) -> Brief:
    """Return the brief for a scenario. Raises ValueError if another process cannot import it."""
    function: Any = scenario
    while isinstance(function, partial):
        function = function.func
    module = sys.modules.get(getattr(function, "__module__", ""))
    if module is None or module.__name__ == "__main__":
        raise ValueError("another process cannot import the scenario; define it in a module of its own")
    try:
        content = pickle.dumps((scenario, faults, options, VARIABLES))
    except Exception as error:
        raise ValueError(
            f"another process cannot import the scenario ({error}); define it at the top of a module"
        ) from error
    return Brief(module.__name__, getattr(module, "__file__", None) or "", content, limit)


class Pool:
    """Processes that run the schedules of one scenario. They start with the first schedule."""

    def __init__(self, brief: Brief, count: int) -> None:
        self._brief: Final = brief
        self.count: Final = count
        self._idle: Final[SimpleQueue[_Player]] = SimpleQueue()
        self._players: Final[list[_Player]] = []
        self._threads: Final = ThreadPoolExecutor(count, "schedules")
        # Held while a process is taken, so that none is taken during a pause.
        self._turn: Final = threading.Lock()
        self._is_closing = False
        # Removes what processes leave that are killed.
        self._ending: Final = ExitStack()
        self._folder = ""

    def start(self) -> None:
        """Start the processes, unless they run. Raises ValueError if the scenario fails in them without a fault."""
        if not self._players:
            self._folder = self._ending.enter_context(new_folder())
            self._players.extend(_Player(self._brief, self._folder) for _ in range(self.count))
            for each in self._players:
                try:
                    each.wait_ready()
                except ValueError as error:
                    raise ValueError(f"processes={self.count}: {error}; pass processes=1 to run it here") from None
                self._idle.put(each)

    def attempts(self, schedules: Sequence[Schedule]) -> Iterator[Run]:
        """Run schedules side by side, and yield what came of each, in their order."""
        self.start()
        return self._threads.map(self._attempt, schedules)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Wait until no schedule runs, and let none begin within the block."""
        with self._turn:
            players = [self._idle.get() for _ in self._players]
            try:
                yield
            finally:
                for each in players:
                    self._idle.put(each)

    def close(self) -> list[str]:
        """End the processes, and return the lines at which threads of theirs were still running."""
        self._is_closing = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        idle: list[_Player] = []
        with suppress(Empty):
            while True:
                idle.append(self._idle.get_nowait())
        strays = [line for each in idle for line in each.strays()]
        for each in self._players:
            each.end()
        # A thread may have a schedule and no process yet. It gets one that has ended.
        for each in idle:
            self._idle.put(each)
        self._threads.shutdown()
        self._ending.close()
        return list(dict.fromkeys(strays))

    def _attempt(self, schedule: Schedule) -> Run:
        with self._turn:
            player = self._idle.get()
        try:
            return player.attempt(schedule)
        except (EOFError, OSError) as error:
            if not self._is_closing:
                player.end()
                self._players.remove(player)
                player = _Player(self._brief, self._folder)
                self._players.append(player)
                player.wait_ready()
            return Run(schedule, error=error)
        finally:
            self._idle.put(player)


class _Player:
    """One process, as the test's process holds it."""

    def __init__(self, brief: Brief, folder: str) -> None:
        self._limit_s: Final = 2 * brief.limit + _ANSWER_S
        self._output: Final[deque[str]] = deque(maxlen=_SHOWN_LINES)
        # Pickles are read only from the process that has the key.
        self._key: Final = secrets.token_bytes(16)
        self._listener: Final = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(_LOOK_EVERY_S)
        arguments = (self._listener.getsockname(), self._key, folder, *brief)
        self._process: Final = forked(_play, arguments, os.environ, None, self._output.append)
        self._connection: Connection | None = None

    def wait_ready(self) -> None:
        """Wait until the process has run the scenario without a fault. Raises ValueError if it cannot."""
        connection = self._connection = self._accepted()
        if connection is None:
            self.end()
            said = "\n".join(self._output)
            raise ValueError(f"another process cannot run the scenario; it printed:\n{said}")
        run = self.attempt(Schedule())
        if run.has_failed:
            raise ValueError(f"the scenario passes here and fails in another process: {run.hang or run.error}")

    def strays(self) -> list[str]:
        """Hang up on an idle process, and return the lines at which threads of its own are still running."""
        connection = self._connection
        if connection is None:
            return []
        connection.send(None)
        lines: list[str] = connection.recv() if connection.poll(_ANSWER_S) else []
        self._process.wait(_END_S)
        return lines

    def end(self) -> None:
        """End the process, with all its children."""
        self._listener.close()
        self._process.kill()
        self._process.wait(_END_S)
        self._process.close()
        if self._connection is not None:
            self._connection.close()

    def attempt(self, schedule: Schedule) -> Run:
        """Run one schedule. Raises OSError or EOFError if the process ends or hangs."""
        assert self._connection is not None
        self._connection.send(schedule)
        if not self._connection.poll(self._limit_s):
            raise TimeoutError(f"its process did not answer within {self._limit_s:.0f} s")
        answer: Run = self._connection.recv()
        return answer

    def _accepted(self) -> Connection | None:
        limit = monotonic() + _START_S
        while monotonic() < limit and self._process.code() is None:
            with suppress(EOFError, OSError):
                accepted, _ = self._listener.accept()
                # A test may have set a default timeout.
                accepted.setblocking(True)
                connection = Connection(accepted.detach())
                if connection.poll(_ANSWER_S) and secrets.compare_digest(connection.recv_bytes(), self._key):
                    return connection
        return None


def _play(
    address: tuple[str, int], key: bytes, folder: str, module: str, file: str, content: bytes, limit: float
) -> None:
    """Run schedules in this process, as the test's process asks through a socket."""
    fork_server.load_module(module, file)
    scenario, faults, options, variables = pickle.loads(content)
    VARIABLES.update(variables)
    runner = ScenarioRunner(scenario, kinds_of(faults), limit, options, folder)
    connection = Client(address)
    connection.send_bytes(key)
    threads, strays = frozenset(threading.enumerate()), []
    with suppress(EOFError):
        while (schedule := connection.recv()) is not None:
            connection.send(_portable(attempt(runner, schedule)))
            strays += STRAYS.note(threads)
        connection.send(lines_of(strays))


def _portable(run: Run) -> Run:
    """Return a run without what a process keeps for itself."""
    text = "" if run.error is None else "".join(traceback.format_exception_only(run.error)).strip()
    return replace(run, error=run.error and ChildProcessError(text), logs=[], raw_events=[])
