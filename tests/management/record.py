"""The command that records what real servers answer::

    python -m tests.management.record --oracle 4.3=amqp://guest:guest@127.0.0.1:5643 [--only AREA[/NAME]] [--new]

Every scenario runs twice, each in a fresh virtual host, and must answer the same both times. One that does not is
printed with its difference and not saved.
"""

from __future__ import annotations

import sys

from tests.recording import Scenario, Transcript, record

from . import scenarios, target
from .scenario import SCENARIOS, run, transcripts


def _answer(scenario: Scenario, url: str, version: str) -> Transcript:
    with target.oracle(url, version) as (endpoint, asking):
        return run(scenario, endpoint, asking)


if __name__ == "__main__":
    scenarios.load_all()
    sys.exit(record(SCENARIOS, transcripts, _answer, repeat=2))
