"""Swap a broker by its own copy after every turn, while recorded programs and scenarios run, and restore: `--help`.

python -m tests.snapshot.campaign
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Pool

from tests.lockstep.campaign import KINDS, explain
from tests.lockstep.recordings import Recording, load, versions
from tests.recording import difference
from tests.semantics import scenarios, target
from tests.semantics.scenario import SCENARIOS, run, transcripts

from . import restoring
from .swapping import Swapping


@contextmanager
def _swapping(version: str, *, has_settings: bool = False) -> Iterator[target.LeveretEndpoint]:
    with target.leveret(version, has_settings=has_settings) as endpoint:
        swapping = Swapping(endpoint.broker)
        yield endpoint
        assert swapping.swap_count > 0
        endpoint.broker.check()


def difference_of(recording: Recording, version: str) -> str:
    """Return how the answers of a broker that is swapped differ from a recorded program, "" if they do not."""
    outcome = KINDS[recording.kind].replay(recording.program, recording.answers, version, _swapping)
    return "" if outcome.difference is None else explain(outcome.difference)


def _of_scenario(case: tuple[str, str]) -> str:
    """Return how a scenario differs on a broker that is swapped, "" if it does not."""
    name, version = case
    scenarios.load_all()
    scenario = SCENARIOS[name]
    expected = transcripts.load(version, scenario.area, scenario.name)
    try:
        with warnings.catch_warnings(action="ignore"), _swapping(version, has_settings=scenario.has_settings) as it:
            got = run(scenario, it)
    except Exception as error:
        return f"{name} {version}: {error!r}"
    return "" if got == expected else f"{name} {version}\n{difference(expected, got)}"


def main() -> None:
    """Run everything, and print what differs and how much ran."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="part of a scenario's name")
    parser.add_argument("--conversations", type=int, default=5_000, help="how many with a broker that is restored")
    options = parser.parse_args()
    scenarios.load_all()
    cases = [(it.id, version) for it in SCENARIOS.values() for version in it.versions if options.only in it.id]
    with Pool(options.jobs) as pool:
        wrong = [text for text in pool.imap_unordered(_of_scenario, cases, 4) if text]
        restored = [
            text for text in pool.imap_unordered(restoring.difference_of, range(options.conversations), 20) if text
        ]
    programs = [(recording, version) for version in versions() for recording in load(version)]
    differing = [text for text in (difference_of(*each) for each in programs) if text]
    print(*wrong, *differing, *restored, sep="\n")
    print(f"{len(programs) - len(differing)} of {len(programs)} programs answer alike")
    print(f"{len(cases) - len(wrong)} of {len(cases)} scenarios answer alike")
    print(
        f"{options.conversations - len(restored)} of {options.conversations} conversations go on alike after a restore"
    )


if __name__ == "__main__":
    main()
