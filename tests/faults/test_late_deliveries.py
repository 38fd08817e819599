"""A delivery that a fault holds back until its queue has taken it back."""

from __future__ import annotations

from contextlib import suppress

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from leveret import Broker
from leveret.core.compat import RabbitMQVersion


@pytest.mark.parametrize("version", ["4.3", "4.0"])
def test_a_delivery_later_than_the_consumer_timeout_is_not_sent_any_more(version: RabbitMQVersion) -> None:
    with Broker(rabbitmq=version) as broker:
        broker.declare_queue("orders", arguments={"x-queue-type": "quorum"})
        slow, quick = billing(broker), billing(broker)
        slow.basic_consume("orders", lambda *_: pytest.fail("it was delivered twice"))
        broker.faults.delay("basic.deliver", seconds=4000, times=1)
        broker.publish("", "orders", b"1")

        broker.clock.advance(2000, settle=0)
        method, _, _ = quick.basic_get("orders")
        quick.basic_ack(method.delivery_tag)
        broker.clock.advance(4000, settle=0)
        with suppress(pika.exceptions.ChannelClosedByBroker):
            slow.connection.process_data_events(0.05)

        broker.assert_delivered("orders", times=1)
        broker.assert_acked("orders", times=1)
        slow.connection.close()
        quick.connection.close()


def billing(broker: Broker) -> BlockingChannel:
    return pika.BlockingConnection(pika.URLParameters(broker.url)).channel()
