"""Workers that retry through waiting queues of growing delay, one for each client library.

A failed job waits in the queue of its step, expires there and is dead-lettered back. Every worker acks a job first and
publishes the next try only after some work of its own. That is the hard case for a test that moves time: in between,
the broker sees no sign that the worker is busy.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import aio_pika
import kombu
import pika

JOBS = "jobs"
FAILED = "jobs.failed"
LADDER_MS = {"jobs.1min": 60_000, "jobs.10min": 600_000, "jobs.1h": 3_600_000}
STEPS = [*LADDER_MS, FAILED]
BACK_TO_JOBS = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": JOBS}
PATIENCE = 30


def waiting_queue(ttl_ms: int) -> dict[str, object]:
    """Return the arguments of a queue in which jobs wait before they come back."""
    return {"x-message-ttl": ttl_ms, **BACK_TO_JOBS}


def compute() -> int:
    """Do some work that no client library sees, for about two milliseconds."""
    return sum(number * number for number in range(20_000))


@contextmanager
def pika_worker(url: str) -> Iterator[None]:
    """Run a worker with pika's blocking connection, on a thread."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.queue_declare(JOBS, durable=True)
    channel.queue_declare(FAILED, durable=True)
    for name, ttl_ms in LADDER_MS.items():
        channel.queue_declare(name, durable=True, arguments=waiting_queue(ttl_ms))

    def fail(channel, method, properties, body) -> None:
        tries = (properties.headers or {}).get("tries", 0)
        channel.basic_ack(method.delivery_tag)
        compute()
        channel.basic_publish("", STEPS[tries], body, pika.BasicProperties(headers={"tries": tries + 1}))

    channel.basic_consume(JOBS, fail)
    thread = threading.Thread(target=channel.start_consuming)
    thread.start()
    try:
        yield
    finally:
        connection.add_callback_threadsafe(channel.stop_consuming)
        thread.join(PATIENCE)
        connection.close()


@contextmanager
def rejecting_worker(url: str, queue: str) -> Iterator[None]:
    """Run a worker that rejects everything it gets, with pika on a thread."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.basic_consume(
        queue, lambda channel, method, properties, body: channel.basic_reject(method.delivery_tag, requeue=False)
    )
    thread = threading.Thread(target=channel.start_consuming)
    thread.start()
    try:
        yield
    finally:
        connection.add_callback_threadsafe(channel.stop_consuming)
        thread.join(PATIENCE)
        connection.close()


@contextmanager
def kombu_worker(url: str) -> Iterator[None]:
    """Run a worker with kombu, on a thread."""
    connection = kombu.Connection(url)
    jobs = kombu.Queue(JOBS, durable=True)
    steps = {name: kombu.Queue(name, queue_arguments=waiting_queue(ttl)) for name, ttl in LADDER_MS.items()}
    steps[FAILED] = kombu.Queue(FAILED)
    for queue in (jobs, *steps.values()):
        queue(connection.default_channel).declare()
    producer = connection.Producer()

    def fail(body, message) -> None:
        tries = message.headers.get("tries", 0)
        message.ack()
        compute()
        producer.publish(body, routing_key=STEPS[tries], headers={"tries": tries + 1})

    is_ended = threading.Event()

    def drain() -> None:
        with connection.Consumer([jobs], callbacks=[fail], accept=["json"]):
            while not is_ended.is_set():
                with suppress(socket.timeout):
                    connection.drain_events(timeout=0.05)

    thread = threading.Thread(target=drain)
    thread.start()
    try:
        yield
    finally:
        is_ended.set()
        thread.join(PATIENCE)
        connection.release()


async def aio_pika_worker(url: str) -> aio_pika.abc.AbstractConnection:
    """Start a worker with aio-pika, on the running event loop until its connection is closed."""
    connection = await aio_pika.connect(url)
    channel = await connection.channel()
    jobs = await channel.declare_queue(JOBS, durable=True)
    await channel.declare_queue(FAILED, durable=True)
    for name, ttl_ms in LADDER_MS.items():
        await channel.declare_queue(name, durable=True, arguments=waiting_queue(ttl_ms))

    async def fail(message: aio_pika.abc.AbstractIncomingMessage) -> None:
        tries = int(message.headers.get("tries", 0))
        await message.ack()
        await asyncio.to_thread(compute)
        await channel.default_exchange.publish(
            aio_pika.Message(message.body, content_type="application/json", headers={"tries": tries + 1}), STEPS[tries]
        )

    await jobs.consume(fail)
    return connection
