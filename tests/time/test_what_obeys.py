"""Every timer of a broker follows the test's clock, each at its own instant."""

from __future__ import annotations

from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from leveret import Broker

# Messages expire on purpose here, also where no queue takes them.
pytestmark = pytest.mark.leveret(checks="expired_into_nothing=off")

MINUTE_MS = 60_000
DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


@pytest.fixture
def channel(leveret: Broker) -> Iterator[BlockingChannel]:
    with pika.BlockingConnection(pika.URLParameters(leveret.url)) as connection:
        yield connection.channel()


@pytest.fixture(autouse=True)
def held(leveret: Broker) -> None:
    leveret.clock.hold()


def just_before_and_at(broker: Broker, span_ms: int) -> Iterator[str]:
    """Move the clock to a millisecond before a deadline, and then to it."""
    broker.clock.advance(ms=span_ms - 1)
    yield "before"
    broker.clock.advance(ms=1)
    yield "at"


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.parametrize("whose", ["message", "queue"])
def test_the_time_to_live_of_messages(leveret: Broker, kind: str, whose: str) -> None:
    ttl = {"x-message-ttl": 10 * MINUTE_MS} if whose == "queue" else {}
    leveret.declare_queue("orders", arguments={"x-queue-type": kind, **ttl})
    leveret.publish("", "orders", expiration=str(10 * MINUTE_MS) if whose == "message" else None)

    counts = [len(leveret.queue("orders").ready) for _ in just_before_and_at(leveret, 10 * MINUTE_MS)]

    assert counts == [1, 0]


def test_the_expiry_of_an_unused_queue(leveret: Broker) -> None:
    leveret.declare_queue("orders", arguments={"x-expires": 10 * MINUTE_MS})

    counts = [len(leveret.queues) for _ in just_before_and_at(leveret, 10 * MINUTE_MS)]

    assert counts == [1, 0]


def test_a_policy_that_gives_messages_and_queues_their_time(leveret: Broker) -> None:
    leveret.declare_queue("orders")
    leveret.admin.set_policy("times", ".*", {"message-ttl": MINUTE_MS, "expires": 3 * MINUTE_MS}, apply_to="queues")
    leveret.publish("", "orders")

    counts = [len(leveret.queue("orders").ready) for _ in just_before_and_at(leveret, MINUTE_MS)]
    leveret.clock.advance(minutes=2)

    assert counts == [1, 0]
    assert leveret.queues == []


def test_messages_of_the_delayed_message_exchange(leveret: Broker) -> None:
    leveret.declare_exchange("later", type="x-delayed-message", arguments={"x-delayed-type": "direct"})
    leveret.declare_queue("orders")
    leveret.bind_queue("orders", "later", "orders")
    leveret.publish("later", "orders", headers={"x-delay": 10 * MINUTE_MS})

    counts = [len(leveret.queue("orders").ready) for _ in just_before_and_at(leveret, 10 * MINUTE_MS)]

    assert counts == [0, 1]


def test_delayed_retries_of_a_quorum_queue(leveret: Broker, channel: BlockingChannel) -> None:
    delay = {"x-delayed-retry-type": "all", "x-delayed-retry-min": MINUTE_MS, "x-delayed-retry-max": MINUTE_MS}
    leveret.declare_queue("orders", arguments={"x-queue-type": "quorum", **delay})
    leveret.publish("", "orders")
    method, _, _ = channel.basic_get("orders")
    channel.basic_nack(method.delivery_tag)

    counts = [len(leveret.queue("orders").ready) for _ in just_before_and_at(leveret, MINUTE_MS)]

    assert counts == [0, 1]


@pytest.mark.leveret(checks="unseen_channel_error=off")
def test_the_delivery_timeout_of_a_held_message(leveret: Broker, channel: BlockingChannel) -> None:
    leveret.declare_queue("orders", arguments={"x-queue-type": "quorum"})
    leveret.publish("", "orders")
    channel.basic_get("orders")

    counts = [len(leveret.queue("orders").ready) for _ in just_before_and_at(leveret, 30 * MINUTE_MS)]

    assert counts == [0, 1]


def test_at_least_once_dead_lettering_retries_after_three_minutes(leveret: Broker) -> None:
    """At-least-once dead-lettering tries again every three minutes; meanwhile the test declares the target queue."""
    surely = {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
    leveret.declare_queue("orders", arguments={"x-queue-type": "quorum", "x-message-ttl": 0, **surely, **DEAD})
    leveret.publish("", "orders")
    leveret.sync()
    leveret.declare_queue("dead")

    counts = [len(leveret.queue("dead").ready) for _ in just_before_and_at(leveret, 3 * MINUTE_MS)]

    assert counts == [0, 1]


def test_the_age_of_what_a_stream_retains(leveret: Broker) -> None:
    """Like RabbitMQ, a stream checks ages when it opens a segment, so the next new message makes the old one go."""
    retention = {"x-max-age": "1h", "x-stream-max-segment-size-bytes": 100}
    leveret.declare_queue("log", arguments={"x-queue-type": "stream", **retention})
    leveret.publish("", "log", b"old")

    leveret.clock.advance(hours=2)
    leveret.publish("", "log", b"new")

    leveret.assert_dropped("log", reason="retention", body=b"old")
    assert [message.body for message in leveret.queue("log").ready] == [b"new"]


def test_the_instants_in_headers_are_those_of_the_clock(leveret: Broker) -> None:
    leveret.declare_queue("dead")
    leveret.clock.hold()
    leveret.declare_queue("orders", arguments={"x-message-ttl": 24 * 60 * MINUTE_MS, **DEAD})
    leveret.publish("", "orders")

    leveret.clock.advance(days=1)

    (dead,) = leveret.queue("dead").ready
    assert dead.deaths[0].time == int(leveret.clock.now)
