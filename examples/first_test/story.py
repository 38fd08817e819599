"""a shop announces two orders with pika, and billing fetches them"""

from __future__ import annotations

from examples.first_test.shop import Billing, Shop
from examples.telling import print_messages
from leveret import Broker


def tell() -> None:
    """Place two orders and write their invoices."""
    with Broker() as broker, Billing(broker.url) as billing, Shop(broker.url) as shop:
        shop.place_order(7, total=120)
        shop.place_order(8, total=30)
        for invoice in billing.write_invoices():
            print(f"  {invoice}")
        broker.assert_empty("invoices")
        print_messages(broker)
