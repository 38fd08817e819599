"""Flaky tests that look at what a handler does by itself, each with its mended twin. pytest collects them by path only.

The handler fills a list, a file, a cache or a table between its delivery and its ack, and the test waits for something
that comes before that. Each mended twin adds the wait that the doctor is to name.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from pathlib import Path

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from pika.adapters.blocking_connection import BlockingChannel

from leveret import Broker
from tests.flaky.patterns import Service, connected, passes_on, pause

AsyncHandler = Callable[[AbstractIncomingMessage, AbstractChannel], Awaitable[None]]


class AsyncService:
    """A consumer of aio-pika, in a loop and thread of its own unless it is entered in the loop of a test."""

    def __init__(self, broker: Broker, name: str, queue: str, handle: AsyncHandler) -> None:
        self._arguments = (broker, name, queue, handle)
        self._is_ready, self._loop = threading.Event(), asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run)

    async def __aenter__(self) -> AsyncService:
        broker, name, queue, handle = self._arguments
        self._connection = await aio_pika.connect(broker.url, client_properties={"connection_name": name})
        channel = await self._connection.channel()

        async def on_message(message: AbstractIncomingMessage) -> None:
            async with message.process():
                await handle(message, channel)

        await (await channel.get_queue(queue)).consume(on_message)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._connection.close()

    def _run(self) -> None:
        async def consume() -> None:
            self._end = asyncio.Event()
            async with self:
                self._is_ready.set()
                await self._end.wait()

        self._loop.run_until_complete(consume())
        self._loop.close()

    def __enter__(self) -> AsyncService:
        self._thread.start()
        assert self._is_ready.wait(20)
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()


# 1 The handler's list.
def test_reads_a_list_flaky(leveret: Broker) -> None:
    cooked: list[bytes] = []
    leveret.declare_queue("meals")
    with Service(leveret, "kitchen", "meals", lambda channel, reply_to, body: cooked.append(body)):
        leveret.publish(routing_key="meals", body=b"soup")
        leveret.assert_delivered("meals", timeout=20)
        assert cooked == [b"soup"]


def test_reads_a_list_mended(leveret: Broker) -> None:
    cooked: list[bytes] = []
    leveret.declare_queue("meals")
    with Service(leveret, "kitchen", "meals", lambda channel, reply_to, body: cooked.append(body)):
        leveret.publish(routing_key="meals", body=b"soup")
        leveret.assert_delivered("meals", timeout=20)
        leveret.assert_acked("meals", timeout=20)
        assert cooked == [b"soup"]


# 2 The handler's file.
def test_reads_a_file_flaky(leveret: Broker, tmp_path: Path) -> None:
    page = tmp_path / "page.json"
    leveret.declare_queue("pages")
    with Service(leveret, "printer", "pages", lambda channel, reply_to, body: page.write_bytes(body)):
        leveret.publish(routing_key="pages", body=b'{"page": 1}')
        leveret.assert_delivered("pages", timeout=20)
        assert page.exists()


def test_reads_a_file_mended(leveret: Broker, tmp_path: Path) -> None:
    page = tmp_path / "page.json"
    leveret.declare_queue("pages")
    with Service(leveret, "printer", "pages", lambda channel, reply_to, body: page.write_bytes(body)):
        leveret.publish(routing_key="pages", body=b'{"page": 1}')
        leveret.assert_delivered("pages", timeout=20)
        leveret.assert_acked("pages", timeout=20)
        assert page.exists()


# 3 A cache, after the second of two messages.
def fills(cache: dict[str, int]) -> Callable[[BlockingChannel, str, bytes], None]:
    def handle(channel: BlockingChannel, reply_to: str, body: bytes) -> None:
        cache.update(json.loads(body))

    return handle


def test_reads_a_cache_flaky(leveret: Broker) -> None:
    cache: dict[str, int] = {}
    leveret.declare_queue("prices")
    with Service(leveret, "pricing", "prices", fills(cache)):
        leveret.publish(routing_key="prices", body=b'{"soup": 4}')
        leveret.publish(routing_key="prices", body=b'{"soup": 5}')
        leveret.assert_delivered("prices", times=2, timeout=20)
        assert cache == {"soup": 5}


def test_reads_a_cache_mended(leveret: Broker) -> None:
    cache: dict[str, int] = {}
    leveret.declare_queue("prices")
    with Service(leveret, "pricing", "prices", fills(cache)):
        leveret.publish(routing_key="prices", body=b'{"soup": 4}')
        leveret.publish(routing_key="prices", body=b'{"soup": 5}')
        leveret.assert_delivered("prices", times=2, timeout=20)
        leveret.assert_acked("prices", times=2, timeout=20)
        assert cache == {"soup": 5}


# 4 Two handlers of one event: the test waits for one, and looks at what the other does.
def test_waits_for_the_other_handler_flaky(leveret: Broker) -> None:
    seen: dict[str, bytes] = {}
    leveret.declare_exchange("events", "fanout")
    for queue in ("audit", "mail"):
        leveret.declare_queue(queue)
        leveret.bind_queue(queue, "events")
    with (
        Service(leveret, "auditor", "audit", lambda channel, reply_to, body: seen.update(audit=body)),
        Service(leveret, "mailer", "mail", lambda channel, reply_to, body: seen.update(mail=body)),
    ):
        leveret.publish("events", body=b"created")
        leveret.assert_acked("audit", timeout=20)
        assert "mail" in seen


def test_waits_for_the_other_handler_mended(leveret: Broker) -> None:
    seen: dict[str, bytes] = {}
    leveret.declare_exchange("events", "fanout")
    for queue in ("audit", "mail"):
        leveret.declare_queue(queue)
        leveret.bind_queue(queue, "events")
    with (
        Service(leveret, "auditor", "audit", lambda channel, reply_to, body: seen.update(audit=body)),
        Service(leveret, "mailer", "mail", lambda channel, reply_to, body: seen.update(mail=body)),
    ):
        leveret.publish("events", body=b"created")
        leveret.assert_acked("audit", timeout=20)
        leveret.assert_acked("mail", timeout=20)
        assert "mail" in seen


# 5 Two stages: the test waits for the first, and looks at what the handler of the second does.
def test_waits_for_the_stage_before_flaky(leveret: Broker) -> None:
    sent: list[bytes] = []
    for queue in ("orders", "invoices"):
        leveret.declare_queue(queue)
    with (
        Service(leveret, "billing", "orders", passes_on("invoices")),
        Service(leveret, "mailer", "invoices", lambda channel, reply_to, body: sent.append(body)),
    ):
        leveret.publish(routing_key="orders", body=b"a")
        leveret.assert_acked("orders", timeout=20)
        pause(0.02)
        assert sent == [b"A"]


def test_waits_for_the_stage_before_mended(leveret: Broker) -> None:
    sent: list[bytes] = []
    for queue in ("orders", "invoices"):
        leveret.declare_queue(queue)
    with (
        Service(leveret, "billing", "orders", passes_on("invoices")),
        Service(leveret, "mailer", "invoices", lambda channel, reply_to, body: sent.append(body)),
    ):
        leveret.publish(routing_key="orders", body=b"a")
        leveret.assert_acked("orders", timeout=20)
        pause(0.02)
        leveret.assert_acked("invoices", timeout=20)
        assert sent == [b"A"]


# 6 A handler of aio-pika in a thread of its own.
def test_reads_what_a_coroutine_sets_flaky(leveret: Broker) -> None:
    seen: list[bytes] = []
    leveret.declare_queue("tasks")

    async def handle(message: AbstractIncomingMessage, channel: AbstractChannel) -> None:
        seen.append(message.body)

    with AsyncService(leveret, "worker", "tasks", handle):
        leveret.publish(routing_key="tasks", body=b"resize")
        leveret.assert_delivered("tasks", timeout=20)
        pause(0.02)
        assert seen == [b"resize"]


def test_reads_what_a_coroutine_sets_mended(leveret: Broker) -> None:
    seen: list[bytes] = []
    leveret.declare_queue("tasks")

    async def handle(message: AbstractIncomingMessage, channel: AbstractChannel) -> None:
        seen.append(message.body)

    with AsyncService(leveret, "worker", "tasks", handle):
        leveret.publish(routing_key="tasks", body=b"resize")
        leveret.assert_delivered("tasks", timeout=20)
        pause(0.02)
        leveret.assert_acked("tasks", timeout=20)
        assert seen == [b"resize"]


# 7 A handler in the loop of the test.
def test_looks_in_one_loop_flaky(leveret: Broker) -> None:
    seen: list[bytes] = []
    leveret.declare_queue("tasks")

    async def handle(message: AbstractIncomingMessage, channel: AbstractChannel) -> None:
        seen.append(message.body)

    async def ship() -> None:
        async with AsyncService(leveret, "worker", "tasks", handle):
            leveret.publish(routing_key="tasks", body=b"resize")
            await leveret.aio.assert_delivered("tasks", timeout=20)
            await asyncio.to_thread(pause, 0.02)
            assert seen == [b"resize"]

    asyncio.run(ship())


def test_looks_in_one_loop_mended(leveret: Broker) -> None:
    seen: list[bytes] = []
    leveret.declare_queue("tasks")

    async def handle(message: AbstractIncomingMessage, channel: AbstractChannel) -> None:
        seen.append(message.body)

    async def ship() -> None:
        async with AsyncService(leveret, "worker", "tasks", handle):
            leveret.publish(routing_key="tasks", body=b"resize")
            await leveret.aio.assert_delivered("tasks", timeout=20)
            await asyncio.to_thread(pause, 0.02)
            await leveret.aio.assert_acked("tasks", timeout=20)
            assert seen == [b"resize"]

    asyncio.run(ship())


# 8 A handler that waits for the confirm of what it publishes, and counts then.
def test_waits_for_the_publish_of_a_handler_flaky(leveret: Broker) -> None:
    done: list[bytes] = []
    for queue in ("orders", "invoices"):
        leveret.declare_queue(queue)

    async def bill(message: AbstractIncomingMessage, channel: AbstractChannel) -> None:
        await channel.default_exchange.publish(aio_pika.Message(message.body.upper()), "invoices")
        done.append(message.body)

    with AsyncService(leveret, "billing", "orders", bill):
        leveret.publish(routing_key="orders", body=b"a")
        leveret.assert_published("", routing_key="invoices", timeout=20)
        pause(0.02)
        assert done == [b"a"]


def test_waits_for_the_publish_of_a_handler_mended(leveret: Broker) -> None:
    done: list[bytes] = []
    for queue in ("orders", "invoices"):
        leveret.declare_queue(queue)

    async def bill(message: AbstractIncomingMessage, channel: AbstractChannel) -> None:
        await channel.default_exchange.publish(aio_pika.Message(message.body.upper()), "invoices")
        done.append(message.body)

    with AsyncService(leveret, "billing", "orders", bill):
        leveret.publish(routing_key="orders", body=b"a")
        leveret.assert_published("", routing_key="invoices", timeout=20)
        pause(0.02)
        leveret.assert_acked("orders", timeout=20)
        assert done == [b"a"]


# 9 A row that a worker stores, which looks for messages itself. The test polls the queue instead of the table.
class Storing:
    """A worker on a thread that gets one message after another and stores each in a table."""

    def __init__(self, broker: Broker, path: Path) -> None:
        self._broker, self._path, self._end = broker, path, threading.Event()
        self._thread = threading.Thread(target=self._work)

    def _work(self) -> None:
        with connected(self._broker, "store") as channel, closing(sqlite3.connect(self._path)) as table:
            while not self._end.is_set():
                method, _, body = channel.basic_get("orders")
                if method is None:
                    channel.connection.process_data_events(time_limit=0.005)
                    continue
                with table:
                    table.execute("insert into orders values (?)", [body])
                channel.basic_ack(method.delivery_tag)

    def __enter__(self) -> Storing:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join()


def table_of(folder: Path) -> Path:
    path = folder / "shop.db"
    with closing(sqlite3.connect(path)) as table, table:
        table.execute("create table orders (body)")
    return path


def rows_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as table:
        count: int = table.execute("select count(*) from orders").fetchone()[0]
    return count


def test_reads_a_table_flaky(leveret: Broker, tmp_path: Path) -> None:
    leveret.declare_queue("orders")
    path = table_of(tmp_path)
    with Storing(leveret, path):
        leveret.publish(routing_key="orders", body=b"1")
        leveret.assert_delivered("orders", timeout=20)
        pause(0.05)
        assert rows_of(path) == 1


def test_reads_a_table_mended(leveret: Broker, tmp_path: Path) -> None:
    leveret.declare_queue("orders")
    path = table_of(tmp_path)
    with Storing(leveret, path):
        leveret.publish(routing_key="orders", body=b"1")
        leveret.assert_delivered("orders", timeout=20)
        pause(0.05)
        leveret.assert_acked("orders", timeout=20)
        assert rows_of(path) == 1


# 10 A consumer without acks: no event shows that its handler is done.
def test_reads_what_needs_no_ack_flaky(leveret: Broker) -> None:
    seen: list[bytes] = []
    leveret.declare_queue("news")
    with Service(leveret, "reader", "news", lambda channel, reply_to, body: seen.append(body), acks="none"):
        leveret.publish(routing_key="news", body=b"1")
        with suppress(AssertionError):
            leveret.assert_delivered("news", timeout=0.05)
        assert seen == [b"1"]


def test_reads_what_needs_no_ack_mended(leveret: Broker) -> None:
    seen: list[bytes] = []
    is_done = threading.Event()
    leveret.declare_queue("news")

    def read(channel: BlockingChannel, reply_to: str, body: bytes) -> None:
        seen.append(body)
        is_done.set()

    with Service(leveret, "reader", "news", read, acks="none"):
        leveret.publish(routing_key="news", body=b"1")
        assert is_done.wait(20)
        assert seen == [b"1"]


# 11 A handler that acks first: no event shows that it is done, and a wait for the ack would settle nothing.
def test_reads_what_comes_after_the_ack_flaky(leveret: Broker) -> None:
    cooked: list[bytes] = []
    leveret.declare_queue("meals")
    with Service(leveret, "kitchen", "meals", lambda channel, reply_to, body: cooked.append(body), acks="before"):
        leveret.publish(routing_key="meals", body=b"soup")
        leveret.assert_delivered("meals", timeout=20)
        assert cooked == [b"soup"]


def test_reads_what_comes_after_the_ack_mended(leveret: Broker) -> None:
    cooked: list[bytes] = []
    is_done = threading.Event()
    leveret.declare_queue("meals")

    def cook(channel: BlockingChannel, reply_to: str, body: bytes) -> None:
        cooked.append(body)
        is_done.set()

    with Service(leveret, "kitchen", "meals", cook, acks="before"):
        leveret.publish(routing_key="meals", body=b"soup")
        assert is_done.wait(20)
        assert cooked == [b"soup"]
