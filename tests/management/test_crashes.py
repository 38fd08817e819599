"""What crashes RabbitMQ (500, or 400 with `function_clause`, seen on the versions named) is a clear 400 here."""

from __future__ import annotations

import pytest

from leveret import Broker
from leveret.core.compat import RabbitMQVersion
from tests.http.client import ask

_JSON = {"content-type": "application/json"}
_QUEUE = {"name": "q", "durable": True, "auto_delete": False}
_EXCHANGE = {"name": "x", "type": "topic", "durable": True, "auto_delete": False}


@pytest.mark.parametrize("version", ["4.3", "4.0", "3.10"])
def test_limits_under_another_name_are_refused_and_not_kept(version: RabbitMQVersion) -> None:
    with Broker(rabbitmq=version, management=True) as broker:
        answer = ask(broker, "PUT", "/api/parameters/vhost-limits/%2F/other", {"value": {"max-queues": 3}})

        kept = ask(broker, "GET", "/api/vhost-limits/%2F").json

    assert (answer.status, kept) == (400, [])
    assert "the limits of a virtual host are the parameter 'limits', not 'other'" in answer.json["reason"]


@pytest.mark.parametrize(
    ("version", "statuses"), [("4.3", [400, 201, 201]), ("4.0", [400, 400, 201]), ("3.10", [201, 201, 201])]
)
def test_4_0_refuses_a_virtual_host_with_a_queue_type_that_is_none(
    version: RabbitMQVersion, statuses: list[int]
) -> None:
    with Broker(rabbitmq=version, management=True) as broker:
        answered = [
            ask(broker, "PUT", f"/api/vhosts/v{number}", {"default_queue_type": kind}).status
            for number, kind in enumerate(("nonsense", None, "undefined"))
        ]

    assert answered == statuses


@pytest.mark.parametrize(
    ("version", "section", "flag", "status"),
    [
        ("4.3", "exchanges", "durable", 204),
        ("4.0", "exchanges", "durable", 400),
        ("4.0", "exchanges", "auto_delete", 204),
        ("4.0", "queues", "durable", 204),
        ("3.10", "queues", "durable", 400),
        ("3.10", "queues", "auto_delete", 400),
        ("3.10", "exchanges", "durable", 400),
    ],
)
def test_definitions_need_the_flags_without_which_the_version_crashes(
    version: RabbitMQVersion, section: str, flag: str, status: int
) -> None:
    item = {name: value for name, value in (_QUEUE if section == "queues" else _EXCHANGE).items() if name != flag}

    with Broker(rabbitmq=version, management=True) as broker:
        answer = ask(broker, "POST", "/api/definitions/%2F", {section: [item]}, headers=_JSON)

    assert answer.status == status
