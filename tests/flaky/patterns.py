"""Flaky tests after patterns of public threads, each with its mended twin. pytest collects this file only by its path.

ClickHouse#71049 and quarkus-quickstarts!1638 look without waiting, rabbitmq-server!16605 waits for the wrong thing,
opentelemetry-collector-contrib#22134 reads a count before the ack, celery#9871 lets two workers race, and so on.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import aio_pika
import pika
from pika.adapters.blocking_connection import BlockingChannel

from leveret import Broker

Handler = Callable[[BlockingChannel, str, bytes], None]


@contextmanager
def connected(broker: Broker, name: str) -> Iterator[BlockingChannel]:
    parameters = pika.URLParameters(broker.url)
    parameters.client_properties = {"connection_name": name}
    connection = pika.BlockingConnection(parameters)
    try:
        yield connection.channel()
    finally:
        if connection.is_open:
            connection.close()


def pause(seconds: float) -> None:
    """Do what these tests are wrong to do: let time pass instead of waiting for something."""
    threading.Event().wait(seconds)


class Service:
    """A consumer on a thread, which handles messages until the test ends."""

    def __init__(self, broker: Broker, name: str, queue: str, handle: Handler, *, acks: str = "after") -> None:
        self.ready, self._end = threading.Event(), threading.Event()
        self._arguments = (broker, name, queue, handle, acks)
        self._thread = threading.Thread(target=self._consume)

    def _consume(self) -> None:
        broker, name, queue, handle, acks = self._arguments
        with connected(broker, name) as channel:

            def on_message(channel, method, properties, body) -> None:
                if acks == "before":
                    channel.basic_ack(method.delivery_tag)
                handle(channel, properties.reply_to or "", body)
                if acks == "after":
                    channel.basic_ack(method.delivery_tag)

            channel.basic_qos(prefetch_count=1)
            channel.basic_consume(queue, on_message, auto_ack=acks == "none")
            self.ready.set()
            while not self._end.is_set():
                channel.connection.process_data_events(time_limit=0.01)

    def __enter__(self) -> Service:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join()


def nothing(channel: BlockingChannel, reply_to: str, body: bytes) -> None:
    pass


def passes_on(queue: str) -> Handler:
    def handle(channel: BlockingChannel, reply_to: str, body: bytes) -> None:
        channel.basic_publish("", queue, body.upper())

    return handle


@contextmanager
def threads(*acts: Callable[[], None]) -> Iterator[None]:
    started = [threading.Thread(target=act) for act in acts]
    for thread in started:
        thread.start()
    yield
    for thread in started:
        thread.join()


# 1 An assertion without waiting.
def test_looks_at_once_flaky(leveret: Broker) -> None:
    leveret.declare_queue("orders")
    with Service(leveret, "billing", "orders", nothing):
        leveret.publish(routing_key="orders", body=b"1")
        leveret.assert_delivered("orders", timeout=5)
        leveret.assert_acked("orders")


def test_looks_at_once_mended(leveret: Broker) -> None:
    leveret.declare_queue("orders")
    with Service(leveret, "billing", "orders", nothing):
        leveret.publish(routing_key="orders", body=b"1")
        leveret.assert_delivered("orders", timeout=5)
        leveret.assert_acked("orders", timeout=5)


# 2 A wait for the wrong thing: the delivery instead of the invoice.
def test_waits_for_the_wrong_thing_flaky(leveret: Broker) -> None:
    leveret.declare_queue("orders")
    leveret.declare_queue("invoices")
    with Service(leveret, "billing", "orders", passes_on("invoices")):
        leveret.publish(routing_key="orders", body=b"a")
        leveret.assert_delivered("orders", timeout=5)
        assert leveret.queue("invoices").ready


def test_waits_for_the_wrong_thing_mended(leveret: Broker) -> None:
    leveret.declare_queue("orders")
    leveret.declare_queue("invoices")
    with Service(leveret, "billing", "orders", passes_on("invoices")):
        leveret.publish(routing_key="orders", body=b"a")
        leveret.assert_ready("invoices", timeout=5)
        assert leveret.queue("invoices").ready


# 3 Two consumers race for the list of results.
def test_two_consumers_race_flaky(leveret: Broker) -> None:
    done: list[str] = []
    for queue in ("left", "right"):
        leveret.declare_queue(queue)
    with (
        Service(leveret, "left", "left", lambda *_: done.append("left")),
        Service(leveret, "right", "right", lambda *_: done.append("right")),
    ):
        leveret.publish(routing_key="left", body=b"1")
        leveret.publish(routing_key="right", body=b"2")
        leveret.assert_acked("left", timeout=5)
        leveret.assert_acked("right", timeout=5)
        assert done == ["left", "right"]


def test_two_consumers_race_mended(leveret: Broker) -> None:
    done: list[str] = []
    for queue in ("left", "right"):
        leveret.declare_queue(queue)
    with (
        Service(leveret, "left", "left", lambda *_: done.append("left")),
        Service(leveret, "right", "right", lambda *_: done.append("right")),
    ):
        leveret.publish(routing_key="left", body=b"1")
        leveret.publish(routing_key="right", body=b"2")
        leveret.assert_acked("left", timeout=5)
        leveret.assert_acked("right", timeout=5)
        assert sorted(done) == ["left", "right"]


# 4 A message count that is read before the ack.
def test_counts_before_the_ack_flaky(leveret: Broker) -> None:
    handled = threading.Event()
    leveret.declare_queue("orders")
    with Service(leveret, "billing", "orders", lambda *_: handled.set()):
        leveret.publish(routing_key="orders", body=b"1")
        assert handled.wait(5)
        assert not leveret.queue("orders").unacked


def test_counts_before_the_ack_mended(leveret: Broker) -> None:
    handled = threading.Event()
    leveret.declare_queue("orders")
    with Service(leveret, "billing", "orders", lambda *_: handled.set()):
        leveret.publish(routing_key="orders", body=b"1")
        assert handled.wait(5)
        leveret.assert_acked("orders", timeout=5)
        assert not leveret.queue("orders").unacked


# 5 An event that is published before its queue is bound.
def test_publishes_before_the_subscription_flaky(leveret: Broker) -> None:
    leveret.declare_exchange("events", "fanout")

    def subscribe() -> None:
        with connected(leveret, "audit") as channel:
            channel.queue_declare("audit", durable=True)
            channel.queue_bind("audit", "events")

    with threads(subscribe), connected(leveret, "shop") as channel:
        channel.basic_publish("events", "", b"created")
    assert leveret.queue("audit").ready


def test_publishes_before_the_subscription_mended(leveret: Broker) -> None:
    leveret.declare_exchange("events", "fanout")
    bound = threading.Event()

    def subscribe() -> None:
        with connected(leveret, "audit") as channel:
            channel.queue_declare("audit", durable=True)
            channel.queue_bind("audit", "events")
            bound.set()

    with threads(subscribe):
        assert bound.wait(5)
        with connected(leveret, "shop") as channel:
            channel.basic_publish("events", "", b"created")
    assert leveret.queue("audit").ready


# 6 Two publishers, and a test that takes their order for granted.
def test_two_publishers_race_flaky(leveret: Broker) -> None:
    leveret.declare_queue("log")

    def publish(name: str) -> None:
        with connected(leveret, name) as channel:
            channel.basic_publish("", "log", name.encode())

    with threads(lambda: publish("shop"), lambda: publish("stock")):
        pass
    assert [message.body for message in leveret.queue("log").ready] == [b"shop", b"stock"]


def test_two_publishers_race_mended(leveret: Broker) -> None:
    leveret.declare_queue("log")

    def publish(name: str) -> None:
        with connected(leveret, name) as channel:
            channel.basic_publish("", "log", name.encode())

    with threads(lambda: publish("shop"), lambda: publish("stock")):
        pass
    assert sorted(message.body for message in leveret.queue("log").ready) == [b"shop", b"stock"]


# 7 A sleep that is long enough most of the time.
def test_sleeps_flaky(leveret: Broker) -> None:
    leveret.declare_queue("orders")
    with Service(leveret, "billing", "orders", nothing) as service:
        assert service.ready.wait(5)
        leveret.publish(routing_key="orders", body=b"1")
        pause(0.05)
        leveret.assert_acked("orders")


def test_sleeps_mended(leveret: Broker) -> None:
    leveret.declare_queue("orders")
    with Service(leveret, "billing", "orders", nothing) as service:
        assert service.ready.wait(5)
        leveret.publish(routing_key="orders", body=b"1")
        leveret.assert_acked("orders", timeout=5)


# 8 A consumer that is looked for before it has subscribed.
def test_looks_for_a_consumer_at_once_flaky(leveret: Broker) -> None:
    leveret.declare_queue("orders")
    with Service(leveret, "billing", "orders", nothing):
        while not leveret.connections:
            pause(0.001)
        pause(0.02)
        assert leveret.queue("orders").consumers


def test_looks_for_a_consumer_at_once_mended(leveret: Broker) -> None:
    leveret.declare_queue("orders")
    with Service(leveret, "billing", "orders", nothing) as service:
        assert service.ready.wait(5)
        assert leveret.queue("orders").consumers


# 9 The first of two stages is waited for, the second is looked at.
def test_waits_for_the_first_of_two_stages_flaky(leveret: Broker) -> None:
    for queue in ("orders", "invoices"):
        leveret.declare_queue(queue)
    with (
        Service(leveret, "billing", "orders", passes_on("invoices")),
        Service(leveret, "mail", "invoices", nothing),
    ):
        leveret.publish(routing_key="orders", body=b"a")
        leveret.assert_acked("orders", timeout=5)
        leveret.assert_acked("invoices")


def test_waits_for_the_first_of_two_stages_mended(leveret: Broker) -> None:
    for queue in ("orders", "invoices"):
        leveret.declare_queue(queue)
    with (
        Service(leveret, "billing", "orders", passes_on("invoices")),
        Service(leveret, "mail", "invoices", nothing),
    ):
        leveret.publish(routing_key="orders", body=b"a")
        leveret.assert_acked("orders", timeout=5)
        leveret.assert_acked("invoices", timeout=5)


# 10 The second of two messages is not waited for.
def test_waits_for_the_first_message_flaky(leveret: Broker) -> None:
    leveret.declare_queue("orders")
    with Service(leveret, "billing", "orders", nothing):
        leveret.publish(routing_key="orders", body=b"1")
        leveret.publish(routing_key="orders", body=b"2")
        leveret.assert_acked("orders", body=b"1", timeout=5)
        leveret.assert_acked("orders", body=b"2")


def test_waits_for_the_first_message_mended(leveret: Broker) -> None:
    leveret.declare_queue("orders")
    with Service(leveret, "billing", "orders", nothing):
        leveret.publish(routing_key="orders", body=b"1")
        leveret.publish(routing_key="orders", body=b"2")
        leveret.assert_acked("orders", body=b"1", timeout=5)
        leveret.assert_acked("orders", body=b"2", timeout=5)


# 11 A consumer that acks first: the ack is waited for, the work is not.
def test_waits_for_an_early_ack_flaky(leveret: Broker) -> None:
    for queue in ("orders", "invoices"):
        leveret.declare_queue(queue)

    def bill(channel: BlockingChannel, reply_to: str, body: bytes) -> None:
        with connected(leveret, "ledger") as ledger:
            ledger.basic_publish("", "invoices", body)

    with Service(leveret, "billing", "orders", bill, acks="before"):
        leveret.publish(routing_key="orders", body=b"a")
        leveret.assert_acked("orders", timeout=5)
        pause(0.03)
        assert leveret.queue("invoices").ready


def test_waits_for_an_early_ack_mended(leveret: Broker) -> None:
    for queue in ("orders", "invoices"):
        leveret.declare_queue(queue)

    def bill(channel: BlockingChannel, reply_to: str, body: bytes) -> None:
        with connected(leveret, "ledger") as ledger:
            ledger.basic_publish("", "invoices", body)

    with Service(leveret, "billing", "orders", bill, acks="before"):
        leveret.publish(routing_key="orders", body=b"a")
        leveret.assert_acked("orders", timeout=5)
        leveret.assert_ready("invoices", timeout=5)


# 12 Two workers share a queue, and the test takes for granted who gets the message.
def test_first_worker_gets_the_message_flaky(leveret: Broker) -> None:
    leveret.declare_queue("jobs")
    got: list[str] = []
    with (
        Service(leveret, "first", "jobs", lambda *_: got.append("first")) as first,
        Service(leveret, "second", "jobs", lambda *_: got.append("second")) as second,
    ):
        assert first.ready.wait(5)
        assert second.ready.wait(5)
        leveret.publish(routing_key="jobs", body=b"1")
        leveret.assert_acked("jobs", timeout=5)
        assert got == ["first"]


def test_first_worker_gets_the_message_mended(leveret: Broker) -> None:
    leveret.declare_queue("jobs")
    got: list[str] = []
    with (
        Service(leveret, "first", "jobs", lambda *_: got.append("first")) as first,
        Service(leveret, "second", "jobs", lambda *_: got.append("second")) as second,
    ):
        assert first.ready.wait(5)
        assert second.ready.wait(5)
        leveret.publish(routing_key="jobs", body=b"1")
        leveret.assert_acked("jobs", timeout=5)
        assert len(got) == 1


# 13 A get that may come before the publish.
def test_gets_before_the_publish_flaky(leveret: Broker) -> None:
    leveret.declare_queue("orders")

    def publish() -> None:
        with connected(leveret, "shop") as channel:
            channel.basic_publish("", "orders", b"1")

    with connected(leveret, "reader") as channel, threads(publish):
        pause(0.03)
        method, _, _ = channel.basic_get("orders", auto_ack=True)
        assert method is not None


def test_gets_before_the_publish_mended(leveret: Broker) -> None:
    leveret.declare_queue("orders")

    def publish() -> None:
        with connected(leveret, "shop") as channel:
            channel.basic_publish("", "orders", b"1")

    with connected(leveret, "reader") as channel, threads(publish):
        leveret.assert_ready("orders", timeout=5)
        method, _, _ = channel.basic_get("orders", auto_ack=True)
        assert method is not None


# 14 A purge that may come before what it should remove.
def test_purges_too_early_flaky(leveret: Broker) -> None:
    leveret.declare_queue("orders")

    def publish() -> None:
        with connected(leveret, "shop") as channel:
            channel.basic_publish("", "orders", b"old")

    def purge() -> None:
        with connected(leveret, "cleaner") as channel:
            channel.queue_purge("orders")

    with threads(publish, purge):
        pass
    assert not leveret.queue("orders").ready


def test_purges_too_early_mended(leveret: Broker) -> None:
    leveret.declare_queue("orders")
    published = threading.Event()

    def publish() -> None:
        with connected(leveret, "shop") as channel:
            channel.confirm_delivery()
            channel.basic_publish("", "orders", b"old")
            published.set()

    def purge() -> None:
        assert published.wait(5)
        with connected(leveret, "cleaner") as channel:
            channel.queue_purge("orders")

    with threads(publish, purge):
        pass
    assert not leveret.queue("orders").ready


# 15 A queue that another client declares is deleted, or is not there yet.
def test_uses_a_queue_of_another_client_flaky(leveret: Broker) -> None:
    def declare() -> None:
        with connected(leveret, "owner") as channel:
            channel.queue_declare("orders", durable=True)

    with threads(declare), connected(leveret, "shop") as channel:
        channel.basic_publish("", "orders", b"1")
    assert leveret.queue("orders").ready


def test_uses_a_queue_of_another_client_mended(leveret: Broker) -> None:
    def declare() -> None:
        with connected(leveret, "owner") as channel:
            channel.queue_declare("orders", durable=True)

    with threads(declare):
        pass
    with connected(leveret, "shop") as channel:
        channel.basic_publish("", "orders", b"1")
    assert leveret.queue("orders").ready


# 16 A flag that the handler sets, and no wait for it.
def test_reads_what_a_handler_sets_flaky(leveret: Broker) -> None:
    seen: list[bytes] = []
    leveret.declare_queue("orders")
    with Service(leveret, "billing", "orders", lambda channel, reply_to, body: seen.append(body)) as service:
        assert service.ready.wait(5)
        leveret.publish(routing_key="orders", body=b"1")
        pause(0.03)
        assert seen == [b"1"]


def test_reads_what_a_handler_sets_mended(leveret: Broker) -> None:
    seen: list[bytes] = []
    leveret.declare_queue("orders")
    with Service(leveret, "billing", "orders", lambda channel, reply_to, body: seen.append(body)) as service:
        assert service.ready.wait(5)
        leveret.publish(routing_key="orders", body=b"1")
        leveret.assert_acked("orders", timeout=5)
        assert seen == [b"1"]


# 17 A reply that is looked at when only the request has been taken.
def test_reply_is_not_there_yet_flaky(leveret: Broker) -> None:
    for queue in ("requests", "replies"):
        leveret.declare_queue(queue)

    def answer(channel: BlockingChannel, reply_to: str, body: bytes) -> None:
        channel.basic_publish("", reply_to, b"yes")

    with Service(leveret, "server", "requests", answer), connected(leveret, "asker") as channel:
        channel.basic_publish("", "requests", b"?", pika.BasicProperties(reply_to="replies"))
        leveret.assert_delivered("requests", timeout=5)
        method, _, _ = channel.basic_get("replies", auto_ack=True)
        assert method is not None


def test_reply_is_not_there_yet_mended(leveret: Broker) -> None:
    for queue in ("requests", "replies"):
        leveret.declare_queue(queue)

    def answer(channel: BlockingChannel, reply_to: str, body: bytes) -> None:
        channel.basic_publish("", reply_to, b"yes")

    with Service(leveret, "server", "requests", answer), connected(leveret, "asker") as channel:
        channel.basic_publish("", "requests", b"?", pika.BasicProperties(reply_to="replies"))
        leveret.assert_ready("replies", timeout=5)
        method, _, _ = channel.basic_get("replies", auto_ack=True)
        assert method is not None


# 18 Results of two stages of different length meet in one queue.
def test_two_services_answer_in_order_flaky(leveret: Broker) -> None:
    for queue in ("prices", "stock", "page"):
        leveret.declare_queue(queue)
    with (
        Service(leveret, "pricing", "prices", passes_on("page")),
        Service(leveret, "depot", "stock", passes_on("page")),
    ):
        leveret.publish(routing_key="prices", body=b"p")
        leveret.publish(routing_key="stock", body=b"s")
        leveret.assert_ready("page", body=b"P", timeout=5)
        leveret.assert_ready("page", body=b"S", timeout=5)
        assert leveret.queue("page").ready[0].body == b"P"


def test_two_services_answer_in_order_mended(leveret: Broker) -> None:
    for queue in ("prices", "stock", "page"):
        leveret.declare_queue(queue)
    with (
        Service(leveret, "pricing", "prices", passes_on("page")),
        Service(leveret, "depot", "stock", passes_on("page")),
    ):
        leveret.publish(routing_key="prices", body=b"p")
        leveret.publish(routing_key="stock", body=b"s")
        leveret.assert_ready("page", body=b"P", timeout=5)
        leveret.assert_ready("page", body=b"S", timeout=5)
        assert {message.body for message in leveret.queue("page").ready} == {b"P", b"S"}


# 19 A consumer that is cancelled before the last delivery.
def test_cancels_before_the_last_delivery_flaky(leveret: Broker) -> None:
    leveret.declare_queue("orders")

    def publish() -> None:
        with connected(leveret, "shop") as channel:
            channel.basic_publish("", "orders", b"last")

    seen: list[bytes] = []
    with connected(leveret, "billing") as channel, threads(publish):
        tag = channel.basic_consume("orders", lambda *message: seen.append(message[3]), auto_ack=True)
        channel.connection.process_data_events(time_limit=0.03)
        channel.basic_cancel(tag)
    assert seen == [b"last"]


def test_cancels_before_the_last_delivery_mended(leveret: Broker) -> None:
    leveret.declare_queue("orders")

    def publish() -> None:
        with connected(leveret, "shop") as channel:
            channel.basic_publish("", "orders", b"last")

    seen: list[bytes] = []
    with connected(leveret, "billing") as channel, threads(publish):
        tag = channel.basic_consume("orders", lambda *message: seen.append(message[3]), auto_ack=True)
        while not seen:
            channel.connection.process_data_events(time_limit=0.1)
        channel.basic_cancel(tag)
    assert seen == [b"last"]


# 20 A connection that the test counts before it is closed.
def test_counts_connections_too_early_flaky(leveret: Broker) -> None:
    opened = threading.Event()

    def visit() -> None:
        with connected(leveret, "visitor"):
            opened.set()

    with threads(visit):
        assert opened.wait(5)
        pause(0.03)
        assert not leveret.connections


def test_counts_connections_too_early_mended(leveret: Broker) -> None:
    opened = threading.Event()

    def visit() -> None:
        with connected(leveret, "visitor"):
            opened.set()

    with threads(visit):
        assert opened.wait(5)
    assert not leveret.connections


# 21 Two declarations of one queue that differ: the later one is refused.
def test_two_clients_declare_differently_flaky(leveret: Broker) -> None:
    errors: list[str] = []

    def declare(name: str, arguments: dict[str, int]) -> None:
        with connected(leveret, name) as channel:
            try:
                channel.queue_declare("orders", durable=True, arguments=arguments)
            except pika.exceptions.ChannelClosedByBroker:
                errors.append(name)

    with threads(lambda: declare("shop", {}), lambda: declare("depot", {"x-max-length": 5})):
        pass
    assert errors == ["depot"]


def test_two_clients_declare_differently_mended(leveret: Broker) -> None:
    errors: list[str] = []

    def declare(name: str) -> None:
        with connected(leveret, name) as channel:
            try:
                channel.queue_declare("orders", durable=True)
            except pika.exceptions.ChannelClosedByBroker:
                errors.append(name)

    with threads(lambda: declare("shop"), lambda: declare("depot")):
        pass
    assert errors == []


# 22 A queue that is full: which message is dropped depends on who comes first.
def test_who_comes_last_is_kept_flaky(leveret: Broker) -> None:
    leveret.declare_queue("latest", arguments={"x-max-length": 1})

    def publish(name: str) -> None:
        with connected(leveret, name) as channel:
            channel.basic_publish("", "latest", name.encode())

    with threads(lambda: publish("east"), lambda: publish("west")):
        pass
    assert leveret.queue("latest").ready[0].body == b"west"


def test_who_comes_last_is_kept_mended(leveret: Broker) -> None:
    leveret.declare_queue("latest", arguments={"x-max-length": 1})

    def publish(name: str) -> None:
        with connected(leveret, name) as channel:
            channel.confirm_delivery()
            channel.basic_publish("", "latest", name.encode())

    publish("east")
    publish("west")
    assert leveret.queue("latest").ready[0].body == b"west"


# 23 A dead letter that is looked for when the message has only been delivered.
def refuses(channel: BlockingChannel, reply_to: str, body: bytes) -> None:
    channel.basic_reject(1, requeue=False)


def test_dead_letter_is_not_there_yet_flaky(leveret: Broker) -> None:
    leveret.declare_queue("dead")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    leveret.declare_queue("orders", arguments=arguments)
    with Service(leveret, "billing", "orders", refuses, acks="never"):
        leveret.publish(routing_key="orders", body=b"1")
        leveret.assert_delivered("orders", timeout=5)
        assert leveret.queue("dead").ready


def test_dead_letter_is_not_there_yet_mended(leveret: Broker) -> None:
    leveret.declare_queue("dead")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    leveret.declare_queue("orders", arguments=arguments)
    with Service(leveret, "billing", "orders", refuses, acks="never"):
        leveret.publish(routing_key="orders", body=b"1")
        leveret.assert_ready("dead", timeout=5)
        assert leveret.queue("dead").ready


# 24 An event for two subscribers: one is waited for, the other is looked at.
def test_waits_for_one_of_two_subscribers_flaky(leveret: Broker) -> None:
    leveret.declare_exchange("events", "fanout")
    for queue in ("audit", "mail"):
        leveret.declare_queue(queue)
        leveret.bind_queue(queue, "events")
    with Service(leveret, "audit", "audit", nothing), Service(leveret, "mail", "mail", nothing):
        leveret.publish("events", body=b"1")
        leveret.assert_acked("audit", timeout=5)
        leveret.assert_acked("mail")


def test_waits_for_one_of_two_subscribers_mended(leveret: Broker) -> None:
    leveret.declare_exchange("events", "fanout")
    for queue in ("audit", "mail"):
        leveret.declare_queue(queue)
        leveret.bind_queue(queue, "events")
    with Service(leveret, "audit", "audit", nothing), Service(leveret, "mail", "mail", nothing):
        leveret.publish("events", body=b"1")
        leveret.assert_acked("audit", timeout=5)
        leveret.assert_acked("mail", timeout=5)


# 25 A coroutine inside the test looks without waiting.
def test_a_coroutine_looks_at_once_flaky(leveret: Broker) -> None:
    leveret.declare_queue("orders")

    async def ship() -> None:
        connection = await aio_pika.connect(leveret.url, client_properties={"connection_name": "shop"})
        channel = await connection.channel()
        await channel.default_exchange.publish(aio_pika.Message(b"1"), "orders")
        await leveret.aio.assert_delivered("orders", timeout=5)
        leveret.assert_acked("orders")
        await connection.close()

    with Service(leveret, "billing", "orders", nothing):
        asyncio.run(ship())


def test_a_coroutine_looks_at_once_mended(leveret: Broker) -> None:
    leveret.declare_queue("orders")

    async def ship() -> None:
        connection = await aio_pika.connect(leveret.url, client_properties={"connection_name": "shop"})
        channel = await connection.channel()
        await channel.default_exchange.publish(aio_pika.Message(b"1"), "orders")
        await leveret.aio.assert_acked("orders", timeout=5)
        await connection.close()

    with Service(leveret, "billing", "orders", nothing):
        asyncio.run(ship())


# 26 A publisher that runs beside the test is taken for done, although its confirm is on its way.
def test_takes_a_publish_for_done_flaky(leveret: Broker) -> None:
    leveret.declare_queue("orders")
    done = threading.Event()

    def publish() -> None:
        with connected(leveret, "shop") as channel:
            channel.confirm_delivery()
            channel.basic_publish("", "orders", b"1")
            done.set()

    with threads(publish):
        leveret.assert_ready("orders", timeout=5)
        pause(0.03)
        assert done.is_set()


def test_takes_a_publish_for_done_mended(leveret: Broker) -> None:
    leveret.declare_queue("orders")
    done = threading.Event()

    def publish() -> None:
        with connected(leveret, "shop") as channel:
            channel.confirm_delivery()
            channel.basic_publish("", "orders", b"1")
            done.set()

    with threads(publish):
        leveret.assert_ready("orders", timeout=5)
        assert done.wait(5)


# 27 A binding that is removed beside a publish that still needs it.
def test_unbinds_too_early_flaky(leveret: Broker) -> None:
    leveret.declare_exchange("events", "fanout")
    leveret.declare_queue("audit")
    leveret.bind_queue("audit", "events")

    def publish() -> None:
        with connected(leveret, "shop") as channel:
            channel.basic_publish("events", "", b"created")

    def leave() -> None:
        with connected(leveret, "audit") as channel:
            channel.queue_unbind("audit", "events", "")

    with threads(publish, leave):
        pass
    assert leveret.queue("audit").ready


def test_unbinds_too_early_mended(leveret: Broker) -> None:
    leveret.declare_exchange("events", "fanout")
    leveret.declare_queue("audit")
    leveret.bind_queue("audit", "events")
    with connected(leveret, "shop") as channel:
        channel.confirm_delivery()
        channel.basic_publish("events", "", b"created")
    with connected(leveret, "audit") as channel:
        channel.queue_unbind("audit", "events", "")
    assert leveret.queue("audit").ready


# 28 Two services want a queue for themselves, and the test takes for granted who gets it.
def test_two_services_want_a_queue_alone_flaky(leveret: Broker) -> None:
    leveret.declare_queue("jobs")
    refused: list[str] = []
    have_asked = threading.Barrier(2, timeout=5)

    def consume(name: str) -> None:
        with connected(leveret, name) as channel:
            try:
                channel.basic_consume("jobs", lambda *message: None, exclusive=True)
            except pika.exceptions.ChannelClosedByBroker:
                refused.append(name)
            have_asked.wait()

    with threads(lambda: consume("leader"), lambda: consume("standby")):
        pass
    assert refused == ["standby"]


def test_two_services_want_a_queue_alone_mended(leveret: Broker) -> None:
    leveret.declare_queue("jobs")
    refused: list[str] = []
    have_asked = threading.Barrier(2, timeout=5)

    def consume(name: str) -> None:
        with connected(leveret, name) as channel:
            try:
                channel.basic_consume("jobs", lambda *message: None, exclusive=True)
            except pika.exceptions.ChannelClosedByBroker:
                refused.append(name)
            have_asked.wait()

    with threads(lambda: consume("leader"), lambda: consume("standby")):
        pass
    assert len(refused) == 1


# 29 A message that goes back is counted before it comes again.
def gives_back_once() -> Handler:
    tags: list[int] = []

    def handle(channel: BlockingChannel, reply_to: str, body: bytes) -> None:
        tags.append(len(tags) + 1)
        if len(tags) == 1:
            channel.basic_nack(tags[-1], requeue=True)
        else:
            channel.basic_ack(tags[-1])

    return handle


def test_counts_the_retry_too_early_flaky(leveret: Broker) -> None:
    leveret.declare_queue("orders")
    with Service(leveret, "billing", "orders", gives_back_once(), acks="never"):
        leveret.publish(routing_key="orders", body=b"1")
        leveret.assert_delivered("orders", timeout=5)
        pause(0.03)
        leveret.assert_delivered("orders", times=2)


def test_counts_the_retry_too_early_mended(leveret: Broker) -> None:
    leveret.declare_queue("orders")
    with Service(leveret, "billing", "orders", gives_back_once(), acks="never"):
        leveret.publish(routing_key="orders", body=b"1")
        leveret.assert_delivered("orders", times=2, timeout=5)


# 30 A queue that goes with its last consumer, and a message that comes after.
def test_publishes_to_a_queue_that_may_be_gone_flaky(leveret: Broker) -> None:
    leveret.declare_queue("news", auto_delete=True)

    def read() -> None:
        with connected(leveret, "reader") as channel:
            channel.basic_consume("news", lambda *message: None)
            channel.connection.process_data_events(time_limit=0.03)

    def publish() -> None:
        with connected(leveret, "editor") as channel:
            channel.basic_publish("", "news", b"1")

    with threads(read, publish):
        pass
    leveret.assert_delivered("news")


def test_publishes_to_a_queue_that_may_be_gone_mended(leveret: Broker) -> None:
    leveret.declare_queue("news", auto_delete=True)

    def read() -> None:
        with connected(leveret, "reader") as channel:
            for _ in channel.consume("news"):
                break

    def publish() -> None:
        with connected(leveret, "editor") as channel:
            channel.basic_publish("", "news", b"1")

    with threads(read, publish):
        pass
    leveret.assert_delivered("news")
