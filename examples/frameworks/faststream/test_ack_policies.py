"""What each ack policy makes of a message whose handler fails."""

from __future__ import annotations

import pytest
from faststream.rabbit import RabbitBroker, RabbitQueue

from leveret import Broker

acknowledgement = pytest.importorskip("faststream.middlewares.acknowledgement.config", reason="new in FastStream 0.6")
AckPolicy = acknowledgement.AckPolicy
JOBS = RabbitQueue(
    "jobs", durable=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "jobs.failed"}
)


async def run_failing_once(leveret: Broker, policy: object) -> None:
    """Run a handler that fails for the first job it gets, until no job is left."""
    failures = [RuntimeError("a bug")]
    leveret.declare_queue("jobs.failed")
    service = RabbitBroker(leveret.url)

    @service.subscriber(JOBS, ack_policy=policy)
    async def work(job: str) -> None:
        if failures:
            raise failures.pop()

    async with service:
        await service.start()
        leveret.publish("", "jobs", b"job 7")
        await leveret.aio.wait_idle()


async def test_reject_on_error_dead_letters_the_job(leveret: Broker) -> None:
    await run_failing_once(leveret, AckPolicy.REJECT_ON_ERROR)

    leveret.assert_dead_lettered("jobs", to="jobs.failed", reason="rejected")


async def test_nack_on_error_runs_the_job_again_at_once(leveret: Broker) -> None:
    await run_failing_once(leveret, AckPolicy.NACK_ON_ERROR)

    leveret.assert_requeued("jobs", reason="nacked", times=1)
    leveret.assert_acked("jobs", redelivered=True)


async def test_ack_loses_the_job(leveret: Broker) -> None:
    await run_failing_once(leveret, AckPolicy.ACK)

    leveret.assert_acked("jobs", times=1)
    leveret.assert_empty("jobs.failed")


async def test_ack_first_loses_the_job_even_if_the_process_dies(leveret: Broker) -> None:
    await run_failing_once(leveret, AckPolicy.ACK_FIRST)

    leveret.assert_delivered("jobs", times=1)
    leveret.assert_empty("jobs")
    leveret.assert_empty("jobs.failed")
