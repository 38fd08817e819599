"""The form in which a stream stores a message, and the messages that a filter passes."""

from __future__ import annotations

import pytest

from leveret.core.model.errors import InternalRefusal
from leveret.core.wire.values import Field
from tests.model.streams import read, settle, stream
from tests.model.world import World, headers_of, inbox


@pytest.fixture
def world() -> World:
    return World()


def test_delivery_mode_is_one_unless_it_was_two(world: World) -> None:
    queue = stream(world)
    world.publish(b"none", "s")
    world.publish(b"two", "s", delivery_mode=2)
    world.publish(b"five", "s", delivery_mode=5)

    modes = [entry.message.properties.delivery_mode for entry in queue.ready]

    assert modes == [1, 2, 1]


def test_some_headers_and_the_cluster_id_are_lost(world: World) -> None:
    queue = stream(world)
    headers = {"a": [1], "t": {"n": 1}, "x-a": [1], "CC": ["z"], "n": 1, "o": Field("x", b"o")}

    world.publish(b"0", "s", headers=headers, cluster_id="c")

    (entry,) = queue.ready
    assert headers_of(entry) == {"CC": ["z"], "n": 1, "o": "o", "x-a": [1], "x-stream-offset": 0}
    assert entry.message.properties.cluster_id is None


def test_a_decimal_header_breaks_the_connection(world: World) -> None:
    queue = stream(world)

    with pytest.raises(InternalRefusal):
        world.publish(b"0", "s", headers={"d": Field("D", (1, 5))})

    assert not len(queue.ready)


def test_a_dead_letter_with_a_decimal_header_arrives_without_it(world: World) -> None:
    target = stream(world)
    source = world.queue("q", dead_letter_exchange="", dead_letter_routing_key="s", max_length=0)

    world.fill(source, b"0", headers={"d": Field("D", (1, 5))})

    (entry,) = target.ready
    assert "d" not in headers_of(entry)


def test_a_dead_letter_with_an_invalid_filter_value_has_none(world: World) -> None:
    target = stream(world)
    source = world.queue("q", dead_letter_exchange="", dead_letter_routing_key="s", max_length=0)

    world.fill(source, b"0", headers={"x-stream-filter-value": 5})

    assert inbox(read(target, filter="5")).bodies == []
    assert inbox(read(target, filter="")).bodies == [b"0"]


@pytest.mark.parametrize(
    ("wanted", "arguments"),
    [
        ([b"a", b"a2"], {"filter": "a"}),
        ([b"a", b"b", b"a2"], {"filter": ["a", "b"]}),
        ([b"a", b"none", b"a2"], {"filter": "a", "match_unfiltered": True}),
        ([b"none"], {"filter": ""}),
        ([b"a", b"b", b"none", b"a2"], {"match_unfiltered": True}),
        ([b"a", b"b", b"none", b"a2"], {"filter": 5}),
        ([], {"filter": "z"}),
    ],
)
def test_a_filter_passes_the_values_it_names(world: World, wanted: list[bytes], arguments: dict[str, object]) -> None:
    queue = stream(world)
    for body, value in ((b"a", "a"), (b"b", "b"), (b"none", None), (b"a2", "a")):
        world.publish(body, "s", headers={} if value is None else {"x-stream-filter-value": value})

    consumer = read(queue, **arguments)

    assert inbox(consumer).bodies == wanted


def test_a_filter_applies_to_later_messages(world: World) -> None:
    queue = stream(world)
    consumer = read(queue, filter="a", prefetch_count=1)

    for body, value in ((b"0", "b"), (b"1", "a"), (b"2", "b"), (b"3", "a")):
        world.publish(body, "s", headers={"x-stream-filter-value": value})
    settle(queue, consumer)

    assert inbox(consumer).bodies == [b"1", b"3"]


def test_before_4_0_a_stream_drops_more_headers_and_adds_none() -> None:
    world = World("3.10")
    queue = stream(world)
    headers = {"CC": ["z"], "x-a": [1], "n": 1, "o": Field("x", b"o")}

    world.publish(b"0", "s", headers=headers)

    (entry,) = queue.ready
    assert headers_of(entry) == {"n": 1, "o": b"o", "x-stream-offset": 0}
    assert entry.message.properties.delivery_mode is None
