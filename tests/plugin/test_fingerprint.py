"""The fingerprint of a test, by which an upgrade is rehearsed: what clients could observe, as counted facts."""

from __future__ import annotations

import pika
import pytest
from pytest_leveret.rehearsals.fingerprint import Fingerprint

from leveret import Broker


def fingerprint_of(broker: Broker) -> Fingerprint:
    fingerprint = Fingerprint()
    fingerprint.add(broker.events, is_complete=True)
    return fingerprint


def counts(broker: Broker) -> dict[str, int]:
    """Return how often each fact about the queue came, by its words."""
    facts = fingerprint_of(broker).facts.items()
    return {f"{fact.what} {fact.value}".strip(): count for fact, count in facts if fact.where == "in jobs"}


@pytest.fixture
def connection(leveret: Broker) -> pika.BlockingConnection:
    leveret.declare_queue("jobs")
    leveret.publish("", "jobs", b"7")
    return pika.BlockingConnection(pika.URLParameters(leveret.url))


def test_only_the_first_delivery_of_a_message_is_a_fact(leveret: Broker, connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    for _ in range(3):
        channel.basic_nack(channel.basic_get("jobs")[0].delivery_tag)
    channel.basic_ack(channel.basic_get("jobs")[0].delivery_tag)
    leveret.assert_acked("jobs", timeout=5)

    found = counts(leveret)
    connection.close()
    assert (found["message redelivered=False"], found["acked"]) == (1, 1)
    assert "message redelivered=True" not in found


def test_a_message_that_the_broker_acknowledges_itself_is_another_fact(
    leveret: Broker, connection: pika.BlockingConnection
) -> None:
    connection.channel().basic_get("jobs", auto_ack=True)
    leveret.assert_delivered("jobs", timeout=5)

    found = counts(leveret)
    connection.close()
    assert "acked by no-ack" in found
    assert "acked" not in found


@pytest.mark.parametrize("leaves", [True, False])
def test_counts_do_not_compare_if_a_client_leaves_messages_behind(
    leveret: Broker, connection: pika.BlockingConnection, leaves: bool
) -> None:
    channel = connection.channel()
    method, _, _ = channel.basic_get("jobs")
    if not leaves:
        channel.basic_nack(method.delivery_tag)
    connection.close()
    leveret.assert_requeued("jobs", timeout=5)

    assert fingerprint_of(leveret).is_complete is not leaves
