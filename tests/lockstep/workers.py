"""Spread a campaign over processes, each with a vhost of its own."""

from __future__ import annotations

import multiprocessing
import sys
import time
import warnings
from multiprocessing.queues import SimpleQueue

from .campaign import Tally, campaign

Results = SimpleQueue["Tally | str"]


def run(kind: str, version: str, url: str, seeds: list[int], length: int, jobs: int, *, is_shrinking: bool) -> Tally:
    """Run the programs of these seeds in this many processes."""
    context = multiprocessing.get_context("spawn")
    results: Results = context.SimpleQueue()
    shares = [share for number in range(jobs) if (share := seeds[number::jobs])]
    workers = [
        context.Process(target=_work, args=(results, kind, version, url, share, length, is_shrinking), daemon=True)
        for share in shares
    ]
    for worker in workers:
        worker.start()
    return _gather(results, len(workers), len(seeds))


def _gather(results: Results, running: int, count: int) -> Tally:
    total, started = Tally(), time.monotonic()
    while running:
        found = results.get()
        if isinstance(found, str):
            running -= 1
            if found:
                print(f"a worker broke down: {found}", file=sys.stderr)
            continue
        total.merge(found)
        if total.sequences % 100 == 0:
            rate = total.sequences / (time.monotonic() - started)
            print(f"... {total.sequences} of {count}, {rate:.1f}/s, {len(total.differing)} differ", flush=True)
    return total


def _work(
    results: Results, kind: str, version: str, url: str, seeds: list[int], length: int, is_shrinking: bool
) -> None:
    # Programs do on purpose the things that leveret warns about.
    warnings.simplefilter("ignore")
    try:
        for tally in campaign(kind, version, url, seeds, length, is_shrinking=is_shrinking):
            results.put(tally)
    except BaseException as broken:
        results.put(repr(broken))
        raise
    results.put("")
