"""A broker that goes on as its own copy after every turn answers recorded programs as the server did.

Some of the programs; `python -m tests.snapshot.campaign` runs all of them, and every scenario of three versions.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import pika
import pytest

from leveret import Broker
from tests.lockstep import recordings
from tests.lockstep.recordings import Recording

from .campaign import difference_of
from .swapping import Swapping

CASES = [
    pytest.param(version, recording, id=f"{version}-{recording.kind}-{recording.seed}")
    for version in recordings.versions()
    for recording in recordings.load(version)[::24]
]


@pytest.mark.parametrize(("version", "recording"), CASES)
@pytest.mark.filterwarnings("ignore")
def test_a_broker_goes_on_as_its_own_copy(version: str, recording: Recording) -> None:
    assert difference_of(recording, version) == ""


@pytest.fixture
def swapped() -> Iterator[Broker]:
    with Broker(tls=True, plugins={"rabbitmq_event_exchange"}) as broker:
        swapping = Swapping(broker)
        yield broker
        assert swapping.swap_count > 0


def test_a_client_with_tls_goes_on(swapped: Broker) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    options = pika.SSLOptions(context, "localhost")
    parameters = pika.ConnectionParameters(swapped.host, swapped.tls.port, ssl_options=options)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.queue_declare("orders", durable=True)
        channel.basic_publish("", "orders", b"one")

        assert channel.basic_get("orders", auto_ack=True)[2] == b"one"


def test_the_event_exchange_goes_on(swapped: Broker) -> None:
    with pika.BlockingConnection(pika.URLParameters(swapped.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("events", durable=True)
        channel.queue_bind("events", "amq.rabbitmq.event", "queue.created")
        channel.queue_declare("orders", durable=True)

        method, _, _ = channel.basic_get("events", auto_ack=True)

    assert method.routing_key == "queue.created"


def test_the_firehose_goes_on(swapped: Broker) -> None:
    swapped.admin.trace_on()
    with pika.BlockingConnection(pika.URLParameters(swapped.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("traced", durable=True)
        channel.queue_bind("traced", "amq.rabbitmq.trace", "publish.#")
        channel.basic_publish("amq.topic", "orders", b"one")

        assert channel.basic_get("traced", auto_ack=True)[2] == b"one"


def test_a_delivery_that_a_fault_holds_back_comes_late(swapped: Broker) -> None:
    swapped.faults.delay("basic.deliver", seconds=60)
    with pika.BlockingConnection(pika.URLParameters(swapped.url)) as connection:
        channel, got = connection.channel(), []
        channel.queue_declare("orders", durable=True)
        channel.basic_consume("orders", lambda *delivery: got.append(delivery[3]))
        channel.basic_publish("", "orders", b"one")
        connection.process_data_events(0)
        assert got == []

        swapped.clock.advance(minutes=2, settle=0)
        while not got:
            connection.process_data_events(0.1)

    assert got == [b"one"]
