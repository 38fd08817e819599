"""What a test can see and do without a client, and the errors for mistakes."""

from __future__ import annotations

import pika
import pytest

from leveret import Broker, BrokerError, NotDeclaredError, RefusedError


def test_a_published_message_can_be_consumed_by_a_client(broker: Broker, channel) -> None:
    broker.declare_queue("orders")

    assert broker.publish("", "orders", json={"id": 7}, headers={"x": 1}, correlation_id="c", delivery_mode=2)

    method, properties, body = channel.basic_get("orders")
    assert body == b'{"id": 7}'
    assert properties.content_type == "application/json"
    assert properties.headers == {"x": 1}
    assert (properties.correlation_id, properties.delivery_mode) == ("c", 2)
    channel.basic_ack(method.delivery_tag)


def test_a_body_may_be_text(broker: Broker) -> None:
    broker.declare_queue("orders")
    broker.publish("", "orders", "grün")

    assert broker.queue("orders").ready[0].body == "grün".encode()


def test_publishing_says_whether_a_queue_got_it(broker: Broker) -> None:
    broker.declare_exchange("orders", "topic")
    assert not broker.publish("orders", "order.created")

    broker.declare_queue("audit")
    broker.bind_queue("audit", "orders", "order.#")

    assert broker.publish("orders", "order.created")


def test_a_mandatory_message_without_a_queue_is_an_error_and_returned(broker: Broker) -> None:
    with pytest.raises(BrokerError, match="NO_ROUTE"):
        broker.publish("amq.direct", "nowhere", mandatory=True)

    broker.assert_returned("amq.direct", routing_key="nowhere")


def test_copies_go_to_the_keys_of_cc_and_bcc(broker: Broker) -> None:
    for name in ("first", "second", "third"):
        broker.declare_queue(name)
    broker.publish("", "first", headers={"CC": ["second"], "BCC": ["third"]})

    assert [len(broker.queue(name).ready) for name in ("first", "second", "third")] == [1, 1, 1]
    assert broker.queue("third").ready[0].headers == {"CC": ["second"]}


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (lambda broker: broker.publish("nowhere", "x"), r"NOT_FOUND - no exchange 'nowhere' in vhost '/'"),
        (lambda broker: broker.publish("", "x", expiration="soon"), r"PRECONDITION_FAILED - invalid expiration 'soon'"),
        (
            lambda broker: broker.declare_exchange("x", "topicc"),
            r"PRECONDITION_FAILED - unknown exchange type 'topicc'",
        ),
        (lambda broker: broker.declare_exchange("amq.x"), r"ACCESS_REFUSED - .*reserved prefix"),
        (
            lambda broker: broker.declare_queue("x", durable=False),
            r"INTERNAL_ERROR - Feature `transient_nonexcl_queues`",
        ),
        (lambda broker: broker.bind_queue("x", "amq.direct"), r"NOT_FOUND - no queue 'x' in vhost '/'"),
        (lambda broker: broker.publish("amq.rabbitmq.trace", "x"), r"ACCESS_REFUSED - cannot publish to internal"),
    ],
)
def test_a_refusal_of_rabbitmq_raises_at_the_call(broker: Broker, act, text: str) -> None:
    with pytest.raises(RefusedError, match=text):
        act(broker)


def test_a_missing_queue_is_named_with_the_closest_one(broker: Broker) -> None:
    broker.declare_queue("orders.work")

    with pytest.raises(
        LookupError, match=r"queue 'orders.wrok' does not exist in vhost '/'; did you mean 'orders.work'\?"
    ):
        broker.queue("orders.wrok")
    with pytest.raises(NotDeclaredError, match=r"exchange 'amq.topci' does not exist.*did you mean 'amq.topic'"):
        broker.exchange("amq.topci")
    with pytest.raises(NotDeclaredError, match="virtual host 'stage' does not exist"):
        broker.publish("", "x", vhost="stage")


def test_topology_is_declared_and_deleted(broker: Broker) -> None:
    broker.declare_exchange("in", "fanout")
    broker.declare_exchange("out", "fanout")
    broker.bind_exchange("out", "in")
    name = broker.declare_queue().name
    broker.bind_queue(name, "out", arguments={"x": 1})
    broker.publish("in", "")
    assert [binding.destination for one in broker.exchanges for binding in one.bindings] == ["out", name]

    assert broker.purge_queue(name) == 1
    broker.unbind_queue(name, "out", arguments={"x": 1})
    broker.unbind_exchange("out", "in")
    assert [binding for one in broker.exchanges for binding in one.bindings] == []

    broker.publish("", name)
    assert broker.delete_queue(name) == 1
    broker.delete_exchange("in")
    assert broker.queues == []
    assert "in" not in [exchange.name for exchange in broker.exchanges]


def test_views_begin_with_the_barrier(broker: Broker, channel) -> None:
    channel.queue_declare("orders", durable=True)
    for count in range(1, 20):
        channel.basic_publish("", "orders", b"x")

        assert len(broker.queue("orders").ready) == count


def test_views_show_clients(broker: Broker, channel) -> None:
    broker.declare_queue("orders")
    channel.basic_qos(prefetch_count=3)
    channel.basic_consume("orders", lambda *_: None, consumer_tag="me")
    broker.publish("", "orders")

    (connection,) = broker.connections
    (seen,) = connection.channels
    (consumer,) = broker.consumers
    assert (connection.user, connection.vhost) == ("guest", "/")
    assert (seen.number, len(seen.unacked)) == (1, 1)
    assert (consumer.tag, consumer.queue, consumer.prefetch_count) == ("me", "orders", 3)


def test_the_test_sets_permissions_as_an_operator(broker: Broker) -> None:
    broker.admin.add_user("shop", "secret")
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError):
        pika.BlockingConnection(pika.URLParameters(broker.url_for(user="shop")))
    broker.admin.set_permissions("shop", configure="^shop")
    with pika.BlockingConnection(pika.URLParameters(broker.url_for(user="shop"))) as connection:
        connection.channel().queue_declare("shop.orders", durable=True)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="configure access"):
            connection.channel().queue_declare("orders", durable=True)
        broker.admin.clear_permissions("shop")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="configure access"):
            connection.channel().queue_declare("shop.more", durable=True)
    broker.admin.change_password("shop", "other")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        pika.BlockingConnection(pika.URLParameters(broker.url_for(user="shop", password="secret")))


def test_a_deleted_user_and_a_deleted_virtual_host_lose_their_connections(broker: Broker, read_close) -> None:
    broker.admin.add_user("shop", "secret")
    broker.admin.add_vhost("stage")
    broker.admin.set_permissions("shop")
    broker.admin.set_permissions("guest", "stage")
    of_user = pika.BlockingConnection(pika.URLParameters(broker.url_for(user="shop")))
    of_vhost = pika.BlockingConnection(pika.URLParameters(broker.url_for("stage")))

    broker.admin.delete_user("shop")
    broker.admin.delete_vhost("stage")

    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="user 'shop' is deleted"):
        read_close(of_user)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="vhost 'stage' is deleted"):
        read_close(of_vhost)


def test_an_invalid_operator_command_raises(broker: Broker) -> None:
    with pytest.raises(BrokerError, match="unknown user 'shop'; expected one of guest"):
        broker.admin.set_permissions("shop")
    with pytest.raises(BrokerError, match="user 'guest' already"):
        broker.admin.add_user("guest", "x")
    with pytest.raises(BrokerError, match="not a regular expression"):
        broker.admin.set_permissions("guest", configure="(")
    with pytest.raises(BrokerError, match="Validation failed"):
        broker.admin.set_policy("p", ".*", {"max-lenght": 1})
    with pytest.raises(BrokerError, match="unknown connection 'missing'"):
        broker.admin.close_connection("missing")


def test_a_policy_applies_while_it_is_set(broker: Broker) -> None:
    broker.declare_queue("orders")
    broker.admin.set_policy("short", "^orders", {"max-length": 1}, apply_to="queues")
    broker.publish("", "orders")
    broker.publish("", "orders")
    assert len(broker.queue("orders").ready) == 1

    broker.admin.clear_policy("short")
    broker.publish("", "orders")

    assert len(broker.queue("orders").ready) == 2


def test_an_operator_closes_connections(broker: Broker) -> None:
    parameters = pika.URLParameters(broker.url)
    parameters.client_properties = {"connection_name": "shop"}
    by_name, by_number, by_all = (pika.BlockingConnection(parameters) for _ in range(3))
    numbers = [connection.number for connection in broker.connections]

    broker.admin.close_connection(numbers[1], "because")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="CONNECTION_FORCED - because"):
        by_number.channel()
    broker.admin.close_connection("shop")
    assert broker.admin.close_all_connections() == 0
    for connection in (by_name, by_all):
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="Closed via leveret"):
            connection.channel()


def test_an_alarm_blocks_publishers(broker: Broker, channel) -> None:
    broker.declare_queue("orders")
    broker.admin.set_alarm("memory")
    channel.basic_publish("", "orders", b"x")
    assert broker.queue("orders").ready == ()

    broker.admin.clear_alarm("memory")

    assert len(broker.queue("orders").ready) == 1


@pytest.mark.parametrize("body", [{"id": 1}, [1, 2], 5])
def test_a_body_that_is_neither_bytes_nor_text_is_refused_at_the_call(broker: Broker, body: object) -> None:
    with pytest.raises(TypeError, match="for JSON use json="):
        broker.publish("", "orders", body)  # type: ignore[arg-type]


def test_nothing_published_anywhere_can_be_asserted_without_naming_an_exchange(broker: Broker) -> None:
    broker.assert_not_published()

    broker.declare_queue("orders")
    broker.publish("", "orders", "one")

    with pytest.raises(AssertionError, match="assert_not_published"):
        broker.assert_not_published(body="one")


def test_a_misspelt_reason_is_named_with_the_right_one(broker: Broker) -> None:
    broker.declare_queue("orders")

    with pytest.raises(ValueError, match="unknown reason 'reject'; did you mean 'rejected'"):
        broker.assert_dead_lettered("orders", reason="reject")
