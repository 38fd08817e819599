"""The broker of the run, with the shop's queues, empty and at the present time for each test."""

from __future__ import annotations

import pytest
import shop

from leveret import Broker


@pytest.fixture
def broker(leveret_session: Broker) -> Broker:
    leveret_session.reset()
    shop.declare_queues()
    return leveret_session
