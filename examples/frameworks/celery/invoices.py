"""A task that Celery retries by itself: the worker holds the message until it is due."""

from __future__ import annotations

import os

from celery import Celery

app = Celery("invoices", broker=os.environ["AMQP_URL"])
app.conf.task_default_queue = "invoices"
# RabbitMQ 4.3 refuses the control queues of Celery 5.5.
app.conf.worker_enable_remote_control = False


def mail(number: int) -> None:
    """Send an invoice by mail. Raises ConnectionError if the mail server is away."""


@app.task(autoretry_for=(ConnectionError,), default_retry_delay=15 * 60, max_retries=3)
def send(number: int) -> None:
    """Send an invoice; if the mail server is away, try again every quarter of an hour."""
    mail(number)
