"""The tests of the service pika_prices."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prices import Caller, Prices


@pytest.fixture
def caller(leveret) -> Iterator[Caller]:
    prices, caller = Prices(leveret.url), Caller(leveret.url)
    yield caller
    caller.close()
    prices.stop()


@pytest.mark.parametrize(("sku", "cents"), [("tea-1", 450), ("cup-9", 1200), ("pot-3", None)])
def test_an_article_has_its_price(leveret, caller: Caller, sku: str, cents: int | None) -> None:
    assert caller.price(sku) == cents
    leveret.wait_idle()


def test_a_caller_asks_twice(leveret, caller: Caller) -> None:
    assert [caller.price("tea-1"), caller.price("tea-1")] == [450, 450]
    leveret.wait_idle()
