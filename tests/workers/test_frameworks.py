"""Workers of the common clients and frameworks, started as their users start them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import uuid
from pathlib import Path

import pytest

from leveret import Broker

ROOT = Path(__file__).parents[2]
AMQPLIB = ROOT / "examples" / "node" / "node_modules" / "amqplib"
pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="prefork and fork are POSIX"),
    pytest.mark.timeout(200),
]


def consume_with_aio_pika() -> None:
    import aio_pika

    async def work():
        connection = await aio_pika.connect_robust(os.environ["AMQP_URL"])
        channel = await connection.channel()
        queue = await channel.get_queue("payments")
        async with queue.iterator() as messages:
            async for message in messages:
                await message.ack()

    asyncio.run(work())


def consume_with_faststream() -> None:
    from faststream import FastStream
    from faststream.rabbit import RabbitBroker, RabbitQueue

    broker = RabbitBroker(os.environ["AMQP_URL"])

    @broker.subscriber(RabbitQueue("payments", durable=True))
    async def pay(body: int) -> None:
        print("paid", body, flush=True)

    asyncio.run(FastStream(broker).run())


@pytest.mark.parametrize("function", [consume_with_aio_pika, consume_with_faststream])
def test_a_worker_on_asyncio(function):
    with Broker() as broker:
        broker.declare_queue("payments")
        with broker.worker(function):
            broker.publish("", "payments", b"7")
            broker.wait_idle()

            broker.assert_acked("payments", body=b"7")


def test_celery_with_prefork_children_ends_whole():
    with Broker() as broker:
        command = [sys.executable, "-m", "celery", "-A", "tests.workers.celery_app", "worker", "--concurrency=2"]
        with broker.worker([*command, "--without-gossip", "--without-mingle"], cwd=ROOT) as worker:
            task = {"id": str(uuid.uuid4()), "task": "bill", "lang": "py", "argsrepr": "(7,)", "kwargsrepr": "{}"}
            body = json.dumps([[7], {}, {}]).encode()
            kind = {"content_type": "application/json", "content_encoding": "utf-8", "correlation_id": task["id"]}
            broker.publish("", "shop", body, headers=task, **kind)
            broker.wait_idle(timeout=60)

            broker.assert_acked("shop", times=1)
        assert "billed 7" in worker.output


def test_dramatiq_from_its_command_line():
    with Broker() as broker:
        command = [sys.executable, "-m", "dramatiq", "tests.workers.dramatiq_app", "--processes", "1", "--threads", "1"]
        with broker.worker(command, cwd=ROOT) as worker:
            broker.wait_for_consumer("mails", timeout=60)
            message = {"queue_name": "mails", "actor_name": "mail", "args": ["a@b"], "kwargs": {}, "options": {}}
            whole = {**message, "message_id": str(uuid.uuid4()), "message_timestamp": 0}
            broker.publish("", "mails", json.dumps(whole).encode())
            broker.wait_idle(timeout=60)

            broker.assert_acked("mails", times=1)
        assert "mailed a@b" in worker.output


@pytest.mark.skipif(shutil.which("node") is None or not AMQPLIB.exists(), reason="needs node and amqplib")
def test_a_program_for_node():
    with Broker() as broker:
        broker.declare_queue("payments")
        program = [shutil.which("node"), str(Path(__file__).parent / "worker.js")]
        with broker.worker(program, env={"AMQPLIB": str(AMQPLIB)}) as worker:
            broker.publish("", "payments", b"7")
            broker.wait_idle()

            broker.assert_acked("payments", body=b"7")
        assert "handled 7" in worker.output
