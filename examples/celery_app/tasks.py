"""A shop's background tasks, as a Celery application. Nothing here is there for a test.

RabbitMQ 4.3 denies queues that are neither durable nor exclusive. Celery makes three kinds of queues beside its task
queue, which is durable: a control queue for each worker, a queue for each listener to events, and one for the results
of each client. As of Celery 5.7 the defaults suit: the first two are exclusive, the third is durable. A Celery whose
`control_queue_exclusive` and `event_queue_exclusive` are False by default has to set both to True.
"""

from __future__ import annotations

from typing import Any

from celery import Celery, Task, shared_task

RETRY_AFTER_S = 0.2


class OutOfStock(Exception):
    """There is none of it left."""


@shared_task
def invoice(order: int, total: int) -> str:
    """Write an invoice."""
    return f"Invoice for order {order}: {total} EUR"


@shared_task(bind=True, max_retries=3)
def reserve(self: Task[Any, Any], article: str, arrives_at_try: int) -> int:
    """Reserve an article that arrives with a later try; OutOfStock when it never does. Returns the number of tries."""
    tries: int = self.request.retries + 1
    if tries < arrives_at_try:
        # Celery counts this down in the worker that has fetched the message, so it takes real time.
        raise self.retry(countdown=RETRY_AFTER_S, exc=OutOfStock(article))
    return tries


def create_app(amqp_url: str) -> Celery:
    """The application on one broker; results come back by messages, to the client that asked."""
    app = Celery("shop", broker=amqp_url, backend="rpc://")
    # A test, like a client in a hurry, wants to know at once that there is no broker.
    app.conf.broker_connection_retry_on_startup = False
    return app
