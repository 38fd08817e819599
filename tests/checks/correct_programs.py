"""A campaign of correct programs, of which no strict check may report anything.

    python -m tests.checks.correct_programs --count 1000 --seed 1

Each program is made from a seed: a client, a sequence of steps, and an end. The steps publish, consume, retry, requeue,
dead-letter, confirm, commit and roll back; they handle errors and returns; they reconnect after clean and unclean ends
and after a restart of the broker. A finding is a false alarm, and is printed with the seed and the steps.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import socket
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import aio_pika
import aiormq
import amqp
import amqpstorm
import kombu
import pamqp.commands
import pika

from leveret import Broker, LeveretWarning

Arguments = Mapping[str, object]


class Got(NamedTuple):
    """A message that a client has fetched."""

    tag: Any
    body: bytes


class Client:
    """A connection with one channel, which every client has in its own words."""

    name: str
    # What the client raises for an error of the broker.
    errors: tuple[type[Exception], ...]
    # Whether a later publish raises the error of an earlier one, with RabbitMQ's text.
    raises_at_publish = True

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def connect(self) -> None:
        """Open the connection and a channel."""

    def reopen(self) -> None:
        """Open another channel in place of the current one."""

    def close(self) -> None:
        """Close the connection cleanly."""

    def abort(self) -> None:
        """Lose the connection."""

    def declare(self, queue: str, arguments: Arguments | None = None, *, passive: bool = False) -> None:
        """Declare a durable queue."""

    def publish(self, exchange: str, key: str, body: bytes) -> None:
        """Publish a message."""

    def get(self, queue: str) -> Got | None:
        """Fetch a message."""

    def ack(self, got: Got) -> None:
        """Acknowledge it."""

    def nack(self, got: Got, *, requeue: bool) -> None:
        """Give it back, or reject it."""

    def consume(self, queue: str, count: int) -> None:
        """Consume and acknowledge some messages, and cancel the consumer."""

    def confirm(self) -> None:
        """Put a new channel into confirm mode."""

    def transaction(self, queue: str, *, commits: bool) -> None:
        """Publish to a queue in a transaction, on a channel of its own."""


class Pika(Client):
    name = "pika"
    errors = (pika.exceptions.AMQPError,)

    def connect(self) -> None:
        self.connection = pika.BlockingConnection(pika.URLParameters(self.broker.url))
        self.reopen()

    def reopen(self) -> None:
        self.channel = self.connection.channel()

    def close(self) -> None:
        self.connection.close()

    def abort(self) -> None:
        self.connection._impl._transport._sock.shutdown(socket.SHUT_RDWR)
        with suppress(*self.errors):
            self.connection.process_data_events(0)

    def declare(self, queue: str, arguments: Arguments | None = None, *, passive: bool = False) -> None:
        self.channel.queue_declare(queue, durable=True, arguments=arguments, passive=passive)

    def publish(self, exchange: str, key: str, body: bytes) -> None:
        self.channel.basic_publish(exchange, key, body)

    def get(self, queue: str) -> Got | None:
        method, _, body = self.channel.basic_get(queue)
        return None if method is None else Got(method.delivery_tag, body)

    def ack(self, got: Got) -> None:
        self.channel.basic_ack(got.tag)

    def nack(self, got: Got, *, requeue: bool) -> None:
        self.channel.basic_nack(got.tag, requeue=requeue)

    def consume(self, queue: str, count: int) -> None:
        for method, _, _ in self.channel.consume(queue):
            self.channel.basic_ack(method.delivery_tag)
            count -= 1
            if not count:
                break
        self.channel.cancel()

    def confirm(self) -> None:
        self.reopen()
        self.channel.confirm_delivery()

    def transaction(self, queue: str, *, commits: bool) -> None:
        with self.connection.channel() as channel:
            channel.tx_select()
            channel.basic_publish("", queue, b"tx")
            channel.tx_commit() if commits else channel.tx_rollback()


class PyAmqp(Client):
    name = "py-amqp"
    errors = (amqp.exceptions.AMQPError, OSError)

    def connect(self) -> None:
        self.connection = amqp.Connection(f"127.0.0.1:{self.broker.port}")
        self.connection.connect()
        self.reopen()

    def reopen(self) -> None:
        self.channel = self.connection.channel()

    def close(self) -> None:
        self.connection.close()

    def abort(self) -> None:
        self.connection.transport.sock.shutdown(socket.SHUT_RDWR)

    def declare(self, queue: str, arguments: Arguments | None = None, *, passive: bool = False) -> None:
        self.channel.queue_declare(queue, durable=True, auto_delete=False, arguments=arguments, passive=passive)

    def publish(self, exchange: str, key: str, body: bytes) -> None:
        self.channel.basic_publish(amqp.Message(body), exchange, key)

    def get(self, queue: str) -> Got | None:
        message = self.channel.basic_get(queue)
        return None if message is None else Got(message.delivery_tag, message.body)

    def ack(self, got: Got) -> None:
        self.channel.basic_ack(got.tag)

    def nack(self, got: Got, *, requeue: bool) -> None:
        self.channel.basic_reject(got.tag, requeue=requeue)

    def consume(self, queue: str, count: int) -> None:
        taken: list[amqp.Message] = []
        tag = self.channel.basic_consume(queue, callback=taken.append)
        while len(taken) < count:
            self.connection.drain_events(timeout=5)
        self.channel.basic_cancel(tag)
        for message in taken:
            self.channel.basic_ack(message.delivery_tag)

    def confirm(self) -> None:
        self.reopen()
        self.channel.confirm_select()

    def transaction(self, queue: str, *, commits: bool) -> None:
        channel = self.connection.channel()
        channel.tx_select()
        channel.basic_publish(amqp.Message(b"tx"), "", queue)
        channel.tx_commit() if commits else channel.tx_rollback()
        channel.close()


class Kombu(PyAmqp):
    name = "kombu"

    def connect(self) -> None:
        self.pooled = kombu.Connection(self.broker.url)
        self.connection = self.pooled.connection
        self.reopen()

    def close(self) -> None:
        self.pooled.release()

    def publish(self, exchange: str, key: str, body: bytes) -> None:
        kombu.Producer(self.channel).publish(body, exchange=exchange, routing_key=key, retry=False)


class Storm(Client):
    name = "amqpstorm"
    errors = (amqpstorm.AMQPError,)
    # Its thread answers close-ok while the program publishes on, for which RabbitMQ closes the connection.
    raises_at_publish = False

    def connect(self) -> None:
        self.connection = amqpstorm.Connection("127.0.0.1", "guest", "guest", port=self.broker.port)
        self.reopen()

    def reopen(self) -> None:
        self.channel = self.connection.channel()

    def close(self) -> None:
        self.connection.close()

    def abort(self) -> None:
        self.connection._io.socket.shutdown(socket.SHUT_RDWR)

    def declare(self, queue: str, arguments: Arguments | None = None, *, passive: bool = False) -> None:
        self.channel.queue.declare(queue, durable=True, passive=passive, arguments=dict(arguments or {}))

    def publish(self, exchange: str, key: str, body: bytes) -> None:
        self.channel.basic.publish(body, key, exchange)

    def get(self, queue: str) -> Got | None:
        message = self.channel.basic.get(queue)
        return None if not message else Got(message.delivery_tag, message.body.encode())

    def ack(self, got: Got) -> None:
        self.channel.basic.ack(got.tag)

    def nack(self, got: Got, *, requeue: bool) -> None:
        self.channel.basic.nack(got.tag, requeue=requeue)

    def consume(self, queue: str, count: int) -> None:
        tag = self.channel.basic.consume(queue=queue)
        for message in self.channel.build_inbound_messages():
            message.ack()
            count -= 1
            if not count:
                break
        self.channel.basic.cancel(tag)

    def confirm(self) -> None:
        self.reopen()
        self.channel.confirm_deliveries()

    def transaction(self, queue: str, *, commits: bool) -> None:
        channel = self.connection.channel()
        channel.tx.select()
        channel.basic.publish("tx", queue)
        channel.tx.commit() if commits else channel.tx.rollback()
        channel.close()


class OnLoop(Client):
    """A client of asyncio, on a loop that runs while a step does."""

    raises_at_publish = False

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self.loop = asyncio.new_event_loop()

    def run(self, act: Coroutine[Any, Any, Any]) -> Any:
        """Run the loop until this is done."""
        return self.loop.run_until_complete(asyncio.wait_for(act, 10))

    def abort(self) -> None:
        self.broker.faults.reset_peer()
        # What is left of the client goes quietly.
        with suppress(*self.errors):
            self.close()


class Aiormq(OnLoop):
    name = "aiormq"
    errors = (aiormq.exceptions.AMQPError, ConnectionError, RuntimeError)

    def connect(self) -> None:
        self.connection: Any = self.run(aiormq.connect(self.broker.url))
        self.reopen()

    def reopen(self) -> None:
        self.channel = self.run(self.connection.channel(publisher_confirms=False))

    def close(self) -> None:
        self.run(self.connection.close())

    def declare(self, queue: str, arguments: Arguments | None = None, *, passive: bool = False) -> None:
        self.run(self.channel.queue_declare(queue, durable=True, arguments=arguments, passive=passive))

    def publish(self, exchange: str, key: str, body: bytes) -> None:
        self.run(self.channel.basic_publish(body, exchange=exchange, routing_key=key))

    def get(self, queue: str) -> Got | None:
        message = self.run(self.channel.basic_get(queue))
        is_empty = isinstance(message.delivery, pamqp.commands.Basic.GetEmpty)
        return None if is_empty else Got(message.delivery_tag, message.body)

    def ack(self, got: Got) -> None:
        self.run(self.channel.basic_ack(got.tag))

    def nack(self, got: Got, *, requeue: bool) -> None:
        self.run(self.channel.basic_nack(got.tag, requeue=requeue))

    def consume(self, queue: str, count: int) -> None:
        async def act() -> None:
            taken: asyncio.Queue[Any] = asyncio.Queue()
            consumer = await self.channel.basic_consume(queue, taken.put)
            for _ in range(count):
                await self.channel.basic_ack((await taken.get()).delivery_tag)
            await self.channel.basic_cancel(consumer.consumer_tag)

        self.run(act())

    def confirm(self) -> None:
        self.channel = self.run(self.connection.channel(publisher_confirms=True))

    def transaction(self, queue: str, *, commits: bool) -> None:
        async def act() -> None:
            channel = await self.connection.channel(publisher_confirms=False)
            await channel.tx_select()
            await channel.basic_publish(b"tx", routing_key=queue)
            await (channel.tx_commit() if commits else channel.tx_rollback())
            await channel.close()

        self.run(act())


class AioPika(OnLoop):
    name = "aio-pika"
    errors = (aiormq.exceptions.AMQPError, ConnectionError, RuntimeError)
    _connect: Callable[..., Any] = staticmethod(aio_pika.connect)

    def connect(self) -> None:
        self.connection: Any = self.run(self._connect(self.broker.url))
        self.reopen()

    def reopen(self) -> None:
        self.run(self._open(confirms=False))

    async def _open(self, *, confirms: bool) -> None:
        self.channel = await self.connection.channel(publisher_confirms=confirms)

    def close(self) -> None:
        self.run(self.connection.close())

    def declare(self, queue: str, arguments: Arguments | None = None, *, passive: bool = False) -> None:
        self.run(self.channel.declare_queue(queue, durable=True, arguments=arguments, passive=passive))

    def publish(self, exchange: str, key: str, body: bytes) -> None:
        async def act() -> None:
            channel = self.channel
            place = await channel.get_exchange(exchange, ensure=False) if exchange else channel.default_exchange
            await place.publish(aio_pika.Message(body), key, mandatory=False)

        self.run(act())

    def get(self, queue: str) -> Got | None:
        async def act() -> Any:
            return await (await self.channel.get_queue(queue, ensure=False)).get(fail=False)

        message = self.run(act())
        return None if message is None else Got(message, message.body)

    def ack(self, got: Got) -> None:
        self.run(got.tag.ack())

    def nack(self, got: Got, *, requeue: bool) -> None:
        self.run(got.tag.nack(requeue=requeue))

    def consume(self, queue: str, count: int) -> None:
        async def act() -> None:
            left = count
            # The iterator gives back what it has fetched too much.
            await self.channel.set_qos(prefetch_count=1)
            async with (await self.channel.get_queue(queue, ensure=False)).iterator() as messages:
                async for message in messages:
                    await message.ack()
                    left -= 1
                    if not left:
                        break

        self.run(act())

    def confirm(self) -> None:
        self.run(self._open(confirms=True))

    def transaction(self, queue: str, *, commits: bool) -> None:
        async def act() -> None:
            channel = await self.connection.channel(publisher_confirms=False)
            transaction = channel.transaction()
            await transaction.select()
            await channel.default_exchange.publish(aio_pika.Message(b"tx"), queue, mandatory=False)
            await (transaction.commit() if commits else transaction.rollback())
            await channel.close()

        self.run(act())


class RobustAioPika(AioPika):
    name = "aio-pika robust"
    _connect = staticmethod(aio_pika.connect_robust)


CLIENTS: list[type[Client]] = [Pika, PyAmqp, Kombu, Storm, Aiormq, AioPika, RobustAioPika]


class Program:
    """One program: what its steps share."""

    def __init__(self, client: Client, dice: random.Random) -> None:
        self.client = client
        self.dice = dice
        # A channel in confirm mode refuses transactions, but these have channels of their own.
        self.queue_count = 0

    def queue(self, arguments: Arguments | None = None) -> str:
        """Declare a queue that no other step uses."""
        self.queue_count += 1
        name = f"work-{self.queue_count}"
        self.client.declare(name, arguments)
        return name

    def fill(self, queue: str) -> int:
        """Publish a few messages to a queue."""
        count = self.dice.randint(1, 4)
        for number in range(count):
            self.client.publish("", queue, f"{number}".encode())
        return count

    def take(self, queue: str) -> Got:
        """Fetch a message that must be there."""
        self.client.broker.sync()
        got = self.client.get(queue)
        assert got is not None, queue
        return got


def work(program: Program) -> None:
    """Publish, and consume everything."""
    queue = program.queue()
    program.client.consume(queue, program.fill(queue))


def fetch(program: Program) -> None:
    """Publish, and fetch everything."""
    queue = program.queue()
    for _ in range(program.fill(queue)):
        program.client.ack(program.take(queue))


def leave_ready(program: Program) -> None:
    """Publish what nothing takes yet."""
    program.fill(program.queue({"x-message-ttl": 3_600_000, "x-owner": "shop"}))


def retry(program: Program) -> None:
    """Give a message back some times, then acknowledge it."""
    queue = program.queue(program.dice.choice([None, {"x-queue-type": "quorum", "x-delivery-limit": 50}]))
    program.client.publish("", queue, b"again")
    for _ in range(program.dice.randint(1, 5)):
        program.client.nack(program.take(queue), requeue=True)
    program.client.ack(program.take(queue))


def dead_letter(program: Program) -> None:
    """Reject a message into a dead-letter queue, and take it there."""
    dead = program.queue()
    queue = program.queue({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
    program.client.publish("", queue, b"poison")
    program.client.nack(program.take(queue), requeue=False)
    program.client.ack(program.take(dead))


def overflow(program: Program) -> None:
    """Push a message out of a full queue into a dead-letter queue."""
    dead = program.queue()
    queue = program.queue({"x-max-length": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
    program.client.publish("", queue, b"1")
    program.client.publish("", queue, b"2")
    program.client.ack(program.take(dead))


def handle_missing_queue(program: Program) -> None:
    """Ask for a queue that does not exist, handle the error, and go on with another channel."""
    try:
        program.client.declare("no-such-queue", passive=True)
    except program.client.errors:
        program.client.reopen()
    else:
        raise AssertionError("the client did not raise 404")


def handle_missing_exchange(program: Program) -> None:
    """Publish to an exchange that does not exist, handle the error of the next call, and go on with another channel."""
    try:
        program.client.publish("no-such-exchange", "k", b"1")
        program.client.declare("work-0")
    except program.client.errors:
        program.client.reopen()


def handle_missing_exchange_and_reconnect(program: Program) -> None:
    """Publish to an exchange that does not exist, handle the error of the next call, and connect again."""
    try:
        program.client.publish("no-such-exchange", "k", b"1")
        program.client.declare("work-0")
    except program.client.errors:
        program.client.close()
        program.client.connect()


def publish_until_refused(program: Program) -> None:
    """Publish to an exchange that does not exist until the client raises the error, and handle it."""
    client = program.client
    if not client.raises_at_publish:
        return
    try:
        for _ in range(100_000):
            client.publish("no-such-exchange", "k", b"1")
    except client.errors:
        if program.dice.random() < 0.5:
            client.reopen()
        else:
            client.close()
            client.connect()
    else:
        raise AssertionError("the client did not raise 404")


def confirm(program: Program) -> None:
    """Publish with confirms, also to an exchange that does not exist."""
    program.client.confirm()
    queue = program.queue()
    program.fill(queue)
    if program.dice.random() < 0.5:
        try:
            program.client.publish("no-such-exchange", "k", b"1")
            program.client.declare("work-0")
        except program.client.errors:
            program.client.reopen()
    program.client.reopen()


def commit(program: Program) -> None:
    """Publish in a transaction, and commit it."""
    queue = program.queue()
    program.client.transaction(queue, commits=True)
    program.client.ack(program.take(queue))


def roll_back(program: Program) -> None:
    """Publish in a transaction, and roll it back."""
    program.client.transaction(program.queue(), commits=False)


def reconnect(program: Program) -> None:
    """Close the connection cleanly with a message held, and take the message again on another."""
    queue = program.queue()
    program.client.publish("", queue, b"held")
    program.take(queue)
    program.client.close()
    program.client.connect()
    program.client.ack(program.take(queue))


def lose_connection(program: Program) -> None:
    """Lose the connection with a message held, and take the message again on another."""
    queue = program.queue()
    program.client.publish("", queue, b"held")
    program.take(queue)
    program.client.abort()
    program.client.connect()
    program.client.ack(program.take(queue))


STEPS: list[Callable[[Program], None]] = [
    *(work, fetch, leave_ready, retry, dead_letter, overflow, handle_missing_queue, handle_missing_exchange),
    *(publish_until_refused, handle_missing_exchange_and_reconnect, confirm, commit, roll_back, reconnect),
    lose_connection,
]


class Plan(NamedTuple):
    """What the program of a seed does, and the dice for its details."""

    client: type[Client]
    steps: list[Callable[[Program], None]]
    is_clean: bool
    dice: random.Random


def plan(seed: int) -> Plan:
    """Make the program of a seed."""
    dice = random.Random(seed)
    return Plan(dice.choice(CLIENTS), dice.choices(STEPS, k=dice.randint(1, 6)), dice.random() < 0.7, dice)


def run(seed: int) -> tuple[str, list[str], list[str]]:
    """Run the program of a seed. Return its client, its steps, and what the checks reported."""
    kind, steps, is_clean, dice = plan(seed)
    names = [step.__name__ for step in steps] + ["close" if is_clean else "abort"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with Broker(seed=seed) as broker:
            client = kind(broker)
            client.connect()
            program = Program(client, dice)
            for step in steps:
                step(program)
            client.close() if is_clean else client.abort()
        if isinstance(client, OnLoop):
            client.loop.run_until_complete(client.loop.shutdown_asyncgens())
            client.loop.close()
    return kind.name, names, [str(one.message) for one in caught if one.category is LeveretWarning]


def campaign(count: int, first_seed: int) -> int:
    """Run programs, print each false alarm and a summary, and return how many programs had one."""
    clients: Counter[str] = Counter()
    steps: Counter[str] = Counter()
    alarms = failures = 0
    began = time.monotonic()
    for seed in range(first_seed, first_seed + count):
        try:
            client, names, found = run(seed)
        except Exception as error:
            failures += 1
            print(f"seed {seed}: the program failed: {error!r}")
            continue
        clients[client] += 1
        steps.update(names)
        if found:
            alarms += 1
            print(f"seed {seed}: {client}: {', '.join(names)}")
            print("\n".join(found))
    print(f"{count} programs, {sum(steps.values())} steps, {time.monotonic() - began:.0f} s")
    print(f"clients: {', '.join(f'{name} {number}' for name, number in sorted(clients.items()))}")
    print(f"steps: {', '.join(f'{name} {number}' for name, number in sorted(steps.items()))}")
    print(f"{alarms} false alarms, {failures} programs failed")
    return alarms + failures


def main() -> None:
    """Run the campaign that the command line describes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    sys.exit(bool(campaign(options.count, options.seed)))


if __name__ == "__main__":
    main()
