"""Health checks that fail. A server that others use cannot be made to fail them, so they were not recorded.

The texts of alarms and ports are those of a 4.3.6 of its own, the others those of its source.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.request import urlopen

import amqp
import pytest

from leveret import Broker

from .asking import ask, management_of


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def test_an_alarm_fails_the_checks_of_alarms(broker: Broker) -> None:
    broker.admin.set_alarm("disk")
    management = management_of(broker)

    cluster = ask(management, "GET", "/health/checks/alarms")
    local = ask(management, "GET", "/health/checks/local-alarms")

    assert cluster.status == local.status == 503
    assert cluster.value["reason"] == "There are alarms in effect in the cluster"
    assert local.value["reason"] == "There are alarms in effect on the node"
    assert [alarm["resource"] for alarm in cluster.value["alarms"]] == ["disk"]


def test_a_cleared_alarm_passes_again(broker: Broker) -> None:
    broker.admin.set_alarm("disk")
    broker.admin.clear_alarm("disk")

    assert ask(management_of(broker), "GET", "/health/checks/alarms") == (200, {"status": "ok"})


def test_maintenance_fails_the_checks_of_service(broker: Broker) -> None:
    broker.admin.drain()
    management = management_of(broker)

    drained = [
        ask(management, "GET", f"/health/checks/{check}").status
        for check in ("is-in-service", "ready-to-serve-clients")
    ]
    port = ask(management, "GET", f"/health/checks/port-listener/{broker.port}").status
    broker.admin.revive()
    revived = [
        ask(management, "GET", f"/health/checks/{check}").status
        for check in ("is-in-service", "ready-to-serve-clients")
    ]

    assert (drained, port, revived) == ([503, 503], 503, [200, 200])


def test_a_health_check_over_http_needs_no_password() -> None:
    with (
        Broker(management=True) as broker,
        urlopen(f"{broker.management_url}/api/health/checks/is-in-service") as answer,
    ):
        assert answer.status == 200


def test_the_management_port_listens() -> None:
    with Broker(management=True) as broker:
        port = broker.management_url.rpartition(":")[2]

        found = ask(management_of(broker), "GET", f"/health/checks/port-listener/{port}")
        protocol = ask(management_of(broker), "GET", "/health/checks/protocol-listener/http")

    assert (found.status, protocol.status) == (200, 200)


def test_a_full_node_fails_the_checks_of_its_limit() -> None:
    with Broker(settings={"connection_max": 1}) as broker, amqp.Connection(f"{broker.host}:{broker.port}"):
        limit = ask(management_of(broker), "GET", "/health/checks/below-node-connection-limit")
        ready = ask(management_of(broker), "GET", "/health/checks/ready-to-serve-clients")

    assert limit.value["reason"] == ready.value["reason"] == "node connection limit is reached"
    assert (limit.status, limit.value["limit"], limit.value["connections"]) == (503, 1, 1)
