"""Tasks with a worker as in production: a command line, one process that receives and two that work.

Such a worker takes seconds to start and to stop. So all tests here share one, with the broker of the whole run, and
each test asserts on its own tasks.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery

from leveret import Broker
from tests.clients.celery_app.tasks import CONNECT_S, create_app, invoice, reserve

PATIENCE = 30
CELERY = ("celery", "--app", "tests.clients.celery_app.worker")
WORKER = ("worker", "--pool", "prefork", "--concurrency", "2", "--task-events")
ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.usefixtures("worker")


@pytest.fixture(scope="module")
def worker(leveret_session: Broker) -> Iterator[None]:
    # Ready when it consumes, so that no test's patience goes into its start.
    with leveret_session.worker([sys.executable, "-m", *CELERY, *WORKER], cwd=ROOT, timeout=CONNECT_S):
        yield


@pytest.fixture
def app(leveret_session: Broker) -> Iterator[Celery]:
    with create_app(leveret_session.url) as app:
        yield app


@pytest.mark.usefixtures("app")
def test_results_come_back_from_other_processes(leveret_session: Broker) -> None:
    invoices = [invoice.delay(number, total=10) for number in range(20)]
    reserved = reserve.delay("tea", arrives_at_try=2)

    assert [result.get(timeout=PATIENCE) for result in invoices][19] == "Invoice for order 19: 10 EUR"
    assert reserved.get(timeout=PATIENCE) == 2
    leveret_session.assert_acked("celery", correlation_id=reserved.id, times=2, timeout=PATIENCE)


def test_a_worker_with_processes_can_be_inspected(app: Celery) -> None:
    # The first result shows that the worker is running.
    invoice.delay(7, total=120).get(timeout=PATIENCE)

    (pool,) = (worker["pool"] for worker in app.control.inspect(limit=1).stats().values())

    assert len(pool["processes"]) == 2


def test_a_worker_with_processes_sends_events(app: Celery) -> None:
    kinds: list[str] = []
    with app.connection_for_read() as first_connection:
        receiver = app.events.Receiver(first_connection, handlers={"*": lambda event: kinds.append(event["type"])})
        # A receiver listens on a connection of its own.
        with receiver.consumer_context() as (connection, _, _):
            invoice.delay(7, total=120)
            # Celery's pool may hear of a result before it hears that the task was accepted.
            while not {"task-received", "task-started", "task-succeeded"} <= set(kinds):
                connection.drain_events(timeout=PATIENCE)

    of_tasks = sorted(kind for kind in kinds if kind.startswith("task-"))
    assert of_tasks == ["task-received", "task-started", "task-succeeded"]
