"""What exploration finds: planted bugs of crash and order, and nothing in their mended twins.

The searches are narrow, so that they are quick. `python -m tests.explore.crash_campaign` places every fault everywhere.
"""

from __future__ import annotations

import sys

import pytest

import leveret
from tests.explore.crashes.catalogue import PLANTED
from tests.explore.crashes.planted import KILLED

ALL = [
    pytest.param(
        bug,
        id=bug.__name__,
        marks=[pytest.mark.skipif(sys.platform == "win32", reason="the services end by SIGTERM")]
        if bug.found_by == KILLED
        else [],
    )
    for bug in PLANTED
]
pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("bug", ALL)
def test_the_bug_is_found(bug):
    with pytest.raises(leveret.ExplorationFailedError) as failed:
        leveret.explore(bug.scenario(bug.bug), faults=bug.found_by, on=bug.on, limit=60)

    assert failed.value.exploration.run_count <= bug.within


@pytest.mark.parametrize("bug", ALL)
def test_its_twin_is_not_reported(bug):
    exploration = leveret.explore(bug.scenario(bug.twin), faults=bug.found_by, on=bug.on, limit=60)

    assert exploration.passed_count > 0
    assert exploration.failed == []


def test_there_are_at_least_forty():
    assert len(PLANTED) >= 40
