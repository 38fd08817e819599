"""Deliveries parsed from a connection's bytes, however those are split; and the identity of a message."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import body, commands, frame, header, heartbeat

from leveret.spark.amqp.deliveries import Delivery, DeliveryTap, delivery_tag, identities, is_redelivered

HEARTBEAT = frame.marshal(heartbeat.Heartbeat(), 0)


def delivery(octets: bytes, *, tag: int = 1, redelivered: bool = False, pieces: int = 1, **properties: object) -> bytes:
    method = commands.Basic.Deliver("ctag", tag, redelivered, "shop", "order.placed")
    frames = [frame.marshal(method, 1)]
    frames += [frame.marshal(header.ContentHeader(0, len(octets), commands.Basic.Properties(**properties)), 1)]
    size = -(-len(octets) // pieces) or 1
    frames += [frame.marshal(body.ContentBody(octets[at : at + size]), 1) for at in range(0, len(octets), size)]
    return b"".join(frames)


def returned(octets: bytes) -> bytes:
    method = commands.Basic.Return(312, "NO_ROUTE", "shop", "order.lost")
    head = header.ContentHeader(0, len(octets), commands.Basic.Properties())
    return b"".join(frame.marshal(part, 1) for part in (method, head, body.ContentBody(octets)))


def tapped(chunks: list[bytes]) -> tuple[list[Delivery], bytes]:
    kept: list[Delivery] = []
    passed: list[bytes] = []
    tap = DeliveryTap(passed.append, kept.extend)
    for chunk in chunks:
        tap.feed(chunk)
    return kept, b"".join(passed)


def without_heartbeats(octets: bytes) -> bytes:
    return octets.replace(HEARTBEAT, b"")


STREAM = (
    frame.marshal(commands.Basic.ConsumeOk("ctag"), 1)
    + delivery(b"first", tag=1)
    + returned(b"came back")
    + delivery(b"", tag=2)
    + HEARTBEAT
    + delivery(b"in several frames", tag=3, redelivered=True, pieces=4)
    + frame.marshal(commands.Queue.DeclareOk("orders", 5, 1), 1)
    + delivery(b"last", tag=4)
)


@settings(deadline=None)
@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_any_split_of_the_bytes_gives_the_same_deliveries_and_leaves_the_rest(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]

    kept, passed = tapped([STREAM[start:end] for start, end in pairwise(places) if end > start])

    assert [one[2] for one in kept] == [b"first", b"", b"in several frames", b"last"]
    assert [delivery_tag(one) for one in kept] == [1, 2, 3, 4]
    assert [is_redelivered(one) for one in kept] == [False, False, True, False]
    rest = frame.marshal(commands.Basic.ConsumeOk("ctag"), 1) + returned(b"came back")
    rest += frame.marshal(commands.Queue.DeclareOk("orders", 5, 1), 1)
    assert without_heartbeats(passed) == rest


def test_pika_gets_a_heartbeat_in_place_of_taken_deliveries() -> None:
    _, passed = tapped([delivery(b"all that came")])

    assert passed == HEARTBEAT


# The answer of another version of AMQP, and of TLS, which is shorter than any frame.
@pytest.mark.parametrize("octets", [b"AMQP\x00\x00\x09\x01", b"\x15\x03\x03\x00\x02\x02\x46"])
def test_bytes_of_another_protocol_are_left_to_pika(octets: bytes) -> None:
    assert tapped([octets]) == ([], octets)


def test_a_message_has_the_same_identity_at_every_delivery() -> None:
    (first, again), _ = tapped(
        [
            delivery(b"x", tag=1, message_id="7", content_type="text/plain"),
            delivery(
                b"x",
                tag=9,
                redelivered=True,
                message_id="7",
                content_type="text/plain",
                headers={"x-delivery-count": 1},
            ),
        ]
    )

    assert identities([first]) == identities([again])


def test_different_messages_have_different_identities() -> None:
    different = [
        delivery(b"x"),
        delivery(b"y"),
        delivery(b"x", message_id="1"),
        delivery(b"x", message_id="2"),
        delivery(b"x", correlation_id="1"),
        delivery(b"x", delivery_mode=2),
    ]

    kept, _ = tapped(different)

    assert len(set(identities(kept))) == len(different)
