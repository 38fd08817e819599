"""The background tasks of a shop. The application reads the broker's URL from the environment when it is imported.

A task that fails for good is rejected, and RabbitMQ keeps its message in `orders.failed`. A task that should run again
later waits in `orders.retry`, from where RabbitMQ brings it back after ten minutes, so the worker does not have to hold
it. `python -m shop` declares the queues.
"""

from __future__ import annotations

import os
from typing import Any

from celery import Celery
from kombu import Queue

RETRY_AFTER_MS = 600_000

ORDERS = Queue(
    "orders",
    routing_key="orders",
    queue_arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders.failed"},
)
RETRY = Queue(
    "orders.retry",
    routing_key="orders.retry",
    queue_arguments={
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "orders",
        "x-message-ttl": RETRY_AFTER_MS,
    },
)
FAILED = Queue("orders.failed", routing_key="orders.failed")

app = Celery("shop", broker=os.environ["AMQP_URL"])
app.conf.update(
    task_queues=[ORDERS],
    task_default_queue="orders",
    task_acks_late=True,
    task_acks_on_failure_or_timeout=False,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    broker_transport_options={"confirm_publish": True},
    broker_connection_retry_on_startup=True,
    # RabbitMQ 4.3 refuses the control queues of Celery 5.5. From Celery 5.6 on, control_queue_exclusive=True works too.
    worker_enable_remote_control=False,
)


class CarrierError(Exception):
    """The carrier cannot take an order now."""


class Carrier:
    """The carrier's web service."""

    def collect(self, order: int) -> None:
        """Ask for an order to be collected; raise CarrierError if the carrier cannot take it now."""


carrier = Carrier()


def declare_queues() -> None:
    """Declare the queues, as the shop's deployment does."""
    with app.connection_for_write() as connection:
        for queue in (ORDERS, RETRY, FAILED):
            queue.bind(connection.default_channel).declare()


@app.task(bind=True, max_retries=3)
def ship(self: Any, order: int) -> None:
    """Have an order collected; if the carrier cannot take it now, try again in ten minutes."""
    try:
        carrier.collect(int(order))
    except CarrierError as error:
        raise self.retry(queue=RETRY, countdown=0, exc=error) from error


@app.task
def remind(order: int) -> None:
    """Remind the carrier of an order."""
    carrier.collect(order)


if __name__ == "__main__":
    declare_queues()
