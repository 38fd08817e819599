"""A process that runs tests for a survey: a fork of it, or a new pytest."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from leveret.trials.facts import Fact
from pytest_leveret.needs.effects import TEST
from pytest_leveret.needs.run import Job, Outcome, Run
from pytest_leveret.trials.processes import serve_session

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


def play(item: pytest.Item, job: Job, reply: Callable[[Outcome], None]) -> tuple[Outcome, bool] | None:
    """Do a job, and return its outcome and whether this process is spent; None if `reply` got it already."""
    outcome = Outcome()
    for turn in range(1 if job.expected is not None else 2):
        run = Run(item, job, outcome, reply)
        run.play()
        if run.is_cut:
            return None
        if turn and outcome.error:
            # It passes only once in a process, so each of its runs has one of its own.
            outcome.error = ""
            outcome.effects[-1].facts[Fact(TEST, "", value="the test fails")] += 1
            return outcome, True
        if job.is_alone or outcome.error:
            return outcome, True
    if job.expected is None:
        outcome.modules = [name for name in sys.modules if name.startswith("leveret.")]
        return outcome, False
    return outcome, job.expected.differs_from(outcome.effects[-1].facts)


def serve_survey(session: pytest.Session, connection: Connection) -> None:
    """Run the tests of a session as the other side of the connection asks, until it hangs up."""
    items = {item.nodeid: item for item in session.items}

    def run(job: Job) -> tuple[Outcome, bool] | None:
        return play(items[job.test], job, lambda outcome: connection.send((outcome, True)))

    # A run may be cut when it has just ended.
    with suppress(KeyboardInterrupt):
        serve_session(session, connection, run)
