"""Tasks with a countdown: in the worker's memory, and in RabbitMQ with the native delayed delivery of Celery."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import celery
import pytest
import shop
import time_machine
from pytest_leveret.celery import running_worker

from leveret import Broker

HOUR = timedelta(hours=1)


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    collected: list[int] = []
    monkeypatch.setattr(shop.carrier, "collect", collected.append)
    return collected


def test_a_reminder_is_sent_when_an_hour_is_over(broker: Broker, collected: list[int]) -> None:
    shop.remind.apply_async((7,), countdown=3600)

    with time_machine.travel(datetime.now(UTC) + HOUR), running_worker(shop.app):
        broker.assert_acked("orders", headers={"task": "shop.remind"}, timeout=5)

    assert collected == [7]


@pytest.mark.skipif(tuple(map(int, celery.__version__.split(".")[:2])) < (5, 6), reason="shown with Celery 5.6")
def test_a_native_delay_passes_in_the_broker(leveret: Broker) -> None:
    reminded: list[int] = []
    with celery.Celery("reminders", broker=leveret.url) as app:
        app.conf.update(
            task_default_queue_type="quorum",
            # The delays need an exchange that knows patterns.
            task_default_exchange="celery",
            task_default_exchange_type="topic",
            worker_enable_remote_control=False,
            broker_connection_retry_on_startup=True,
        )

        # Without shared=False, Celery adds the task to every app of the process.
        @app.task(name="remind", shared=False)
        def remind(order: int) -> None:
            reminded.append(order)

        leveret.clock.hold()
        with running_worker(app):
            remind.apply_async((7,), countdown=3600)
            leveret.clock.advance(minutes=59)
            assert leveret.queue("celery").unacked == leveret.queue("celery").ready == ()
            # The worker compares the time of the task with its own clock.
            with time_machine.travel(datetime.now(UTC) + HOUR):
                leveret.clock.advance(minutes=1)
                leveret.assert_acked("celery", headers={"task": "remind"}, timeout=5)

    assert reminded == [7]
