"""A worker's retries, tested in milliseconds: the test moves the broker's clock over the half minutes between them."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest

from examples.dead_letters.worker import Worker
from leveret import Broker


class Mailer:
    """A stand-in for the worker's job: it fails `failures_left` times, and records what it sent."""

    def __init__(self) -> None:
        self.failures_left = 0
        self.sent: list[dict[str, Any]] = []

    def send(self, job: dict[str, Any]) -> None:
        if self.failures_left:
            self.failures_left -= 1
            raise ConnectionError("the mail server is down")
        self.sent.append(job)


@pytest.fixture
def mailer() -> Mailer:
    return Mailer()


@pytest.fixture(autouse=True)
def worker(leveret: Broker, mailer: Mailer) -> Iterator[Worker]:
    worker = Worker(leveret.url, mailer.send)
    thread = Thread(target=worker.run)
    thread.start()
    yield worker
    worker.stop()
    thread.join()


def test_a_job_that_succeeds_is_done_once(leveret: Broker, mailer: Mailer) -> None:
    leveret.publish(routing_key="jobs", json={"to": "ann@example.com"})
    leveret.wait_idle()

    assert mailer.sent == [{"to": "ann@example.com"}]
    leveret.assert_acked("jobs", times=1)
    leveret.assert_empty("jobs.retry")


def test_a_failed_job_waits_half_a_minute_for_its_next_try(leveret: Broker, mailer: Mailer) -> None:
    mailer.failures_left = 1

    # From here on only `advance` moves time, so the speed of the machine does not matter.
    leveret.clock.hold()
    leveret.publish(routing_key="jobs", json={"to": "bob@example.com"})
    leveret.assert_dead_lettered("jobs", to="jobs.retry", reason="rejected", timeout=5)
    leveret.clock.advance(29)
    assert mailer.sent == []
    leveret.clock.advance(1)

    assert mailer.sent == [{"to": "bob@example.com"}]
    leveret.assert_dead_lettered("jobs.retry", to="jobs", reason="expired", times=1)


def test_a_job_that_always_fails_is_set_aside_with_its_history(leveret: Broker, mailer: Mailer) -> None:
    mailer.failures_left = 100

    leveret.publish(routing_key="jobs", json={"to": "unreachable@example.com"})
    leveret.assert_dead_lettered("jobs", timeout=5)
    leveret.clock.advance(hours=1)

    assert mailer.failures_left == 97
    (set_aside,) = leveret.queue("jobs.failed").ready
    assert set_aside.json == {"to": "unreachable@example.com"}
    leveret.assert_dead_lettered("jobs", to="jobs.retry", reason="rejected", times=2)
    leveret.assert_empty("jobs")
    leveret.assert_empty("jobs.retry")
