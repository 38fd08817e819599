"""Protocol headers, frames, and how content is split into frames."""

from __future__ import annotations

from .. import codec
from ..client import Connection
from ..scenario import Run, scenario


def answer_to(s: Run, data: bytes) -> Connection:
    """Send these bytes first on a socket, read eight bytes of the answer and the end of the socket."""
    connection = s.raw()
    connection.send_bytes(data)
    connection.take_bytes(8)
    s.expect_end(connection)
    return connection


@scenario
def the_0_9_1_header_starts_the_handshake(s: Run) -> None:
    connection = s.raw()
    connection.log.hidden.add("connection.start")
    start = connection.start()

    connection.log.write(0, f"version {start['version_major']}.{start['version_minor']}")


@scenario
def the_0_9_header_is_taken_for_0_9_1(s: Run) -> None:
    connection = s.raw()
    connection.log.hidden.add("connection.start")
    connection.send_bytes(b"AMQP\x01\x01\x00\x09")
    start = connection.take(0, "connection.start")

    connection.log.write(0, f"version {start['version_major']}.{start['version_minor']}")


@scenario
def headers_0_0_9_and_later_are_answered_with_0_9_1(s: Run) -> None:
    for tail in (b"\0\0\x09\0", b"\0\0\x09\x02", b"\0\0\x0a\0"):
        answer_to(s, b"AMQP" + tail)


@scenario
def other_headers_are_answered_with_the_offered_version(s: Run) -> None:
    for tail in (b"\x01\x01\0\x0a", b"\0\0\x08\0", b"\0\x01\0\0", b"\x02\x01\0\0"):
        answer_to(s, b"AMQP" + tail)


@scenario(versions=("4.3", "4.0"))
def the_0_8_headers_are_refused(s: Run) -> None:
    for tail in (b"\x01\x01\x08\0", b"\x01\x01\x09\x01"):
        answer_to(s, b"AMQP" + tail)


@scenario
def what_is_not_amqp_is_answered_with_a_header(s: Run) -> None:
    for data in (b"GET / HT", b"\x16\x03\x01\0\xf4\x01\0\0", b"hello wo"):
        answer_to(s, data)


@scenario
def too_few_octets_are_reset_after_ten_seconds(s: Run) -> None:
    silent, short = s.raw(), s.raw()
    short.send_bytes(b"AMQP\0")

    s.expect_end(silent, after_ms=10_000)
    s.expect_end(short)


@scenario
def a_frame_may_hold_frame_max_octets_of_payload(s: Run) -> None:
    ch = s.channel(on=s.connect(frame_max=8192))
    ch.declare("q")
    ch.send("basic.publish", routing_key="q")
    ch.header(8192)
    ch.body(b"x" * 8192)

    ch.await_count("q", 1)
    ch.get("q")


@scenario
def a_frame_beyond_frame_max_closes_the_connection(s: Run) -> None:
    ch = s.channel(on=s.connect(frame_max=8192))
    ch.send("basic.publish", routing_key="q")
    ch.header(8193)
    ch.body(b"x" * 8193)

    ch.receive()


@scenario
def after_an_oversize_frame_the_socket_is_reset_in_three_seconds(s: Run) -> None:
    connection = s.connect(frame_max=8192)
    connection.answers_close = False
    connection.send_frame(codec.BODY, 1, b"x" * 8193)
    connection.take(0, "connection.close")
    connection.send(0, "connection.close-ok")

    s.expect_end(connection, after_ms=3000)


@scenario
def before_tuning_frames_are_limited(s: Run) -> None:
    connection = s.raw()
    connection.log.hidden.add("connection.start")
    connection.start()
    connection.send(0, "connection.start-ok", mechanism="PLAIN", response="\0guest\0" + "x" * 8200)

    s.expect_end(connection, after_ms=3000)


@scenario
def bodies_are_cut_into_frames_of_frame_max_less_eight(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.fill("q", "x" * 300_000)

    ch.get("q")
    small = s.channel(on=s.connect(frame_max=8192))
    ch.fill("q", "y" * 20_000)
    small.get("q")


@scenario
def a_content_header_is_never_split(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.fill("q", "x", headers={"long": "h" * 20_000})

    small = s.channel(on=s.connect(frame_max=8192))
    event = small.get("q")
    properties = event.properties or {}
    small.connection.log.write(1, f"{len(properties['headers'][0][1].value)} octets of header value")


@scenario
def an_empty_body_has_no_body_frame(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.fill("q", "")

    event = ch.get("q")
    ch.connection.log.write(1, f"{len(event.body_sizes)} body frames")


@scenario
def empty_body_frames_are_skipped(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.send("basic.publish", routing_key="q")
    ch.header(4)
    for part in (b"", b"ab", b"", b"cd"):
        ch.body(part)

    ch.await_count("q", 1)
    ch.get("q")


@scenario
def heartbeats_are_taken_in_every_state(s: Run) -> None:
    connection = s.raw()
    connection.log.hidden |= {"connection.start", "connection.tune"}
    connection.start()
    connection.send_frame(codec.HEARTBEAT, 0, b"")
    connection.log_in("guest", "guest", {})
    connection.send_frame(codec.HEARTBEAT, 0, b"")
    connection.tune()
    connection.send_frame(codec.HEARTBEAT, 0, b"")
    connection.open(s.vhost)
    connection.send_frame(codec.HEARTBEAT, 0, b"")

    s.channel(on=connection).declare("q")


@scenario
def methods_without_an_answer_and_nowait_stay_silent(s: Run) -> None:
    ch = s.channel()
    ch.send("exchange.declare", exchange="x", type="fanout", nowait=True)
    ch.send("queue.declare", queue="q", durable=True, nowait=True)
    ch.send("queue.bind", queue="q", exchange="x", nowait=True)
    ch.send("exchange.bind", destination="x", source="amq.direct", nowait=True)
    ch.send("exchange.unbind", destination="x", source="amq.direct", nowait=True)
    ch.publish("x", "", "1")
    ch.await_count("q", 1)
    ch.send("queue.purge", queue="q", nowait=True)
    ch.send("confirm.select", nowait=True)
    ch.send("basic.consume", queue="q", consumer_tag="c", nowait=True)
    ch.send("basic.cancel", consumer_tag="c", nowait=True)
    ch.send("queue.delete", queue="q", nowait=True)
    ch.send("exchange.delete", exchange="x", nowait=True)

    ch.sync()


@scenario
def errors_are_raised_with_nowait_too(s: Run) -> None:
    ch = s.channel()
    ch.send("queue.purge", queue="missing", nowait=True)

    ch.receive()


@scenario
def channel_open_ok_holds_an_empty_long_string(s: Run) -> None:
    connection = s.connect()
    connection.log.hidden.clear()

    s.channel(on=connection)
