"""The checks of lost messages."""

from __future__ import annotations

import re

import pika
import pytest
from celery import Celery

from leveret import Broker


def test_a_message_without_a_queue_is_reported_with_its_line_and_the_bindings(broker, found):
    broker.publish("orders", "odrer.created", b"a book")

    text = found(broker)["unroutable"]

    assert "1 message lost: routed to no queue, unnoticed by the publisher" in text
    assert "'orders' 'odrer.created' 'a book', published by the test at " in text
    assert "test_losses.py:" in text
    assert "'odrer.created' matches no binding of 'orders' ('order.#' to 'orders.work')" in text
    assert "broker.allow(\"unroutable\", exchange='orders')" in text


def test_a_client_that_publishes_nowhere_is_named(broker, connect, found):
    channel = connect(broker).channel()
    channel.basic_publish("", "orders.wrok", b"1")
    channel.basic_publish("", "orders.wrok", b"1")

    text = found(broker)["unroutable"]

    assert "2 messages" in text
    assert "published by shop (c1/ch1); there is no queue 'orders.wrok' (nearest: 'orders.work') (x2)" in text


def test_a_mandatory_message_that_came_back_is_not_lost(broker, connect, found):
    channel = connect(broker).channel()
    channel.confirm_delivery()
    with pytest.raises(Exception, match="returned"):
        channel.basic_publish("", "nowhere", b"1", mandatory=True)

    assert "unroutable" not in found(broker)


def test_events_of_celery_without_a_listener_are_not_reported(broker, found):
    broker.declare_exchange("celeryev", "topic")
    broker.publish("celeryev", "worker.heartbeat")

    assert found(broker) == {}


def test_a_rejected_message_without_a_dead_letter_exchange_is_reported_with_its_consumer(broker, connect, found):
    channel = connect(broker, "worker").channel()
    broker.publish("", "orders.work", b"poison")
    channel.basic_reject(channel.basic_get("orders.work")[0].delivery_tag, requeue=False)

    text = found(broker)["rejected_into_nothing"]

    assert "in queue 'orders.work'" in text
    assert "rejected by worker, the queue has no dead-letter exchange" in text


def test_a_dead_letter_that_reaches_no_queue_is_lost_as_well(broker, found):
    broker.declare_exchange("dead")
    broker.declare_queue("short", arguments={"x-dead-letter-exchange": "dead", "x-message-ttl": 1000})
    broker.publish("", "short", b"late")
    broker.clock.advance(2)

    assert "its dead letter reached no queue through exchange 'dead'" in found(broker)["expired_into_nothing"]


def test_a_dead_letter_exchange_that_is_missing_is_named(broker, found):
    broker.declare_queue("short", arguments={"x-dead-letter-exchange": "dead", "x-message-ttl": 1000})
    broker.publish("", "short", b"late")
    broker.clock.advance(2)

    assert "its dead-letter exchange 'dead' does not exist" in found(broker)["expired_into_nothing"]


def test_a_dead_letter_that_arrives_is_no_loss(broker, found):
    broker.declare_queue("dead")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-message-ttl": 1000}
    broker.declare_queue("short", arguments=arguments)
    broker.publish("", "short", b"late")
    broker.clock.advance(2)

    assert list(found(broker)) == ["left_ready"]


def test_a_delayed_dead_letter_is_not_lost(broker, found):
    broker.declare_exchange("later", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    broker.bind_queue("orders.work", "later")
    broker.declare_queue("short", arguments={"x-dead-letter-exchange": "later", "x-message-ttl": 1000})
    broker.publish("", "short", b"late", headers={"x-delay": 60_000})
    broker.clock.advance(2)

    assert found(broker) == {}


def test_a_full_queue_that_drops_its_oldest_is_reported(broker, found):
    broker.declare_queue("last", arguments={"x-max-length": 1})
    broker.publish("", "last", b"1")
    broker.publish("", "last", b"2")

    assert "in queue 'last': '' 'last' '1'" in found(broker)["overflowed_into_nothing"]


def test_a_message_that_an_assertion_has_returned_is_not_reported(broker, found):
    broker.publish("orders", "payment.made")

    broker.assert_dropped("orders", reason="no route")

    assert found(broker) == {}


def test_each_finding_is_reported_once(broker, found):
    broker.publish("orders", "payment.made")
    found(broker)
    broker.publish("orders", "payment.lost")

    assert "1 message" in found(broker)["unroutable"]
    assert found(broker) == {}


def test_many_losses_of_one_kind_are_one_warning(broker, found):
    for number in range(50):
        broker.publish("orders", f"payment.{number}")

    text = found(broker)["unroutable"]

    assert "50 messages" in text
    assert "... and 45 more" in text


def declare_cycle(broker, *names, **arguments):
    """Declare queues of which each dead-letters into the next, and the last into the first."""
    for name, following in zip(names, (*names[1:], names[0]), strict=True):
        target = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": following}
        broker.declare_queue(name, arguments={**target, **arguments})


CYCLE = "its dead letter came back to a queue in which it had died, and RabbitMQ drops it then: "


def test_a_message_that_expires_in_a_cycle_of_queues_is_reported_with_the_cycle(broker, connect, found):
    declare_cycle(broker, "a", "b", "c", **{"x-message-ttl": 1000})
    connect(broker).channel().basic_publish("", "a", b"late")
    broker.clock.advance(10)

    text = found(broker)["expired_into_nothing"]

    assert "in queue 'c': " in text
    assert f"{CYCLE}'a' (expired), then 'b' by '' 'b', then 'c' by '' 'c', then 'a' again by '' 'a'\n" in text


def test_a_queue_that_dead_letters_into_itself_is_a_cycle(broker, found):
    declare_cycle(broker, "a", **{"x-message-ttl": 1000})
    broker.publish("", "a", b"late")
    broker.clock.advance(10)

    assert f"{CYCLE}'a' (expired), then 'a' again by '' 'a'" in found(broker)["expired_into_nothing"]


def test_a_cycle_names_the_exchanges_and_leaves_out_the_way_to_it(broker, found):
    broker.declare_exchange("retries")
    for queue, key in (("first", "second"), ("second", "third"), ("third", "second")):
        arguments = {"x-dead-letter-exchange": "retries", "x-dead-letter-routing-key": key, "x-message-ttl": 1000}
        broker.declare_queue(queue, arguments=arguments)
        broker.bind_queue(queue, "retries", queue)
    broker.publish("", "first", b"late")
    broker.clock.advance(10)

    text = found(broker)["expired_into_nothing"]

    assert f"{CYCLE}'second' (expired), then 'third' by 'retries' 'third', then 'second' again by 'retries' 's" in text


def test_a_message_pushed_out_in_a_cycle_is_reported_with_the_cycle(broker, connect, found):
    declare_cycle(broker, "a", "b", **{"x-max-length": 1})
    channel = connect(broker).channel()
    channel.confirm_delivery()
    for body in (b"1", b"2", b"3"):
        channel.basic_publish("", "a", body)

    text = found(broker)["overflowed_into_nothing"]

    assert "1 message" in text
    assert f"{CYCLE}'a' (maxlen), then 'b' by '' 'b', then 'a' again by '' 'a'" in text


def test_a_message_that_exceeds_delivery_limits_in_a_cycle_is_reported_with_the_cycle(broker, connect, found):
    declare_cycle(broker, "a", "b", **{"x-queue-type": "quorum", "x-delivery-limit": 0})
    channel = connect(broker).channel()
    broker.publish("", "a", b"poison")
    for queue in ("a", "b"):
        channel.basic_reject(channel.basic_get(queue)[0].delivery_tag, requeue=True)

    text = found(broker)["rejected_into_nothing"]

    assert f"{CYCLE}'a' (delivery_limit), then 'b' by '' 'b', then 'a' again by '' 'a'" in text


def test_a_rejected_message_may_go_around_for_ever(broker, connect, found):
    declare_cycle(broker, "a", "b")
    channel = connect(broker).channel()
    broker.publish("", "a", b"poison")
    for queue in ("a", "b", "a", "b"):
        channel.basic_reject(channel.basic_get(queue)[0].delivery_tag, requeue=False)

    assert len(broker.queue("a").ready) == 1
    assert "rejected_into_nothing" not in found(broker)


def test_a_cycle_is_no_loss_if_the_letter_reaches_another_queue(broker, found):
    broker.declare_queue("other")
    broker.declare_queue("a", arguments={"x-dead-letter-exchange": "amq.fanout", "x-message-ttl": 1000})
    for queue in ("a", "other"):
        broker.bind_queue(queue, "amq.fanout")
    broker.publish("", "a", b"late")
    broker.clock.advance(2)

    assert "expired_into_nothing" not in found(broker)


def test_a_task_of_celery_is_reported_by_its_name(broker, found):
    app = Celery(broker=broker.url)
    app.send_task("shop.invoice", args=(7,), kwargs={"total": 120}, exchange="orders", routing_key="invoices")
    app.close()

    assert "'orders' 'invoices' task 'shop.invoice' '[[7], {\"total\": 120}, " in found(broker)["unroutable"]


def test_a_loss_before_a_reset_names_its_publisher(broker, connect, found):
    with connect(broker).channel() as channel:
        channel.basic_publish("amq.direct", "nowhere", b"1")
        broker.sync()

    broker.reset()

    assert "published by shop (c1/ch1)" in found(broker)["unroutable"]


def test_a_message_that_a_restart_drops_is_reported(broker, connect, found):
    connect(broker).channel().basic_publish("orders", "order.created", b"7")
    broker.sync()

    broker.restart()

    text = found(broker)["lost_at_restart"]
    assert "1 message lost when the broker restarted" in text
    assert "it was not persistent: publish it with delivery_mode=2" in text


def test_a_message_that_goes_with_its_queue_at_a_restart_is_reported(connect, found):
    with Broker(rabbitmq="4.2") as broker:
        broker.declare_queue("passing", durable=False)
        connect(broker).channel().basic_publish("", "passing", b"7", pika.BasicProperties(delivery_mode=2))
        broker.sync()

        broker.restart()

        text = found(broker)["lost_at_restart"]
        assert "in queue 'passing': '' 'passing' '7'" in text
        assert "its queue is not durable" in text


def test_a_message_that_survives_or_is_asserted_as_lost_at_a_restart_is_no_finding(broker, connect, found):
    channel = connect(broker).channel()
    channel.basic_publish("orders", "order.created", b"7", pika.BasicProperties(delivery_mode=2))
    channel.basic_publish("orders", "order.created", b"8")
    broker.sync()

    broker.restart()
    broker.assert_dropped("orders.work", reason="restart", body=b"8")

    assert "lost_at_restart" not in found(broker)


def test_a_dead_letter_that_no_binding_takes_is_reported_with_its_key_and_the_nearest_binding(broker, connect, found):
    broker.declare_queue("failed")
    broker.bind_queue("failed", "orders", "failed.#")
    arguments = {"x-dead-letter-exchange": "orders", "x-dead-letter-routing-key": "faild.work"}
    broker.declare_queue("work", arguments=arguments)
    channel = connect(broker).channel()
    broker.publish("", "work", b"poison")
    channel.basic_reject(channel.basic_get("work")[0].delivery_tag, requeue=False)

    text = found(broker)["rejected_into_nothing"]

    assert "its dead letter reached no queue through exchange 'orders': 'faild.work' matches no binding of" in text
    assert "'failed.#' to 'failed'" in text


def test_a_dead_letter_for_a_queue_that_does_not_exist_is_reported_with_the_nearest_queue(broker, connect, found):
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders.wrok"}
    broker.declare_queue("work", arguments=arguments)
    channel = connect(broker).channel()
    broker.publish("", "work", b"poison")
    channel.basic_reject(channel.basic_get("work")[0].delivery_tag, requeue=False)

    text = found(broker)["rejected_into_nothing"]

    assert "there is no queue 'orders.wrok' (nearest: 'orders.work')" in text


def test_what_differs_in_generated_names_is_one_line_with_a_pattern_to_allow(broker, connect, found):
    channel = connect(broker).channel()
    for _ in range(3):
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", queue, b"x")
        method, _, _ = channel.basic_get(queue)
        channel.basic_reject(method.delivery_tag, requeue=False)

    text = found(broker)["rejected_into_nothing"]

    assert text.count("in queue") == 1
    assert "in queue 'amq.gen-*': '' 'amq.gen-*' 'x', published by shop" in text
    assert "(x3)" in text
    assert r"""allow("rejected_into_nothing", queue=re.compile('amq\\.gen\\-.*'))""" in text


def test_the_pattern_of_a_generated_name_allows_what_it_was_proposed_for(broker, connect, found):
    broker.allow("rejected_into_nothing", queue=re.compile("amq\\.gen\\-.*"))
    channel = connect(broker).channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.basic_publish("", queue, b"x")
    method, _, _ = channel.basic_get(queue)
    channel.basic_reject(method.delivery_tag, requeue=False)

    assert "rejected_into_nothing" not in found(broker)
