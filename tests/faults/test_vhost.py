"""Faults for one virtual host: clients of the others notice nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from leveret import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        for name in ("one", "other"):
            broker.admin.add_vhost(name)
            broker.admin.set_permissions("guest", name)
            broker.declare_queue("jobs", vhost=name)
            broker.publish("", "jobs", "x", vhost=name)
        yield broker


@contextmanager
def channel_in(broker: Broker, vhost: str) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url_for(vhost)))
    try:
        yield connection.channel()
    finally:
        if connection.is_open:
            connection.close()


def ack(channel: BlockingChannel) -> None:
    method, _, _ = channel.basic_get("jobs")
    channel.basic_ack(method.delivery_tag)
    channel.queue_declare("jobs", passive=True)


def test_a_method_in_another_virtual_host_does_not_fire(broker: Broker) -> None:
    rule = broker.faults.reset_peer(on="basic.ack", vhost="one")

    with channel_in(broker, "other") as channel:
        ack(channel)
    assert rule.fired == 0
    with channel_in(broker, "one") as channel, pytest.raises(pika.exceptions.AMQPConnectionError):
        ack(channel)

    assert rule.fired == 1


def test_an_event_without_a_connection_has_a_virtual_host_too(broker: Broker) -> None:
    rule = broker.faults.expire(vhost="one", times=1)

    broker.publish("", "jobs", "x", vhost="other")
    assert rule.fired == 0
    broker.publish("", "jobs", "x", vhost="one")

    assert rule.fired == 1


def test_connections_of_another_virtual_host_stay_open(broker: Broker) -> None:
    with channel_in(broker, "one") as hit, channel_in(broker, "other") as spared:
        broker.faults.close_connection(vhost="one")

        spared.queue_declare("jobs", passive=True)
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
            hit.queue_declare("jobs", passive=True)


@pytest.mark.parametrize("on", ["accept", "connection.start-ok", "connection.open"])
def test_a_virtual_host_that_is_not_known_yet_is_refused(broker: Broker, on: str) -> None:
    with pytest.raises(ValueError, match=f"vhost='one' never matches: {on} has no vhost; leave vhost= out"):
        broker.faults.reset_peer(on=on, vhost="one")
