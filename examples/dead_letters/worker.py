"""A worker that tries a job three times, half a minute apart, and then sets it aside for a person.

RabbitMQ does the waiting. A rejected job is dead-lettered to a queue whose messages expire after half a minute, and
from there it is dead-lettered back. The header x-death counts how often a job has failed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import Basic, BasicProperties

JOBS = "jobs"
RETRY = "jobs.retry"
FAILED = "jobs.failed"
RETRY_AFTER_MS = 30_000
TRIES = 3


def declare_queues(channel: BlockingChannel) -> None:
    """Declare the queues for jobs, for retries and for failed jobs."""
    # The default exchange routes by queue name, so a dead letter goes to the queue it is addressed to.
    to_retry = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": RETRY}
    back_to_jobs = {
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": JOBS,
        "x-message-ttl": RETRY_AFTER_MS,
    }
    channel.queue_declare(JOBS, durable=True, arguments=to_retry)
    channel.queue_declare(RETRY, durable=True, arguments=back_to_jobs)
    channel.queue_declare(FAILED, durable=True)


def failure_count(properties: BasicProperties) -> int:
    """Return how often a job has been rejected before."""
    deaths: list[dict[str, Any]] = (properties.headers or {}).get("x-death", [])
    return sum(death["count"] for death in deaths if (death["queue"], death["reason"]) == (JOBS, "rejected"))


class Worker:
    """A worker that does one job after the other."""

    def __init__(self, amqp_url: str, do_job: Callable[[dict[str, Any]], None]) -> None:
        """Connect; `do_job` gets each job, and raises if the job fails."""
        self.do_job = do_job
        self.connection = pika.BlockingConnection(pika.URLParameters(amqp_url))
        self.channel = self.connection.channel()
        declare_queues(self.channel)
        self.channel.basic_qos(prefetch_count=1)
        self.channel.basic_consume(JOBS, self.on_job)

    def run(self) -> None:
        """Work until `stop`, then close the connection."""
        self.channel.start_consuming()
        self.connection.close()

    def stop(self) -> None:
        """End `run`; may be called from any thread."""
        self.connection.add_callback_threadsafe(self.channel.stop_consuming)

    def on_job(self, channel: BlockingChannel, method: Basic.Deliver, properties: BasicProperties, body: bytes) -> None:
        """Do one job; if it fails, retry it or set it aside."""
        try:
            self.do_job(json.loads(body))
        except Exception:
            if failure_count(properties) + 1 < TRIES:
                channel.basic_reject(method.delivery_tag, requeue=False)
                return
            channel.basic_publish("", FAILED, body, properties)
        channel.basic_ack(method.delivery_tag)
