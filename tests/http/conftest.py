"""Brokers with a port for HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from leveret import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(management=True) as broker:
        yield broker
