"""The background tasks of a shop, with dramatiq. The broker's URL comes from the environment at import."""

from __future__ import annotations

import os

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

RETRY_AFTER_MS = 600_000

broker = RabbitmqBroker(url=os.environ["AMQP_URL"], confirm_delivery=True)
dramatiq.set_broker(broker)


class CarrierError(Exception):
    """The carrier cannot take an order now."""


class Carrier:
    """The carrier's web service."""

    def collect(self, order: int) -> None:
        """Ask for an order to be collected; raise CarrierError if the carrier cannot take it now."""


carrier = Carrier()


@dramatiq.actor(queue_name="orders", max_retries=3, min_backoff=RETRY_AFTER_MS, throws=ValueError)
def ship(order: int) -> None:
    """Have an order collected; if the carrier cannot take it now, dramatiq tries again after ten minutes and more."""
    carrier.collect(int(order))
