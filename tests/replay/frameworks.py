"""The same small service with four clients, each a function that runs it in a worker.

`python -m tests.replay 500` replays that many messages to each five times, and prints the digests and the
times, beside the time that the service needs if everything is published at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from leveret import Broker
from leveret.core.wire.properties import Properties
from leveret.recording.judging import Outcomes
from leveret.recording.rec_file import RecordedMessage, RecordingWriter

DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


def url() -> str:
    return os.environ["AMQP_URL"]


def with_pika(*, leaves_open: bool = False) -> None:
    import pika

    channel = pika.BlockingConnection(pika.URLParameters(url())).channel()

    def on_order(_: Any, method: Any, properties: Any, body: bytes) -> None:
        order = json.loads(body)
        if order["total"] < 0:
            channel.basic_reject(method.delivery_tag, requeue=False)
            return
        channel.basic_publish("", "invoices", json.dumps({"order": order["id"], "total": order["total"] * 2}).encode())
        if not leaves_open:
            channel.basic_ack(method.delivery_tag)

    channel.basic_consume("orders", on_order)
    channel.start_consuming()


def with_pika_that_leaves_messages_open() -> None:
    with_pika(leaves_open=True)


def with_aio_pika() -> None:
    import aio_pika

    async def run() -> None:
        connection = await aio_pika.connect(url())
        channel = await connection.channel()
        await channel.set_qos(10)
        queue = await channel.get_queue("orders")
        async with queue.iterator() as messages:
            async for message in messages:
                order = json.loads(message.body)
                if order["total"] < 0:
                    await message.reject()
                    continue
                body = json.dumps({"order": order["id"], "total": order["total"] * 2}).encode()
                await channel.default_exchange.publish(aio_pika.Message(body), "invoices")
                await message.ack()

    asyncio.run(run())


def with_celery() -> None:
    import celery
    import pika

    app = celery.Celery(broker=url())
    app.conf.update(
        task_default_queue="orders", worker_prefetch_multiplier=1, task_acks_late=True, task_ignore_result=True
    )
    app.conf.task_queues = [celery_queue()]
    channel = pika.BlockingConnection(pika.URLParameters(url())).channel()

    @app.task(name="bill", acks_late=True, acks_on_failure_or_timeout=False)
    def bill(order: dict[str, Any]) -> None:
        if order["total"] < 0:
            raise celery.exceptions.Reject("negative", requeue=False)
        channel.basic_publish("", "invoices", json.dumps({"order": order["id"], "total": order["total"] * 2}).encode())

    app.worker_main(["worker", "--pool=solo", "--without-heartbeat", "--without-gossip", "--without-mingle", "-lERROR"])


def celery_queue() -> Any:
    import kombu

    return kombu.Queue("orders", routing_key="orders", queue_arguments=DEAD)


def with_faststream() -> None:
    from faststream import AckPolicy, FastStream
    from faststream.exceptions import RejectMessage
    from faststream.rabbit import RabbitBroker, RabbitQueue

    broker = RabbitBroker(url())
    queue = RabbitQueue("orders", durable=True, arguments=DEAD)

    @broker.subscriber(queue, ack_policy=AckPolicy.REJECT_ON_ERROR)
    async def bill(order: dict[str, Any]) -> None:
        if order["total"] < 0:
            raise RejectMessage
        await broker.publish({"order": order["id"], "total": order["total"] * 2}, "invoices")

    asyncio.run(FastStream(broker).run())


SERVICES: dict[str, Callable[[], None]] = {
    "pika": with_pika,
    "aio-pika": with_aio_pika,
    "Celery": with_celery,
    "FastStream": with_faststream,
}


def record(path: Path, count: int, *, for_celery: bool) -> None:
    """Write a recording of orders, each tenth of them with a negative total."""
    with RecordingWriter(path, {"vhost": "/"}) as writer:
        for number in range(count):
            order = {"id": number, "total": -1 if number % 10 == 4 else number}
            properties = {"content_type": "application/json", "content_encoding": "utf-8", "delivery_mode": 2}
            body: object = order
            if for_celery:
                ident = f"{number:08x}-0000-4000-8000-000000000000"
                headers = {"task": "bill", "id": ident, "lang": "py", "argsrepr": "", "kwargsrepr": "", "retries": 0}
                properties |= {"headers": headers, "correlation_id": ident}
                body = [[order], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]
            octets = json.dumps(body).encode()
            at = 1_790_000_000_000_000 + number * 1_000
            writer.add(RecordedMessage(at, "", "orders", Properties.from_python(properties), octets))


def outcomes_of(path: Path, service: Callable[[], None], *, order: Any = "one at a time") -> tuple[Outcomes, float]:
    """Return the outcomes of a replay, and how long it took."""
    with Broker(checks="all=off") as broker:
        for queue, arguments in (("orders", DEAD), ("invoices", {}), ("dead", {})):
            broker.declare_queue(queue, arguments=arguments)
        recording = broker.replay(path)
        with broker.worker(service, timeout=60):
            began = time.perf_counter()
            outcomes = recording.play(order=order, then=0)
            return outcomes, time.perf_counter() - began


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, service in {**SERVICES, "left open": with_pika_that_leaves_messages_open}.items():
            path = Path(folder, "orders.rec")
            record(path, count, for_celery=name == "Celery")
            own = min(outcomes_of(path, service, order="as recorded")[1] for _ in range(2))
            runs = [outcomes_of(path, service) for _ in range(5)]
            times = sorted(seconds for _, seconds in runs)
            over = (times[0] - 1.2 * own) / count * 1000
            print(
                f"{name}: digests {len({it.digest for it, _ in runs})}, own {own:.2f} s, replays {times[0]:.2f} to "
                f"{times[-1]:.2f} s, beyond 1.2 of its own {over:.2f} ms a message",
                flush=True,
            )
