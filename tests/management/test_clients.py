"""Clients of RabbitMQ's management API work on leveret unmodified.

`clients/rabbitmqadmin` is the command line tool that RabbitMQ 4.0.5 serves, under the Mozilla Public License 2.0. It is
stored as it is, and no part of the package.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import amqp
import pyrabbit2
import pytest
from amqpstorm.management import ApiError, ManagementApi
from pyrabbit2.api import Client

from leveret import Broker

_RABBITMQADMIN = Path(__file__).parent / "clients" / "rabbitmqadmin"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(management=True) as broker:
        yield broker


@pytest.fixture(autouse=True)
def _empty(broker: Broker) -> None:
    broker.reset()


@pytest.fixture
def storm(broker: Broker) -> ManagementApi:
    return ManagementApi(broker.management_url, "guest", "guest")


@pytest.fixture
def rabbit(broker: Broker) -> Client:
    return Client(urlsplit(broker.management_url).netloc, "guest", "guest")


@pytest.fixture
def admin(broker: Broker) -> Any:
    port = str(urlsplit(broker.management_url).port)

    def run(*words: str) -> str:
        command = [sys.executable, str(_RABBITMQADMIN), "--host", "127.0.0.1", "--port", port, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    return run


@pytest.fixture
def connection(broker: Broker) -> Iterator[amqp.Connection]:
    with closing(amqp.Connection(f"{broker.host}:{broker.port}")) as connection:
        connection.connect()
        yield connection


def test_amqpstorm_declares_binds_publishes_and_gets(storm: ManagementApi) -> None:
    storm.queue.declare("orders", durable=True)
    storm.exchange.declare("shop", exchange_type="topic", durable=True)
    storm.queue.bind(queue="orders", exchange="shop", routing_key="order.#")

    storm.basic.publish("hello", "order.new", exchange="shop", properties={"content_type": "text/plain"})
    message = storm.basic.get("orders", requeue=False)[0]

    assert message.body == "hello"
    assert message.properties["content_type"] == "text/plain"
    assert storm.queue.get("orders")["messages"] == 0
    assert [binding["routing_key"] for binding in storm.queue.bindings("orders")] == ["orders", "order.#"]


def test_amqpstorm_lists_purges_and_deletes(storm: ManagementApi) -> None:
    storm.queue.declare("orders", durable=True)
    storm.basic.publish("hello", "orders")

    storm.queue.purge("orders")
    emptied = storm.queue.list()
    storm.queue.delete("orders")

    assert [(queue["name"], queue["messages"]) for queue in emptied] == [("orders", 0)]
    with pytest.raises(ApiError) as refused:
        storm.queue.get("orders")
    assert refused.value.error_code == 404


def test_amqpstorm_administers_users_and_virtual_hosts(storm: ManagementApi) -> None:
    storm.virtual_host.create("shop")
    storm.user.create("alice", "secret", tags="management")
    storm.user.set_permission("alice", "shop", configure_regex="^a")

    permissions = storm.user.get_permissions("alice")

    assert [(it["vhost"], it["configure"]) for it in permissions] == [("shop", "^a")]
    assert storm.aliveness_test("shop") == {"status": "ok"}
    storm.user.delete("alice")
    storm.virtual_host.delete("shop")
    assert [it["name"] for it in storm.virtual_host.list()] == ["/"]


def test_amqpstorm_sees_and_closes_a_connection(storm: ManagementApi, connection: amqp.Connection) -> None:
    connection.channel()
    (found,) = storm.connection.list()
    channels = storm.channel.list()

    storm.connection.close(found["name"], reason="enough")

    assert [channel["number"] for channel in channels] == [1]
    with pytest.raises(amqp.ConnectionForced, match="CONNECTION_FORCED - enough"):
        connection.drain_events(timeout=10)


def test_amqpstorm_asks_about_the_broker(storm: ManagementApi) -> None:
    assert storm.overview()["rabbitmq_version"] == "4.3.6"
    assert storm.whoami()["name"] == "guest"
    assert storm.healthchecks.get() == {"status": "ok"}
    assert [node["running"] for node in storm.nodes()] == [True]


def test_pyrabbit2_declares_publishes_and_counts(rabbit: Client) -> None:
    rabbit.create_queue("/", "orders", durable=True, auto_delete=False)
    rabbit.create_exchange("/", "shop", "fanout")
    rabbit.create_binding("/", "shop", "orders", "k")

    assert rabbit.publish("/", "shop", "k", "hello")

    assert rabbit.get_queue_depth("/", "orders") == 1
    assert rabbit.get_messages("/", "orders")[0]["payload"] == "hello"
    assert [it["source"] for it in rabbit.get_queue_bindings("/", "orders")] == ["", "shop"]


def test_pyrabbit2_says_that_the_broker_is_alive(rabbit: Client) -> None:
    assert rabbit.is_alive("%2F")
    assert rabbit.get_vhost_names() == ["/"]


def test_pyrabbit2_closes_a_connection(rabbit: Client, connection: amqp.Connection) -> None:
    (found,) = rabbit.get_connections()

    rabbit.delete_connection(found["name"])

    with pytest.raises(amqp.ConnectionForced, match="Closed via management plugin"):
        connection.drain_events(timeout=10)


def test_pyrabbit2_is_refused_with_a_wrong_password(broker: Broker) -> None:
    stranger = Client(urlsplit(broker.management_url).netloc, "guest", "wrong")

    with pytest.raises(pyrabbit2.api.PermissionError, match="401"):
        stranger.get_queues()


def test_rabbitmqadmin_declares_publishes_and_gets(broker: Broker, admin: Any) -> None:
    admin("declare", "queue", "name=orders", "durable=true")
    admin("declare", "exchange", "name=shop", "type=topic")
    admin("declare", "binding", "source=shop", "destination=orders", "routing_key=order.#")
    published = admin("publish", "exchange=shop", "routing_key=order.new", "payload=hello")

    got = admin("-f", "raw_json", "get", "queue=orders", "ackmode=ack_requeue_false")

    assert published == "Message published\n"
    assert [message["payload"] for message in json.loads(got)] == ["hello"]
    assert len(broker.queue("orders").ready) == 0


def test_rabbitmqadmin_lists_queues(broker: Broker, admin: Any) -> None:
    broker.declare_queue("orders")
    broker.publish("", "orders", "hello")

    listed = admin("-f", "tsv", "list", "queues", "name", "messages")

    assert listed.splitlines() == ["name\tmessages", "orders\t1"]


def test_rabbitmqadmin_moves_definitions(broker: Broker, admin: Any, tmp_path: Path) -> None:
    broker.declare_queue("orders", arguments={"x-max-length": 3})
    file = tmp_path / "definitions.json"

    admin("export", str(file))
    broker.reset()
    admin("import", str(file))

    assert broker.queue("orders").arguments["x-max-length"] == 3
