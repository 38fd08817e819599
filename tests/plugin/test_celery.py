"""A Celery worker in a thread ends with its block, and connects again after each lost connection."""

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


def test_a_worker_that_has_just_started_connects_again(leveret: Broker, app) -> None:
    from pytest_leveret.celery import running_worker

    with running_worker(app) as worker:
        # Celery itself would not notice: it drops the error of a connection that is lost so early.
        leveret.restart()
        leveret.wait_for_consumer("celery")
        leveret.restart()
        leveret.wait_for_consumer("celery")

    assert worker.blueprint.shutdown_complete.is_set()


def test_a_worker_leaves_its_app_as_it_was(leveret: Broker, app) -> None:
    from pytest_leveret.celery import running_worker

    before = set(app.steps["consumer"])
    with running_worker(app):
        pass

    assert app.steps["consumer"] == before


def test_the_clock_of_a_broker_moves_a_countdown(leveret: Broker, app) -> None:
    from pytest_leveret.celery import running_worker

    ran_at = []

    @app.task(name="remind")
    def remind() -> None:
        ran_at.append(leveret.clock.now)

    leveret.clock.hold()
    began_at = leveret.clock.now
    with running_worker(app, broker=leveret):
        remind.apply_async(countdown=900)
        leveret.assert_delivered("celery", timeout=5)
        # The worker holds the message, and has nothing to do until the clock moves.
        leveret.wait_idle()
        leveret.clock.advance(minutes=14)
        assert ran_at == []
        leveret.clock.advance(minutes=1)

    assert ran_at == [began_at + 900]


def test_a_countdown_longer_than_the_consumer_timeout_runs_once(leveret: Broker, app) -> None:
    from pytest_leveret.celery import running_worker

    ran = []

    @app.task(name="remind_tomorrow")
    def remind_tomorrow() -> None:
        ran.append(7)

    leveret.clock.hold()
    with running_worker(app, broker=leveret):
        remind_tomorrow.apply_async(countdown=3600)
        leveret.assert_delivered("celery", timeout=5)
        leveret.clock.advance(minutes=61)
        leveret.assert_acked("celery", timeout=5)

    assert ran == [7]


def test_a_worker_gives_its_app_its_own_clock_back(leveret: Broker, app) -> None:
    from pytest_leveret.celery import running_worker

    leveret.clock.advance(days=7)
    with running_worker(app, broker=leveret):
        assert round(app.now().timestamp()) == round(leveret.clock.now)

    assert app.now().timestamp() < leveret.clock.now - 86400
