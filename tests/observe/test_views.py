"""The views: frozen snapshots that print well."""

import dataclasses

import pytest

from leveret import Broker
from leveret.observe.views.views import connection_view, exchange_view, queue_view

POLICY = {"dead-letter-exchange": "dead", "dead-letter-routing-key": "late", "max-length": 3}


def test_a_message_view_reads_body_and_properties(view):
    message = view(b'{"id": 7}', content_type="application/json", priority=5, headers={"tenant": "eu"})

    assert (message.exchange, message.routing_key, message.body) == ("orders", "order.created", b'{"id": 7}')
    assert message.json == {"id": 7}
    assert message.text == '{"id": 7}'
    assert message.headers == {"tenant": "eu"}
    assert (message.content_type, message.priority, message.reply_to) == ("application/json", 5, None)
    assert message.properties == {"content_type": "application/json", "priority": 5, "headers": {"tenant": "eu"}}


def test_a_message_without_headers_has_none(view):
    assert view().headers == {}
    assert view().properties == {}


def test_a_body_that_is_not_json_says_what_it_is(view):
    with pytest.raises(ValueError, match="the body of this message is not JSON: 'plain'"):
        _ = view(b"plain").json


def test_a_body_that_is_not_text_says_what_it_is(view):
    with pytest.raises(ValueError, match=r"the body of this message is not UTF-8 text: b'\\xff'"):
        _ = view(b"\xff").text


def test_a_message_prints_its_essentials(view):
    message = view(b'{"id": 7}', correlation_id="c-1", headers={"tenant": "eu"}, redelivered=True)

    assert repr(message) == (
        "<Message exchange='orders' routing_key='order.created' body='{\"id\": 7}' "
        "correlation_id='c-1' headers={'tenant': 'eu'} redelivered>"
    )


def test_a_view_cannot_be_changed(view):
    with pytest.raises(dataclasses.FrozenInstanceError):
        view().redelivered = True


def test_a_queue_view_shows_ready_messages_and_holders_of_unacked_ones(world):
    client = world.client("worker")
    client.consume("orders.work", "ctag1", prefetch_count=1)
    world.publish("orders", "first")
    world.publish("orders", "second")

    queue = queue_view(world.vhost.queues["orders.work"], world.node)

    assert [message.routing_key for message in queue.ready] == ["second"]
    [held] = queue.unacked
    assert (held.routing_key, held.consumer_tag, held.connection) == ("first", "ctag1", "worker")
    assert held.delivered_at == world.node.now
    assert repr(held).endswith("held by ctag1 of worker>")


def test_a_message_fetched_by_basic_get_is_held_without_a_consumer(world):
    client = world.client("worker")
    world.publish("orders", "first")
    client.get("orders.work")

    [held] = queue_view(world.vhost.queues["orders.work"], world.node).unacked

    assert held.consumer_tag is None
    assert repr(held).endswith("held by a basic.get of worker>")


def test_a_queue_view_does_not_change_with_the_queue(world):
    world.publish("orders", "first")
    queue = queue_view(world.vhost.queues["orders.work"], world.node)

    world.vhost.queues["orders.work"].purge()

    assert len(queue.ready) == 1


def test_a_queue_view_shows_arguments_consumers_and_bindings(world):
    world.queue("limited", exchange="orders", routing_key="order.*", x_max_length=5)
    world.client("worker").consume("limited", "ctag1", prefetch_count=10)

    queue = queue_view(world.vhost.queues["limited"], world.node)

    assert (queue.name, queue.vhost, queue.type, queue.durable, queue.exclusive) == (
        "limited",
        "/",
        "classic",
        True,
        False,
    )
    assert queue.arguments == {"x-max-length": 5, "x-queue-type": "classic"}
    assert repr(queue.consumers[0]) == "<Consumer 'ctag1' of worker on 'limited': 0 unacked of at most 10>"
    assert repr(queue.bindings[0]) == "<Binding 'orders' --'order.*'--> queue 'limited'>"
    assert repr(queue) == "<Queue 'limited' (classic): 0 ready, 0 unacked, 1 consumer>"


def test_a_dead_letter_shows_its_deaths(world):
    world.exchange("graves", "fanout")
    world.queue("doomed", exchange="orders", x_dead_letter_exchange="graves")
    world.queue("orders.dead", exchange="graves")
    client = world.client()
    client.consume("doomed", "ctag1")
    world.publish("orders", "order.created", headers={"tenant": "eu"})

    client.reject(1)

    [letter] = queue_view(world.vhost.queues["orders.dead"], world.node).ready
    [death] = letter.deaths
    assert (death.queue, death.reason, death.count, death.exchange) == ("doomed", "rejected", 1, "orders")
    assert death.routing_keys == ("order.created",)
    assert letter.headers["x-first-death-queue"] == "doomed"
    assert "headers={'tenant': 'eu'} died in 'doomed' (rejected) x1" in repr(letter)


def test_an_exchange_view_shows_its_bindings(world):
    exchange = exchange_view(world.vhost.exchanges["orders"], "/")

    assert (exchange.name, exchange.type, exchange.vhost) == ("orders", "topic", "/")
    assert [binding.destination for binding in exchange.bindings] == ["orders.work"]
    assert repr(exchange) == "<Exchange 'orders' (topic): 1 binding>"


def test_a_connection_view_shows_its_channels(world):
    client = world.client("worker")
    client.consume("orders.work", "ctag1")
    world.publish("orders", "first")

    connection = connection_view(client.connection, world.node)

    assert repr(connection) == "<Connection 1 worker from 127.0.0.1:40001 as 'guest' on '/': 1 channel>"
    [channel] = connection.channels
    assert repr(channel) == "<Channel 1 of worker: 1 unacked, 1 consumer>"


def test_a_queue_view_shows_what_a_policy_says():
    with Broker() as broker:
        broker.admin.set_policy("letters", "^orders$", POLICY)
        view = broker.declare_queue("orders")

    assert view.policy == "letters"
    assert view.policy_keys == POLICY
    assert (view.dead_letter_exchange, view.dead_letter_routing_key) == ("dead", "late")


def test_an_exchange_view_shows_the_alternate_exchange_of_a_policy():
    with Broker() as broker:
        broker.declare_exchange("shop")
        broker.admin.set_policy("lost", "^shop$", {"alternate-exchange": "lost"}, apply_to="exchanges")

        assert broker.exchange("shop").alternate_exchange == "lost"
