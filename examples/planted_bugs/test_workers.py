"""Exploration finds each bug and reports the shortest way to it; the worker without a bug withstands every fault."""

from __future__ import annotations

import pytest

import leveret
from examples.planted_bugs.bugs import AcknowledgesFirst, ForgetsItsConsumer, ShipsTwice
from examples.planted_bugs.story import Shipping
from examples.planted_bugs.worker import Worker


def shortest_failure(kind: type[Worker]) -> str:
    with pytest.raises(leveret.ExplorationFailedError) as failure:
        leveret.explore(Shipping(kind))
    return str(failure.value)


@pytest.mark.parametrize("kind", [Worker, AcknowledgesFirst, ShipsTwice, ForgetsItsConsumer])
def test_every_worker_passes_while_nothing_goes_wrong(leveret: leveret.Broker, kind: type[Worker]) -> None:
    Shipping(kind)(leveret)


def test_a_worker_without_a_bug_withstands_every_fault_at_every_step() -> None:
    found = leveret.explore(Shipping(Worker))

    assert found.passed_count == found.run_count > len(found.steps)


def test_an_order_acknowledged_too_early_is_lost_with_the_connection() -> None:
    report = shortest_failure(AcknowledgesFirst)

    assert report.startswith("one fault is enough: lost after conn 1 chan 1 client->server basic.ack #1\n")
    assert (
        "  conn 1 chan 1 server->client basic.deliver #1  'order 1' from orders\n"
        "  conn 1 chan 1 client->server basic.ack #1  'order 1' from orders\n"
        "      *** connection 1 is lost after the broker has handled this; no answer arrives ***\n"
        "  conn 2 chan 0 client->server connection.open #1\n"
    ) in report
    assert "  'order 1' to the default exchange, key 'shipped', was never published\n" in report
    assert 'explore(scenario, only="lost after conn 1 chan 1 client->server basic.ack #1")' in report


def test_an_order_that_is_delivered_twice_is_shipped_twice() -> None:
    report = shortest_failure(ShipsTwice)

    assert report.startswith("one fault is enough: lost after conn 1 chan 1 server->client basic.deliver #1\n")
    assert (
        "  conn 1 chan 1 server->client basic.deliver #1  'order 1' from orders\n"
        "      *** connection 1 is lost once the client has got this ***\n"
        "  conn 2 chan 0 client->server connection.open #1\n"
    ) in report
    assert ("Unlike the run without a fault:\n  'order 1' from orders was delivered twice instead of once\n") in report
    assert "  AssertionError: taken out of stock: [b'order 1', b'order 1', b'order 2']" in report


def test_a_worker_that_reconnects_and_does_not_consume_leaves_orders_in_the_queue() -> None:
    report = shortest_failure(ForgetsItsConsumer)

    assert report.startswith("one fault is enough: lost after conn 1 chan 1 server->client basic.consume-ok #1\n")
    assert "  conn 1 chan 1 client->server basic.consume #1  orders\n" in report
    assert "  conn 2 chan 1 client->server basic.qos #1\n" in report
    assert "conn 2 chan 1 client->server basic.consume" not in report
    assert "  'order 2' from orders was never delivered\n" in report
