"""What comes next if a get over HTTP gives its message back, as 4.3.6, 4.0.5 and 3.10.8 answer."""

from __future__ import annotations

import pytest

from leveret import Broker
from tests.http.client import ask


@pytest.mark.parametrize("version", ["4.3", "4.0", "3.10"])
def test_a_get_that_gives_back_gets_the_first_message_of_a_quorum_queue_again(version: str) -> None:
    with Broker(rabbitmq=version, management=True) as broker:
        broker.declare_queue("q", arguments={"x-queue-type": "quorum"})
        for body in (b"m0", b"m1", b"m2"):
            broker.publish("", "q", body)
        wanted = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}

        got = [ask(broker, "POST", "/api/queues/%2F/q/get", wanted).json[0]["payload"] for _ in range(3)]

    assert got == ["m0", "m0", "m0"]
