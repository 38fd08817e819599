"""What a suite leaves behind that is killed: `python -m tests.workers.killed [COUNT] [SEED]` kills 50 of them.

Each runs workers of one kind, and is killed at a random moment in one of five ways. Five seconds later no process that
has come from it may live. Every such process has the name of its suite in its environment.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic

VARIABLE = "SUITE_THAT_IS_KILLED"
LIMIT_S = 5.0
TICK = threading.Event()

_WORKER = """
def test_it(leveret, leveret_session):
    leveret.declare_queue("payments")
    with {worker}:
        with open(os.environ["MOMENT"], "w"):
            threading.Event().wait(300)
"""
_HEAD = (
    "import os, sys, threading, leveret\nfrom leveret.workers import processes\nfrom tests.workers import services\n"
)
_FUNCTION = "leveret.worker(services.consume_in_children)"
# What a suite does, and the options of its run.
KINDS: dict[str, tuple[str, list[str]]] = {
    "function": (_WORKER.format(worker=_FUNCTION), []),
    "function that has ended": (
        _WORKER.format(worker='leveret.worker(services.leave_children, ready="left")'),
        [],
    ),
    "function without fork": ("processes._CAN_FORK = False\n" + _WORKER.format(worker=_FUNCTION), []),
    "program": (
        _WORKER.format(worker='leveret.worker([sys.executable, "-m", "tests.workers.services", "children"])'),
        [],
    ),
    "program that never hears of the end": (
        _WORKER.format(worker='leveret.worker(["sleep", "300"], ready=lambda: True)'),
        [],
    ),
    "explore": (
        """
def scenario(broker):
    broker.declare_queue("payments")
    with broker.worker(services.consume_in_children):
        with open(os.environ["MOMENT"], "w"):
            pass
        broker.publish("", "payments", b"7")
        broker.wait_idle(timeout=60)

def test_it():
    leveret.explore(scenario, faults=["lost before"], pairs=200, processes=2, limit=200)
""",
        [],
    ),
    "flaky": (_WORKER.format(worker=_FUNCTION), ["--leveret-flaky=4"]),
    "needs": (
        """
def test_it(leveret):
    leveret.declare_queue("payments")
    with leveret.worker(services.consume):
        leveret.publish("", "payments", b"7")
        leveret.wait_idle(timeout=60)
    with open(os.environ["MOMENT"], "w"):
        threading.Event().wait(300)
""",
        ["needs"],
    ),
}


def _exit_at_once(suite: subprocess.Popen[bytes]) -> None:
    suite.send_signal(signal.SIGUSR1)


def _sent(number: signal.Signals) -> Callable[[subprocess.Popen[bytes]], None]:
    return lambda suite: suite.send_signal(number)


ENDS: dict[str, Callable[[subprocess.Popen[bytes]], None]] = {
    "SIGKILL": _sent(signal.SIGKILL),
    "SIGTERM": _sent(signal.SIGTERM),
    "SIGHUP": _sent(signal.SIGHUP),
    "os._exit": _exit_at_once,
}


def alive(name: str) -> list[str]:
    """Return the processes that have come from a suite: number, state and command."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdigit() and f"{VARIABLE}={name}".encode() in (folder / "environ").read_bytes():
                command = (folder / "cmdline").read_text().replace("\0", " ")
                found.append(f"{folder.name} {command}")
    return found


def kill(kind: str, end: str, folder: Path, seconds: float) -> list[str]:
    """Run a suite, and return what lives five seconds after it was killed.

    It is killed so many seconds after its workers run, or after its start if the number is negative.
    """
    text, options = KINDS[kind]
    name, reached = uuid.uuid4().hex, folder / "moment"
    (folder / "test_suite.py").write_text(_HEAD + text)
    (folder / "conftest.py").write_text("import os, signal\nsignal.signal(signal.SIGUSR1, lambda *_: os._exit(1))\n")
    environment = {**os.environ, VARIABLE: name, "MOMENT": str(reached), "PYTHONPATH": os.getcwd()}
    program = ["-m", "leveret"] if options == ["needs"] else ["-m", "pytest", "-q"]
    suite = subprocess.Popen(
        [sys.executable, *program, *options, "test_suite.py"],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # What nohup started ignores it, and so would the suite.
        preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_DFL),
    )
    try:
        while seconds >= 0 and not reached.exists() and suite.poll() is None:
            TICK.wait(0.01)
        assert suite.poll() is None, f"the suite of kind {kind!r} has ended by itself with {suite.poll()}"
        with suppress(subprocess.TimeoutExpired):
            suite.wait(abs(seconds))
        ENDS[end](suite)
        suite.wait(60)
        limit = monotonic() + LIMIT_S
        while (left := alive(name)) and monotonic() < limit:
            TICK.wait(0.05)
    finally:
        for line in alive(name):
            with suppress(ProcessLookupError):
                os.kill(int(line.split()[0]), signal.SIGKILL)
        suite.wait(60)
    return left


def main(count: int, seed: int) -> int:
    """Print what is left of each suite, and return how many have left something."""
    chance, bad = random.Random(seed), 0
    for number in range(count):
        kind = list(KINDS)[number % len(KINDS)]
        end = chance.choice(list(ENDS))
        seconds = chance.choice([chance.uniform(0, 1), -chance.uniform(0, 2)])
        with tempfile.TemporaryDirectory() as folder:
            left = kill(kind, end, Path(folder), seconds)
        bad += bool(left)
        print(f"{number} {kind}, {end} at {seconds:+.2f} s: {len(left)} left {left or ''}", flush=True)
    print(f"{bad} of {count} suites left something; seed {seed}")
    return bad


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    sys.exit(main(given[0] if given else 50, given[1] if given[1:] else 0) > 0)
