"""What the text of a failure says about how a message came to stand as it does: facts that take long to find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from leveret import Broker, WaitTimeoutError


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker with a queue `orders`, and an exchange `shop`."""
    with Broker(checks={"all": "off"}) as broker:
        broker.declare_queue("orders")
        broker.declare_exchange("shop", "topic")
        yield broker


@contextmanager
def client(broker: Broker, name: str) -> Iterator[BlockingChannel]:
    parameters = pika.URLParameters(broker.url)
    parameters.client_properties = {"connection_name": name}
    with pika.BlockingConnection(parameters) as connection:
        yield connection.channel()


def failure(call: Callable[..., object], *arguments: Any, **options: Any) -> str:
    with pytest.raises((AssertionError, WaitTimeoutError)) as raised:
        call(*arguments, **options)
    return str(raised.value)


def test_the_headers_of_the_nearest_message_are_shown(broker: Broker) -> None:
    with client(broker, "billing") as channel:
        headers = {"x-reason": "no such customer"}
        channel.basic_publish("", "orders", b"{}", pika.BasicProperties(headers=headers))

        text = failure(broker.assert_published, "", routing_key="invoices")

    assert "nearest: #1 ('', 'orders', '{}') from billing (c1/ch1), headers {'x-reason': 'no such customer'}" in text


def test_the_headers_of_a_death_are_not_repeated(broker: Broker) -> None:
    broker.declare_queue("dead")
    broker.declare_queue("dying", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    broker.publish("", "dying", b"x")
    with broker.consume("dying") as consumer:
        consumer.next().reject(requeue=False)

    assert ", headers" not in failure(broker.assert_acked, "dead")


@pytest.mark.parametrize("is_direct", [True, False])
def test_a_reply_with_another_correlation_id_than_its_request_says_so(broker: Broker, is_direct: bool) -> None:
    with client(broker, "asker") as asking, client(broker, "server") as serving:
        if is_direct:
            replies = "amq.rabbitmq.reply-to"
            asking.basic_consume(replies, lambda *_: None, auto_ack=True)
        else:
            replies = asking.queue_declare("", exclusive=True).method.queue
        asking.basic_publish("", "orders", b"ask", pika.BasicProperties(reply_to=replies, correlation_id="abc-1"))
        _, request, _ = serving.basic_get("orders", auto_ack=True)
        serving.basic_publish("", request.reply_to, b"answer", pika.BasicProperties(correlation_id="abc-2"))

        text = failure(broker.assert_published, "", body="answer!")

    assert "it has the correlation id 'abc-2', but the request #1 has 'abc-1'" in text


def test_a_reply_with_the_correlation_id_of_its_request_is_not_mentioned(broker: Broker) -> None:
    broker.declare_queue("replies")
    for number in ("1", "2"):
        broker.publish("", "orders", b"ask", reply_to="replies", correlation_id=number)
        broker.publish("", "replies", b"answer", correlation_id=number)

    assert "but the request" not in failure(broker.assert_published, "", body="answer!")


def test_a_wait_names_the_unacked_messages(broker: Broker) -> None:
    with client(broker, "worker") as worker:
        worker.basic_consume("orders", lambda *_: None)
        for _ in range(7):
            broker.publish("", "orders", b"x")

        text = failure(broker.wait_idle, timeout=0)

    assert text.endswith(": #1, #2, #3, #4, #5, 2 more")


def test_the_report_says_why_a_fault_never_fired(broker: Broker) -> None:
    broker.faults.nack_publishes(optional=True)
    with client(broker, "shop") as channel:
        channel.basic_publish("", "orders", b"x")
        broker.assert_ready("orders", timeout=5)

    report = broker._engine.report()

    assert (
        "<nack_publishes on basic.publish> never fired: 1 basic.publish did not match; its channel is not in confirm "
        "mode" in report
    )


def test_a_binding_with_a_typo_is_named_although_another_queue_took_the_message(broker: Broker) -> None:
    broker.declare_queue("invoices")
    broker.bind_queue("orders", "shop", "#")
    broker.bind_queue("invoices", "shop", "order.payd")

    broker.publish("shop", "order.paid", b"x")

    missed = "'invoices' is bound to 'shop' by 'order.payd'; 'order.paid' does not match 'order.payd': 'paid' is not"
    assert missed in failure(broker.assert_delivered, "invoices")
    assert missed in failure(broker.assert_ready, "invoices")


@pytest.mark.parametrize(("type", "key"), [("topic", "order.*"), ("direct", "order.paid"), ("fanout", "")])
def test_a_message_that_came_before_its_binding_says_so(broker: Broker, type: str, key: str) -> None:
    broker.declare_exchange("late", type)
    broker.bind_queue("orders", "late", "#" if type == "topic" else key)
    broker.declare_queue("invoices")

    with client(broker, "shop") as channel:
        channel.basic_publish("late", "order.paid", b"x")
        channel.queue_bind("invoices", "late", key)

        text = failure(broker.assert_delivered, "invoices")

    assert "it was published before 'invoices' was bound to 'late'" in text


def test_a_message_that_came_after_its_binding_does_not(broker: Broker) -> None:
    broker.bind_queue("orders", "shop", "order.*")
    broker.declare_queue("invoices", arguments={"x-max-length": 0})
    broker.bind_queue("invoices", "shop", "order.*")

    broker.publish("shop", "order.paid", b"x")
    broker.bind_queue("invoices", "shop", "order.*")

    assert "was bound" not in failure(broker.assert_acked, "invoices")


def test_a_message_that_waits_for_room_names_the_full_consumer(broker: Broker) -> None:
    with client(broker, "worker") as worker:
        worker.basic_qos(prefetch_count=1)
        worker.basic_consume("orders", lambda *_: None)
        broker.publish("", "orders", b"1")
        broker.publish("", "orders", b"2")

        text = failure(broker.assert_delivered, "orders", body="2")

    assert "never delivered: worker (c1/ch1) is at its prefetch of 1" in text


def test_a_message_that_was_given_back_and_waits_for_room_names_the_full_consumer(broker: Broker) -> None:
    with client(broker, "getter") as getter, client(broker, "worker") as worker:
        broker.publish("", "orders", b"1")
        method, _, _ = getter.basic_get("orders")
        worker.basic_qos(prefetch_count=1)
        worker.basic_consume("orders", lambda *_: None)
        broker.publish("", "orders", b"2")
        getter.basic_nack(method.delivery_tag)
        getter.queue_declare("orders", passive=True)

        text = failure(broker.assert_acked, "orders", body="1")

    assert "ready again in 'orders' after 1 delivery attempt: worker (c2/ch1) is at its prefetch of 1" in text


@pytest.mark.parametrize(
    ("leave", "how"),
    [
        (lambda channel: channel.connection.close(), "its consumer went with worker (c1), closed 5 s ago"),
        (lambda channel: channel.close(), "its consumer went with channel c1/ch1, closed 5 s ago"),
        (lambda channel: channel.basic_cancel("tag"), "its consumer, of worker (c1/ch1), was cancelled 5 s ago"),
    ],
)
def test_a_queue_without_consumers_says_how_it_lost_the_last_one(
    broker: Broker, leave: Callable[[BlockingChannel], None], how: str
) -> None:
    broker.clock.hold()
    parameters = pika.URLParameters(broker.url)
    parameters.client_properties = {"connection_name": "worker"}
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.basic_consume("orders", lambda *_: None, consumer_tag="tag")
    leave(channel)
    broker.publish("", "orders", b"x")
    broker.clock.advance(5, settle=0)

    assert f"; {how}; the clock is held" in failure(broker.wait_for_consumer, "orders", timeout=0)
    assert f"has no consumers: {how}" in failure(broker.assert_acked, "orders")
    assert f"the queue has no consumers: {how}" in failure(broker.assert_empty, "orders")
    if connection.is_open:
        connection.close()


def test_a_consumer_that_came_back_is_not_reported_as_lost(broker: Broker) -> None:
    for _ in range(2):
        with client(broker, "worker") as worker:
            worker.basic_consume("orders", lambda *_: None)
            assert broker.wait_for_consumer("orders").connection == "worker"
    with broker.consume("orders"):
        broker.publish("", "orders", b"x")

        assert "its consumer" not in failure(broker.assert_acked, "orders")


def test_frames_of_two_threads_lead_to_the_rule_of_pika(broker: Broker) -> None:
    parameters = pika.URLParameters(broker.url)
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    # What a second thread does between the method and the content of a publish.
    for _ in range(2):
        channel._impl._send_method(pika.spec.Basic.Publish(exchange="", routing_key="orders"))
    with pytest.raises(pika.exceptions.AMQPError):
        connection.process_data_events(5)

    report = broker._engine.report()

    assert "got 505 UNEXPECTED_FRAME" in report
    assert "A connection of pika belongs to one thread: open one for each" in report


def test_an_argument_that_differs_names_who_declared_the_queue(broker: Broker) -> None:
    with client(broker, "shop") as channel:
        channel.queue_declare("invoices", durable=True)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            channel.queue_declare("invoices", durable=True, arguments={"x-max-length": 5})

    assert "Queue 'invoices' exists, declared in another way by shop (c1/ch1). Declare" in broker._engine.report()
