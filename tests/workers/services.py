"""Workers of users, as programs and functions of a process of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from time import monotonic

import pika
from pika.exceptions import AMQPError


def connected(name: str = "payer") -> pika.BlockingConnection:
    parameters = pika.URLParameters(os.environ["AMQP_URL"])
    parameters.client_properties = {"connection_name": name}
    return pika.BlockingConnection(parameters)


def consume(queue: str = "payments") -> None:
    """Ack each message of a queue, and say so."""

    def handle(channel, method, properties, body):
        print("handled", body.decode(), flush=True)
        channel.basic_ack(method.delivery_tag)

    channel = connected().channel()
    channel.basic_consume(queue, handle)
    channel.start_consuming()


def consume_at(url: str) -> None:
    os.environ["AMQP_URL"] = url
    consume()


def consume_with(queue: str, text: str) -> None:
    """Print a password and how long a text is, and consume."""
    print(os.environ["PASSWORD"], len(text), flush=True)
    consume(queue)


def pay() -> None:
    """Write each payment into a database, publish its receipt, and ack: a payment may be written twice."""

    def handle(channel, method, properties, body):
        with sqlite3.connect(os.environ["DB"]) as database:
            database.execute("create table if not exists paid (id text)")
            database.execute("insert into paid values (?)", (body.decode(),))
        database.close()
        channel.basic_publish("", "receipts", body, pika.BasicProperties(delivery_mode=2))
        channel.basic_ack(method.delivery_tag)

    channel = connected().channel()
    channel.basic_consume("payments", handle)
    channel.start_consuming()


def pay_once() -> None:
    """Do the same, but write a payment with its id as key: a second time changes nothing."""

    def handle(channel, method, properties, body):
        with sqlite3.connect(os.environ["DB"]) as database:
            database.execute("create table if not exists paid (id text primary key)")
            database.execute("insert or ignore into paid values (?)", (body.decode(),))
        database.close()
        channel.basic_ack(method.delivery_tag)

    channel = connected().channel()
    channel.basic_consume("payments", handle)
    channel.start_consuming()


def live_on() -> None:
    """Ack a payment, and write a file once the connection has been lost, if this process still lives then."""
    connection = connected()

    def handle(channel, method, properties, body):
        channel.basic_ack(method.delivery_tag)
        with suppress(AMQPError):
            while True:
                connection.process_data_events(time_limit=None)
        Path(os.environ["ALIVE"]).touch()

    channel = connection.channel()
    channel.basic_consume("payments", handle)
    channel.start_consuming()


def work_after_ack() -> None:
    """Ack a payment, compute for a moment, and write a file."""

    def handle(channel, method, properties, body):
        channel.basic_ack(method.delivery_tag)
        end = monotonic() + 0.1
        while monotonic() < end:
            pass
        Path(os.environ["DONE"]).touch()

    channel = connected().channel()
    channel.basic_consume("payments", handle)
    channel.start_consuming()


async def consume_in_a_loop() -> None:
    import aio_pika

    connection = await aio_pika.connect(os.environ["AMQP_URL"])
    channel = await connection.channel()
    await (await channel.get_queue("payments")).consume(lambda _: None)
    await asyncio.Event().wait()


def consume_in_a_new_folder() -> None:
    """Consume, or fail if it has been started before."""
    os.mkdir(os.environ["FOLDER"])
    consume()


def fail() -> None:
    print("no licence")
    raise SystemExit(3)


def fail_after_the_first() -> None:
    channel = connected().channel()
    for _ in channel.consume("payments"):
        raise ValueError("out of money")


def publish_and_stay() -> None:
    connected("publisher").channel().basic_publish("", "payments", b"7")
    print("published", flush=True)
    threading.Event().wait()


def ignore_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    consume()


def close_at_the_end() -> None:
    """Consume until SIGTERM, and then say goodbye."""
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    with connected() as connection:
        connection.channel().basic_consume("payments", lambda *_: None)
        while not ending.is_set():
            connection.process_data_events(time_limit=0.02)


def consume_in_a_child() -> None:
    """Start a child that consumes, as a prefork pool does, and write its number to a file."""
    child = subprocess.Popen([sys.executable, __file__])
    Path(os.environ["PID_FILE"]).write_text(str(child.pid), encoding="utf-8")
    child.wait()


def consume_in_children() -> None:
    """Consume, beside a child and a grandchild that never hear of the broker's end, and a daemon."""
    _leave()
    consume()


def leave_children() -> None:
    """End beside a child, a grandchild and a daemon that live on, and say so."""
    _leave()
    print("left", flush=True)


def _leave() -> None:
    for _ in range(2):
        if not os.fork():
            os.fork()
            threading.Event().wait(300)
            os._exit(0)
    if not os.fork():
        os.setsid()
        if not os.fork():
            threading.Event().wait(300)
        os._exit(0)


if __name__ == "__main__":
    if sys.argv[1:]:
        consume_in_children()
    else:
        consume()
