"""Frames and methods that break the protocol: each closes the connection."""

from __future__ import annotations

import struct

from .. import codec
from ..client import CAPABILITIES, Connection
from ..scenario import Channel, Run, scenario


def connected(s: Run) -> tuple[Connection, Channel]:
    """Return a connection with one open channel."""
    ch = s.channel()
    return ch.connection, ch


def frame_is_refused(s: Run, kind: int, channel: int, payload: bytes, end: int = codec.FRAME_END) -> None:
    """Send one frame on a fresh connection with channel 1 open, and record the close that answers it."""
    connection, _ = connected(s)
    connection.send_frame(kind, channel, payload, end)
    connection.take(0, "connection.close")


def method_is_refused(s: Run, channel: int, name: str, **fields: object) -> None:
    """Call one method on a fresh connection with channel 1 open, and record the close that answers it."""
    frame_is_refused(s, codec.METHOD, channel, codec.encode_method(name, **fields))


@scenario
def a_wrong_frame_end(s: Run) -> None:
    frame_is_refused(s, codec.METHOD, 1, codec.encode_method("channel.flow", active=True), end=0x41)


@scenario
def a_wrong_frame_end_after_many_octets(s: Run) -> None:
    frame_is_refused(s, codec.METHOD, 1, b"x" * 40, end=0xCD)


@scenario
def after_a_wrong_frame_end_the_socket_is_reset_in_three_seconds(s: Run) -> None:
    connection, _ = connected(s)
    connection.answers_close = False
    connection.send_frame(codec.METHOD, 1, b"12345678", end=0)
    connection.take(0, "connection.close")
    connection.send(0, "connection.close-ok")

    s.expect_end(connection, after_ms=3000)


@scenario
def an_unknown_frame_type(s: Run) -> None:
    frame_is_refused(s, 5, 1, b"abc")


@scenario
def an_unknown_frame_type_with_a_long_payload(s: Run) -> None:
    frame_is_refused(s, 4, 0, bytes(range(40)))


@scenario
def frames_of_a_channel_before_the_connection_is_open(s: Run) -> None:
    for kind, payload in ((0, b"abc"), (codec.METHOD, b"abc"), (codec.HEARTBEAT, b"x"), (codec.HEARTBEAT, b"")):
        connection = s.raw()
        connection.log.hidden |= {"connection.start", "connection.tune"}
        connection.start()
        connection.log_in("guest", "guest", {"capabilities": CAPABILITIES})
        connection.tune()
        connection.send_frame(kind, 1, payload)
        connection.take(0, "connection.close")


@scenario
def an_empty_method_frame(s: Run) -> None:
    frame_is_refused(s, codec.METHOD, 1, b"")


@scenario
def a_method_frame_of_three_octets(s: Run) -> None:
    frame_is_refused(s, codec.METHOD, 1, b"\0\x14\0")


@scenario
def a_heartbeat_with_payload(s: Run) -> None:
    frame_is_refused(s, codec.HEARTBEAT, 0, b"x")


@scenario
def a_heartbeat_on_a_channel(s: Run) -> None:
    frame_is_refused(s, codec.HEARTBEAT, 1, b"")


@scenario
def a_header_frame_on_channel_0(s: Run) -> None:
    frame_is_refused(s, codec.HEADER, 0, codec.encode_header(5, b"\0\0"))


@scenario
def a_body_frame_on_channel_0(s: Run) -> None:
    frame_is_refused(s, codec.BODY, 0, b"hello")


@scenario
def a_channel_frame_before_open_ok(s: Run) -> None:
    connection = s.raw()
    connection.log.hidden |= {"connection.start", "connection.tune"}
    connection.start()
    connection.log_in("guest", "guest", {})
    connection.tune()
    connection.send(1, "channel.open")

    connection.take(0, "connection.close")


@scenario
def arguments_too_short(s: Run) -> None:
    frame_is_refused(s, codec.METHOD, 1, struct.pack(">HH", 50, 10) + b"\0\0\x05ab")


@scenario
def arguments_with_octets_left_over(s: Run) -> None:
    frame_is_refused(s, codec.METHOD, 1, codec.encode_method("basic.recover", requeue=True) + b"xyz")


@scenario
def long_undecodable_arguments_are_cut(s: Run) -> None:
    frame_is_refused(s, codec.METHOD, 1, struct.pack(">HH", 50, 10) + b"\0\0\xff" + b"a" * 200)


@scenario
def a_table_longer_than_its_method(s: Run) -> None:
    arguments = b"\0\0\x01q\x02" + struct.pack(">I", 100) + b"\x01a"
    frame_is_refused(s, codec.METHOD, 1, struct.pack(">HH", 50, 10) + arguments)


@scenario
def malformed_utf8_in_a_short_string(s: Run) -> None:
    method_is_refused(s, 1, "queue.declare", queue=b"\xff\xfe")


@scenario
def malformed_utf8_in_a_publish_is_an_ordinary_exchange_name(s: Run) -> None:
    _, ch = connected(s)
    ch.publish(b"\xff\xfe", "", "x")

    ch.receive()


@scenario
def a_routing_key_may_be_any_octets(s: Run) -> None:
    _, ch = connected(s)
    ch.declare("q")
    ch.declare_exchange("x", "fanout")
    ch.bind("q", "x")
    ch.publish("x", b"\xff\xfe", "x")

    ch.await_count("q", 1)
    ch.get("q")


@scenario
def an_unknown_class_or_method_resets_the_socket(s: Run) -> None:
    for class_id, method_id in ((70, 10), (50, 99), (0, 0)):
        connection = s.connect()
        channel = s.channel(on=connection)
        connection.send_frame(codec.METHOD, channel.number, struct.pack(">HH", class_id, method_id))
        s.expect_end(connection)


@scenario
def an_unknown_table_tag_resets_the_socket(s: Run) -> None:
    connection, ch = connected(s)
    ch.send("queue.declare", queue="q", arguments={"a": codec.Field("z", b"1234")})

    s.expect_end(connection)


@scenario
def a_table_cut_short_resets_the_socket(s: Run) -> None:
    connection, ch = connected(s)
    ch.send("queue.declare", queue="q", arguments={"a": codec.Field("l", 1), "b": codec.Field("l", b"12")})

    s.expect_end(connection)


@scenario
def a_header_frame_where_a_method_is_due(s: Run) -> None:
    frame_is_refused(s, codec.HEADER, 1, codec.encode_header(1, b"\0\0"))


@scenario
def a_body_frame_where_a_method_is_due(s: Run) -> None:
    frame_is_refused(s, codec.BODY, 1, b"x")


@scenario
def a_method_where_a_header_is_due(s: Run) -> None:
    connection, ch = connected(s)
    ch.send("basic.publish", routing_key="q")
    ch.send("channel.flow", active=True)

    connection.take(0, "connection.close")


@scenario
def a_body_where_a_header_is_due(s: Run) -> None:
    connection, ch = connected(s)
    ch.send("basic.publish", routing_key="q")
    ch.body(b"x")

    connection.take(0, "connection.close")


@scenario
def a_header_with_a_weight(s: Run) -> None:
    connection, ch = connected(s)
    ch.send("basic.publish", routing_key="q")
    ch.header(1, weight=1)

    connection.take(0, "connection.close")


@scenario
def a_header_of_another_class(s: Run) -> None:
    connection, ch = connected(s)
    ch.send("basic.publish", routing_key="q")
    ch.header(1, class_id=50)

    connection.take(0, "connection.close")


@scenario
def a_method_where_a_body_is_due(s: Run) -> None:
    connection, ch = connected(s)
    ch.send("basic.publish", routing_key="q")
    ch.header(5)
    ch.body(b"abc")
    ch.send("channel.flow", active=True)

    connection.take(0, "connection.close")


@scenario
def a_header_where_a_body_is_due(s: Run) -> None:
    connection, ch = connected(s)
    ch.send("basic.publish", routing_key="q")
    ch.header(5)
    ch.header(5)

    connection.take(0, "connection.close")


@scenario(versions=("4.3",))
def a_body_longer_than_announced(s: Run) -> None:
    connection, ch = connected(s)
    ch.send("basic.publish", routing_key="q")
    ch.header(3)
    ch.body(b"abcd")

    connection.take(0, "connection.close")


@scenario(versions=("4.0", "3.10"))
def a_body_longer_than_announced_is_found_at_the_next_frame(s: Run) -> None:
    connection, ch = connected(s)
    ch.send("basic.publish", routing_key="q")
    ch.header(3)
    ch.body(b"abcd")
    ch.send("channel.flow", active=True)

    connection.take(0, "connection.close")


@scenario(versions=("4.0", "3.10"))
def a_body_longer_than_announced_never_ends(s: Run) -> None:
    connection, ch = connected(s)
    ch.declare("q")
    other = s.channel(2, on=connection)
    ch.send("basic.publish", routing_key="q")
    ch.header(3)
    for octets in (b"ab", b"cd", b"", b"e"):
        ch.body(octets)
        other.passive("q")
    ch.publish("", "q", "next")

    connection.take(0, "connection.close")


@scenario(versions=("4.3",))
def an_announced_body_beyond_512_mebibytes(s: Run) -> None:
    connection, ch = connected(s)
    ch.send("basic.publish", routing_key="q")
    ch.header(536_870_913)

    connection.take(0, "connection.close")


@scenario
def undecodable_properties(s: Run) -> None:
    connection, ch = connected(s)
    ch.declare("q")
    ch.send("basic.publish", routing_key="q")
    ch.header(0, struct.pack(">H", 0x8000) + b"\x09ab")

    connection.take(0, "connection.close")


@scenario
def the_continuation_flag_of_properties(s: Run) -> None:
    connection, ch = connected(s)
    ch.declare("q")
    ch.send("basic.publish", routing_key="q")
    ch.header(0, b"\x00\x01\x00\x00")

    connection.take(0, "connection.close")


@scenario
def a_float_that_is_no_number(s: Run) -> None:
    for value in (b"d\x7f\xf8\0\0\0\0\0\0", b"f\x7f\x80\0\0", b"d\xff\xf0\0\0\0\0\0\0"):
        table = b"\x01h" + value
        properties = struct.pack(">HI", 0x2000, len(table)) + table
        ch = s.channel(on=s.connect())
        ch.send("basic.publish", exchange="", routing_key="nowhere")
        ch.header(1, properties)
        ch.body(b"x")
        ch.receive()
