"""What workers leave behind: `python -m tests.workers.campaign [COUNT]` starts and ends 1,000 of them.

A third is killed, a third is ended by its block, and a third dies by a fault and is started again. Then no process,
thread, descriptor or temporary file of theirs may be left.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from statistics import median
from time import perf_counter

from leveret import Broker
from leveret.workers.fork_server import SERVER
from tests.workers import services


def run(count: int) -> list[float]:
    """Start workers and end them, and return how long each start took, until it consumed, in seconds."""
    spans = []
    with Broker() as broker:
        broker.declare_queue("payments")
        broker.declare_queue("receipts")
        for number in range(count):
            began = perf_counter()
            with broker.worker(services.consume) as worker:
                spans.append(perf_counter() - began)
                if number % 3 == 0:
                    worker.kill()
                elif number % 3 == 1:
                    worker.die()
    SERVER.stop()
    return spans


def held() -> dict[str, set[str]]:
    """Return what this process holds: descendants, threads, descriptors and files in the folder for temporary ones."""
    return {
        "processes": set(_descendants(os.getpid())),
        "threads": {f"{thread.name} {thread.ident}" for thread in threading.enumerate()},
        "descriptors": {f"{name} {_target(name)}" for name in os.listdir("/proc/self/fd") if _target(name)},
        "files": set(os.listdir(tempfile.gettempdir())),
    }


def _target(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{name}")
    except OSError:
        return ""


def _descendants(pid: int) -> list[str]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            for child in (task / "children").read_text().split():
                found += [child, *_descendants(int(child))]
    return found


def main(count: int) -> int:
    """Print what is left, and return how much."""
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        SERVER.stop()
        before, began = held(), perf_counter()
        spans = run(count)
        left = {kind: names - before[kind] for kind, names in held().items()}
        tempfile.tempdir = None
    print(f"{count} workers in {perf_counter() - began:.0f} s, started in {median(spans) * 1000:.0f} ms (median)")
    for kind, names in left.items():
        print(f"{kind} left: {len(names)}{' ' if names else ''}{', '.join(sorted(names))}")
    return sum(map(len, left.values()))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000) > 0)
