"""Brokers with a port for HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from leveret import Broker
from tests.chromium import browser

__all__ = ["broker", "browser"]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(management=True) as broker:
        yield broker
