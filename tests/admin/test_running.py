"""An operator's actions on a running broker, and what clients see of them."""

from __future__ import annotations

import threading

import pika
import pytest

from leveret import Broker
from leveret.errors import BrokerError


def test_a_connection_is_closed_by_name_with_the_words_given(broker: Broker, connect, reason_of_close) -> None:
    worker, other = connect(name="worker"), connect(name="web")

    broker.admin.close_connection("worker", "because I say so")

    assert reason_of_close(worker) == "CONNECTION_FORCED - because I say so"
    assert other.channel().is_open


def test_an_unknown_connection_is_refused_with_the_open_ones(broker: Broker, connect) -> None:
    connect(name="worker")

    with pytest.raises(BrokerError, match="unknown connection 'wroker'; did you mean 'worker'"):
        broker.admin.close_connection("wroker")


def test_all_connections_of_a_user_or_a_virtual_host_are_closed(broker: Broker, connect, reason_of_close) -> None:
    broker.admin.add_user("shop", "secret")
    broker.admin.set_permissions("shop")
    broker.admin.add_vhost("stage")
    broker.admin.set_permissions("guest", "stage")
    of_user, of_vhost, other = connect(user="shop"), connect("stage"), connect()

    assert broker.admin.close_all_user_connections("shop", "user") == 1
    assert broker.admin.close_all_connections("vhost", vhost="stage") == 1

    assert reason_of_close(of_user) == "CONNECTION_FORCED - user"
    assert reason_of_close(of_vhost) == "CONNECTION_FORCED - vhost"
    assert broker.admin.close_all_connections("all") == 1
    assert reason_of_close(other) == "CONNECTION_FORCED - all"


def test_maintenance_closes_connections_and_accepts_none(broker: Broker, connect, reason_of_close) -> None:
    broker.declare_queue("orders")
    broker.publish("", "orders", b"x")
    connection, port = connect(), broker.port

    broker.admin.drain()
    assert reason_of_close(connection) == "CONNECTION_FORCED - Node was put into maintenance mode"
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connect()
    broker.admin.revive()

    assert broker.port == port
    assert connect().channel().basic_get("orders", auto_ack=True)[2] == b"x"


def test_reviving_a_broker_that_was_not_drained_changes_nothing(broker: Broker, connect) -> None:
    broker.admin.revive()

    assert connect().is_open


def test_a_restart_closes_connections_and_keeps_what_is_durable(broker: Broker, connect, reason_of_close) -> None:
    broker.declare_queue("orders")
    broker.publish("", "orders", b"kept", delivery_mode=2)
    broker.publish("", "orders", b"lost")
    broker.admin.add_user("shop", "secret")
    connection = connect()

    broker.restart()

    text = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
    assert reason_of_close(connection) == text
    assert [message.body for message in broker.queue("orders").ready] == [b"kept"]
    assert "shop" in broker.admin.list_users()


def test_policies_of_user_and_operator_meet(broker: Broker, connect) -> None:
    channel = connect().channel()
    channel.queue_declare("orders", durable=True)
    broker.admin.set_policy("short", "^orders", {"max-length": 3}, apply_to="queues")
    broker.admin.set_operator_policy("shorter", "^orders", {"max-length": 1}, apply_to="queues")
    for body in (b"1", b"2"):
        channel.basic_publish("", "orders", body)
    assert [message.body for message in broker.queue("orders").ready] == [b"2"]

    broker.admin.clear_operator_policy("shorter")
    for body in (b"3", b"4", b"5"):
        channel.basic_publish("", "orders", body)
    assert [message.body for message in broker.queue("orders").ready] == [b"3", b"4", b"5"]
    broker.admin.clear_policy("short")
    channel.basic_publish("", "orders", b"6")

    assert len(broker.queue("orders").ready) == 4


def test_the_firehose_runs_while_it_is_on(broker: Broker, connect) -> None:
    channel = connect().channel()
    channel.queue_declare("trace", durable=True)
    channel.queue_bind("trace", "amq.rabbitmq.trace", "#")
    channel.queue_declare("orders", durable=True)
    for _ in range(3):
        channel.basic_publish("", "orders", b"before")
    broker.admin.trace_on()
    channel.basic_publish("", "orders", b"during")
    channel.basic_get("orders", auto_ack=True)
    broker.publish("", "orders", b"by the test")
    broker.admin.trace_off()
    channel.basic_publish("", "orders", b"after")

    traced = broker.queue("trace").ready

    assert [(message.routing_key, message.body) for message in traced] == [
        ("publish.", b"during"),
        ("deliver.orders", b"before"),
        ("publish.", b"by the test"),
    ]
    headers = traced[0].headers
    assert (headers["user"], headers["channel"], headers["routed_queues"]) == ("guest", 1, ["orders"])


def test_consuming_the_firehose_is_not_traced(broker: Broker, connect) -> None:
    channel = connect().channel()
    channel.queue_declare("trace", durable=True)
    channel.queue_bind("trace", "amq.rabbitmq.trace", "#")
    channel.queue_bind("trace", "amq.fanout")
    seen = []
    channel.basic_consume("trace", lambda _, method, __, body: seen.append((method.routing_key, body)), auto_ack=True)
    broker.admin.trace_on()

    broker.publish("amq.fanout", "k", b"x")
    channel.connection.process_data_events(5)
    channel.connection.process_data_events(0)

    assert sorted(seen) == [("deliver.trace", b"x"), ("k", b"x"), ("publish.amq.fanout", b"x")]


def test_a_blocked_client_is_notified_and_unblocked(broker: Broker, connect) -> None:
    connection = connect()
    told: list[str] = []
    connection.add_on_connection_blocked_callback(lambda _, frame: told.append(frame.method.reason))
    connection.add_on_connection_unblocked_callback(lambda *_: told.append("unblocked"))
    channel = connection.channel()
    channel.queue_declare("orders", durable=True)
    broker.admin.set_alarm("memory")
    broker.admin.set_alarm("disk")

    channel.basic_publish("", "orders", b"x")
    connection.process_data_events(5)
    assert told == ["low on disk & memory"]
    assert broker.queue("orders").ready == ()
    broker.admin.clear_alarm("memory")
    broker.admin.clear_alarm("disk")
    connection.process_data_events(5)

    assert told == ["low on disk & memory", "unblocked"]
    assert [message.body for message in broker.queue("orders").ready] == [b"x"]


def test_a_confirmed_publish_waits_for_the_end_of_the_alarm(broker: Broker, connect) -> None:
    channel = connect().channel()
    channel.queue_declare("orders", durable=True)
    channel.confirm_delivery()
    broker.admin.set_alarm("disk")
    timer = threading.Timer(0.05, broker.admin.clear_alarm, ("disk",))
    timer.start()

    channel.basic_publish("", "orders", b"x")

    timer.join()
    assert len(broker.queue("orders").ready) == 1


def test_a_blocked_connection_can_be_closed_by_the_operator(broker: Broker, connect, reason_of_close) -> None:
    connection = connect()
    broker.declare_queue("orders")
    broker.admin.set_alarm("memory")
    connection.channel().basic_publish("", "orders", b"x")
    broker.sync()

    broker.admin.close_all_connections("enough")

    assert reason_of_close(connection) == "CONNECTION_FORCED - enough"
    assert broker.connections == []
    broker.admin.clear_alarm("memory")
    assert broker.queue("orders").ready == ()


def test_an_alarm_has_one_of_two_names(broker: Broker) -> None:
    with pytest.raises(BrokerError, match="unknown alarm 'memroy'; did you mean 'memory'"):
        broker.admin.set_alarm("memroy")
