"""Frames that are out of place, too large or broken, and methods that cannot be read."""

from __future__ import annotations

import pytest
from pamqp import body, commands, header, heartbeat
from pamqp.commands import Basic, Channel, Queue

from leveret.core.protocol.state import State
from tests.protocol.peer import Frame, Peer, Server, contents, declare, octets, publish_octets, the


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def peer(server: Server) -> Peer:
    peer = server.peer()
    peer.send(1, declare())
    peer.read()
    return peer


def raw(kind: int, channel: int, payload: bytes, end: int = 0xCE) -> bytes:
    return bytes((kind,)) + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + bytes((end,))


def close_after(peer: Peer, data: bytes) -> tuple[int, str, int, int]:
    peer.send_octets(data)
    close = the(peer.read(), commands.Connection.Close)
    return close.reply_code, close.reply_text, close.class_id, close.method_id


def publish(exchange: str = "") -> Frame:
    return Basic.Publish(exchange=exchange, routing_key="q")


def content_header(size: int, *, weight: int = 0) -> Frame:
    return header.ContentHeader(weight, size, Basic.Properties())


EXPECTED_HEADER = "expected content header for class 60, got non content header frame instead"
EXPECTED_BODY = "expected content body, got non content body frame instead"
MISPLACED = {
    "a header where a method is due": (
        octets(1, content_header(1)),
        (505, "UNEXPECTED_FRAME - expected method frame, got non method frame instead", 0, 0),
    ),
    "a body where a method is due": (
        octets(1, body.ContentBody(b"1")),
        (505, "UNEXPECTED_FRAME - expected method frame, got non method frame instead", 0, 0),
    ),
    "a method where a header is due": (
        octets(1, publish(), publish()),
        (505, f"UNEXPECTED_FRAME - {EXPECTED_HEADER}", 60, 40),
    ),
    "a body where a header is due": (
        octets(1, publish(), body.ContentBody(b"1")),
        (505, f"UNEXPECTED_FRAME - {EXPECTED_HEADER}", 60, 40),
    ),
    "a method where a body is due": (
        octets(1, publish(), content_header(1), publish()),
        (505, f"UNEXPECTED_FRAME - {EXPECTED_BODY}", 60, 40),
    ),
    "a header where a body is due": (
        octets(1, publish(), content_header(1), content_header(1)),
        (505, f"UNEXPECTED_FRAME - {EXPECTED_BODY}", 60, 40),
    ),
    "a header of another class": (
        octets(1, publish()) + raw(2, 1, b"\x00\x32" + b"\x00" * 12),
        (505, "UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead", 60, 40),
    ),
    "a header with a weight": (
        octets(1, publish()) + raw(2, 1, b"\x00\x3c\x00\x01" + b"\x00" * 10),
        (505, f"UNEXPECTED_FRAME - {EXPECTED_HEADER}", 60, 40),
    ),
    "more body than announced": (
        octets(1, publish(), content_header(1), body.ContentBody(b"12")),
        (501, "FRAME_ERROR - content body frame exceeds remaining content size", 60, 40),
    ),
    "more body announced than there may be": (
        octets(1, publish(), content_header(536870913)),
        (501, "FRAME_ERROR - content body size 536870913 exceeds maximum allowed size 536870912", 60, 40),
    ),
    "properties that cannot be read": (
        octets(1, publish()) + raw(2, 1, b"\x00\x3c\x00\x00" + b"\x00" * 8 + b"\x80\x00\xff"),
        (541, "INTERNAL_ERROR", 0, 0),
    ),
    "a field of an unknown type on channel 0": (
        raw(1, 0, b"\x00\x32\x00\x0a" + b"\x00\x00\x01q\x02" + b"\x00\x00\x00\x03\x01aQ"),
        (541, "INTERNAL_ERROR", 0, 0),
    ),
    "a heartbeat on a channel": (raw(8, 1, b""), (505, "UNEXPECTED_FRAME - type 8, all octets = <<>>", 0, 0)),
    "a heartbeat with a payload": (
        raw(8, 0, b"ab"),
        (501, 'FRAME_ERROR - type 8, all octets = <<"ab">>: unknown_frame', 0, 0),
    ),
    "a frame of an unknown kind": (
        raw(4, 1, b""),
        (501, "FRAME_ERROR - type 4, all octets = <<>>: unknown_frame", 0, 0),
    ),
    "a method of three bytes": (
        raw(1, 1, b"\x00\x0a\x00"),
        (501, "FRAME_ERROR - type 1, all octets = <<0,10,0>>: unknown_frame", 0, 0),
    ),
    "a header on channel 0": (
        raw(2, 0, b"\x00\x3c" + bytes(10)),
        (505, "UNEXPECTED_FRAME - type 2, all octets = <<0,60,0,0,0,0,0,0,0,0,0,0>>", 0, 0),
    ),
    "a header too short": (
        raw(2, 0, b"\x00\x3c"),
        (501, "FRAME_ERROR - type 2, all octets = <<0,60>>: unknown_frame", 0, 0),
    ),
    "arguments that are too short": (
        raw(1, 1, b"\x00\x32\x00\x1e\x00\x00\x05ab"),
        (501, "FRAME_ERROR - cannot decode <<0,0,5,97,98>>", 50, 30),
    ),
    "arguments that are too long": (
        raw(1, 1, b"\x00\x55\x00\x0a\x00\x00"),
        (501, "FRAME_ERROR - cannot decode <<0,0>>", 85, 10),
    ),
    "an unknown kind with much in it": (
        raw(7, 1, bytes(20)),
        (501, f"FRAME_ERROR - type 7, first 16 octets = <<{','.join('0' * 16)}>>: unknown_frame", 0, 0),
    ),
}


@pytest.mark.parametrize("case", MISPLACED)
def test_a_frame_out_of_place_ends_the_connection(peer: Peer, case: str) -> None:
    data, expected = MISPLACED[case]

    assert close_after(peer, data) == expected
    assert peer.connection.node.internal_errors == []


@pytest.mark.parametrize("method_id", [b"\x00\x32\x00\x63", b"\x00\x63\x00\x0a", b"\x00\x00\x00\x00"])
def test_an_unknown_method_resets_the_socket(peer: Peer, method_id: bytes) -> None:
    peer.send_octets(raw(1, 1, method_id))

    assert peer.read() == []
    assert peer.connection.is_reset


# The second is connection.start, which only a server sends.
@pytest.mark.parametrize("method", [b"\x00\x32\x00\x0a\x00\x00\x01q\x02%b", b"\x00\x0a\x00\x0a\x00\x09%b" + bytes(8)])
def test_a_field_of_an_unknown_type_resets_the_socket(peer: Peer, method: bytes) -> None:
    peer.send_octets(raw(1, 1, method % b"\x00\x00\x00\x03\x01aQ"))

    assert peer.read() == []
    assert peer.connection.is_reset


def test_a_frame_may_be_as_large_as_was_agreed(server: Server) -> None:
    peer = server.peer(frame_max=8192)
    peer.send(1, declare())
    peer.read()

    peer.send_octets(publish_octets(1, b"x" * 8192, chunk=8192))

    assert contents(peer.call(1, Basic.Get(queue="q"))) == [b"x" * 8192]


def test_a_frame_above_the_limit_is_refused_by_its_header_alone(server: Server) -> None:
    peer = server.peer(frame_max=8192)

    refusal = close_after(peer, b"\x03\x00\x01" + (8193).to_bytes(4, "big"))

    assert refusal == (501, "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,8193,8184}", 0, 0)


def test_until_tuning_ends_frames_are_small(server: Server) -> None:
    peer = server.stranger()
    peer.send_octets(b"AMQP\x00\x00\x09\x01")
    peer.read()

    peer.send_octets(b"\x01\x00\x00" + (8193).to_bytes(4, "big"))

    assert peer.read() == []
    assert peer.connection.state is State.ENDING


def test_a_wrong_end_of_a_frame_is_named(peer: Peer) -> None:
    refusal = close_after(peer, raw(1, 1, b"\x00\x14\x00\x0a\x00", end=0xCD))

    assert refusal[:2] == (501, "FRAME_ERROR - type 1, all octets = <<0,20,0,10,0>>: {invalid_frame_end_marker,205}")


def test_after_a_broken_frame_the_socket_is_reset_regardless_of_the_client(server: Server, peer: Peer) -> None:
    peer.send_octets(raw(1, 1, b"\x00\x14\x00\x0a\x00", end=0))
    peer.send(0, commands.Connection.CloseOk())

    server.elapse(2.9)
    before = peer.connection.is_reset
    server.elapse(0.1)

    assert (before, peer.connection.is_reset) == (False, True)


def test_an_empty_body_needs_no_body_frame(peer: Peer) -> None:
    peer.publish(1, b"")

    assert contents(peer.call(1, Basic.Get(queue="q"))) == [b""]


def test_empty_body_frames_inside_a_body_are_skipped(peer: Peer) -> None:
    peer.send(1, publish(), content_header(2), *(body.ContentBody(part) for part in (b"", b"1", b"", b"2")))

    assert contents(peer.call(1, Basic.Get(queue="q"))) == [b"12"]


def test_contents_of_two_channels_may_mix(server: Server) -> None:
    peer = server.peer(channels=(1, 2))
    peer.send(1, declare())
    first, second = (
        [
            octets(channel, item)
            for item in (publish(), content_header(2), body.ContentBody(b"%d%d" % (channel, channel)))
        ]
        for channel in (1, 2)
    )

    peer.send_octets(b"".join(piece for pair in zip(first, second, strict=True) for piece in pair))

    peer.read()
    assert contents(peer.call(1, Basic.Get(queue="q"), Basic.Get(queue="q"))) == [b"11", b"22"]


def test_heartbeats_may_come_inside_a_content(peer: Peer) -> None:
    peer.send(1, publish(), content_header(1))
    peer.send(0, heartbeat.Heartbeat())
    peer.send(1, body.ContentBody(b"1"))

    assert contents(peer.call(1, Basic.Get(queue="q"))) == [b"1"]


def test_a_body_above_the_brokers_limit_ends_the_channel(peer: Peer) -> None:
    limit = peer.connection.node.compat.max_message_size
    peer.publish(1, b"x" * (limit + 1))

    close = the(peer.read(), Channel.Close)

    assert (close.reply_code, close.reply_text) == (
        406,
        f"PRECONDITION_FAILED - message size {limit + 1} is larger than configured max size {limit}",
    )


def test_immediate_is_not_implemented(peer: Peer) -> None:
    assert close_after(peer, publish_octets(1, b"1", immediate=True))[:2] == (540, "NOT_IMPLEMENTED - immediate=true")


def test_malformed_utf8_in_a_name_is_refused(peer: Peer) -> None:
    arguments = b"\x00\x00\x01\xff\x00\x00\x00\x00\x00"

    assert close_after(peer, raw(1, 1, b"\x00\x32\x00\x0a" + arguments))[:2] == (
        501,
        "FRAME_ERROR - Malformed UTF-8 in shortstr",
    )


def test_a_text_that_is_too_long_is_cut(peer: Peer) -> None:
    close = the(peer.call(1, Queue.Purge(queue="n" * 250)), Channel.Close)

    assert len(close.reply_text) == 255
    assert close.reply_text.endswith("...")
