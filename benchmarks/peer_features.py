"""What the peers of leveret do as RabbitMQ does, tried out: each check is a small scenario with a client of the peer.

    python benchmarks/peer_features.py --rabbitmq amqp://guest:guest@127.0.0.1:5672/

A check passes only if the same scenario also works without the feature: the message that does not expire arrives. What
takes an interface of its own, time and faults, is tried where there is one.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version

import pika
from amqp_mock import create_amqp_mock
from faststream.exceptions import NackMessage, RejectMessage
from faststream.rabbit import Channel, ExchangeType, RabbitBroker, RabbitExchange, RabbitQueue, TestRabbitBroker
from kombu import Connection, Consumer, Exchange, Queue
from pika.adapters.blocking_connection import BlockingChannel

from leveret import Broker

CHECKS = (
    "`order.#` matches `order`",
    "TTL",
    "dead letters",
    "redelivery after a lost connection",
    "prefetch",
    "returned if unroutable",
)
RUN = uuid.uuid4().hex[:8]
# A check that hangs counts as failed after these seconds.
PATIENCE = 15


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rabbitmq", metavar="URL", help="a RabbitMQ of no value: queues and exchanges stay behind")
    options = parser.parse_args()
    with Broker(checks="all=off") as broker, mock_url() as url:
        columns = {f"leveret {version('leveret')}": over_tcp(broker.url)}
        if options.rabbitmq:
            columns["RabbitMQ"] = over_tcp(options.rabbitmq)
        columns[f"kombu memory {version('kombu')}"] = KOMBU
        columns[f"TestRabbitBroker {version('faststream')}"] = FASTSTREAM
        columns[f"amqp-mock {version('amqp-mock')}"] = over_tcp(url)
        for name, checks in columns.items():
            print(name)
            for check in CHECKS:
                print(f"  {check:36} {outcome(checks[check])}", flush=True)


def outcome(check: Callable[[], bool]) -> str:
    """Return yes or no, and why a check failed if it did not simply say no."""
    said: list[str] = []

    def run() -> None:
        try:
            said.append("yes" if check() else "no")
        except Exception as error:
            said.append(f"no: {type(error).__name__} {error}"[:100])

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return said[0] if said else "no: no answer"


# Over TCP, with pika.


def over_tcp(url: str) -> dict[str, Callable[[], bool]]:
    checks = (topics, expires, dead_letters, redelivers, prefetches, returns)
    return {name: lambda check=check: check(url) for name, check in zip(CHECKS, checks, strict=True)}


def named(name: str) -> str:
    """Return a name that no earlier run has used."""
    return f"{name}-{RUN}"


@contextmanager
def channel_of(url: str) -> Iterator[BlockingChannel]:
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        yield connection.channel()


def queue(channel: BlockingChannel, name: str, arguments: dict[str, object] | None = None) -> None:
    """Declare a queue, bound to the exchange `shop` by its name."""
    channel.exchange_declare(named("shop"), durable=True)
    channel.queue_declare(name, durable=True, arguments=arguments)
    channel.queue_bind(name, named("shop"), name)


def taken(channel: BlockingChannel, name: str, seconds: float = 1) -> list[tuple[pika.spec.Basic.Deliver, bytes]]:
    """Return what a consumer gets within some seconds."""
    found: list[tuple[pika.spec.Basic.Deliver, bytes]] = []
    tag = channel.basic_consume(name, lambda _, method, properties, body: found.append((method, body)))
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        channel.connection.process_data_events(0.05)
    channel.basic_cancel(tag)
    return found


def topics(url: str) -> bool:
    with channel_of(url) as channel:
        channel.exchange_declare(named("topics"), "topic", durable=True)
        channel.queue_declare(named("topics"), durable=True)
        channel.queue_bind(named("topics"), named("topics"), "order.#")
        for key in ("order", "order.created", "mail"):
            channel.basic_publish(named("topics"), key, key.encode())
        return [body for _, body in taken(channel, named("topics"))] == [b"order", b"order.created"]


def expires(url: str) -> bool:
    with channel_of(url) as channel:
        queue(channel, named("lasting"))
        queue(channel, named("expiring"), {"x-message-ttl": 50})
        for name in (named("lasting"), named("expiring")):
            channel.basic_publish(named("shop"), name, b"7")
        time.sleep(0.3)
        return (len(taken(channel, named("lasting"))), len(taken(channel, named("expiring")))) == (1, 0)


def dead_letters(url: str) -> bool:
    with channel_of(url) as channel:
        queue(channel, named("dead"))
        queue(
            channel,
            named("rejecting"),
            {"x-dead-letter-exchange": named("shop"), "x-dead-letter-routing-key": named("dead")},
        )
        channel.basic_publish(named("shop"), named("rejecting"), b"7")
        ((method, _),) = taken(channel, named("rejecting"))
        channel.basic_reject(method.delivery_tag, requeue=False)
        return len(taken(channel, named("dead"))) == 1


def redelivers(url: str) -> bool:
    with suppress(pika.exceptions.AMQPError), channel_of(url) as channel:
        queue(channel, named("held"))
        channel.basic_publish(named("shop"), named("held"), b"7")
        assert len(taken(channel, named("held"))) == 1
        # The socket closes without a word of AMQP, as if the process had died.
        channel.connection._impl._transport._sock.shutdown(socket.SHUT_RDWR)
    with channel_of(url) as channel:
        return [method.redelivered for method, _ in taken(channel, named("held"))] == [True]


def prefetches(url: str) -> bool:
    with channel_of(url) as channel:
        queue(channel, named("many"))
        for body in (b"1", b"2"):
            channel.basic_publish(named("shop"), named("many"), body)
        channel.basic_qos(prefetch_count=1)
        held = taken(channel, named("many"))
        if len(held) != 1:
            return False
        channel.basic_ack(held[0][0].delivery_tag)
        return len(taken(channel, named("many"))) == 1


def returns(url: str) -> bool:
    with channel_of(url) as channel:
        queue(channel, named("routed"))
        channel.confirm_delivery()
        channel.basic_publish(named("shop"), named("routed"), b"7", mandatory=True)
        try:
            channel.basic_publish(named("shop"), "unknown", b"7", mandatory=True)
        except pika.exceptions.UnroutableError:
            return True
        return False


@contextmanager
def mock_url() -> Iterator[str]:
    """Run a server of amqp-mock on a loop of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    mock = create_amqp_mock()
    asyncio.run_coroutine_threadsafe(mock.start(), loop).result()
    yield f"amqp://guest:guest@127.0.0.1:{mock._amqp_server.port}/"


# kombu's memory transport.


def kombu_get(
    name: str, arguments: dict[str, object] | None = None, connection: Connection | None = None
) -> list[object]:
    connection = connection or Connection("memory://")
    queue = Queue(name, Exchange("shop"), name, queue_arguments=arguments)(connection.channel())
    message = queue.get()
    return [message] if message is not None else []


def kombu_put(name: str, arguments: dict[str, object] | None = None, count: int = 1) -> None:
    with Connection("memory://") as connection:
        queue = Queue(name, Exchange("shop"), name, queue_arguments=arguments)
        for number in range(count):
            connection.Producer().publish(number, exchange=queue.exchange, routing_key=name, declare=[queue])


def kombu_topics() -> bool:
    with Connection("memory://") as connection:
        exchange = Exchange("topics", "topic")
        queue = Queue("topics", exchange, "order.#")
        for key in ("order", "order.created", "mail"):
            connection.Producer().publish(key, exchange=exchange, routing_key=key, declare=[queue])
        bound = queue(connection.channel())
        found = [message.payload for message in iter(bound.get, None)]
        return found == ["order", "order.created"]


def kombu_expires() -> bool:
    kombu_put("lasting")
    kombu_put("expiring", {"x-message-ttl": 50})
    time.sleep(0.3)
    return (len(kombu_get("lasting")), len(kombu_get("expiring"))) == (1, 0)


def kombu_dead_letters() -> bool:
    kombu_put("dead")
    assert len(kombu_get("dead")) == 1
    arguments = {"x-dead-letter-exchange": "shop", "x-dead-letter-routing-key": "dead"}
    kombu_put("rejecting", arguments)
    (message,) = kombu_get("rejecting", arguments)
    message.reject()
    return len(kombu_get("dead")) == 1


def kombu_redelivers() -> bool:
    kombu_put("held")
    connection = Connection("memory://")
    assert len(kombu_get("held", connection=connection)) == 1
    # There is no socket to lose; closing the connection is the nearest to it.
    connection.close()
    return [message.delivery_info.get("redelivered") for message in kombu_get("held")] == [True]


def kombu_prefetches() -> bool:
    kombu_put("many", count=2)
    found = []
    with Connection("memory://") as connection:
        bound = Queue("many", Exchange("shop"), "many")
        consumer = Consumer(
            connection.channel(), [bound], callbacks=[lambda _, message: found.append(message)], prefetch_count=1
        )
        with consumer:
            for seconds in (0.3, 0.3):
                try:
                    while True:
                        connection.drain_events(timeout=seconds)
                except TimeoutError:
                    pass
                if len(found) == 1:
                    found[0].ack()
    return len(found) == 2 and found[0].acknowledged and not found[1].acknowledged


def kombu_returns() -> bool:
    returned: list[object] = []
    with Connection("memory://") as connection:
        producer = connection.Producer(on_return=lambda *about: returned.append(about))
        producer.publish(
            "7", exchange=Exchange("shop"), routing_key="unknown", mandatory=True, declare=[Exchange("shop")]
        )
    return len(returned) == 1


KOMBU = dict(
    zip(
        CHECKS,
        (kombu_topics, kombu_expires, kombu_dead_letters, kombu_redelivers, kombu_prefetches, kombu_returns),
        strict=True,
    )
)


# FastStream's TestRabbitBroker.


async def faststream_topics() -> bool:
    broker = RabbitBroker()
    found: list[str] = []
    exchange = RabbitExchange("topics", type=ExchangeType.TOPIC)

    @broker.subscriber(RabbitQueue("topics", routing_key="order.#"), exchange)
    async def handle(key: str) -> None:
        found.append(key)

    async with TestRabbitBroker(broker) as connected:
        for key in ("order", "order.created", "mail"):
            try:
                await connected.publish(key, key, exchange)
            except Exception:
                found.append(f"{key} refused")
    return [key for key in found if not key.endswith("refused")] == ["order", "order.created"]


async def faststream_expires() -> bool:
    """A message can expire only where it can wait: in a queue whose consumer comes later."""
    broker = RabbitBroker()
    async with TestRabbitBroker(broker) as connected:
        await connected.publish("7", "waiting", expiration=0.05)
    return True


async def faststream_dead_letters() -> bool:
    broker = RabbitBroker()
    dead: list[str] = []
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}

    @broker.subscriber(RabbitQueue("rejecting", arguments=arguments))
    async def handle(order: str) -> None:
        raise RejectMessage

    @broker.subscriber("dead")
    async def handle_dead(order: str) -> None:
        dead.append(order)

    async with TestRabbitBroker(broker) as connected:
        await connected.publish("7", "rejecting")
        await asyncio.sleep(0.3)
    return dead == ["7"]


async def faststream_redelivers() -> bool:
    """There is no connection to lose; a nack with requeue is the nearest to it."""
    broker = RabbitBroker()
    calls: list[str] = []

    @broker.subscriber("held")
    async def handle(order: str) -> None:
        calls.append(order)
        if len(calls) == 1:
            raise NackMessage

    async with TestRabbitBroker(broker) as connected:
        await connected.publish("7", "held")
        await asyncio.sleep(0.3)
    return calls == ["7", "7"]


async def faststream_prefetches() -> bool:
    broker = RabbitBroker(default_channel=Channel(prefetch_count=1))
    running, most = 0, 0

    @broker.subscriber("many")
    async def handle(order: str) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.1)
        running -= 1

    async with TestRabbitBroker(broker) as connected:
        await asyncio.gather(connected.publish("1", "many"), connected.publish("2", "many"))
    return most == 1


async def faststream_returns() -> bool:
    """Without a subscriber a publish raises SubscriberNotFound, with `mandatory` or not: RabbitMQ drops without it."""
    async with TestRabbitBroker(RabbitBroker()) as connected:
        await connected.publish("7", "unknown", mandatory=False)
        try:
            await connected.publish("7", "unknown", mandatory=True)
        except Exception:
            return True
    return False


FASTSTREAM = {
    name: lambda check=check: asyncio.run(check())
    for name, check in zip(
        CHECKS,
        (
            faststream_topics,
            faststream_expires,
            faststream_dead_letters,
            faststream_redelivers,
            faststream_prefetches,
            faststream_returns,
        ),
        strict=True,
    )
}


if __name__ == "__main__":
    main()
