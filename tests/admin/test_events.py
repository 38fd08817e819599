"""The event exchange, where it is enabled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from leveret import Broker
from leveret.broker import BUILT_IN
from leveret.errors import BrokerError


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(plugins={"rabbitmq_event_exchange"}) as broker:
        broker.declare_queue("events")
        broker.bind_queue("events", "amq.rabbitmq.event", "#")
        broker.purge_queue("events")
        yield broker


# Events seen on RabbitMQ 4.3.6: the headers of each, and the types of their values.
SEEN = json.loads(Path(__file__).with_name("events-4.3.6.json").read_text())
KINDS = {bool: "bool", int: "integer", str: "text", list: "list", dict: "table"}
# Erlang's own notation of a map, which clients cannot parse.
LEFT_OUT = {"vhost.created": {"metadata"}}


def told(broker: Broker) -> list[str]:
    return [message.routing_key for message in broker.queue("events").ready]


def test_actions_of_a_client_are_announced(broker: Broker) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.exchange_declare("x", "topic")
        for _ in range(2):
            channel.queue_declare("orders", durable=True)
            channel.queue_bind("orders", "x", "a.#")
        channel.basic_consume("orders", lambda *_: None, consumer_tag="me")
        channel.basic_cancel("me")
        channel.queue_unbind("orders", "x", "a.#")
        channel.queue_bind("orders", "x", "b")
        channel.queue_delete("orders")
        channel.exchange_delete("x")

    assert told(broker) == [
        "user.authentication.success",
        "connection.created",
        "channel.created",
        "exchange.created",
        "queue.created",
        "binding.created",
        "consumer.created",
        "consumer.deleted",
        "binding.deleted",
        "binding.created",
        "binding.deleted",
        "queue.deleted",
        "parameter.set",
        "exchange.deleted",
        "parameter.cleared",
        "channel.closed",
        "connection.closed",
    ]


def test_events_have_the_headers_that_rabbitmq_gives_them(broker: Broker) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("orders", durable=True)
        channel.queue_bind("orders", "amq.topic", "a.#")
        channel.basic_consume("orders", lambda *_: None, consumer_tag="me")
        channel.queue_delete("orders")
        channel.exchange_declare("x", "topic")
        channel.exchange_delete("x")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        pika.BlockingConnection(pika.URLParameters(broker.url_for(password="wrong")))
    broker.admin.add_user("shop", "secret", tags=["management"])
    broker.admin.add_vhost("stage")
    broker.admin.set_permissions("shop", "stage")
    broker.admin.set_topic_permissions("shop", "stage", "amq.topic")
    broker.admin.set_policy("p", "^q", {"max-length": 1}, vhost="stage")
    broker.admin.set_operator_policy("op", "^q", {"max-length": 1}, vhost="stage")
    broker.admin.set_vhost_limits("stage", {"max-queues": 5})
    broker.admin.set_user_limits("shop", {"max-channels": 5})
    broker.admin.clear_user_limits("shop")
    broker.admin.clear_vhost_limits("stage")
    broker.admin.clear_operator_policy("op", vhost="stage")
    broker.admin.clear_policy("p", vhost="stage")
    broker.admin.clear_topic_permissions("shop", "stage")
    broker.admin.clear_permissions("shop", "stage")
    broker.admin.change_password("shop", "other")
    broker.admin.delete_vhost("stage")
    broker.admin.delete_user("shop")

    headers: dict[str, dict[str, str]] = {}
    for message in broker.queue("events").ready:
        found = {name: KINDS[type(value)] for name, value in message.headers.items()}
        if len(found) > len(headers.get(message.routing_key, ())):
            headers[message.routing_key] = found

    assert headers.keys() == SEEN.keys()
    for event, seen in SEEN.items():
        expected = {name: kind for name, kind in seen.items() if name not in LEFT_OUT.get(event, ())}
        assert (event, headers[event]) == (event, expected)


def test_a_closed_connection_announces_the_end_of_its_channels_and_consumers(broker: Broker) -> None:
    broker.declare_queue("orders")
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    connection.channel().basic_consume("orders", lambda *_: None)
    broker.purge_queue("events")

    broker.admin.close_all_connections()

    assert told(broker) == ["consumer.deleted", "channel.closed", "connection.closed"]


def test_the_headers_of_an_event_describe_its_object(broker: Broker) -> None:
    broker.declare_queue("orders", arguments={"x-max-length": 5})

    (event,) = broker.queue("events").ready

    headers = dict(event.headers)
    assert headers.pop("timestamp_in_ms") // 1000 == event.properties["timestamp"]
    assert event.body == b""
    assert headers == {
        "arguments": ['{<<"x-max-length">>,signedint,5}', '{<<"x-queue-type">>,longstr,<<"classic">>}'],
        "auto_delete": False,
        "durable": True,
        "exclusive": False,
        "leader": "rabbit@leveret",
        "members": ["rabbit@leveret"],
        "name": "orders",
        "owner_pid": "",
        "type": "rabbit_classic_queue",
        "user_who_performed_action": "rmq-internal",
        "vhost": "/",
    }


def test_actions_of_an_operator_are_announced(broker: Broker) -> None:
    broker.admin.add_user("shop", "secret", tags=["management"])
    broker.admin.set_permissions("shop")
    broker.admin.set_topic_permissions("shop", "/", "amq.topic")
    broker.admin.clear_topic_permissions("shop")
    broker.admin.clear_permissions("shop")
    broker.admin.change_password("shop", "other")
    broker.admin.clear_password("shop")
    broker.admin.set_user_limits("shop", {"max-channels": 1})
    broker.admin.clear_user_limits("shop")
    broker.admin.delete_user("shop")
    broker.admin.set_policy("p", "^q", {"max-length": 1})
    broker.admin.clear_policy("p")
    broker.admin.set_alarm("memory")
    broker.admin.clear_alarm("memory")

    assert told(broker) == [
        "user.created",
        "user.tags.set",
        "permission.created",
        "topic.permission.created",
        "topic.permission.deleted",
        "permission.deleted",
        "user.password.changed",
        "user.password.cleared",
        "user.limits.set",
        "user.limits.cleared",
        "user.deleted",
        "policy.set",
        "policy.cleared",
        "alarm.set",
        "alarm.cleared",
    ]


def test_a_virtual_host_is_created_and_deleted_with_its_exchanges(broker: Broker) -> None:
    broker.admin.add_vhost("stage")
    broker.declare_exchange("x", vhost="stage")
    created = told(broker)
    broker.purge_queue("events")

    broker.admin.delete_vhost("stage")

    assert created == [*["exchange.created"] * 7, "vhost.created", "exchange.created"]
    assert told(broker) == [*["exchange.deleted"] * 8, "vhost.deleted", "vhost.down"]


def test_a_refused_login_is_announced_with_its_reason(broker: Broker) -> None:
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        pika.BlockingConnection(pika.URLParameters(broker.url_for(password="wrong")))

    (event,) = broker.queue("events").ready
    assert event.routing_key == "user.authentication.failure"
    assert bytes(event.headers["error"]) == b"user 'guest' - invalid credentials"


def test_events_are_announced_without_recording() -> None:
    with Broker(plugins={"rabbitmq_event_exchange"}, record="off") as broker:
        broker.declare_queue("events")
        broker.bind_queue("events", "amq.rabbitmq.event", "queue.*")

        broker.declare_queue("orders")

        assert told(broker) == ["queue.created"]


def test_the_event_exchange_exists_only_with_the_plugin() -> None:
    with Broker() as broker:
        assert "amq.rabbitmq.event" not in [exchange.name for exchange in broker.exchanges]


def test_an_unknown_plugin_is_refused() -> None:
    with pytest.raises(BrokerError, match="unknown plugin 'rabbitmq_shovel'; expected one of rabbitmq_event_exchange"):
        Broker(plugins={"rabbitmq_shovel"})


@pytest.mark.parametrize(("plugin", "type"), BUILT_IN.items())
def test_the_name_of_a_plugin_that_is_built_in_is_accepted(plugin: str, type: str) -> None:
    with Broker(plugins={plugin, "rabbitmq_management"}, management=True) as broker:
        arguments = {"x-delayed-type": "direct"} if type == "x-delayed-message" else {}
        assert broker.declare_exchange("late", type, arguments=arguments).type == type


def test_the_management_plugin_leads_to_its_option() -> None:
    with pytest.raises(BrokerError, match=r"'rabbitmq_management' needs the port for HTTP; pass management=True"):
        Broker(plugins={"rabbitmq_management"})


def test_a_misspelt_plugin_is_answered_with_the_closest_one() -> None:
    with pytest.raises(BrokerError, match="'rabbitmq_evnt_exchange'; did you mean 'rabbitmq_event_exchange'"):
        Broker(plugins={"rabbitmq_evnt_exchange"})
