"""What several processes do at the same time; multiprocessing imports this in each of them."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import get_context
from typing import Any

# A process that was forked from one with an S3 storage cannot use one.
_PROCESSES = get_context("spawn")


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
