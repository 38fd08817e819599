"""Messages that are requeued again and again: the check, and what `wait_idle` says of them."""

from __future__ import annotations

from collections.abc import Callable

import pika
import pytest

from leveret import Broker, WaitTimeoutError

Channel = pika.adapters.blocking_connection.BlockingChannel


def nack(channel: Channel, tag: int) -> None:
    channel.basic_nack(tag, requeue=True)


def reject(channel: Channel, tag: int) -> None:
    channel.basic_reject(tag, requeue=True)


def get_often(channel: Channel, queue: str, count: int, settle: Callable[[Channel, int], None] = nack) -> None:
    """Get a message and requeue it, `count` times."""
    for _ in range(count):
        settle(channel, channel.basic_get(queue)[0].delivery_tag)


@pytest.fixture
def work(connect):
    """Let a worker requeue the messages of a queue `count` times, and hold the last delivery."""

    def work(broker: Broker, queue: str = "orders.work", count: int = 5, **arguments: object) -> Channel:
        channel = connect(broker, "worker").channel()
        if queue != "orders.work":
            channel.queue_declare(queue, durable=True, arguments=arguments["arguments"])
        broker.publish("", queue, b"poison")
        get_often(channel, queue, count)
        channel.basic_get(queue)
        return channel

    return work


def test_a_message_that_comes_back_a_hundred_times_is_reported(broker, connect, found):
    broker.publish("", "orders.work", b"poison")
    get_often(connect(broker, "worker").channel(), "orders.work", 101)

    text = found(broker)["redelivered_too_often"]

    assert "1 message requeued and redelivered again and again" in text
    assert "in queue 'orders.work': '' 'orders.work' 'poison', published by the test at " in text
    assert "; redelivered 100 times, last to worker; a classic queue has no delivery limit" in text
    assert "broker.allow(\"redelivered_too_often\", queue='orders.work')" in text


def test_ninety_nine_redeliveries_are_not_reported(broker, connect, found):
    broker.publish("", "orders.work", b"poison")
    get_often(connect(broker).channel(), "orders.work", 100)

    assert "redelivered_too_often" not in found(broker)


def test_a_loop_of_a_consumer_counts_and_is_reported_once(broker, connect, found):
    channel = connect(broker, "worker").channel()
    broker.publish("", "orders.work", b"poison")
    for method, _, _ in channel.consume("orders.work"):
        nack(channel, method.delivery_tag)
        if method.delivery_tag == 150:
            break
    channel.cancel()

    assert "last to worker" in found(broker)["redelivered_too_often"]
    get_often(channel, "orders.work", 10)
    assert "redelivered_too_often" not in found(broker)


def test_the_number_is_an_option_of_the_broker(connect, found):
    with Broker(checks="warning", max_redeliveries=3) as broker:
        broker.declare_queue("jobs")
        broker.publish("", "jobs", b"poison")
        broker.publish("", "jobs", b"behind")
        get_often(connect(broker).channel(), "jobs", 4)

        text = found(broker)["redelivered_too_often"]

        assert "redelivered 3 times" in text
        assert "1 message" in text


@pytest.mark.parametrize("number", [0, -1, True, "3", 2.5])
def test_a_number_that_is_none_is_refused(number):
    with pytest.raises(ValueError, match=r"max_redeliveries=.* must be a whole number of 1 or more"):
        Broker(max_redeliveries=number)


def test_wait_idle_names_the_message_that_comes_back(broker, work):
    work(broker)

    with pytest.raises(WaitTimeoutError) as raised:
        broker.wait_idle(timeout=0.01)

    first_line = str(raised.value).partition("\n")[0]
    assert first_line.startswith("not idle after 0.01 s: 1 unacked on orders.work held by a basic.get of worker for ")
    assert first_line.endswith(
        "; message #1 was delivered 5 times from orders.work and requeued each time: "
        "a classic queue has no delivery limit"
    )


def test_wait_idle_names_no_message_that_was_delivered_once(broker, work):
    work(broker, count=0)

    with pytest.raises(WaitTimeoutError) as raised:
        broker.wait_idle(timeout=0.01)

    assert "requeued each time" not in str(raised.value)


def test_the_message_that_came_back_most_often_is_named_first(broker, connect):
    channel = connect(broker).channel()
    for number, count in enumerate((3, 7, 5, 4)):
        broker.declare_queue(f"jobs.{number}")
        broker.publish("", f"jobs.{number}", b"%d" % number)
        get_often(channel, f"jobs.{number}", count)
    channel.basic_get("jobs.0")

    with pytest.raises(WaitTimeoutError) as raised:
        broker.wait_idle(timeout=0.01)

    named = [part.partition(":")[0] for part in str(raised.value).partition("\n")[0].split("; ")[1:]]
    assert named == [
        f"message #{number} was delivered {count} times from jobs.{number - 1} and requeued each time"
        for number, count in ((2, 7), (3, 5), (4, 4))
    ]


@pytest.mark.parametrize(
    ("rabbitmq", "arguments", "rule"),
    [
        (
            "4.3",
            {"x-delivery-limit": 2},
            "on RabbitMQ 4.3 only basic.reject and lost channels count towards the delivery limit of 2; "
            "before 4.3, basic.nack and basic.recover did too",
        ),
        ("4.3", {}, "on RabbitMQ 4.3 only basic.reject and lost channels count towards the delivery limit of 20"),
        ("4.3", {"x-delivery-limit": -1}, "the queue has switched its delivery limit off"),
        ("4.0", {}, "the queue has a delivery limit of 20"),
        ("3.13", {}, "RabbitMQ 3.13 has no delivery limit by default, and the queue sets none"),
    ],
)
def test_the_rule_of_the_version_is_told(work, rabbitmq, arguments, rule):
    with Broker(rabbitmq=rabbitmq, checks="off") as broker:
        work(broker, "jobs", arguments={"x-queue-type": "quorum", **arguments})

        with pytest.raises(WaitTimeoutError) as raised:
            broker.wait_idle(timeout=0.01)

        assert f"message #1 was delivered 5 times from jobs and requeued each time: {rule}" in str(raised.value)


def test_a_delivery_limit_that_counts_ends_the_loop(broker, connect, found):
    channel = connect(broker).channel()
    channel.queue_declare("jobs", durable=True, arguments={"x-queue-type": "quorum", "x-delivery-limit": 3})
    broker.publish("", "jobs", b"poison")
    get_often(channel, "jobs", 4, reject)
    broker.wait_idle()

    assert "redelivered_too_often" not in found(broker)
