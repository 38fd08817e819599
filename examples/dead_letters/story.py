"""a poison job is dead-lettered, retried twice through a TTL queue, and set aside; one call advances the clock"""

from __future__ import annotations

from threading import Thread
from typing import Any

from examples.dead_letters.worker import Worker
from examples.telling import print_messages
from leveret import Broker


def tell() -> None:
    """Give a worker one job that succeeds and one that always fails."""
    with Broker() as broker:
        worker = Worker(broker.url, fail_without_address)
        thread = Thread(target=worker.run)
        thread.start()
        broker.publish(routing_key="jobs", json={"to": "ann@example.com"})
        broker.publish(routing_key="jobs", json={"to": None})
        broker.assert_dead_lettered("jobs", timeout=5)
        broker.clock.advance(minutes=5)
        worker.stop()
        thread.join()
        broker.assert_dead_lettered("jobs", to="jobs.retry", reason="rejected", times=2)
        print_messages(broker)


def fail_without_address(job: dict[str, Any]) -> None:
    """Do a job; raise ValueError if it has no address."""
    if job["to"] is None:
        raise ValueError("a mail needs an address")
