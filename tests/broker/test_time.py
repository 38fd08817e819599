"""Moving time: each deadline happens at its own instant, and clients react in between."""

from __future__ import annotations

from itertools import pairwise

import pytest

from leveret import Broker

RETRY_MS = 60_000


def declare_with_retry(broker: Broker) -> None:
    """Declare queues in which a message rejected from `orders` waits a minute in `retry` and comes back."""
    broker.declare_queue("orders", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "retry"})
    broker.declare_queue(
        "retry",
        arguments={"x-message-ttl": RETRY_MS, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders"},
    )


def test_a_message_expires_at_its_deadline(broker: Broker) -> None:
    broker.declare_queue("orders", arguments={"x-message-ttl": 30_000})
    broker.publish("", "orders", b"x")

    broker.clock.advance(seconds=29)
    assert len(broker.queue("orders").ready) == 1

    broker.clock.advance(ms=1_001)
    assert broker.queue("orders").ready == ()
    broker.assert_dropped("orders", reason="expired")


def test_held_time_stands_still(broker: Broker) -> None:
    broker.clock.hold()
    now = broker.clock.now
    broker.sync()
    assert broker.clock.now == now

    broker.clock.advance(minutes=1, hours=1)

    assert broker.clock.now == now + 3_660
    assert broker.clock.is_held
    broker.clock.release()
    assert not broker.clock.is_held
    assert broker.clock.now >= now + 3_660


def test_a_worker_goes_through_its_retries(broker: Broker, work) -> None:
    declare_with_retry(broker)
    seen = []

    def reject(channel, body: bytes) -> str:
        seen.append(broker._engine.clock.now())
        return "reject"

    work("orders", reject)
    broker.clock.hold()
    broker.publish("", "orders", b"x")
    broker.assert_dead_lettered("orders", timeout=5)

    broker.clock.advance(minutes=5)

    assert len(seen) == 6
    assert {after - before for before, after in pairwise(seen)} == {RETRY_MS * 1000}


def test_time_advances_although_a_client_does_not_react(broker: Broker, work) -> None:
    broker.declare_queue("late", arguments={"x-message-ttl": 1_000, "x-dead-letter-exchange": "amq.fanout"})
    broker.declare_queue("orders")
    broker.bind_queue("orders", "amq.fanout")
    work("orders", lambda channel, body: "keep")
    broker.publish("", "late")

    broker.clock.advance(10, settle=0.01)

    assert len(broker.queue("orders").unacked) == 1


def test_liveness_stays_on_real_time(broker: Broker, channel) -> None:
    broker.clock.advance(hours=24)

    assert len(broker.connections) == 1
    channel.queue_declare("orders", durable=True)


def test_heartbeats_follow_held_time_on_request(broker: Broker, channel) -> None:
    broker.clock.advance(hours=1, heartbeats=True)

    assert broker.connections == []


@pytest.mark.parametrize("stopped", ["freezegun", "time_machine"])
def test_a_broker_lives_on_when_a_test_stops_pythons_clocks(broker: Broker, stopped: str) -> None:
    stopper = pytest.importorskip(stopped)
    stop = stopper.freeze_time("2001-01-01") if stopped == "freezegun" else stopper.travel("2001-01-01", tick=False)
    broker.declare_queue("orders")

    with stop:
        broker.publish("", "orders", expiration="5")
        broker.assert_dropped("orders", reason="expired", timeout=5)
        broker.wait_idle()


def test_time_does_not_go_backwards(broker: Broker) -> None:
    with pytest.raises(ValueError, match="backwards"):
        broker.clock.advance(-1)
