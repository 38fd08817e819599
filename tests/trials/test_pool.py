"""The pool: jobs in processes side by side, whatever becomes of the processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Client

import pytest

from leveret.trials.pool import Address, NotStartedError, Pool, serve
from leveret.workers.processes import Note, Process, forked

pytestmark = pytest.mark.timeout(120)
Doing = Pool[str, str]


def act(job: str) -> tuple[str, bool]:
    if job == "die":
        os._exit(3)
    if job == "hang":
        threading.Event().wait()
    return f"{job} done", job == "last"


def play(address: Address) -> None:
    serve(address.connect(), act)


def refuse(address: Address) -> None:
    print("there is no database")


def begun(function: Callable[[Address], None], address: Address, note: Note) -> Process:
    return forked(function, (address,), os.environ, None, note)


@pytest.fixture
def pool() -> Iterator[Doing]:
    with Doing(partial(begun, play), count=2) as pool:
        yield pool


def test_outcomes_come_in_the_order_of_the_jobs(pool: Doing) -> None:
    jobs = [str(number) for number in range(9)]

    done = list(pool.each(jobs))

    assert [it.outcome for it in done] == [f"{job} done" for job in jobs]
    assert sum(it.turn == 0 for it in done) == 2


def test_another_process_takes_the_place_of_one_that_ends(pool: Doing) -> None:
    done = list(pool.each(["die", "a", "last", "b", "c"]))

    assert [it.outcome for it in done] == [None, "a done", "last done", "b done", "c done"]
    assert done[0].error


def test_a_process_that_hangs_is_ended() -> None:
    with Doing(partial(begun, play), count=1, hang_s=0.1) as pool:
        done = list(pool.each(["hang", "a"]))

    assert (done[0].outcome, done[0].error) == (None, "no end after 0 s")
    assert done[1].outcome == "a done"


def test_no_job_runs_while_the_pool_rests(pool: Doing) -> None:
    jobs = iter(["a", "b", "c"])
    coming = pool.each(jobs)
    first = next(coming)

    pool.rest()

    assert first.outcome == "a done"
    assert list(jobs) == ["c"]
    assert [it.outcome for it in coming] == ["b done"]


def test_each_process_that_has_worked_gets_a_last_job(pool: Doing) -> None:
    list(pool.each(["a", "b"]))

    assert list(pool.dismiss("last")) == ["last done"] * 2


def test_a_process_that_ends_before_it_connects_says_what_it_printed() -> None:
    with (
        Doing(partial(begun, refuse), count=2) as pool,
        pytest.raises(NotStartedError, match=r"ended:\nthere is no database"),
    ):
        list(pool.each(["a", "b"]))


def test_what_a_stranger_sends_to_the_port_of_a_process_is_not_read() -> None:
    strangers = []

    def after_a_stranger(address: Address, note: Note) -> Process:
        strangers.append(Client(("127.0.0.1", address.port)))
        strangers[-1].send("a pickle")
        return begun(play, address, note)

    with Doing(after_a_stranger, count=1) as pool:
        done = list(pool.each(["a"]))
    strangers[0].close()

    assert done[0].outcome == "a done"
