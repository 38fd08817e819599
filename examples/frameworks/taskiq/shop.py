"""The background tasks of a shop, with taskiq. The broker's URL comes from the environment at import.

A task that should run again later waits in the quorum queue `orders.delay`, from where RabbitMQ brings it back.
"""

from __future__ import annotations

import os

from taskiq import SmartRetryMiddleware
from taskiq_aio_pika import AioPikaBroker, Queue

RETRY_AFTER_S = 600

broker = AioPikaBroker(
    os.environ["AMQP_URL"],
    task_queues=[Queue(name="orders")],
    delay_queue=Queue(name="orders.delay"),
    dead_letter_queue=Queue(name="orders.failed"),
    reconnect_interval=0.5,
).with_middlewares(
    SmartRetryMiddleware(default_retry_count=4, default_delay=RETRY_AFTER_S, use_jitter=False),
)


class CarrierError(Exception):
    """The carrier cannot take an order now."""


class Carrier:
    """The carrier's web service."""

    async def collect(self, order: int) -> str:
        """Ask for an order to be collected, and return its tracking number; raise CarrierError if it does not fit."""
        return f"T{order}"


carrier = Carrier()


@broker.task(task_name="ship", retry_on_error=True)
async def ship(order: int) -> str:
    """Have an order collected; if the carrier cannot take it now, try again in ten minutes."""
    return await carrier.collect(order)
