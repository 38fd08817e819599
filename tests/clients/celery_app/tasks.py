"""A shop's background tasks, as a Celery application. Nothing here exists for a test.

RabbitMQ 4.3 denies queues that are neither durable nor exclusive. Celery's task queue is durable. Celery declares three
more kinds of queues: a control queue for each worker, a queue for each listener to events, and a queue for the results
of each client. As of Celery 5.7 the defaults work: the first two are exclusive, the third is durable. If the settings
`control_queue_exclusive` and `event_queue_exclusive` are False by default in your Celery, set both to True.
"""

from __future__ import annotations

from typing import Any

from celery import Celery, Task, shared_task

RETRY_AFTER_S = 0.2
CONNECT_S = 120


class OutOfStock(Exception):
    """An article is out of stock."""


@shared_task
def invoice(order: int, total: int) -> str:
    """Write an invoice."""
    return f"Invoice for order {order}: {total} EUR"


@shared_task(bind=True, max_retries=3)
def reserve(self: Task[Any, Any], article: str, arrives_at_try: int) -> int:
    """Reserve an article and return the number of tries; raise OutOfStock if the article never arrives."""
    tries: int = self.request.retries + 1
    if tries < arrives_at_try:
        # The worker that holds the message counts this down, so it takes real time.
        raise self.retry(countdown=RETRY_AFTER_S, exc=OutOfStock(article))
    return tries


def create_app(amqp_url: str) -> Celery:
    """Return the application for one broker; results are sent as messages to the client that asked."""
    app = Celery("shop", broker=amqp_url, backend="rpc://")
    # Celery gives up after 4 s by default, and a busy machine takes longer.
    app.conf.broker_connection_timeout = CONNECT_S
    # A test should fail at once if the broker does not run.
    app.conf.broker_connection_retry_on_startup = False
    return app
