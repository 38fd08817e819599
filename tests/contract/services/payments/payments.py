"""Charges cards, with dramatiq. A charge that fails for good is recorded; the shop gets the outcome as a message."""

from __future__ import annotations

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.middleware import Retries

LIMITS = {"EUR": 500_000, "USD": 550_000}


class Declined(Exception):
    """The bank declines a charge."""


class Bank:
    """The bank's web service. The real one takes a second."""

    def __init__(self) -> None:
        self.charges: list[tuple[str, int, str]] = []

    def charge(self, card: str, cents: int, currency: str, statement: str) -> str:
        """Charge a card, and return the number of the charge."""
        if cents > LIMITS[currency]:
            raise Declined(f"more than {LIMITS[currency]}")
        self.charges.append((card, cents, statement))
        return f"ch-{len(self.charges)}"


bank = Bank()
broker = RabbitmqBroker(url="amqp://guest:guest@localhost:5672", middleware=[Retries(max_retries=0)])
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name="payments", throws=(Declined,))
def charge(order_id: str, amount: dict, card: dict, *, statement: str = "Teahouse", dry_run: bool = False) -> None:
    """Charge a card for an order."""
    cents = round(amount["value"] * 100)
    token = card["token"]
    if dry_run:
        return
    number = bank.charge(token, cents, amount["currency"], statement[:20])
    report.send(order_id=order_id, charge=number)


@dramatiq.actor(queue_name="shop")
def report(order_id: str, charge: str) -> None:
    """Mark an order as paid. The shop consumes this queue."""
