"""kombu on leveret, and on its memory transport, whose queues outlive their test."""

from __future__ import annotations

from kombu import Connection


def test_an_order_is_consumed(url: str | None) -> None:
    with Connection(url or "memory://") as connection:
        orders = connection.SimpleQueue("orders")
        orders.put({"id": 7})

        message = orders.get(timeout=5)
        message.ack()
        orders.close()

        assert message.payload == {"id": 7}
