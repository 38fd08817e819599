"""What several processes do to one storage at the same time; multiprocessing imports this in each of them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from multiprocessing import get_context
from typing import Any

from leveret.pipeline.storage import open_storage

# A process that was forked from one with an S3 storage cannot use one.
_PROCESSES = get_context("spawn")


def create_side_by_side(url: str, rounds: int, *, processes: int = 2, has_links: bool = True) -> list[list[bool]]:
    """Let processes create the same path in each round, and return their answers, a list for each round."""
    return [list(answers) for answers in zip(*run(_create, processes, url, rounds, has_links), strict=True)]


def run(act: Callable[..., Any], processes: int, *arguments: object) -> list[Any]:
    """Call `act(barrier, number, *arguments)` in several processes, and return their results."""
    barrier = _PROCESSES.Barrier(processes)
    results = _PROCESSES.SimpleQueue()
    started = [
        _PROCESSES.Process(target=_report, args=(results, act, barrier, number, *arguments))
        for number in range(processes)
    ]
    for process in started:
        process.start()
    found = [results.get() for _ in started]
    for process in started:
        process.join()
    for result in found:
        if isinstance(result, BaseException):
            raise result
    return found


def _report(results: Any, act: Callable[..., Any], barrier: Any, *arguments: Any) -> None:
    try:
        results.put(act(barrier, *arguments))
    except BaseException as error:
        barrier.abort()
        results.put(error)


def _create(barrier: Any, number: int, url: str, rounds: int, has_links: bool) -> list[bool]:
    if not has_links:
        os.link = refuse_links
    storage = open_storage(url)
    answers = []
    for number_of_round in range(rounds):
        barrier.wait()
        answers.append(storage.create(f"races/{number_of_round:03d}", f"by {number}".encode()))
    return answers


def refuse_links(*args: object, **options: object) -> None:
    """Fail as a file system without hard links does."""
    raise OSError(errno.EPERM, "Operation not permitted")
