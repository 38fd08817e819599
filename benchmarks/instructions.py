"""The number of instructions that a message takes in the core, counted by callgrind and held to a budget.

    python benchmarks/instructions.py            compare with the budget; fail if a figure is above it
    python benchmarks/instructions.py --record   write the figures of today for this interpreter

Each workload of `benchmarks/core.py` runs with two message counts, and the difference is divided, so that the start
does not count. The figures repeat to 0.1 % on one build of CPython and mean nothing on another, so `instructions.json`
has a row for each build. Without valgrind, or without a row for the interpreter, the program says that it checked
nothing.

One process under valgrind runs everything and forks for each run, because starting costs more than the messages do.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import core

BUDGETS = Path(__file__).with_name("instructions.json")
WORKLOADS = ("store", "number", "deliver", "settle")
COUNTS = (2_000, 6_000)
# How far a figure may be above its budget: the counts repeat to 0.1 %, but differ between processors.
TOLERANCE = 1.05


def main(arguments: list[str]) -> int:
    """Measure, then record or compare, and return the exit status."""
    if arguments == ["--fork"]:
        return fork_for_each_run()
    budgets = json.loads(BUDGETS.read_text())
    build = f"{platform.python_implementation()} {platform.python_version()} {platform.python_compiler()}"
    build = f"{build} {platform.machine()}"
    if shutil.which("valgrind") is None:
        print("nothing was checked: valgrind is not installed")
        return 0
    if build not in budgets and "--record" not in arguments:
        print(f"nothing was checked: {BUDGETS.name} has no row for {build!r}; --record writes one")
        return 0
    measured = per_message()
    if "--record" in arguments:
        BUDGETS.write_text(json.dumps(budgets | {build: measured}, indent=2, sort_keys=True) + "\n")
        budgets[build] = measured
    is_within = True
    for workload, figure in measured.items():
        budget = budgets[build][workload]
        is_within = is_within and figure <= budget * TOLERANCE
        print(f"{figure:7,} instructions a message, budget {budget:7,}  {workload}")
    return 0 if is_within else 1


def per_message() -> dict[str, int]:
    """Return the instructions that one more message takes, by workload."""
    counted = instructions()
    few, many = COUNTS
    return {name: round((counted[name, many] - counted[name, few]) / (many - few)) for name in WORKLOADS}


def instructions() -> dict[tuple[str, int], int]:
    """Return the instructions of each process and the one it was forked from, by workload and count."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable, __file__, "--fork"]
    # The hashes of strings decide the layout of dictionaries, so they must be the same in each run.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"valgrind failed: {done.stderr[-2000:]}")
    collected = dict(re.findall(r"^==(\d+)== Collected : (\d+)", done.stderr, re.MULTILINE))
    runs = (line.split() for line in done.stdout.splitlines())
    return {(workload, int(count)): int(collected[process]) for workload, count, process in runs}


def fork_for_each_run() -> int:
    """Run each workload in a separate process, and print which process that was."""
    gc.disable()
    for workload in WORKLOADS:
        for count in COUNTS:
            process = os.fork()
            if process == 0:
                core.run(workload, count)
                os._exit(0)
            if os.waitpid(process, 0)[1]:
                return 1
            print(workload, count, process, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
