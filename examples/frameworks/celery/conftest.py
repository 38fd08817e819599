"""The broker of the run, with the shop's queues, empty and at the present time for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import shop

from leveret import Broker


@pytest.fixture
def broker(leveret_session: Broker) -> Iterator[Broker]:
    shop.declare_queues()
    yield leveret_session
    leveret_session.reset()
