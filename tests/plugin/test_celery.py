"""A Celery worker in a thread ends with its block."""

from __future__ import annotations

import pytest

from leveret import Broker


@pytest.fixture
def app(leveret: Broker):
    celery = pytest.importorskip("celery")
    with celery.Celery("shop", broker=leveret.url) as app:
        app.conf.broker_connection_retry_on_startup = True
        yield app


def test_a_worker_without_work_closes_its_connections(leveret: Broker, app) -> None:
    from pytest_leveret.celery import running_worker

    with running_worker(app) as worker:
        leveret.wait_for_consumer("celery")

    assert worker.blueprint.shutdown_complete.is_set()
    assert leveret.connections == []


def test_a_worker_ends_after_an_error_in_its_block(app) -> None:
    from pytest_leveret.celery import running_worker

    with pytest.raises(ZeroDivisionError), running_worker(app) as worker:
        _ = 1 / 0

    assert worker.blueprint.shutdown_complete.is_set()


def test_a_worker_ends_when_its_broker_has_stopped(leveret: Broker, app) -> None:
    from pytest_leveret.celery import running_worker

    with running_worker(app) as worker:
        leveret.stop()

    assert worker.blueprint.shutdown_complete.is_set()
