"""Tasks with a worker in a thread of the test: fast, and close enough to production for most tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import amqp
import pytest
from celery import Celery
from pytest_leveret.celery import running_worker

from leveret import Broker
from tests.clients.celery_app.tasks import OutOfStock, create_app, invoice, reserve

PATIENCE = 30


@pytest.fixture
def app(leveret: Broker) -> Iterator[Celery]:
    with create_app(leveret.url) as app:
        yield app


@pytest.fixture
def worker(app: Celery) -> Iterator[Any]:
    with running_worker(app) as worker:
        yield worker


@pytest.mark.usefixtures("worker")
def test_a_result_comes_back_by_rpc(leveret: Broker) -> None:
    result = invoice.delay(7, total=120)

    assert result.get(timeout=PATIENCE) == "Invoice for order 7: 120 EUR"
    task = leveret.assert_delivered("celery", headers={"task": invoice.name})
    leveret.assert_published("", correlation_id=task.correlation_id, routing_key=task.reply_to)


@pytest.mark.usefixtures("worker")
def test_a_task_is_retried_until_it_succeeds(leveret: Broker) -> None:
    result = reserve.delay("tea", arrives_at_try=3)

    assert result.get(timeout=PATIENCE) == 3
    leveret.assert_delivered("celery", headers={"task": reserve.name}, times=3)
    leveret.assert_delivered("celery", headers={"task": reserve.name, "retries": 2}, times=1)


@pytest.mark.usefixtures("worker")
def test_a_task_fails_when_its_retries_are_used_up(leveret: Broker) -> None:
    result = reserve.delay("tea", arrives_at_try=100)

    with pytest.raises(OutOfStock):
        result.get(timeout=PATIENCE)

    leveret.assert_delivered("celery", headers={"task": reserve.name}, times=4)


def test_a_worker_can_be_inspected(app: Celery, worker: Any) -> None:
    answers = app.control.inspect([worker.hostname], limit=1).registered()

    assert invoice.name in answers[worker.hostname]


def test_shared_event_queues_are_denied_as_rabbitmq_4_3_denies_them(app: Celery) -> None:
    app.conf.event_queue_exclusive = False

    with (
        app.connection_for_read() as connection,
        pytest.raises(amqp.InternalError, match="transient_nonexcl_queues"),
        app.events.Receiver(connection).consumer_context(),
    ):
        pass


@pytest.mark.leveret(permit={"transient_nonexcl_queues"})
def test_shared_event_queues_work_where_they_are_permitted(leveret: Broker, app: Celery) -> None:
    app.conf.event_queue_exclusive = False

    with app.connection_for_read() as connection, app.events.Receiver(connection).consumer_context():
        (events,) = (queue for queue in leveret.queues if queue.name.startswith("celeryev"))

    assert not events.exclusive
