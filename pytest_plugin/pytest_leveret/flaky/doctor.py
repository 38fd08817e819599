"""The doctor: `--leveret-flaky` runs one test many times, in processes side by side, and reports why it fails."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryFile, mkdtemp
from typing import IO, TYPE_CHECKING, Final

import pytest

from pytest_leveret import brokers
from pytest_leveret.flaky import ADDRESS, complete_arguments
from pytest_leveret.flaky.play import Outcome
from pytest_leveret.flaky.report import Diagnosis, page_of, text_of_diagnosis
from pytest_leveret.flaky.search import search
from pytest_leveret.flaky.worker import Job, Runner, Worker

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

    from leveret import Broker

# How long a run may take before its process is ended, and how long a process may take to start.
_HANG_S: Final = 60.0
_START_S: Final = 60.0


def prepare(config: pytest.Config, count: int | None, seed: int | None) -> None:
    """Let this session be a doctor's, one of its workers, or the replay of a seed."""
    runner = Runner()
    watchers: list[Callable[[Broker], None]] = [runner.watch]
    config.stash[brokers.WATCHERS] = watchers
    if count is None or ADDRESS in os.environ:
        runner.prepare(Job(seed or 0))
        config.pluginmanager.register(runner, "leveret-flaky-runner")
    if ADDRESS in os.environ:
        config.pluginmanager.register(Worker(runner), "leveret-flaky-worker")
    elif count is not None:
        config.pluginmanager.register(Doctor(config, count), "leveret-flaky-doctor")


class Doctor:
    """The part of the plugin that runs one test many times instead of the session's tests."""

    def __init__(self, config: pytest.Config, count: int) -> None:
        self._config: Final = config
        self._count: Final = count
        self.diagnosis: Diagnosis | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Examine the test, and fail the session if it is flaky."""
        if session.testsfailed and not session.config.option.continue_on_collection_errors:
            raise session.Interrupted(f"{session.testsfailed} errors during collection")
        if len(session.items) != 1:
            raise pytest.UsageError(
                f"--leveret-flaky examines one test, and {len(session.items)} are selected; name it, as in "
                "pytest --leveret-flaky 'tests/test_shop.py::test_ship'"
            )
        item = session.items[0]
        with Workers(self._config) as workers:
            diagnosis = self.diagnosis = examine(item, workers, self._count)
            if diagnosis.finding is not None:
                diagnosis.page = self._write_pages(diagnosis, workers)
        session.testsfailed += bool(diagnosis.failed)
        return True

    def _write_pages(self, diagnosis: Diagnosis, workers: Workers) -> str | None:
        cache = getattr(self._config, "cache", None)
        folder = Path(mkdtemp(prefix="leveret-flaky-") if cache is None else cache.mkdir("leveret-flaky"))
        failed, passed = diagnosis.examples
        if passed is None:
            return None
        names = "failed.html", "passed.html"
        jobs = [
            Job(run.seed, order, str(folder / name)) for (run, order), name in zip((failed, passed), names, strict=True)
        ]
        outcomes = workers.run(jobs)
        path = folder / "flaky.html"
        path.write_text(page_of(diagnosis, outcomes, names), encoding="utf-8", newline="\n")
        return path.as_uri()

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Show what was found."""
        if self.diagnosis is not None:
            terminalreporter.section("flaky")
            for line in text_of_diagnosis(self.diagnosis):
                terminalreporter.write_line(line)


def examine(item: pytest.Item, workers: Workers, count: int) -> Diagnosis:
    """Run a test many times, and search for the cause if some runs fail and others pass."""
    runs = workers.run([Job(seed) for seed in range(count)])
    diagnosis = Diagnosis(item.nodeid, str(item.path), runs)
    if diagnosis.failed and diagnosis.passed and not diagnosis.leaves_something:
        diagnosis.finding = search(runs, lambda order, times: workers.run([Job(0, order)] * times))
    return diagnosis


class Workers:
    """The processes that run the test, as many as there are cores."""

    def __init__(self, config: pytest.Config) -> None:
        self._config: Final = config
        self._key: Final = secrets.token_bytes(16)
        self._listener: Final = Listener(("127.0.0.1", 0), authkey=self._key)
        self._idle: Final[SimpleQueue[_Process | None]] = SimpleQueue()
        self._all: Final[list[_Process]] = []
        self._count: Final = os.cpu_count() or 1
        for _ in range(self._count):
            self._idle.put(None)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._all:
            process.end()
        self._listener.close()

    def run(self, jobs: list[Job]) -> list[Outcome]:
        """Do jobs, and return their outcomes in the same order."""
        with ThreadPoolExecutor(self._count) as pool:
            return list(pool.map(self._run_one, jobs))

    def _run_one(self, job: Job) -> Outcome:
        process = self._idle.get()
        try:
            if process is None:
                process = self._start()
            outcome = process.run(job)
        except (EOFError, OSError, TimeoutError) as error:
            if process is not None:
                process.end()
            process = None
            return Outcome(job.seed, "failed", error=f"its process ended or hung: {error!r}")
        finally:
            self._idle.put(process)
        return outcome

    def _start(self) -> _Process:
        arguments = [*map(str, self._config.invocation_params.args)]
        complete_arguments(arguments)
        arguments = [word for word in arguments if not word.startswith("--leveret-flaky")]
        if self._config.pluginmanager.hasplugin("xdist"):
            arguments += ["-n", "0"]
        port = self._listener.address[1]
        environment = {**os.environ, ADDRESS: f"{port} {self._key.hex()}"}
        # Closed with the process.
        output = TemporaryFile()  # noqa: SIM115
        command = [sys.executable, "-m", "pytest", *arguments, "--leveret-pages=off", "-p", "no:cacheprovider"]
        popen = subprocess.Popen(
            command, cwd=self._config.invocation_params.dir, env=environment, stdout=output, stderr=output
        )
        process = _Process(popen, output, self._listener)
        self._all.append(process)
        return process


class _Process:
    """One worker, as the doctor holds it."""

    def __init__(self, popen: subprocess.Popen[bytes], output: IO[bytes], listener: Listener) -> None:
        self._popen: Final = popen
        self._output: Final = output
        self._listener: Final = listener
        self._connection: Connection | None = None
        self._turns = 0

    def run(self, job: Job) -> Outcome:
        """Do a job."""
        if self._connection is None:
            self._connection = _accept(self._listener, self._popen, self._output)
        self._connection.send(job)
        if not self._connection.poll(_HANG_S):
            raise TimeoutError(f"no end after {_HANG_S:.0f} s")
        outcome: Outcome = self._connection.recv()
        outcome.turn = self._turns
        self._turns += 1
        return outcome

    def end(self) -> None:
        """Hang up, and end the process if it does not end itself."""
        if self._connection is not None:
            self._connection.close()
        try:
            self._popen.wait(5 if self._connection is not None else 0)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        self._output.close()


def _accept(listener: Listener, popen: subprocess.Popen[bytes], output: IO[bytes]) -> Connection:
    """Return the connection of the next worker. Raises UsageError with its output if it ends instead."""
    socket = listener._listener._socket  # type: ignore[attr-defined]
    socket.settimeout(0.5)
    for _ in range(int(_START_S / 0.5)):
        try:
            return listener.accept()
        except TimeoutError:
            if popen.poll() is not None:
                output.seek(0)
                text = output.read().decode("utf-8", "replace").strip()
                raise pytest.UsageError(f"--leveret-flaky: a process that should run the test ended:\n{text}") from None
    raise TimeoutError(f"no process after {_START_S:.0f} s")
