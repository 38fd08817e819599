"""The tests of the stock service."""

from stock import broker, stock

ORDER = {
    "order_id": "o-1",
    "paid_at": "2026-03-01T10:00:00Z",
    "warehouse": "north",
    "lines": [{"sku": "tea", "quantity": 2, "gift_wrap": True, "price": 5.25}],
    "comment": "ring twice",
    "currency": "EUR",
}


async def test_stock_is_reserved(leveret_session):
    stock.left = {("north", "tea"): 5, ("main", "tea"): 5}
    async with broker:
        await broker.start()
        leveret_session.publish("shop", "order.paid", json=ORDER)
        await leveret_session.aio.assert_acked("stock.orders", timeout=5)

    leveret_session.assert_published(
        "shop", routing_key="stock.reserved", json={"order_id": "o-1", "missing": [], "wrapped": 2}
    )
    assert stock.left == {("north", "tea"): 3, ("main", "tea"): 5}
