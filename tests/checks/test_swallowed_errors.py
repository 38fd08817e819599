"""Errors of publishes without confirms: which of them clients swallow, and what the checks report."""

from __future__ import annotations

import pytest

from leveret import Broker
from tests.checks.swallowing import ROWS, Row, Stage

# What counts as an exception that the client raised, for these outcomes.
_RAISING = ("raised", "refused")
_REPORTED = ("swallowed", "refused")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.client}: {row.does}")
def test_an_error_is_reported_if_the_client_swallows_it(row: Row, found) -> None:
    with Broker() as broker:
        broker.declare_queue("work")
        stage = Stage(broker, f"no-exchange-{ROWS.index(row)}")
        is_raised = False
        try:
            row.act(stage)
        except Exception:
            is_raised = True
        text = found(broker).get("unseen_channel_error", "")

    assert is_raised == (row.outcome in _RAISING)
    assert stage.is_called_back == (row.outcome == "called back")
    assert bool(text) == (row.outcome in _REPORTED)
    assert not text or "NOT_FOUND - no exchange" in text or "fast reply consumer does not exist" in text
