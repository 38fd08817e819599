"""The clients of a soak: publishers and consumers of pika and aio-pika, which connect again whenever they fail.

Each connection has a name of its own, its *session*. Publishers of aio-pika have several messages under way. Consumers
acknowledge several messages at once, so an ack that covers a message the client has never seen loses it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Callable

import aio_pika
import pika
from pika.exceptions import NackError

from leveret import Broker
from tests.soak.ledger import Ledger, MessageId, body_of

PREFETCH = 20
ACK_EVERY = 5
WINDOW = 8
# How long a client waits for a handshake before it tries again.
CONNECT_SECONDS = 2
# A publisher pauses while this many of its queue's messages wait for consumers.
BACKLOG = 300
SIZES = (60, 60, 60, 5000)


class Client:
    """A client with a name, in sessions one after another."""

    def __init__(self, name: str, queue: str, broker: Broker, ledger: Ledger, stopping: threading.Event) -> None:
        self.name, self.queue, self.broker, self.ledger, self.stopping = name, queue, broker, ledger, stopping
        self.session = ""
        self.session_count = 0

    def begin_session(self) -> str:
        """Return the name of the next connection."""
        self.session_count += 1
        self.session = f"{self.name}.{self.session_count}"
        return self.session


class PikaClient(Client):
    """A client with pika's BlockingConnection, on a thread of its own."""

    def run(self) -> None:
        """Work until the soak stops."""
        while not self.stopping.is_set():
            # What pika raises when a connection is lost at a bad moment has no base class.
            with contextlib.suppress(Exception):
                self._work()
            self.stopping.wait(0.01)

    def _work(self) -> None:
        parameters = pika.URLParameters(self.broker.url)
        parameters.heartbeat = 0
        parameters.socket_timeout = parameters.stack_timeout = CONNECT_SECONDS
        parameters.client_properties = {"connection_name": self.begin_session()}
        connection = pika.BlockingConnection(parameters)
        try:
            channel = connection.channel()
            channel.queue_declare(self.queue, passive=True)
            self.use(channel)
        finally:
            with contextlib.suppress(Exception):
                connection.close()

    def use(self, channel: object) -> None:
        """Do this client's work on a channel until the soak stops."""
        raise NotImplementedError


class PikaPublisher(PikaClient):
    """A publisher that waits for each confirm."""

    def use(self, channel: object) -> None:
        channel.confirm_delivery()
        for number in itertools.count():
            while not self.ledger.wait_for_room(self.queue, BACKLOG, 0.1):
                channel.connection.process_data_events()
            if self.stopping.is_set():
                return
            message = MessageId(self.session, self.queue, number)
            body = body_of(message, SIZES[number % len(SIZES)])
            try:
                channel.basic_publish("", self.queue, body, pika.BasicProperties(delivery_mode=2))
            except NackError:
                self.ledger.step(self.name)
            else:
                self.ledger.confirm(self.name, message)


class PikaConsumer(PikaClient):
    """A consumer that acknowledges several messages at once."""

    def use(self, channel: object) -> None:
        session = self.session
        channel.basic_qos(prefetch_count=PREFETCH)
        seen = itertools.count(1)
        last = [0]

        def on_message(_: object, method: object, __: object, body: bytes) -> None:
            self.ledger.receive(self.name, session, body, redelivered=method.redelivered)
            last[0] = method.delivery_tag
            if next(seen) % ACK_EVERY == 0:
                channel.basic_ack(method.delivery_tag, multiple=True)
                last[0] = 0

        channel.basic_consume(self.queue, on_message)
        while not self.stopping.is_set() and channel.consumer_tags:
            channel.connection.process_data_events(0.05)
            if last[0]:
                channel.basic_ack(last[0], multiple=True)
                last[0] = 0


class AioClient(Client):
    """A client with aio-pika, as a task."""

    async def run(self) -> None:
        """Work until the soak stops."""
        while not self.stopping.is_set():
            with contextlib.suppress(Exception):
                await self._work()
            await _moment(0.01)

    async def _work(self) -> None:
        connection = await aio_pika.connect(
            self.broker.url + "?heartbeat=0",
            timeout=CONNECT_SECONDS,
            client_properties={"connection_name": self.begin_session()},
        )
        try:
            channel = await asyncio.wait_for(connection.channel(), CONNECT_SECONDS)
            await asyncio.wait_for(channel.get_queue(self.queue), CONNECT_SECONDS)
            ends = [asyncio.ensure_future(_closed(it)) for it in (connection, channel)]
            work = asyncio.ensure_future(self.use(channel))
            try:
                await asyncio.wait([work, *ends], return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (work, *ends):
                    task.cancel()
                await asyncio.gather(work, *ends, return_exceptions=True)
        finally:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(connection.close(), 0.2)

    async def use(self, channel: object) -> None:
        """Do this client's work on a channel until the soak stops."""
        raise NotImplementedError


async def _moment(seconds: float) -> None:
    """Let other tasks run for a moment."""
    await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=seconds)


async def _closed(closable: object) -> None:
    await closable.closed()


class AioPublisher(AioClient):
    """A publisher with several messages under way."""

    async def use(self, channel: object) -> None:
        numbers = itertools.count()
        while not self.stopping.is_set():
            if not self.ledger.wait_for_room(self.queue, BACKLOG, 0):
                await _moment(0.01)
                continue
            batch = [MessageId(self.session, self.queue, next(numbers)) for _ in range(WINDOW)]
            await asyncio.gather(*(self._publish(channel, message) for message in batch))

    async def _publish(self, channel: object, message: MessageId) -> None:
        body = body_of(message, SIZES[message.number % len(SIZES)])
        try:
            await channel.default_exchange.publish(
                aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT), self.queue
            )
        except aio_pika.exceptions.DeliveryError:
            self.ledger.step(self.name)
        else:
            self.ledger.confirm(self.name, message)


class AioConsumer(AioClient):
    """A consumer that acknowledges several messages at once."""

    async def use(self, channel: object) -> None:
        session, unacked = self.session, []
        await channel.set_qos(prefetch_count=PREFETCH)
        queue = await channel.get_queue(self.queue, ensure=False)

        async def on_message(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            self.ledger.receive(self.name, session, message.body, redelivered=bool(message.redelivered))
            unacked.append(message)
            if len(unacked) == ACK_EVERY:
                await flush()

        async def flush() -> None:
            if unacked:
                last = unacked[-1]
                unacked.clear()
                await last.ack(multiple=True)

        await queue.consume(on_message)
        while not self.stopping.is_set():
            await _moment(0.05)
            await flush()


class Crew:
    """All clients of a soak, at work until it stops."""

    def __init__(self, broker: Broker, ledger: Ledger, queues: list[str]) -> None:
        self.stopping_publishers, self.stopping_consumers = threading.Event(), threading.Event()
        self.pika: list[PikaClient] = []
        self.aio: list[AioClient] = []
        for queue in queues:
            of_pika = ((PikaPublisher, self.stopping_publishers), (PikaConsumer, self.stopping_consumers))
            of_aio = ((AioPublisher, self.stopping_publishers), (AioConsumer, self.stopping_consumers))
            self.pika += [kind(f"{kind.__name__}-{queue}", queue, broker, ledger, stop) for kind, stop in of_pika]
            self.aio += [kind(f"{kind.__name__}-{queue}", queue, broker, ledger, stop) for kind, stop in of_aio]
        self._threads = [threading.Thread(target=client.run, daemon=True) for client in self.pika]
        self._threads.append(threading.Thread(target=lambda: asyncio.run(self._run_aio()), daemon=True))

    @property
    def clients(self) -> list[Client]:
        """All clients."""
        return [*self.pika, *self.aio]

    async def _run_aio(self) -> None:
        await asyncio.gather(*(client.run() for client in self.aio))

    def start(self) -> None:
        """Begin to publish and to consume."""
        for thread in self._threads:
            thread.start()

    def join(self, seconds: float, reset: Callable[[], None]) -> list[str]:
        """Wait for the clients to end, and return what did not. `reset` ends connections that still wait."""
        self.stopping_consumers.set()
        for thread in self._threads:
            thread.join(seconds / 2)
        reset()
        for thread in self._threads:
            thread.join(seconds / 2)
        return [thread.name for thread in self._threads if thread.is_alive()]
