"""Processes that run tests again and again, side by side, one job after another.

A worker is a fork of this process, if that is asked for and no other thread runs here: it then has collected the tests
already and starts at once. Otherwise it is a new pytest with the same arguments. Its plugin calls `serve` in place of
running the session's tests. Jobs and outcomes are plain values that can be pickled. Where there is fork, no worker
outlives this process.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener, Pipe, wait
from time import monotonic
from typing import Final, Generic, TypeVar

import pytest

from leveret.workers.fork_server import end_with
from leveret.workers.processes import Process, program

J = TypeVar("J")
O = TypeVar("O")  # noqa: E741

# How long a run may take before its process is ended, how long a process may take to start, and to end.
HANG_S: Final = 60.0
_START_S: Final = 60.0
# What a run of a test that is no run of the suite writes nothing to.
NO_RECORDS: Final = ("--leveret-pages=off", "--leveret-otlp=", "--leveret-trace-dir=")
_END_S: Final = 10.0
_TICK_S: Final = 0.5


@dataclass(slots=True)
class Done(Generic[J, O]):
    """A job that is over, and its outcome, or why there is none."""

    job: J
    outcome: O | None
    # How many jobs its process had done before.
    turn: int = 0
    error: str = ""


class Workers(Generic[J, O]):
    """The processes that run the tests, as many as there are cores."""

    def __init__(
        self,
        config: pytest.Config,
        variable: str,
        *,
        asked_by: str,
        fork: Callable[[Connection], None] | None = None,
        count: int | None = None,
    ) -> None:
        """`asked_by` is what the user typed. A new pytest leaves that option out, and finds the address in `variable`.

        `fork` serves a connection in a process that was forked, and never returns to pytest. With a `count` of 1, no
        two of them ever run at the same time.
        """
        self._config: Final = config
        self._variable: Final = variable
        self._asked_by: Final = asked_by
        # Only Linux ends a fork with its parent.
        self._fork: Final = fork if sys.platform == "linux" and threading.active_count() == 1 else None
        self._all: Final[list[_Worker[J]]] = []
        self._ending: Final[list[_Worker[J]]] = []
        self.count: Final = count or os.cpu_count() or 1

    def __enter__(self) -> Workers[J, O]:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        for worker in self._all:
            worker.hang_up()
        for worker in (*self._ending, *self._all):
            # A new pytest has a session of its own, which a Ctrl-C does not reach.
            worker.process.end(_END_S if kind is None else 0)

    def drive(self, next_job: Callable[[], J | None]) -> Iterator[Done[J, O]]:
        """Do jobs, and yield each when it is over, until there is no next one while all workers are idle."""
        while True:
            self._hand_out(next_job)
            busy = [worker for worker in self._all if worker.job is not None]
            if not busy:
                return
            ready = wait([worker.connection for worker in busy], _TICK_S)
            for worker in busy:
                if worker.connection in ready:
                    yield self._received(worker)
                elif monotonic() - worker.began > HANG_S:
                    yield self._lost(worker, f"no end after {HANG_S:.0f} s")

    def _hand_out(self, next_job: Callable[[], J | None]) -> None:
        idle = [worker for worker in self._all if worker.job is None]
        free = self.count - len(self._all)
        jobs: list[J] = []
        while len(jobs) < len(idle) + free and (job := next_job()) is not None:
            jobs.append(job)
        # All of them start side by side before the first is waited for.
        while len(idle) < len(jobs):
            idle.append(_Worker(self._spawned() if self._fork is None else self._forked(self._fork)))
            self._all.append(idle[-1])
        for worker, job in zip(idle, jobs, strict=False):
            worker.give(job)

    def _received(self, worker: _Worker[J]) -> Done[J, O]:
        try:
            outcome, is_last = worker.connection.recv()
        except (EOFError, OSError) as error:
            return self._lost(worker, repr(error))
        done = Done[J, O](worker.taken(), outcome, worker.turns)
        worker.turns += 1
        if is_last:
            self._drop(worker)
        return done

    def _lost(self, worker: _Worker[J], why: str) -> Done[J, O]:
        worker.hang_up()
        self._all.remove(worker)
        worker.process.end(0)
        return Done(worker.taken(), None, worker.turns, why)

    def _drop(self, worker: _Worker[J]) -> None:
        """Let another process take its place. What it has begun, it ends by itself."""
        worker.hang_up()
        self._all.remove(worker)
        self._ending.append(worker)
        if self.count == 1:
            self._ending.pop().process.end(_END_S)

    def _forked(self, serve_connection: Callable[[Connection], None]) -> _Forked:
        here, there = Pipe()
        parent = os.getpid()
        number = os.fork()
        if number:
            there.close()
            return _Forked(number, here)
        try:
            end_with(parent)
            here.close()
            for worker in self._all:
                worker.hang_up()
            serve_connection(there)
        finally:
            os._exit(0)

    def _spawned(self) -> _Spawned:
        arguments = [*map(str, self._config.invocation_params.args)]
        arguments = [word for word in arguments if not word.startswith(self._asked_by)]
        if self._config.pluginmanager.hasplugin("xdist"):
            arguments += ["-n", "0"]
        key = secrets.token_bytes(16)
        listener = Listener(("127.0.0.1", 0), authkey=key)
        environment = {**os.environ, self._variable: f"{listener.address[1]} {key.hex()}"}
        command = [sys.executable, "-m", "pytest", *arguments, *NO_RECORDS, "-p", "no:cacheprovider"]
        output: list[str] = []
        process = program(command, environment, os.fspath(self._config.invocation_params.dir), output.append)
        return _Spawned(process, output, self._asked_by, listener)


class _Worker(Generic[J]):
    """One worker, as this side holds it."""

    def __init__(self, process: _Forked | _Spawned) -> None:
        self.process: Final = process
        self._connection: Connection | None = None
        self.job: J | None = None
        self.began = 0.0
        self.turns = 0

    @property
    def connection(self) -> Connection:
        """The connection to it, once it has a job."""
        assert self._connection is not None
        return self._connection

    def give(self, job: J) -> None:
        """Give it a job. Raises UsageError if it does not start."""
        if self._connection is None:
            self._connection = self.process.connect()
        self.job, self.began = job, monotonic()
        self._connection.send(job)

    def taken(self) -> J:
        """Return its job, which is over."""
        job, self.job = self.job, None
        assert job is not None
        return job

    def hang_up(self) -> None:
        """Close its connection, so that it ends."""
        if self._connection is not None:
            self._connection.close()


class _Forked:
    """A fork of this process."""

    def __init__(self, number: int, connection: Connection) -> None:
        self._number: Final = number
        self._connection: Final = connection

    def connect(self) -> Connection:
        """Return the connection to it."""
        return self._connection

    def end(self, seconds: float) -> None:
        """Wait for its end, and kill it after that time."""
        until = monotonic() + seconds
        while os.waitpid(self._number, os.WNOHANG) == (0, 0):
            if monotonic() > until:
                os.kill(self._number, signal.SIGKILL)
                os.waitpid(self._number, 0)
                return
            threading.Event().wait(0.01)


class _Spawned:
    """A new process."""

    def __init__(self, process: Process, output: list[str], asked_by: str, listener: Listener) -> None:
        self._process: Final = process
        self._output: Final = output
        self._asked_by: Final = asked_by
        # Where it alone connects.
        self._listener: Final = listener

    def connect(self) -> Connection:
        """Return its connection. Raises UsageError with its output if it ends instead."""
        socket = self._listener._listener._socket  # type: ignore[attr-defined]
        socket.settimeout(_TICK_S)
        until = monotonic() + _START_S
        while True:
            try:
                return self._listener.accept()
            except TimeoutError:
                if self._process.code() is not None:
                    self._process.close()
                    text = "\n".join(self._output).strip()
                    raise pytest.UsageError(
                        f"{self._asked_by}: a process that should run the test ended:\n{text}"
                    ) from None
                if monotonic() > until:
                    raise pytest.UsageError(
                        f"{self._asked_by}: a process that should run the test did not start in {_START_S:.0f} s"
                    ) from None

    def end(self, seconds: float) -> None:
        """Wait for its end, and kill it after that time."""
        if not self._process.wait(seconds):
            self._process.kill()
            self._process.wait(_END_S)
        self._process.close()
        self._listener.close()


def serve(session: pytest.Session, connection: Connection, run: Callable[[J], tuple[O, bool] | None]) -> None:
    """Do one job after another until the other side hangs up, or a job was the last that this process can do.

    `run` returns the outcome, and whether it was the last; None if it has sent both itself, and it was.
    """
    with suppress(EOFError, OSError):
        while (answer := run(connection.recv())) is not None:
            connection.send(answer)
            if answer[1]:
                break
    session._setupstate.teardown_exact(None)


class Serving:
    """The part of the plugin that serves the process which has started this one, instead of running all tests."""

    def __init__(self, variable: str, serve_session: Callable[[pytest.Session, Connection], None]) -> None:
        """`variable` has the address of that process."""
        self._variable: Final = variable
        self._serve: Final = serve_session

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Serve until the other side hangs up."""
        port, _, key = os.environ[self._variable].partition(" ")
        connection = Client(("127.0.0.1", int(port)), authkey=bytes.fromhex(key))
        self._serve(session, connection)
        return True


class Seldom:
    """Reports progress, but not more often than every few seconds."""

    def __init__(self, report: Callable[[str], None], seconds: float) -> None:
        self._report: Final = report
        self._seconds: Final = seconds
        self._last_at = monotonic()

    def __call__(self, text: str) -> None:
        """Report this, unless the last report is too new."""
        if monotonic() - self._last_at > self._seconds:
            self._last_at = monotonic()
            self._report(text)


def refuse_broken(session: pytest.Session) -> None:
    """End a session of which not all tests could be collected, as pytest does."""
    if session.testsfailed and not session.config.option.continue_on_collection_errors:
        raise session.Interrupted(f"{session.testsfailed} errors during collection")
