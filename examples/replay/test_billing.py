"""Yesterday's orders as a test: a recording of a server, and what the service made of it when it was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.replay import billing
from leveret import Broker

HERE = Path(__file__).parent


def test_yesterdays_orders_end_as_they_did(leveret: Broker) -> None:
    recording = leveret.replay(HERE / "orders.rec")
    with leveret.worker(billing.main):
        outcomes = recording.play()

    outcomes.assert_expected(HERE / "orders.expected")


def test_a_change_is_named(leveret: Broker) -> None:
    recording = leveret.replay(HERE / "orders.rec")
    with leveret.worker(billing.main_without_tax):
        outcomes = recording.play()

    with pytest.raises(AssertionError, match=r"sends another body\.total in invoices 'invoice\.made'"):
        outcomes.assert_expected(HERE / "orders.expected")
