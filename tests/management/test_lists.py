"""A wrong order of a list is a clear 400, where RabbitMQ crashes (500, seen on 4.3.6, 4.0.5 and 3.10.8)."""

from __future__ import annotations

import pytest

from leveret import Broker
from leveret.core.compat import RabbitMQVersion
from tests.http.client import ask


@pytest.mark.parametrize("key", ["name.foo", "durable.x", "arguments.x-max-length.y"])
def test_an_order_by_a_key_within_what_is_no_object_is_refused(key: str) -> None:
    with Broker(management=True) as broker:
        broker.declare_queue("q", arguments={"x-max-length": 5})

        answer = ask(broker, "GET", f"/api/queues/%2F?sort={key}")

    part = key.rpartition(".")[2]
    reason = f"sort={key}: what stands before {part!r} is no object"
    assert (answer.status, answer.json) == (400, {"error": "bad_request", "reason": reason})


@pytest.mark.parametrize(("version", "status"), [("4.3", 200), ("4.0", 400), ("3.10", 400)])
def test_an_order_that_is_reversed_by_another_word_is_refused_before_4_2(version: RabbitMQVersion, status: int) -> None:
    with Broker(rabbitmq=version, management=True) as broker:
        assert ask(broker, "GET", "/api/queues?sort=name&sort_reverse=x").status == status
