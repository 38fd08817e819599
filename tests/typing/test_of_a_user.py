"""The tests of a user who checks them strictly: they pass when they run, and neither mypy nor pyright objects.

Keep this file as a user would write it. tests/typing/test_checkers.py runs the type checkers on a copy.
"""

# pyright: strict, reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
from __future__ import annotations

import re
from contextlib import suppress
from unittest.mock import ANY

import aio_pika
import pika
import pika.exceptions
import pytest
from aio_pika.abc import AbstractIncomingMessage
from pytest_leveret import MakeLeveret

import leveret as leveret_package
from leveret import (
    Broker,
    BrokerError,
    CheckName,
    Delivered,
    EventKind,
    Exploration,
    MessageView,
    QueueView,
    RabbitMQVersion,
    Recorder,
    Reply,
    Rule,
    ScriptedConsumer,
    explore,
)
from leveret.faults import Delay, ResetPeer

OLDEST: RabbitMQVersion = "3.10"
SETTLED: tuple[EventKind, ...] = ("acked", "nacked", "rejected")


def publish_order(broker: Broker, number: int) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.queue_declare("orders", durable=True)
    channel.basic_publish("", "orders", b'{"id": %d}' % number, pika.BasicProperties(delivery_mode=2))
    connection.close()


async def acknowledge(message: AbstractIncomingMessage) -> None:
    await message.ack()


def one_ready(view: QueueView) -> MessageView:
    (message,) = view.ready
    return message


def test_an_order_is_published(leveret: Broker) -> None:
    publish_order(leveret, 7)

    message = leveret.assert_published("", routing_key="orders", json={"id": 7}, delivery_mode=2)
    assert leveret.assert_published("", json_contains={"id": 7}).json == message.json
    assert message.routing_key.upper() == "ORDERS"
    assert (message.message_id or "none") == "none"
    assert one_ready(leveret.queue("orders")).json["id"] == 7
    assert leveret.queue("orders").consumers == ()


def test_two_orders_are_published(leveret: Broker) -> None:
    publish_order(leveret, 7)
    publish_order(leveret, 8)

    published = leveret.assert_published("", times=2, body=re.compile("id"), headers=ANY)
    assert [message.json["id"] for message in published] == [7, 8]
    leveret.assert_not_published("amq.topic")


@pytest.mark.asyncio
async def test_an_order_is_handled_on_an_event_loop(leveret: Broker) -> None:
    async with await aio_pika.connect(leveret.url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("orders", durable=True)
        await queue.consume(acknowledge)
        await channel.default_exchange.publish(aio_pika.Message(b"1"), "orders")
        await channel.default_exchange.publish(aio_pika.Message(b"2"), "orders")

        consumer = await leveret.aio.wait_for_consumer("orders")
        assert consumer.tag.startswith("ctag")
        first = await leveret.aio.assert_acked("orders", timeout=5)
        assert first.body == b"1"
        both = await leveret.aio.assert_acked("orders", times=2, timeout=5)
        assert both[1].body == b"2"
        await leveret.aio.wait_idle(timeout=5)
        assert await leveret.aio.assert_ready("orders", times=0) == []
        await leveret.aio.assert_empty("orders", timeout=5)
        await leveret.aio.clock.advance(minutes=1, settle=0.1)
    leveret.clock.release()


def test_faults(leveret: Broker) -> None:
    lost: Rule = leveret.faults.reset_peer(on="queue.declare", client=ANY, times=1, optional=True)
    with leveret.faults.add(on="basic.publish", do=Delay(1.0), sent_by="client", queue=None, optional=True) as rule:
        assert rule.fired == 0
    leveret.faults.refuse_connections("login", after=100, probability=0.5, optional=True)
    leveret.faults.withhold("queue.declare-ok", connection=1, optional=True).remove()
    leveret.faults.drop(exchange="shop", routing_key="order.*", json_contains={"id": 7}, message_id="m1", optional=True)
    with pytest.raises(pika.exceptions.AMQPError):
        publish_order(leveret, 7)
    assert lost.fired == 1
    assert isinstance(leveret.faults.rules[0].fault, ResetPeer)


def test_the_clock(leveret: Broker) -> None:
    leveret.declare_queue("orders", arguments={"x-message-ttl": 60_000})
    leveret.publish("", "orders", b"late", expiration="90000", priority=1, headers={"tenant": "a"})

    with leveret.allow("expired_into_nothing", queue="orders"):
        leveret.clock.advance(59)
        assert leveret.queue("orders").ready[0].expires_at is not None
        leveret.clock.advance(seconds=2, settle=0)
    dropped = leveret.assert_dropped("orders", reason="expired")
    assert dropped.headers == {"tenant": "a"}
    leveret.clock.release()


def test_autojump(leveret: Broker) -> None:
    leveret.declare_queue("orders", arguments={"x-expires": 5000})

    with leveret.clock.autojump(limit=10) as jump:
        leveret.wait_idle()
        assert jump.is_on


def test_the_operator(leveret: Broker) -> None:
    leveret.admin.add_vhost("shop")
    leveret.admin.add_user("bob", "secret", tags=["monitoring"])
    leveret.admin.set_permissions("bob", "shop", configure="", write=".*", read=".*")
    leveret.admin.set_policy("limit", "^orders", {"max-length": 10}, priority=1, apply_to="queues")

    assert leveret.url_for("shop", "bob").endswith("/shop")
    assert leveret.admin.list_users()["bob"] == ("monitoring",)
    with pytest.raises(BrokerError, match="bobby"):
        leveret.admin.delete_user("bobby")


def test_events(leveret: Broker) -> None:
    leveret.declare_queue("orders")
    leveret.publish("", "orders", b"1", message_id="m1")

    recorder: Recorder = leveret.events
    (event,) = recorder.query("published", where=lambda each: each.message.body == b"1")
    assert event.message.routing_key == "orders"
    assert event.message.properties.message_id == "m1"
    assert recorder.query(*SETTLED) == []
    assert recorder.query("enqueued", "delivered", queue="orders")[0].kind == "enqueued"


def test_a_consumer_in_the_tests_hand(leveret: Broker) -> None:
    leveret.declare_queue("orders", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    leveret.declare_queue("dead")
    leveret.publish("", "orders", json={"id": 7})

    with leveret.consume("orders", prefetch=1, ack="manual") as consumer:
        message = take(consumer)
        message.nack(requeue=True)
        take(consumer).reject(requeue=False)
    assert leveret.assert_requeued("orders", reason="nacked").json == {"id": 7}
    (letter,) = leveret.assert_dead_lettered("orders", to="dead", reason="rejected", times=1)
    assert letter.deaths[0].count == 1
    leveret.admin.close_all_connections()


def take(consumer: ScriptedConsumer) -> Delivered:
    return consumer.next(timeout=5)


def test_answers(leveret: Broker) -> None:
    with leveret.respond("prices", [Reply(json={"price": 3}, headers={"v": 1}, type="price"), b"none"]) as responder:
        replies = leveret.declare_queue(auto_delete=True)
        leveret.publish("", "prices", b"?", reply_to=replies.name, correlation_id="1")
        leveret.wait_idle()
        assert responder.count == 1
        assert leveret.queue(replies.name).ready[0].correlation_id == "1"
        leveret.queue(replies.name).ready[0].json["price"] += 1


def test_refusals(leveret: Broker) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(leveret.url))
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        connection.channel().queue_declare("missing", passive=True)

    refused = leveret.assert_refused(404, text="missing")
    assert refused.code == 404
    assert "missing" in refused.text
    (view,) = leveret.connections
    assert view.peer[0] == "127.0.0.1"
    connection.close()


def test_many_brokers(make_leveret: MakeLeveret) -> None:
    check: CheckName = "left_ready"
    first = make_leveret(rabbitmq=OLDEST, checks={check: "error", "all": "warning"}, users={"bob": "secret"})
    second = make_leveret(record="off", checks="unroutable=off", seed=2)

    assert first.rabbitmq == "3.10"
    assert first.port != second.port


def test_every_way_it_fails() -> None:
    def scenario(broker: Broker) -> None:
        broker.declare_queue("orders", durable=True)
        with suppress(pika.exceptions.AMQPError):
            publish_order(broker, 7)

    found: Exploration = explore(scenario, faults=["lost before"], on="basic.publish", rabbitmq="4.3", seed=1)
    assert found.failed == []
    assert leveret_package.__version__.split(".")
