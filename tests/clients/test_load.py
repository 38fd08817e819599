"""Many messages, connections, channels and threads at once: none is lost, none is duplicated, and order is kept."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import aio_pika
import kombu
import pamqp.commands
import pika
import pytest

COUNT = 1000


def connect(url, patience):
    parameters = pika.URLParameters(url)
    parameters.blocked_connection_timeout = parameters.socket_timeout = patience
    return pika.BlockingConnection(parameters)


def test_publisher_and_consumers_in_threads(broker_url, patience):
    """Three threads publish and three consume, each on its own connection; every message is handled once."""
    with connect(broker_url, patience) as connection:
        connection.channel().queue_declare("work", durable=True)

    def publish(source):
        with connect(broker_url, patience) as connection:
            channel = connection.channel()
            for number in range(COUNT // 3):
                channel.basic_publish("", "work", f"{source}:{number}".encode())

    def consume(_):
        seen = []
        with connect(broker_url, patience) as connection:
            channel = connection.channel()
            channel.basic_qos(prefetch_count=20)
            for method, _, body in channel.consume("work", inactivity_timeout=patience):
                if method is None or body == b"stop":
                    break
                seen.append(body.decode())
                channel.basic_ack(method.delivery_tag)
            # Each consumer acks its own stop message; the broker requeues what it prefetched beyond that.
            if method is not None:
                channel.basic_ack(method.delivery_tag)
        return seen

    with ThreadPoolExecutor(6) as pool:
        workers = [pool.submit(consume, number) for number in range(3)]
        list(pool.map(publish, range(3)))
        with connect(broker_url, patience) as connection:
            channel = connection.channel()
            for _ in workers:
                channel.basic_publish("", "work", b"stop")
        seen = [body for worker in workers for body in worker.result()]

    assert sorted(seen) == sorted(f"{source}:{number}" for source in range(3) for number in range(COUNT // 3))


def test_one_consumer_sees_one_publisher_in_order(broker_url, patience):
    with connect(broker_url, patience) as publisher, connect(broker_url, patience) as consumer:
        outgoing, incoming = publisher.channel(), consumer.channel()
        outgoing.queue_declare("work", durable=True)
        for number in range(COUNT):
            outgoing.basic_publish("", "work", b"%d" % number)
        seen = []
        for method, _, body in incoming.consume("work", inactivity_timeout=patience):
            assert method is not None
            seen.append(int(body))
            if len(seen) == COUNT:
                incoming.basic_ack(method.delivery_tag, multiple=True)
                break

    assert seen == list(range(COUNT))


@pytest.mark.asyncio
async def test_confirmed_publishes_at_once(broker_url, patience):
    """Confirms may be grouped in any way; each publish waits for its own."""
    connection = await aio_pika.connect(broker_url, timeout=patience)
    async with connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("work", durable=True)
        messages = (aio_pika.Message(b"%d" % number) for number in range(COUNT))

        confirmations = await asyncio.gather(*(channel.default_exchange.publish(each, "work") for each in messages))

        assert all(isinstance(each, pamqp.commands.Basic.Ack) for each in confirmations)
        assert (await queue.purge()).message_count == COUNT


def test_many_channels_on_one_connection(broker_url, patience):
    with connect(broker_url, patience) as connection:
        channels = [connection.channel() for _ in range(100)]
        names = [channel.queue_declare("", exclusive=True).method.queue for channel in channels]
        for channel, name in zip(reversed(channels), names, strict=True):
            channel.basic_publish("", name, name.encode())

        bodies = [channel.basic_get(name)[2] for channel, name in zip(channels, names, strict=True)]

    assert bodies == [name.encode() for name in names]


def test_many_connections(broker_url, patience):
    connections = [connect(broker_url, patience) for _ in range(40)]
    channels = [connection.channel() for connection in connections]
    for channel in channels:
        name = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(name, "amq.fanout")
        channel.last_queue = name

    channels[0].basic_publish("amq.fanout", "", b"to all")
    bodies = {next(channel.consume(channel.last_queue, inactivity_timeout=patience))[2] for channel in channels}
    for connection in connections:
        connection.close()

    assert bodies == {b"to all"}


def test_connections_come_and_go_while_others_work(broker_url, patience):
    """Every connection closes with its message unacked; the next connection gets the message again."""
    with connect(broker_url, patience) as owner:
        owner.channel().queue_declare("work", durable=True)
        owner.channel().basic_publish("", "work", b"passed on")

        for turn in range(30):
            with connect(broker_url, patience) as connection:
                method, _, body = next(connection.channel().consume("work", inactivity_timeout=patience))
            assert (body, method.redelivered) == (b"passed on", turn > 0)


def test_bodies_from_both_sides_cross(broker_url, patience):
    """Two clients send each other more than the socket buffers hold, and neither waits for the other to read."""
    body = b"x" * (4 * 1024 * 1024)

    def exchange(own, other):
        with connect(broker_url, patience) as connection:
            channel = connection.channel()
            for _ in range(3):
                channel.basic_publish("", other, body)
            deliveries = channel.consume(own, inactivity_timeout=patience)
            return [next(deliveries)[2] == body for _ in range(3)]

    with connect(broker_url, patience) as connection:
        for name in ["left", "right"]:
            connection.channel().queue_declare(name, durable=True)
    with ThreadPoolExecutor(2) as pool:
        sides = [pool.submit(exchange, "left", "right"), pool.submit(exchange, "right", "left")]

        assert [side.result() for side in sides] == [[True] * 3] * 2


def test_kombu_connections_in_threads(broker_url):
    """kombu's connection is lazy; a thread that uses it may be the one that opens it."""
    barrier, failures = threading.Barrier(8), []

    def produce(number):
        try:
            barrier.wait()
            with kombu.Connection(broker_url, transport_options={"confirm_publish": True}) as connection:
                queue = kombu.Queue("work")
                for _ in range(20):
                    connection.Producer().publish(number, routing_key="work", declare=[queue])
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=produce, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    with kombu.Connection(broker_url) as connection:
        queue = kombu.Queue("work")(connection.default_channel)
        payloads = [queue.get(no_ack=True).payload for _ in range(160)]
    assert not failures
    assert sorted(payloads) == sorted(list(range(8)) * 20)


def test_heartbeats_are_sent_and_expected(broker_url, patience):
    """Frames of kind 8 from both sides keep an idle connection alive."""
    address = urlsplit(broker_url)
    with connect(f"{broker_url}?heartbeat=1" if address.path else f"{broker_url}/?heartbeat=1", patience) as connection:
        channel = connection.channel()
        channel.queue_declare("work", durable=True)

        # pika closes the connection itself if it has heard nothing for two intervals.
        connection.process_data_events(time_limit=2.5)

        assert channel.basic_get("work") == (None, None, None)
