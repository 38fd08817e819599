"""Retention of streams: whole segments, by bytes and by age, and its effect on readers."""

from __future__ import annotations

import pytest

from leveret.core.model.operators.policy import Policy
from leveret.core.model.queues.queue import Queue
from tests.model.streams import read, settle, stream
from tests.model.world import MINUTE, SECOND, World, bodies, inbox


@pytest.fixture
def world() -> World:
    return World()


def first_body(queue: Queue) -> bytes:
    return inbox(read(queue, prefetch_count=1)).bodies[0]


def test_the_oldest_segments_are_dropped_when_the_log_is_too_long(world: World) -> None:
    queue = stream(world, stream_max_segment_size_bytes=1000, max_length_bytes=2000)

    world.fill(queue, *[b"%0100d" % number for number in range(33)])

    assert int(first_body(queue)) == 28
    assert len(queue.ready) == 5
    dropped = world.events("dropped")
    assert [int(event.message.body) for event in dropped] == list(range(28))
    assert {event.reason for event in dropped} == {"retention"}


def test_every_segment_but_the_first_uses_up_one_offset_for_a_record(world: World) -> None:
    queue = stream(world, stream_max_segment_size_bytes=1000)

    world.fill(queue, *[b"%0100d" % number for number in range(10)])

    assert [entry.position for entry in queue.ready] == [0, 1, 2, 3, 5, 6, 7, 8, 10, 11]
    assert [entry.position for entry in inbox(read(queue, 4))] == [5, 6, 7, 8, 10, 11]
    assert [entry.position for entry in inbox(read(queue, 9))] == [10, 11]


def test_old_segments_are_dropped_only_when_a_new_one_begins(world: World) -> None:
    queue = stream(world, stream_max_segment_size_bytes=1000, max_age="1m")
    world.fill(queue, *[b"%0100d" % number for number in range(10)])

    world.elapse(120_000)
    before = first_body(queue)
    world.fill(queue, *[b"%0100d" % number for number in range(10, 13)])

    assert int(before) == 0
    assert int(first_body(queue)) == 8


def test_a_segment_stays_while_its_last_message_is_young(world: World) -> None:
    queue = stream(world, stream_max_segment_size_bytes=1000, max_age="1m")
    world.fill(queue, *[b"%0100d" % number for number in range(3)])
    world.elapse(120_000)

    world.fill(queue, b"3" * 100, b"4")

    assert int(first_body(queue)) == 0


def test_the_newest_segment_always_stays(world: World) -> None:
    queue = stream(world, max_length_bytes=1, max_age="1s")

    world.fill(queue, b"0", b"1")
    world.elapse(60_000)
    world.node.restart()

    assert bodies(queue.ready) == [b"0", b"1"]


def test_a_policy_applies_at_once(world: World) -> None:
    queue = stream(world, stream_max_segment_size_bytes=1000)
    world.fill(queue, *[b"%0100d" % number for number in range(10)])

    world.vhost.policies.user.set(Policy("p", "s", {"max-length-bytes": 1000}, apply_to="streams"))
    world.vhost.policies_changed()

    assert int(first_body(queue)) == 8


@pytest.mark.parametrize(
    ("argument", "policy", "span_us"),
    [("1m", "90s", MINUTE), ("90s", "1m", MINUTE), (None, "1s", SECOND), ("1s", None, SECOND), (None, None, None)],
)
def test_the_shorter_of_two_ages_applies(
    world: World, argument: str | None, policy: str | None, span_us: int | None
) -> None:
    if policy is not None:
        world.vhost.policies.user.set(Policy("p", "s", {"max-age": policy}))

    queue = stream(world) if argument is None else stream(world, max_age=argument)

    assert queue.settings.max_age_us == span_us


def test_a_reader_before_the_start_of_the_log_begins_with_its_first_message(world: World) -> None:
    queue = stream(world, stream_max_segment_size_bytes=1000, max_length_bytes=2000)
    consumer = read(queue, prefetch_count=1)
    world.fill(queue, *[b"%0100d" % number for number in range(33)])

    settle(queue, consumer)

    assert [int(body) for body in inbox(consumer).bodies] == [0, 28]
