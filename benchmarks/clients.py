"""A timer for one workload of a client library, in a separate process.

    python clients.py pika|aio-pika WORKLOAD COUNT [URL]

Without a URL the broker runs in this process, as in a test suite. The program prints the seconds that the workload
took. Connecting and filling the queue do not count, unless they are the workload. Bodies have 1 kB.

publish: publish, until the broker replies to a request sent after the last one. confirm: wait for the confirm of each
publish. confirmw: wait for a hundred confirms at a time. consume, consume_ack: take waiting messages, without and with
acknowledgements (prefetch 100). get: call basic.get for each message. rpc: send a request and wait for its reply,
through two queues. connect: open and close a connection with a channel. declare: declare and delete a queue. test: a
small test that connects, declares exchange, queue and binding, publishes and consumes ten messages, and deletes
everything.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable

import pika
from pika.adapters.blocking_connection import BlockingChannel

from leveret import Broker

BODY = b"x" * 1000
PREFETCH = 100
WINDOW = 100
QUEUE = f"benchmark-{os.getpid()}"
REPLIES = f"{QUEUE}-replies"
EXCHANGE = f"{QUEUE}-exchange"
now = time.perf_counter


class Pika:
    """The workloads, with pika's BlockingConnection."""

    def __init__(self, url: str, count: int) -> None:
        self.parameters = pika.URLParameters(url)
        self.parameters.heartbeat = 0
        self.count = count
        self.properties = pika.BasicProperties(content_type="text/plain", delivery_mode=1)

    def run(self, workload: str) -> float:
        """Run the workload, and return the seconds it took."""
        act = getattr(self, workload)
        if workload in ("connect", "test"):
            started = now()
            for _ in range(self.count):
                act()
            return now() - started
        with pika.BlockingConnection(self.parameters) as connection:
            channel = connection.channel()
            channel.queue_declare(QUEUE, durable=True)
            try:
                return float(act(channel))
            finally:
                channel.queue_delete(QUEUE)

    def connect(self) -> None:
        with pika.BlockingConnection(self.parameters) as connection:
            connection.channel()

    def test(self) -> None:
        with pika.BlockingConnection(self.parameters) as connection:
            channel = connection.channel()
            channel.exchange_declare(EXCHANGE, "direct")
            channel.queue_declare(QUEUE, durable=True)
            channel.queue_bind(QUEUE, EXCHANGE, "k")
            for _ in range(10):
                channel.basic_publish(EXCHANGE, "k", BODY, self.properties)
            for number, (method, _properties, _body) in enumerate(channel.consume(QUEUE), start=1):
                channel.basic_ack(method.delivery_tag)
                if number == 10:
                    break
            channel.cancel()
            channel.queue_delete(QUEUE)
            channel.exchange_delete(EXCHANGE)

    def declare(self, channel: BlockingChannel) -> float:
        started = now()
        for _ in range(self.count):
            channel.queue_declare(REPLIES, durable=True)
            channel.queue_delete(REPLIES)
        return now() - started

    def publish(self, channel: BlockingChannel) -> float:
        started = now()
        for _ in range(self.count):
            channel.basic_publish("", QUEUE, BODY, self.properties)
        channel.queue_declare(QUEUE, passive=True)
        return now() - started

    def confirm(self, channel: BlockingChannel) -> float:
        channel.confirm_delivery()
        started = now()
        for _ in range(self.count):
            channel.basic_publish("", QUEUE, BODY, self.properties)
        return now() - started

    def get(self, channel: BlockingChannel) -> float:
        self.publish(channel)
        started = now()
        for _ in range(self.count):
            channel.basic_get(QUEUE, auto_ack=True)
        return now() - started

    def consume(self, channel: BlockingChannel) -> float:
        return self._take(channel, auto_ack=True)

    def consume_ack(self, channel: BlockingChannel) -> float:
        channel.basic_qos(prefetch_count=PREFETCH)
        return self._take(channel, auto_ack=False)

    def _take(self, channel: BlockingChannel, *, auto_ack: bool) -> float:
        self.publish(channel)
        left = self.count

        def on_message(
            channel: BlockingChannel, method: pika.spec.Basic.Deliver, _properties: object, _: bytes
        ) -> None:
            nonlocal left
            left -= 1
            if not auto_ack:
                channel.basic_ack(method.delivery_tag)
            if not left:
                channel.stop_consuming()

        started = now()
        channel.basic_consume(QUEUE, on_message, auto_ack=auto_ack)
        channel.start_consuming()
        channel.queue_declare(QUEUE, passive=True)
        return now() - started

    def rpc(self, channel: BlockingChannel) -> float:
        channel.queue_declare(REPLIES, durable=True)
        replies = 0

        def serve(channel: BlockingChannel, _method: object, properties: pika.BasicProperties, body: bytes) -> None:
            reply_properties = pika.BasicProperties(correlation_id=properties.correlation_id)
            channel.basic_publish("", properties.reply_to, body, reply_properties)

        def on_reply(_channel: object, _method: object, _properties: object, _body: bytes) -> None:
            nonlocal replies
            replies += 1

        channel.basic_consume(QUEUE, serve, auto_ack=True)
        channel.basic_consume(REPLIES, on_reply, auto_ack=True)
        started = now()
        for number in range(self.count):
            properties = pika.BasicProperties(reply_to=REPLIES, correlation_id=str(number))
            channel.basic_publish("", QUEUE, BODY, properties)
            while replies == number:
                channel.connection.process_data_events(None)
        took = now() - started
        channel.queue_delete(REPLIES)
        return took


class AioPika:
    """The workloads, with aio-pika."""

    def __init__(self, url: str, count: int) -> None:
        # It is imported here, so that pika's rows do not pay for it.
        import aio_pika

        self.aio_pika = aio_pika
        self.url = f"{url}?heartbeat=0"
        self.count = count

    def run(self, workload: str) -> float:
        """Run the workload, and return the seconds it took."""
        return asyncio.run(self._run(workload))

    async def _run(self, workload: str) -> float:
        act: Callable[..., Awaitable[float]] = getattr(self, workload)
        if workload in ("connect", "test"):
            started = now()
            for _ in range(self.count):
                await act()
            return now() - started
        async with await self.aio_pika.connect(self.url) as connection:
            channel = await connection.channel(publisher_confirms=workload in ("confirm", "confirmw"))
            queue = await channel.declare_queue(QUEUE, durable=True)
            try:
                return await act(channel, queue)
            finally:
                await queue.delete(if_unused=False, if_empty=False)

    def message(self, **properties):
        return self.aio_pika.Message(BODY, content_type="text/plain", delivery_mode=1, **properties)

    async def connect(self) -> None:
        async with await self.aio_pika.connect(self.url) as connection:
            await connection.channel()

    async def test(self) -> None:
        async with await self.aio_pika.connect(self.url) as connection:
            channel = await connection.channel()
            exchange = await channel.declare_exchange(EXCHANGE, "direct")
            queue = await channel.declare_queue(QUEUE, durable=True)
            await queue.bind(exchange, "k")
            for _ in range(10):
                await exchange.publish(self.message(), "k")
            async with queue.iterator() as messages:
                number = 0
                async for message in messages:
                    await message.ack()
                    number += 1
                    if number == 10:
                        break
            await queue.delete()
            await exchange.delete()

    async def declare(self, channel, _queue) -> float:
        started = now()
        for _ in range(self.count):
            queue = await channel.declare_queue(REPLIES, durable=True)
            await queue.delete()
        return now() - started

    async def publish(self, channel, _queue) -> float:
        started = now()
        for _ in range(self.count):
            await channel.default_exchange.publish(self.message(), QUEUE)
        await channel.declare_queue(QUEUE, passive=True)
        return now() - started

    async def confirm(self, channel, _queue) -> float:
        started = now()
        for _ in range(self.count):
            await channel.default_exchange.publish(self.message(), QUEUE)
        return now() - started

    async def confirmw(self, channel, _queue) -> float:
        started = now()
        for _ in range(self.count // WINDOW):
            await asyncio.gather(*(channel.default_exchange.publish(self.message(), QUEUE) for _ in range(WINDOW)))
        return now() - started

    async def get(self, channel, queue) -> float:
        await self.publish(channel, queue)
        started = now()
        for _ in range(self.count):
            await queue.get(no_ack=True)
        return now() - started

    async def consume(self, channel, queue) -> float:
        return await self._take(channel, queue, no_ack=True)

    async def consume_ack(self, channel, queue) -> float:
        await channel.set_qos(prefetch_count=PREFETCH)
        return await self._take(channel, queue, no_ack=False)

    async def _take(self, channel, queue, *, no_ack: bool) -> float:
        await self.publish(channel, queue)
        left = self.count
        done = asyncio.Event()

        async def on_message(message) -> None:
            nonlocal left
            if not no_ack:
                await message.ack()
            left -= 1
            if not left:
                done.set()

        started = now()
        tag = await queue.consume(on_message, no_ack=no_ack)
        await done.wait()
        took = now() - started
        await queue.cancel(tag)
        return took

    async def rpc(self, channel, queue) -> float:
        replies = await channel.declare_queue(REPLIES, durable=True)
        replied = asyncio.Event()
        exchange = channel.default_exchange

        async def serve(message) -> None:
            reply = self.aio_pika.Message(message.body, correlation_id=message.correlation_id)
            await exchange.publish(reply, message.reply_to)

        async def on_reply(_message) -> None:
            replied.set()

        await queue.consume(serve, no_ack=True)
        await replies.consume(on_reply, no_ack=True)
        started = now()
        for number in range(self.count):
            replied.clear()
            await exchange.publish(self.message(reply_to=REPLIES, correlation_id=str(number)), QUEUE)
            await replied.wait()
        took = now() - started
        await replies.delete(if_unused=False, if_empty=False)
        return took


CLIENTS = {"pika": Pika, "aio-pika": AioPika}


def main(client: str, workload: str, count: str, url: str | None = None) -> None:
    broker = None
    if url is None:
        # The settings of tests, without the check for messages that were left over.
        broker = Broker(checks="unroutable=off").start()
        url = broker.url
    took = CLIENTS[client](url, int(count)).run(workload)
    print(f"{took:.9f}")
    if broker is not None:
        broker.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
