"""A campaign: the lock of each service is the same after each run of its suite, whole, in part, or by workers.

`python -m tests.contract.stability --runs 50` runs each suite so often. Every other run begins without a lock, and
every tenth has two workers; the others write a random part of the tests, in a random order.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from tests.contract.running import LOCK, NAMES, SERVICES, copy_of, run, tests_of


def main() -> int:
    """Run the campaign, and return 1 if a lock has changed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("services", nargs="*", default=NAMES)
    options = parser.parse_args()
    failures = 0
    for name in options.services:
        with tempfile.TemporaryDirectory() as folder:
            changed = campaign(name, Path(folder), options.runs, random.Random(f"{options.seed} {name}"))
        failures += len(changed)
        print(f"{name}: {options.runs} runs, {len(changed)} changed", flush=True)
        for line in changed:
            print(f"  {line}", flush=True)
    return 1 if failures else 0


def campaign(name: str, folder: Path, runs: int, chance: random.Random) -> list[str]:
    """Return the runs of a service that have changed its lock."""
    expected = (SERVICES / name / LOCK).read_text()
    service = copy_of(name, folder)
    tests = tests_of(service)
    changed = []
    for number in range(runs):
        arguments = ["--leveret-contract=write"]
        if number % 2 == 0:
            (service / LOCK).unlink()
            arguments += ["-n", "2"] if number % 10 == 4 else []
        else:
            arguments += chance.sample(tests, chance.randint(1, len(tests)))
        result = run(service, *arguments)
        written = (service / LOCK).read_text() if (service / LOCK).exists() else ""
        if result.returncode != 0 or written != expected:
            changed.append(f"run {number}: pytest {' '.join(arguments)}: exit code {result.returncode}")
            (folder / f"{number}.lock").write_text(written)
            (service / LOCK).write_text(expected)
    return changed


if __name__ == "__main__":
    sys.exit(main())
