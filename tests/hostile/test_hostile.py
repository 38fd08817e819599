"""Mutated frames break nothing: no internal error, nothing left in memory, and a witness that is served throughout.

``python -m tests.hostile --help`` describes the campaigns, of which these are short runs.
"""

from __future__ import annotations

import pytest

from leveret.core.protocol.handlers import CONTROL_HANDLERS, HANDLERS
from leveret.core.wire.methods import BasicPublish
from tests.hostile.campaign import feed_core, feed_tcp
from tests.hostile.corpus import method_ids


def test_the_corpus_contains_every_method_that_leveret_handles() -> None:
    handled = {(kind.ID >> 16, kind.ID & 0xFFFF) for kind in (*HANDLERS, *CONTROL_HANDLERS, BasicPublish)}

    assert handled <= method_ids()


@pytest.mark.parametrize("version", ["4.3", "4.0", "3.10"])
def test_mutated_frames_cause_no_internal_error_and_stay_nowhere(version: str) -> None:
    report = feed_core(1500, version, seed=20)

    assert report.faults == []
    assert report.mutated >= 1500
    assert report.refusals["channel 406"] > 0
    assert report.refusals["connection 501"] > 0
    assert report.witnessed > 0


@pytest.mark.filterwarnings("ignore")
def test_mutated_conversations_over_tcp_leave_a_proper_client_alone() -> None:
    report = feed_tcp(160, "4.3", seed=21)

    assert report.faults == []
    assert report.conversations == 160
    assert report.refusals["connection 501"] > 0
    assert report.witnessed > 0
