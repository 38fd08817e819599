"""a Celery worker in a thread writes an invoice, and reserves an article at the second try"""

from __future__ import annotations

from celery.contrib.testing.worker import start_worker

from examples.celery_app.tasks import create_app, invoice, reserve
from examples.telling import print_messages
from leveret import Broker


def tell() -> None:
    """Run two tasks."""
    with Broker() as broker, create_app(broker.url) as app:
        with start_worker(app, perform_ping_check=False, loglevel="error"):
            print(f"  {invoice.delay(7, total=120).get(timeout=10)}")
            print(f"  reserved at try {reserve.delay('tea', arrives_at_try=2).get(timeout=10)}")
            # The worker's loop notices the end of this block only when a message wakes it.
            app.control.shutdown()
        print_messages(broker)
