"""`leveret.replay`: recorded messages are published to the code under test, and their outcomes are judged."""

from __future__ import annotations

import json
import os
import select
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import amqp
import pika
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from leveret import Broker
from leveret.errors import BrokerError, UnreadableTraceError

from .conftest import Recording, order
from .services import serve

Orders = Callable[..., Path]
COUNT = 20


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(checks="all=off") as broker:
        yield broker


@pytest.fixture
def bodies(orders: Orders) -> Path:
    return orders([order(number) for number in range(COUNT)])


def declare(broker: Broker, **arguments: object) -> None:
    broker.declare_exchange("orders", "topic")
    broker.declare_queue("billing", arguments=arguments)
    broker.bind_queue("billing", "orders", "#")


def test_each_message_is_published_once_the_code_has_settled_the_last(broker: Broker, bodies: Path) -> None:
    replay = broker.replay(bodies)
    with broker.worker(serve):
        outcomes = replay.play()

    assert outcomes.of(1) == [
        "ended billing: acked",
        "field invoices 'invoice.made' invoice body.currency: \"EUR\"",
        "field invoices 'invoice.made' invoice body.customer.name: \"h4sh\"",
        "field invoices 'invoice.made' invoice body.is_paid: false",
        "field invoices 'invoice.made' invoice body.lines[].sku: \"a1\"",
        *(
            "field invoices 'invoice.made' invoice body.note: null",
            "field invoices 'invoice.made' invoice body.order: 1",
        ),
        "field invoices 'invoice.made' invoice body.total: 12.6",
        *(
            "field invoices 'invoice.made' invoice headers.level: 3",
            "field invoices 'invoice.made' invoice headers.tenant: \"rome\"",
        ),
        "field invoices 'invoice.made' invoice properties.content_type: \"application/json\"",
        "field invoices 'invoice.made' invoice properties.correlation_id: {properties.message_id}",
        "field invoices 'invoice.made' invoice properties.delivery_mode: 2",
        "field invoices 'invoice.made' invoice properties.type: \"invoice\"",
        "sent invoices 'invoice.made' invoice: once",
    ]
    assert outcomes.of(5) == ["ended billing: rejected to billing.dead"]
    assert broker.queue("billing.dead").ready[0].json["id"] == 5


def test_a_recording_declares_what_the_server_had(broker: Broker, orders: Orders) -> None:
    definitions = {
        "exchanges": [{"name": "orders", "type": "topic", "durable": True, "auto_delete": False, "arguments": {}}],
        "queues": [{"name": "billing", "durable": True, "auto_delete": False, "arguments": {}}],
        "bindings": [
            {
                "source": "orders",
                "destination": "billing",
                "destination_type": "queue",
                "routing_key": "#",
                "arguments": {},
            }
        ],
    }
    path = orders([order(0)], definitions=definitions)

    outcomes = broker.replay(path).play()

    assert outcomes.of(1) == ["ended billing: left in the queue"]
    with Broker() as other, pytest.raises(BrokerError, match="no exchange 'orders'"):
        other.replay(path, declare=False).play()


def test_a_client_that_looks_into_a_queue_now_and_then_is_waited_for(broker: Broker, orders: Orders) -> None:
    declare(broker)
    has_looked, is_over = Event(), Event()

    def poll() -> None:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            while not is_over.is_set():
                channel.basic_get("billing", auto_ack=True)
                has_looked.set()
                connection.process_data_events(0.2)

    with ThreadPoolExecutor() as threads:
        threads.submit(poll)
        assert has_looked.wait(10)
        outcomes = broker.replay(orders([order(0)])).play()
        is_over.set()

    assert outcomes.of(1) == ["ended billing: acked by no-ack"]


def test_what_a_client_sends_after_a_pause_is_waited_for_once_it_sent_something_late(
    broker: Broker, orders: Orders
) -> None:
    declare(broker)
    broker.declare_queue("invoices")
    is_ready, is_over = Event(), Event()

    def serve() -> None:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()

            def on_order(channel: Any, method: pika.spec.Basic.Deliver, _: object, body: bytes) -> None:
                channel.basic_ack(method.delivery_tag)
                pause = 0 if method.delivery_tag == 1 else 0.3
                connection.call_later(pause, partial(channel.basic_publish, "", "invoices", body))

            channel.basic_consume("billing", on_order)
            is_ready.set()
            while not is_over.is_set():
                connection.process_data_events(0.05)

    with ThreadPoolExecutor() as threads:
        threads.submit(serve)
        assert is_ready.wait(10)
        outcomes = broker.replay(orders([order(0), order(1)])).play()
        is_over.set()

    assert "sent 'invoices': 2 times" in outcomes.of(0)


def test_a_client_that_closes_its_connection_and_opens_another_is_waited_for(broker: Broker, orders: Orders) -> None:
    declare(broker)
    is_over = Event()

    def serve_in_turns(count: int) -> None:
        # It is away for a while after each connection.
        while not is_over.wait(0.2):
            with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
                channel, taken = connection.channel(), []
                channel.basic_qos(prefetch_count=1)

                def on_order(channel: Any, method: pika.spec.Basic.Deliver, *rest: object, taken: list[int]) -> None:
                    taken.append(method.delivery_tag)
                    if len(taken) == count:
                        # Nothing is on its way to it when it closes the connection.
                        channel.basic_cancel(method.consumer_tag)
                    channel.basic_ack(method.delivery_tag)

                channel.basic_consume("billing", partial(on_order, taken=taken))
                while len(taken) < count and not is_over.is_set():
                    connection.process_data_events(0.1)

    with ThreadPoolExecutor() as threads:
        threads.submit(serve_in_turns, 2)
        broker.wait_for_consumer("billing")
        outcomes = broker.replay(orders([order(number) for number in range(9)])).play(settle=10)
        is_over.set()

    assert [outcomes.of(number) for number in range(1, 10)] == [["ended billing: acked"]] * 9


def test_a_client_that_has_gone_for_good_leaves_what_follows_in_the_queue(broker: Broker, bodies: Path) -> None:
    declare(broker)

    def serve_one() -> None:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            channel.basic_qos(prefetch_count=1)
            method, _, _ = next(channel.consume("billing"))
            channel.basic_ack(method.delivery_tag)

    with ThreadPoolExecutor() as threads:
        threads.submit(serve_one)
        broker.wait_for_consumer("billing")
        outcomes = broker.replay(bodies).play(settle=0.1)

    assert outcomes.of(1) == ["ended billing: acked"]
    assert {tuple(outcomes.of(number)) for number in range(3, COUNT + 1)} == {("ended billing: left in the queue",)}


def test_time_moves_by_the_recorded_spans(broker: Broker, bodies: Path) -> None:
    declare(broker, **{"x-message-ttl": 5_500})
    began = broker.clock.now

    outcomes = broker.replay(bodies).play(then=60)

    expired = [event.at / 1_000_000 - began for event in broker.events.query("expired")]
    assert expired == pytest.approx([number + 5.5 for number in range(COUNT)], abs=0.1)
    assert outcomes.of(1) == ["ended billing: expired"]


def test_a_retry_comes_between_the_messages_that_it_came_between(broker: Broker, orders: Orders) -> None:
    declare(broker)
    retry = {"x-message-ttl": 2_500, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "billing"}
    broker.declare_queue("retry", arguments=retry)
    order_of_ids: list[int] = []
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()

        def on_order(_: object, method: pika.spec.Basic.Deliver, properties: object, body: bytes) -> None:
            order_of_ids.append(json.loads(body)["id"])
            if order_of_ids == [1]:
                channel.basic_publish("", "retry", body)
            channel.basic_ack(method.delivery_tag)

        channel.basic_consume("billing", on_order)
        with running(connection):
            broker.replay(orders([order(number) for number in range(5)])).play()

    assert order_of_ids == [1, 2, 3, 1, 4, 5]


def test_a_message_that_its_client_keeps_does_not_hold_up_the_others(broker: Broker, bodies: Path) -> None:
    declare(broker)
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.basic_consume("billing", lambda *_: None)
        with running(connection):
            outcomes = broker.replay(bodies).play(settle=0.2)

    assert {outcomes.of(number)[0] for number in range(1, COUNT + 1)} == {
        "ended billing: not settled before settle= ran out"
    }


def test_a_message_that_is_settled_late_counts_as_settled(broker: Broker, bodies: Path) -> None:
    declare(broker)
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()

        def on_order(_: object, method: pika.spec.Basic.Deliver, *rest: object) -> None:
            if method.delivery_tag % 5 == 0:
                channel.basic_ack(method.delivery_tag, multiple=True)

        channel.basic_consume("billing", on_order)
        with running(connection):
            outcomes = broker.replay(bodies).play(settle=0.2)

    assert {outcomes.of(number)[0] for number in range(1, COUNT + 1)} == {"ended billing: acked"}


def test_messages_are_chosen_by_a_function_a_number_and_a_limit(broker: Broker, bodies: Path) -> None:
    declare(broker)

    replay = broker.replay(bodies, where=lambda message: message.json["total"] > 50, first=6, limit=3)

    assert [it.number for it in replay.messages] == [6, 7, 10]
    replay.play()
    assert [message.json["id"] for message in broker.queue("billing").ready] == [6, 7, 10]


def test_a_recording_is_multiplied_with_new_ids(broker: Broker, orders: Orders) -> None:
    ident = "0b0c0d0e-1111-4222-8333-444455556666"
    declare(broker)

    broker.replay(orders([{"id": ident, "again": ident}]), times=3).play()

    found = [message.json for message in broker.queue("billing").ready]
    assert found[0] == {"id": ident, "again": ident}
    assert len({body["id"] for body in found}) == 3
    assert all(body["id"] == body["again"] for body in found)


def test_dates_are_moved_to_today(broker: Broker, orders: Orders) -> None:
    declare(broker)
    # The recording began at 2026-09-21T14:13:20Z.
    body = {"at": "2026-09-21T14:13:20Z", "due": "2026-10-05", "ms": 1_790_000_000_123, "part": 4_111_111_111}

    broker.replay(orders([body]), today=True).play()

    moved = broker.queue("billing").ready[0].json
    at = datetime.fromisoformat(moved["at"])
    assert abs((datetime.now(UTC) - at).total_seconds()) < 86_400
    assert (datetime.fromisoformat(moved["due"]).date() - at.date()).days in (13, 14)
    assert abs(moved["ms"] / 1000 - at.timestamp()) < 2
    assert moved["part"] == 4_111_111_111


def test_all_at_once_is_a_mode_of_its_own(broker: Broker, bodies: Path) -> None:
    replay = broker.replay(bodies)
    with broker.worker(serve):
        outcomes = replay.play(order="as recorded")

    assert outcomes.of(5) == ["ended billing: rejected to billing.dead"]
    assert [line for line in outcomes.of(0) if not line.startswith("field")] == [
        *("arrived invoices: left in the queue (19 times)", "sent invoices 'audit.big': 3 times"),
        "sent invoices 'invoice.made' invoice: 16 times",
    ]


def test_a_damaged_recording_is_one_line(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "orders.rec").write_bytes(b"PNG")

    with pytest.raises(UnreadableTraceError, match=r"orders\.rec is no recording"):
        broker.replay(tmp_path / "orders.rec")


def test_an_order_that_is_unknown_is_refused(broker: Broker, bodies: Path) -> None:
    with pytest.raises(ValueError, match=r"order='sorted' is unknown; expected one of one at a time, as recorded"):
        broker.replay(bodies).play(order="sorted")


def test_a_recording_of_which_nothing_is_left_is_refused(broker: Broker, bodies: Path) -> None:
    with pytest.raises(BrokerError, match=r"none of the 20 messages of .* is left to publish"):
        broker.replay(bodies, first=21)


def test_an_asynchronous_test_awaits_a_replay(bodies: Path) -> None:
    import asyncio

    async def run() -> list[str]:
        async with Broker(checks="all=off") as broker:
            declare(broker)
            return (await broker.replay(bodies).aio.play()).of(1)

    assert asyncio.run(run()) == ["ended billing: left in the queue"]


def receive() -> None:
    channel = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"])).channel()
    channel.basic_consume("hello", lambda *_: None, auto_ack=True)
    channel.start_consuming()


def test_an_application_that_keploy_hangs_on_is_recorded_and_replayed(
    server: Broker, broker: Broker, recording: Recording
) -> None:
    # The application of https://github.com/keploy/keploy/issues/2830.
    app = FastAPI()

    @app.get("/publish")
    def send_message() -> dict[str, str]:
        with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
            channel = connection.channel()
            channel.queue_declare(queue="hello", durable=True)
            channel.basic_publish(exchange="", routing_key="hello", body="Hello, RabbitMQ!")
        return {"message": "Sent 'Hello, RabbitMQ!'"}

    server.admin.trace_on()
    with recording("--queue", "hello", "--firehose") as path:
        assert TestClient(app).get("/publish").json() == {"message": "Sent 'Hello, RabbitMQ!'"}
    broker.declare_queue("hello")
    replay = broker.replay(path)
    with broker.worker(receive):
        outcomes = replay.play()

    assert replay.messages[0].message.body == b"Hello, RabbitMQ!"
    assert outcomes.of(1) == ["ended hello: acked by no-ack"]


def test_what_the_recorded_service_sent_is_compared_with_what_the_code_sends(
    server: Broker, broker: Broker, recording: Recording
) -> None:
    server.declare_exchange("invoices", "topic")
    server.admin.trace_on()
    with (
        recording("--queue", "billing", "--firehose", limit=6) as path,
        pika.BlockingConnection(pika.URLParameters(server.url)) as connection,
    ):
        channel = connection.channel()
        for number in range(3):
            sent = {"headers": {"tenant": "rome"}, "message_id": f"order-{number}"}
            server.publish("orders", "order.made", json=order(0) | {"id": number}, **sent)
            method, _, _ = next(channel.consume("billing"))
            channel.basic_publish(
                "invoices" if number else "", "invoice.made", b"{}", pika.BasicProperties(type="invoice")
            )
            channel.basic_ack(method.delivery_tag)
            # All of that has arrived once this is answered.
            channel.queue_declare("billing", passive=True)
    replay = broker.replay(path, declare=False)
    with broker.worker(serve):
        outcomes = replay.play()

    assert [it.number for it in replay.messages] == [1, 3, 5]
    with pytest.raises(AssertionError) as error:
        outcomes.assert_as_recorded()
    assert str(error.value).splitlines()[1:] == [
        "sends 'invoice.made' invoice 0 times, and 1 time in the recording",
        "sends invoices 'invoice.made' invoice 3 times, and 2 times in the recording",
    ]


def test_a_recording_without_the_firehose_does_not_hold_what_was_sent(broker: Broker, bodies: Path) -> None:
    declare(broker)

    with pytest.raises(BrokerError, match="does not hold what the service sent; record it with --firehose --queue"):
        broker.replay(bodies).play().assert_as_recorded()


class running:
    """A thread in which pika serves a connection, until the end of the block."""

    def __init__(self, connection: pika.BlockingConnection) -> None:
        from threading import Event, Thread

        self._connection, self._over = connection, Event()
        self._thread = Thread(target=self._serve)

    def _serve(self) -> None:
        while not self._over.is_set():
            self._connection.process_data_events(0.05)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def test_a_client_that_sleeps_before_its_acks_has_settled_every_message(broker: Broker, orders: Orders) -> None:
    declare(broker)
    recording = broker.replay(orders([order(number) for number in range(3)]))
    with broker.worker(acks_when_something_arrives):
        outcomes = recording.play()

    assert [outcomes.of(number) for number in (1, 2, 3)] == [["ended billing: acked"]] * 3


def test_time_moves_on_once_a_client_that_sleeps_before_its_acks_has_settled(broker: Broker) -> None:
    declare(broker)
    delays = {"x-message-ttl": 1000, "x-dead-letter-exchange": "orders"}
    broker.declare_queue("delays", arguments=delays)
    with broker.worker(acks_when_something_arrives), broker.clock.hold():
        broker.publish("", "delays", b"late")
        broker.clock.advance(seconds=2, settle=5)

        broker.assert_acked("billing", times=1)


def acks_when_something_arrives() -> None:
    """Consume as Celery's worker with the solo pool may: its loop sleeps with acks that it has yet to send."""
    connection = amqp.Connection(os.environ["AMQP_URL"].split("@")[-1].strip("/"), heartbeat=600)
    connection.connect()
    messages: list[amqp.Message] = []
    connection.channel().basic_consume("billing", callback=messages.append)
    while True:
        select.select([connection.sock], [], [])
        for message in messages:
            message.channel.basic_ack(message.delivery_tag)
        messages.clear()
        with suppress(TimeoutError, BlockingIOError):
            connection.drain_events(timeout=0.001)
