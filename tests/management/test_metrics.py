"""The metrics in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from leveret import Broker
from leveret.http.management.management import Management
from leveret.http.messages import Request

from .asking import management_of


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def metrics(management: Management, path: str = "/metrics") -> dict[str, float]:
    """Return the values by name and labels."""
    body = management.handle(Request("GET", path)).body
    assert isinstance(body, bytes)
    lines = [line for line in body.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_metrics_count_messages_and_queues(broker: Broker) -> None:
    broker.declare_queue("orders")
    broker.publish("", "orders", "one")
    broker.publish("", "orders", "two")

    found = metrics(management_of(broker))

    assert found["rabbitmq_queues"] == 1
    assert found["rabbitmq_queue_messages_ready"] == 2
    assert found['rabbitmq_global_messages_received_total{protocol="amqp091"}'] == 2


def test_metrics_per_object_name_the_queue(broker: Broker) -> None:
    broker.declare_queue('a "quoted" name')
    broker.publish("", 'a "quoted" name', "one")

    found = metrics(management_of(broker), "/metrics/per-object")

    assert found['rabbitmq_queue_messages{vhost="/",queue="a \\"quoted\\" name"}'] == 1


def test_every_metric_has_a_type_and_a_description(broker: Broker) -> None:
    body = management_of(broker).handle(Request("GET", "/metrics")).body
    assert isinstance(body, bytes)

    lines = body.decode().splitlines()

    typed = {line.split()[2] for line in lines if line.startswith("# TYPE ")}
    described = {line.split()[2] for line in lines if line.startswith("# HELP ")}
    named = {line.partition("{")[0].split()[0] for line in lines if not line.startswith("#")}
    assert typed == described == named


def test_an_alarm_is_a_metric(broker: Broker) -> None:
    broker.admin.set_alarm("memory")

    found = metrics(management_of(broker))

    assert found["rabbitmq_alarms_memory_used_watermark"] == 1
    assert found["rabbitmq_alarms_free_disk_space_watermark"] == 0
