"""Frames of a channel that the server has closed, or that the client never opened.

The server puts the frames of every channel together before it looks at the channel's state: what breaks that ends the
connection, and a closing channel ignores only whole methods and contents.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from .. import codec
from ..scenario import Channel, Run, scenario

UNKNOWN_METHODS = ((70, 10), (60, 99), (10, 99), (0, 0))
# The methods of a server that have a content.
DELIVERED = {
    "basic.deliver": {"consumer_tag": "c", "delivery_tag": 1, "exchange": "", "routing_key": "q"},
    "basic.return": {"reply_code": 312, "reply_text": "x", "exchange": "", "routing_key": "q"},
    "basic.get-ok": {"delivery_tag": 1, "exchange": "", "routing_key": "q", "message_count": 0},
}


def closing(s: Run) -> Channel:
    """Return a channel that the server has closed, before close-ok."""
    ch = s.channel(on=s.connect())
    ch.connection.answers_close = False
    ch.passive("missing")
    return ch


def unknown_method(ch: Channel, class_id: int, method_id: int) -> None:
    ch.connection.send_frame(codec.METHOD, ch.number, struct.pack(">HH", class_id, method_id))


def ends_the_connection(s: Run, ch: Channel, *acts: Callable[[Channel], None]) -> None:
    """Do this on a channel, and record how the connection ends."""
    for act in acts:
        act(ch)
    ch.connection.take(0, "connection.close")


def is_ignored(ch: Channel) -> None:
    """Show that the closing channel is still there, and that its number is free once it has ended."""
    ch.close()
    ch.send("channel.close-ok")
    ch.open()


def publish(ch: Channel) -> None:
    ch.send("basic.publish", routing_key="q")


def header_of_five(ch: Channel) -> None:
    ch.header(5)


def body_of_three(ch: Channel) -> None:
    ch.body(b"abc")


def flow(ch: Channel) -> None:
    ch.send("channel.flow", active=True)


BROKEN: dict[str, tuple[Callable[[Channel], None], ...]] = {
    "a header": (header_of_five,),
    "a body": (body_of_three,),
    "a header too short": (lambda ch: ch.connection.send_frame(codec.HEADER, ch.number, b"\0\x3c\0\0\0\0"),),
    "publish, method": (publish, flow),
    "publish, publish": (publish, publish),
    "publish, close-ok": (publish, lambda ch: ch.send("channel.close-ok")),
    "publish, body": (publish, body_of_three),
    "publish, header too short": (
        publish,
        lambda ch: ch.connection.send_frame(codec.HEADER, ch.number, b"\0\x3c\0\0\0\0"),
    ),
    "publish, header with a weight": (publish, lambda ch: ch.header(5, weight=1)),
    "publish, header of another class": (publish, lambda ch: ch.header(5, class_id=50)),
    "publish, header, method": (publish, header_of_five, flow),
    "publish, header, body, method": (publish, header_of_five, body_of_three, flow),
    "publish, header, body, header": (publish, header_of_five, body_of_three, header_of_five),
    "an undecodable method": (
        lambda ch: ch.connection.send_frame(codec.METHOD, ch.number, struct.pack(">HH", 50, 10) + b"\0\0\x05ab"),
    ),
    "a name that is not UTF-8": (lambda ch: ch.send("queue.declare", queue=b"\xff"),),
    "publish, an undecodable method": (
        publish,
        lambda ch: ch.connection.send_frame(codec.METHOD, ch.number, struct.pack(">HH", 50, 10) + b"\0\0\x05ab"),
    ),
}


@scenario
def frames_that_do_not_fit_together_on_a_closing_channel(s: Run) -> None:
    for words, acts in BROKEN.items():
        ch = closing(s)
        ch.connection.log.write(0, words)
        ends_the_connection(s, ch, *acts)


@scenario
def frames_that_do_not_fit_together_on_an_open_channel(s: Run) -> None:
    for words, acts in BROKEN.items():
        ch = s.channel(on=s.connect())
        ch.connection.log.write(0, words)
        ends_the_connection(s, ch, *acts)


@scenario
def frames_that_do_not_fit_together_on_a_channel_that_was_never_opened(s: Run) -> None:
    for words, acts in BROKEN.items():
        ch = Channel(s.connect(), 7)
        ch.connection.log.write(0, words)
        ends_the_connection(s, ch, *acts)


@scenario
def frames_that_do_not_fit_together_in_one_piece(s: Run) -> None:
    for words in ("publish, method", "publish, header, body, method", "publish, header of another class"):
        ch = s.channel(on=s.connect())
        ch.connection.log.write(0, words)
        with ch.connection.in_one_piece():
            ch.send("queue.declare", queue="missing", passive=True)
            for act in BROKEN[words]:
                act(ch)
        ch.connection.take(0, "connection.close")


@scenario
def whole_methods_and_contents_on_a_closing_channel(s: Run) -> None:
    ch = closing(s)
    ch.send("queue.declare", queue="q", durable=True)
    ch.publish("", "q", "five5")
    ch.publish("amq.topic", "q", "")
    ch.send("basic.ack", delivery_tag=77)
    ch.send("queue.declare-ok", queue="q")
    ch.send("connection.close-ok")
    ch.send("connection.tune-ok")
    is_ignored(ch)
    ch.passive("q")


@scenario
def a_content_that_is_under_way_when_its_channel_closes(s: Run) -> None:
    ch = closing(s)
    publish(ch)
    header_of_five(ch)
    body_of_three(ch)
    ch.body(b"de")
    is_ignored(ch)


@scenario(versions=("4.3",))
def a_body_longer_than_announced_on_a_closing_channel(s: Run) -> None:
    ch = closing(s)
    publish(ch)
    ch.header(3)
    ch.body(b"abcd")

    ch.connection.take(0, "connection.close")


@scenario
def a_body_of_undecodable_properties_on_a_closing_channel(s: Run) -> None:
    ch = closing(s)
    publish(ch)
    ch.header(0, struct.pack(">H", 0x8000) + b"\x09ab")
    is_ignored(ch)


@scenario
def methods_of_a_server_that_have_a_content(s: Run) -> None:
    for name, fields in DELIVERED.items():
        for following in ("a content", "a method", "a header"):
            ch = s.channel(on=s.connect())
            ch.connection.log.write(0, f"{name}, {following}")
            ch.send(name, **fields)
            if following == "a content":
                ch.send_content("body")
            elif following == "a method":
                flow(ch)
            else:
                ch.header(1, class_id=50)
            ch.connection.take(0, "connection.close")


@scenario
def methods_of_a_server_that_have_a_content_on_a_closing_channel(s: Run) -> None:
    for name, fields in DELIVERED.items():
        ch = closing(s)
        ch.send(name, **fields)
        ch.send_content("body")
        is_ignored(ch)


@scenario
def methods_on_a_channel_that_was_never_opened(s: Run) -> None:
    for name in ("connection.close", "connection.close-ok", "connection.tune-ok", "connection.open", "basic.ack"):
        ch = Channel(s.connect(), 7)
        ch.send(name)
        ch.connection.take(0, "connection.close")


@scenario
def methods_of_a_server_on_a_channel_that_was_never_opened(s: Run) -> None:
    for name in ("connection.start", "connection.blocked", "connection.open-ok", "queue.declare-ok", "tx.select-ok"):
        ch = Channel(s.connect(), 7)
        fields = {"server_properties": {}} if name == "connection.start" else {}
        ch.send(name, **fields)
        ch.connection.take(0, "connection.close")


@scenario
def connection_methods_on_an_open_channel(s: Run) -> None:
    for name in ("connection.close", "connection.close-ok", "connection.tune-ok", "connection.open"):
        ch = s.channel(on=s.connect())
        ch.send(name)
        ch.connection.take(0, "connection.close")


@scenario
def a_publish_on_a_channel_that_was_never_opened(s: Run) -> None:
    ch = Channel(s.connect(), 7)
    ch.publish("", "q", "body")

    ch.connection.take(0, "connection.close")


@scenario
def a_publish_on_a_channel_that_was_never_opened_is_refused_once_it_is_whole(s: Run) -> None:
    ch = Channel(s.connect(), 7)
    other = s.channel(1, on=ch.connection)
    for act in (publish, header_of_five, body_of_three):
        act(ch)
        other.passive("amq.rabbitmq.reply-to")
    ch.body(b"de")

    ch.connection.take(0, "connection.close")


@scenario
def frames_of_one_channel_too_many(s: Run) -> None:
    for kind, payload in (
        (codec.METHOD, codec.encode_method("basic.publish", routing_key="q")),
        (codec.HEADER, codec.encode_header(5, b"\0\0")),
        (codec.METHOD, struct.pack(">HH", 50, 10) + b"\0\0\x05ab"),
        (codec.METHOD, codec.encode_method("queue.declare", queue=b"\xff")),
    ):
        connection = s.connect(channel_max=1)
        s.channel(1, on=connection)
        connection.send_frame(kind, 7, payload)
        connection.take(0, "connection.close")


@scenario
def a_method_that_does_not_exist_ends_the_socket_wherever_it_comes(s: Run) -> None:
    prefixes: tuple[tuple[Callable[[Channel], None], ...], ...] = (
        (),
        (publish,),
        (publish, header_of_five),
        (publish, header_of_five, body_of_three),
    )
    for ids in UNKNOWN_METHODS[:2]:
        for prefix in prefixes:
            for make in (lambda: s.channel(on=s.connect()), lambda: closing(s), lambda: Channel(s.connect(), 7)):
                ch = make()
                for act in prefix:
                    act(ch)
                unknown_method(ch, *ids)
                s.expect_end(ch.connection)


@scenario
def a_method_that_does_not_exist_in_one_piece_with_a_publish(s: Run) -> None:
    for ids in UNKNOWN_METHODS:
        ch = s.channel(on=s.connect())
        with ch.connection.in_one_piece():
            for act in (publish, header_of_five, body_of_three):
                act(ch)
            unknown_method(ch, *ids)
        s.expect_end(ch.connection)


@scenario
def a_method_that_does_not_exist_on_channel_0(s: Run) -> None:
    for ids in UNKNOWN_METHODS:
        connection = s.connect()
        connection.send_frame(codec.METHOD, 0, struct.pack(">HH", *ids))
        s.expect_end(connection)


@scenario
def a_method_that_does_not_exist_on_one_channel_too_many(s: Run) -> None:
    connection = s.connect(channel_max=1)
    s.channel(1, on=connection)
    connection.send_frame(codec.METHOD, 7, struct.pack(">HH", 70, 10))

    s.expect_end(connection)


@scenario
def a_method_that_does_not_exist_on_a_connection_that_the_server_has_closed(s: Run) -> None:
    for number in (0, 1):
        ch = s.channel(1, on=s.connect())
        ch.connection.answers_close = False
        ch.send("queue.declare-ok", queue="q")
        ch.connection.take(0, "connection.close")
        ch.connection.send_frame(codec.METHOD, number, struct.pack(">HH", 70, 10))
        ch.connection.send(0, "connection.close-ok")
        s.expect_end(ch.connection)


@scenario
def a_header_too_short_on_channel_0(s: Run) -> None:
    connection = s.connect()
    connection.send_frame(codec.HEADER, 0, b"\0\x3c\0\0")

    connection.take(0, "connection.close")
