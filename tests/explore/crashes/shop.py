"""What the services of a shop run on: a channel, a database, and a memory that lives as long as their process.

A service runs on a thread of the test or as a worker's process, and connects again when its connection is lost. The
child of a fork server imports this module, so it imports little.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pika
from pika.exceptions import AMQPError

POLL_S = 0.02


class Order(NamedTuple):
    """A message as a handler gets it."""

    id: str
    tag: int
    is_redelivered: bool
    number: int


@dataclass
class Shop:
    """The means of a service. `memory` outlives a connection, but not the process."""

    url: str
    folder: Path
    db: sqlite3.Connection
    memory: dict = field(default_factory=dict)
    channel: pika.adapters.blocking_connection.BlockingChannel = None
    at_exit: Callable[[], None] = lambda: None

    def connected(self, name: str) -> pika.BlockingConnection:
        """Open a connection of this name."""
        parameters = pika.URLParameters(self.url)
        parameters.client_properties = {"connection_name": name}
        return pika.BlockingConnection(parameters)

    def publisher(self, *, confirm: bool = False):
        """Return a channel on a connection of its own."""
        channel = self.connected("publisher").channel()
        if confirm:
            channel.confirm_delivery()
        return channel

    def consume(self, handle: Callable[[Order], None], queue: str = "orders", **words) -> None:
        """Call `handle` with each order of a queue."""

        def on_message(channel, method, properties, body):
            number = int(body) if body.isdigit() else 0
            handle(Order(properties.message_id, method.delivery_tag, method.redelivered, number))

        self.channel.basic_consume(queue, on_message, **words)

    def send(self, queue: str, body: str, *, id: str | None = None, channel=None) -> None:
        """Publish a persistent message."""
        properties = pika.BasicProperties(delivery_mode=2, message_id=id)
        (channel or self.channel).basic_publish("", queue, body.encode(), properties)

    def ack(self, order: Order, **words) -> None:
        """Acknowledge an order."""
        self.channel.basic_ack(order.tag, **words)

    def rows(self, sql: str, *values: object) -> list:
        """Return the rows of a query; those of one column as values."""
        rows = self.db.execute(sql, values).fetchall()
        return [row[0] if len(row) == 1 else row for row in rows]

    def write(self, sql: str, *values: object) -> bool:
        """Commit one statement, and return whether it changed a row."""
        with self.db:
            return self.db.execute(sql, values).rowcount > 0


def database(folder: Path) -> sqlite3.Connection:
    """Open the database of a scenario's folder."""
    opened = sqlite3.connect(folder / "shop.db", timeout=30)
    opened.execute("pragma synchronous = off")
    return opened


def serve(work: Callable[[Shop], None], url: str, folder: Path, stopping: threading.Event) -> None:
    """Run a service until `stopping` is set, and connect again whenever its connection is lost."""
    with closing(database(folder)) as db:
        shop = Shop(url, folder, db)
        while not stopping.is_set():
            with suppress(AMQPError), shop.connected("service") as connection:
                shop.channel = connection.channel()
                work(shop)
                is_last = False
                while not is_last:
                    # What has arrived before the end is handled.
                    is_last = stopping.is_set()
                    connection.process_data_events(time_limit=POLL_S)
        shop.at_exit()


def serve_async(work, url: str, folder: Path, stopping: threading.Event) -> None:
    """Run a service of aio-pika until `stopping` is set, and connect again whenever its connection is lost."""
    import aio_pika

    async def connect_and_work(memory):
        parameters = f"{url}?name=service"
        async with await aio_pika.connect(parameters, client_properties={"connection_name": "service"}) as connection:
            channel = await connection.channel()
            await work(channel, memory)
            while not stopping.is_set() and not connection.is_closed and not channel.is_closed:
                await asyncio.wait([connection.closed()], timeout=POLL_S)

    async def live():
        memory = {}
        while not stopping.is_set():
            with suppress(aio_pika.exceptions.AMQPError, ConnectionError, RuntimeError):
                await connect_and_work(memory)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    asyncio.run(live())


def serve_as_process(work: Callable[[Shop], None]) -> None:
    """Run a service in this process, until it gets SIGTERM."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    serve(work, os.environ["AMQP_URL"], Path(os.environ["FOLDER"]), stopping)
