"""The command that records transcripts from real servers::

    python -m tests.semantics.record --oracle 4.3=amqp://guest:guest@127.0.0.1:5643 [--only AREA[/NAME]] [--repeat 3]

Every scenario runs ``--repeat`` times, each in a fresh vhost, and must answer the same each time: an answer that
depends on timing proves nothing. A scenario that does not is printed with its difference and not saved. The management
HTTP API must listen on the AMQP port + 10000. Scenarios that stop or starve the node run only with ``--own-node``, and
call rabbitmqctl by the command in LEVERET_ORACLE_CTL.
"""

from __future__ import annotations

import sys

from tests.recording import Scenario, Transcript, record

from . import scenarios, target
from .scenario import SCENARIOS, run, transcripts


def _answer(scenario: Scenario, url: str, version: str) -> Transcript:
    with target.oracle(url, version) as endpoint:
        return run(scenario, endpoint)


if __name__ == "__main__":
    scenarios.load_all()
    # The key "scenario" says that one ended early.
    sys.exit(record(SCENARIOS, transcripts, _answer, repeat=3, is_whole=lambda answer: "scenario" not in answer))
