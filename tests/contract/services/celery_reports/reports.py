"""Reports, as tasks of Celery: one computes a report, another sends it."""

from __future__ import annotations

import os

from celery import Celery
from kombu import Queue

app = Celery("reports", broker=os.environ["AMQP_URL"])
app.conf.update(
    task_queues=[Queue("reports"), Queue("sending")],
    task_default_queue="reports",
    task_routes={"reports.send": {"queue": "sending"}},
    task_acks_late=True,
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
    worker_enable_remote_control=False,
)
sent: list[tuple[str, str]] = []


class SpoiltError(Exception):
    """The numbers of a month are spoilt."""


@app.task(name="reports.compute")
def compute(month: str, *, to: str, rows: list[int] | None = None) -> None:
    """Compute the report of a month, and have it sent."""
    if month == "2024-13":
        raise SpoiltError(month)
    total = sum(rows or [])
    send.delay(to, {"month": month, "total": total, "format": "pdf"})


@app.task(name="reports.send", bind=True, max_retries=2, default_retry_delay=0)
def send(self, to: str, report: dict[str, object]) -> None:  # type: ignore[no-untyped-def]
    """Send a report."""
    if to == "late@example.com" and self.request.retries == 0:
        raise self.retry()
    sent.append((to, str(report["month"])))
