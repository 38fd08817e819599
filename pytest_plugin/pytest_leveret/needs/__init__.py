"""What consumers need of messages, measured: `leveret needs` runs tests again with each field changed on its way.

`bodies` are the fields of messages and how they change. A `run` is one run of a test in a worker, and `effects` are
what it shows. The `survey` decides what to run, `findings` hold what follows for each field. `report` says it, and
`locking` writes it to a lock.
"""

from __future__ import annotations

import os
from typing import Final

import pytest

# Where the survey listens and the key it expects, for workers that are no forks.
ADDRESS: Final = "LEVERET_NEEDS_WORKER"
# Whether the run is a survey.
IS_SURVEY: Final = pytest.StashKey[bool]()


def prepare(config: pytest.Config) -> None:
    """Let this session be a worker, if a survey has started it."""
    if ADDRESS in os.environ:
        # Most runs need none of it.
        from pytest_leveret.needs.run import serve_survey
        from pytest_leveret.trials.processes import Serving

        config.pluginmanager.register(Serving(ADDRESS, serve_survey), "leveret-needs-worker")
