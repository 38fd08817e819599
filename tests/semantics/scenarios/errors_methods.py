"""Methods in the wrong state of a connection or channel."""

from __future__ import annotations

import struct

from .. import codec
from ..scenario import Run, scenario
from .errors_frames import connected, method_is_refused


@scenario
def a_connection_method_out_of_place(s: Run) -> None:
    method_is_refused(s, 0, "connection.tune-ok", channel_max=1, frame_max=8192, heartbeat=0)


@scenario
def connection_open_twice(s: Run) -> None:
    method_is_refused(s, 0, "connection.open", virtual_host=s.vhost)


@scenario
def a_channel_method_on_channel_0(s: Run) -> None:
    method_is_refused(s, 0, "channel.open")


@scenario
def a_queue_method_on_channel_0(s: Run) -> None:
    method_is_refused(s, 0, "queue.declare", queue="q")


@scenario
def a_client_may_not_send_blocked(s: Run) -> None:
    method_is_refused(s, 0, "connection.blocked", reason="x")


@scenario
def a_method_before_connection_open(s: Run) -> None:
    connection = s.raw()
    connection.log.hidden |= {"connection.start", "connection.tune"}
    connection.start()
    connection.log_in("guest", "guest", {})
    connection.tune()
    connection.send(0, "connection.tune-ok", channel_max=1, frame_max=8192, heartbeat=0)

    connection.take(0, "connection.close")


@scenario
def a_close_before_connection_open(s: Run) -> None:
    connection = s.raw()
    connection.answers_close = False
    connection.log.hidden |= {"connection.start", "connection.tune"}
    connection.start()
    connection.log_in("guest", "guest", {})
    connection.tune()
    connection.send(0, "connection.close", reply_code=200)
    connection.take(0, "connection.close")
    connection.send(0, "connection.close-ok")

    s.expect_end(connection)


@scenario
def the_first_method_of_a_channel_must_be_open(s: Run) -> None:
    method_is_refused(s, 2, "queue.declare", queue="q")


@scenario
def closing_a_channel_that_is_not_open(s: Run) -> None:
    method_is_refused(s, 2, "channel.close", reply_code=200)


@scenario
def close_ok_on_a_channel_that_is_not_open(s: Run) -> None:
    method_is_refused(s, 2, "channel.close-ok")


@scenario
def opening_an_open_channel(s: Run) -> None:
    method_is_refused(s, 1, "channel.open")


@scenario
def opening_a_channel_that_the_server_is_closing(s: Run) -> None:
    connection, ch = connected(s)
    connection.answers_close = False
    ch.purge("missing")
    ch.send("channel.open")

    connection.take(0, "connection.close")


@scenario
def methods_that_only_a_server_sends(s: Run) -> None:
    cases = (
        ("queue.declare-ok", {"queue": "q"}),
        ("basic.deliver", {"consumer_tag": "c"}),
        ("basic.get-empty", {}),
        ("basic.return", {"reply_code": 312, "reply_text": "NO_ROUTE"}),
        ("channel.open-ok", {}),
        ("exchange.unbind-ok", {}),
        ("confirm.select-ok", {}),
        ("tx.commit-ok", {}),
        ("access.request-ok", {"ticket": 1}),
        ("basic.consume-ok", {"consumer_tag": "c"}),
        ("basic.qos-ok", {}),
        ("basic.recover-ok", {}),
    )
    for name, fields in cases:
        ch = s.channel(on=s.connect())
        ch.send(name, **fields)
        if name in codec.CONTENT_METHODS:
            ch.send_content("x")
        ch.connection.take(0, "connection.close")


@scenario
def an_unexpected_channel_close_ok(s: Run) -> None:
    method_is_refused(s, 1, "channel.close-ok")


@scenario
def a_connection_method_on_a_channel(s: Run) -> None:
    method_is_refused(s, 1, "connection.close", reply_code=200)


@scenario(versions=("4.3", "4.0"))
def basic_credit_is_not_implemented(s: Run) -> None:
    method_is_refused(s, 1, "basic.credit", consumer_tag="c", credit=1)


@scenario
def a_flow_ok_of_the_client(s: Run) -> None:
    method_is_refused(s, 1, "channel.flow-ok", active=True)


@scenario
def switching_the_flow_off(s: Run) -> None:
    method_is_refused(s, 1, "channel.flow", active=False)


@scenario
def switching_the_flow_on_is_answered(s: Run) -> None:
    _, ch = connected(s)

    ch.call("channel.flow", active=True)


@scenario
def access_request_is_always_granted(s: Run) -> None:
    _, ch = connected(s)

    ch.call("access.request", realm="/data", exclusive=True, write=True)
    ch.declare("q", ticket=77)


@scenario
def a_cancel_ok_of_the_client_cancels_its_consumer(s: Run) -> None:
    _, ch = connected(s)
    ch.declare("q")
    ch.consume("q")
    ch.send("basic.cancel-ok", consumer_tag="c")

    ch.passive("q")


@scenario
def a_cancel_ok_for_an_unknown_tag(s: Run) -> None:
    connection, ch = connected(s)
    ch.send("basic.cancel-ok", consumer_tag="nobody")

    connection.take(0, "connection.close")


@scenario
def methods_that_only_a_server_sends_are_decoded_first(s: Run) -> None:
    cases = (
        (50, 11, b""),
        (50, 11, b"\x05ab"),
        (50, 11, b"\x01q\0\0\0\0\0\0\0\0!"),
        (60, 60, b"\xff"),
        (60, 50, b"\1\x38\0\0"),
        (20, 11, b"\0\0"),
        (30, 11, b"\0"),
        (85, 11, b"zz"),
        (40, 51, b"x"),
    )
    for class_id, method_id, arguments in cases:
        ch = s.channel(on=s.connect())
        ch.connection.send_frame(codec.METHOD, ch.number, struct.pack(">HH", class_id, method_id) + arguments)
        ch.receive()


@scenario
def methods_of_a_server_on_a_channel_that_is_not_open(s: Run) -> None:
    for name in ("tx.select-ok", "queue.declare-ok", "channel.open-ok"):
        connection = s.connect()
        connection.send(7, name)
        connection.take(0, "connection.close")
