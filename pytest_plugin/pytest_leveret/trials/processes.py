"""Processes that run tests again and again: forks of this one, which have collected the tests, or new pytests.

A new pytest has the same arguments. Its plugin is `Serving`, in place of running the session's tests.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from multiprocessing.connection import Connection
from time import monotonic
from typing import Any, Final

import pytest

from leveret.trials.pool import Address, NotStartedError, Pool, serve
from leveret.workers.processes import Note, Process, program
from pytest_leveret.brokers import run_broker
from pytest_leveret.options import general_settings
from pytest_leveret.trials import ADDRESS

# What a run of a test that is no run of the suite writes nothing to.
NO_RECORDS: Final = ("--leveret-pages=off", "--leveret-otlp=", "--leveret-trace-dir=")


@contextmanager
def pool(
    config: pytest.Config,
    module: str,
    *,
    asked_by: str,
    fork: Callable[[Connection], None] | None = None,
) -> Iterator[Pool[Any, Any]]:
    """Yield the processes that run the tests.

    `asked_by` is what the user typed. A new pytest leaves that option out, and calls `serve` of the module with its
    session and its connection. Raises UsageError if a process does not start.
    """
    # The code under test has the address already, so all brokers have this port, and run one after another. A new
    # pytest reads variables of its own.
    has_run_broker, port = run_broker.end_broker(config), general_settings(config).get("port")
    count = 1 if (has_run_broker and fork is not None) or (port is not None and port.value) else None
    with Pool[Any, Any](partial(_new_pytest, config, module, asked_by), fork=fork, count=count) as processes:
        try:
            yield processes
        except NotStartedError as error:
            raise pytest.UsageError(f"{asked_by}: a process that should run the test {error}") from None


def _new_pytest(config: pytest.Config, module: str, asked_by: str, address: Address, note: Note) -> Process:
    arguments = [word for word in map(str, config.invocation_params.args) if not word.startswith(asked_by)]
    if config.pluginmanager.hasplugin("xdist"):
        arguments += ["-n", "0"]
    environment = {**os.environ, ADDRESS: f"{module} {address.port} {address.key.hex()}"}
    command = [sys.executable, "-m", "pytest", *arguments, *NO_RECORDS, "-p", "no:cacheprovider"]
    return program(command, environment, os.fspath(config.invocation_params.dir), note)


def serve_session(
    session: pytest.Session, connection: Connection, run: Callable[[Any], tuple[Any, bool] | None]
) -> None:
    """Run tests of a session as the other side asks, as `leveret.trials.pool.serve` does, and end its fixtures."""
    serve(connection, run)
    session._setupstate.teardown_exact(None)


class Serving:
    """The part of the plugin that serves the process which has started this one, instead of running all tests."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Serve until the other side hangs up."""
        module, port, key = os.environ[ADDRESS].split()
        import_module(module).serve(session, Address(int(port), bytes.fromhex(key)).connect())
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
