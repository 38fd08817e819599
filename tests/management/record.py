"""The command that records what real servers answer::

    python -m tests.management.record --oracle 4.3=amqp://guest:guest@127.0.0.1:5643 [--only AREA[/NAME]] [--new]

Every scenario runs twice, each in a fresh virtual host, and must answer the same both times. One that does not is
printed with its difference and not saved.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
import traceback

from . import scenarios, target, transcripts
from .scenario import SCENARIOS, Scenario, Transcript, run


def main() -> int:
    """Record; return the number of scenarios that did not answer the same each time, as the exit code."""
    parser = argparse.ArgumentParser(description="record what the management API of real servers answers")
    parser.add_argument("--oracle", action="append", required=True, metavar="VERSION=URL")
    parser.add_argument("--only", action="append", metavar="AREA[/NAME]")
    parser.add_argument("--new", action="store_true", help="only what has no transcript yet")
    parser.add_argument("--repeat", type=int, default=2)
    options = parser.parse_args()
    scenarios.load_all()
    unstable = 0
    for pair in options.oracle:
        version, url = pair.split("=", 1)
        chosen = [it for it in SCENARIOS.values() if _is_wanted(it, version, options)]
        unstable += _record(version, url, chosen, options.repeat)
    return unstable


def _is_wanted(scenario: Scenario, version: str, options: argparse.Namespace) -> bool:
    if version not in scenario.versions:
        return False
    if options.new and transcripts.load(version, scenario.area, scenario.name) is not None:
        return False
    return not options.only or scenario.area in options.only or scenario.id in options.only


def _record(version: str, url: str, chosen: list[Scenario], repeat: int) -> int:
    """Record scenarios, and save each one as soon as it is known."""
    unstable = 0
    for scenario in chosen:
        answers = [_answer(scenario, url, version) for _ in range(repeat)]
        odd = next((answer for answer in answers if answer != answers[0]), None)
        if odd is not None or answers[0] is None:
            unstable += 1
            print(f"{version} {scenario.id}: not saved")
            print(difference(answers[0] or [], odd or []))
            continue
        known = [it.name for it in SCENARIOS.values() if it.area == scenario.area]
        transcripts.save(version, scenario.area, {scenario.name: answers[0]}, known)
    print(f"{version}: {len(chosen) - unstable} recorded, {unstable} not")
    return unstable


def _answer(scenario: Scenario, url: str, version: str) -> Transcript | None:
    try:
        with target.oracle(url, version) as (endpoint, asking):
            return run(scenario, endpoint, asking)
    except Exception:
        print(f"{version} {scenario.id} broke down", file=sys.stderr)
        traceback.print_exc()
        return None


def difference(expected: Transcript, got: Transcript) -> str:
    """Return a readable difference of two transcripts."""
    wanted, given = (
        json.dumps(it, indent=1, ensure_ascii=False, sort_keys=True).splitlines() for it in (expected, got)
    )
    return "\n".join(difflib.unified_diff(wanted, given, "expected", "got", n=3, lineterm=""))


if __name__ == "__main__":
    sys.exit(main())
