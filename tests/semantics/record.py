"""The command that records transcripts from real servers::

    python -m tests.semantics.record --oracle 4.3=amqp://guest:guest@127.0.0.1:5643 [--only AREA[/NAME]] [--repeat 3]

Every scenario runs ``--repeat`` times, each in a fresh vhost, and must answer the same each time: an answer that
depends on timing proves nothing. A scenario that does not is printed with its difference and not saved. The management
HTTP API must listen on the AMQP port + 10000. Scenarios that stop or starve the node run only with ``--own-node``, and
call rabbitmqctl by the command in LEVERET_ORACLE_CTL.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections import defaultdict

from . import scenarios, target, transcripts
from .scenario import SCENARIOS, Scenario, run


def main() -> int:
    """Record; return the number of scenarios that did not answer the same each time, as the exit code."""
    parser = argparse.ArgumentParser(description="record transcripts of real servers")
    parser.add_argument("--oracle", action="append", required=True, metavar="VERSION=URL")
    parser.add_argument("--only", action="append", metavar="AREA[/NAME]")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--own-node", action="store_true")
    parser.add_argument("--settings", action="store_true", help="the node runs with target.SETTINGS: what asks that")
    parser.add_argument("--new", action="store_true", help="only what has no transcript yet")
    options = parser.parse_args()
    scenarios.load_all()
    unstable = 0
    for pair in options.oracle:
        version, url = pair.split("=", 1)
        chosen = [it for it in SCENARIOS.values() if _is_wanted(it, version, options)]
        unstable += _record(version, url, chosen, options.repeat)
    return unstable


def _is_wanted(scenario: Scenario, version: str, options: argparse.Namespace) -> bool:
    if version not in scenario.versions or (scenario.needs_own_node and not options.own_node):
        return False
    if scenario.has_settings != options.settings:
        return False
    if options.new and transcripts.load(version, scenario.area, scenario.name) is not None:
        return False
    return not options.only or scenario.area in options.only or scenario.id in options.only


def _record(version: str, url: str, chosen: list[Scenario], repeat: int) -> int:
    by_area: dict[str, dict[str, transcripts.Transcript]] = defaultdict(dict)
    unstable = 0
    for scenario in chosen:
        answers = [_answer(scenario, url, version) for _ in range(repeat)]
        odd = next((answer for answer in answers if answer != answers[0]), None)
        if odd is None and "scenario" not in answers[0]:
            by_area[scenario.area][scenario.name] = answers[0]
            continue
        unstable += 1
        print(f"{version} {scenario.id}: not saved")
        print(difference(answers[0], odd) if odd else json.dumps(answers[0], indent=1))
    for area, recorded in by_area.items():
        known = [scenario.name for scenario in SCENARIOS.values() if scenario.area == area]
        transcripts.save(version, area, recorded, known)
    print(f"{version}: {sum(map(len, by_area.values()))} recorded, {unstable} not")
    return unstable


def _answer(scenario: Scenario, url: str, version: str) -> transcripts.Transcript:
    with target.oracle(url, version) as endpoint:
        try:
            return run(scenario, endpoint)
        except Exception:
            print(f"{version} {scenario.id} broke down", file=sys.stderr)
            raise


def difference(expected: transcripts.Transcript, got: transcripts.Transcript) -> str:
    """Return a readable difference of two transcripts."""
    lines = (json.dumps(it, indent=1, ensure_ascii=False, sort_keys=True).splitlines() for it in (expected, got))
    return "\n".join(difflib.unified_diff(*lines, "expected", "got", n=2, lineterm=""))


if __name__ == "__main__":
    sys.exit(main())
