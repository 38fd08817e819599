"""How many instructions a message takes in the core: counted by callgrind, free of noise, and held to a budget.

    python benchmarks/instructions.py            compare with the budget; fails when a figure is above it
    python benchmarks/instructions.py --record   write today's figures down for this interpreter

Each workload of `benchmarks/core.py` runs with two counts, and the difference is divided, so that starting up does not
count. The figures repeat to 0.1 % on one build of CPython and mean nothing on another, so `instructions.json` has a
row for each. Where there is no valgrind, or no row for the interpreter, it says so, and that nothing was checked.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

BUDGETS = Path(__file__).with_name("instructions.json")
CORE = Path(__file__).with_name("core.py")
WORKLOADS = ("store", "deliver", "settle")
COUNTS = (4_000, 12_000)
# What a figure may be above its budget: the counts repeat to 0.1 %, and lie a little apart on other machines.
TOLERANCE = 1.02


def main(arguments: list[str]) -> int:
    """Measure, then record or compare; the exit status."""
    budgets = json.loads(BUDGETS.read_text())
    build = f"{platform.python_implementation()} {platform.python_version()} {platform.python_compiler()}"
    build = f"{build} {platform.machine()}"
    if shutil.which("valgrind") is None:
        print("nothing was checked: there is no valgrind")
        return 0
    if build not in budgets and "--record" not in arguments:
        print(f"nothing was checked: {BUDGETS.name} has no row for {build!r}; --record writes one")
        return 0
    measured = {workload: per_message(workload) for workload in WORKLOADS}
    if "--record" in arguments:
        BUDGETS.write_text(json.dumps(budgets | {build: measured}, indent=2, sort_keys=True) + "\n")
        budgets[build] = measured
    is_within = True
    for workload, figure in measured.items():
        budget = budgets[build][workload]
        is_within = is_within and figure <= budget * TOLERANCE
        print(f"{figure:7,} instructions a message, budget {budget:7,}  {workload}")
    return 0 if is_within else 1


def per_message(workload: str) -> int:
    """The instructions that one more message takes."""
    few, many = COUNTS
    return round((instructions(workload, many) - instructions(workload, few)) / (many - few))


def instructions(workload: str, count: int) -> int:
    """What the whole process takes for so many messages."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable, str(CORE), workload]
    # Hashes of strings decide how dictionaries are laid out.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run([*command, str(count)], env=environment, capture_output=True, text=True, check=False)
    collected = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or collected is None:
        raise SystemExit(f"{workload} failed: {done.stderr[-2000:]}")
    return int(collected[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
