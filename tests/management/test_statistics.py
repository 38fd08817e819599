"""Counts and rates that no server could answer alike: over time, after a reset, and without recorded events."""

from __future__ import annotations

from typing import Any

from leveret import Broker
from leveret.http.management.management import Management

from .asking import ask, management_of


def got(management: Management, path: str) -> Any:
    status, value = ask(management, "GET", path)
    assert status == 200
    return value


def test_a_rate_is_what_happened_in_the_last_five_seconds() -> None:
    with Broker() as broker:
        broker.clock.hold()
        broker.declare_queue("q")
        for _ in range(10):
            broker.publish("", "q", "x")
        management = management_of(broker)

        queue = got(management, "/queues/%2F/q")
        broker.clock.advance(seconds=6)
        later = got(management, "/queues/%2F/q")

    assert queue["message_stats"]["publish_details"]["rate"] == 2.0
    assert queue["messages_details"]["rate"] == 2.0
    assert later["message_stats"]["publish_details"]["rate"] == 0.0
    assert later["message_stats"]["publish"] == 10


def test_a_reset_begins_to_count_again() -> None:
    with Broker() as broker:
        broker.declare_queue("q")
        broker.publish("", "q", "x")
        management = management_of(broker)
        assert got(management, "/overview")["message_stats"]["publish"] == 1

        broker.reset()

        assert "publish" not in got(management, "/overview")["message_stats"]


def test_without_recorded_events_lengths_are_known_and_nothing_is_counted() -> None:
    with Broker(record="off") as broker:
        broker.declare_queue("q")
        broker.publish("", "q", "x")

        queue = got(management_of(broker), "/queues/%2F/q")

    assert queue["messages"] == 1
    assert "message_stats" not in queue


def test_a_deleted_queue_leaves_no_counts_to_its_namesake() -> None:
    with Broker() as broker:
        broker.declare_queue("q")
        broker.publish("", "q", "x")
        management = management_of(broker)
        got(management, "/queues/%2F/q")

        broker.delete_queue("q")
        broker.declare_queue("q")

        assert "message_stats" not in got(management, "/queues/%2F/q")
