"""Login, tuning, opening and closing of connections."""

from __future__ import annotations

from .. import codec, render
from ..client import CAPABILITIES, Connection
from ..scenario import Run, scenario

WITH_CLOSE = {"capabilities": {"authentication_failure_close": True}}


def started(s: Run) -> Connection:
    """Open a socket and read connection.start."""
    connection = s.raw()
    connection.log.hidden |= {"connection.start"}
    connection.start()
    return connection


def answer(connection: Connection, mechanism: str, response: bytes, properties: dict[str, object] = WITH_CLOSE) -> None:
    """Send start-ok with this mechanism and response."""
    fields = {"client_properties": properties, "mechanism": mechanism, "response": response, "locale": "en_US"}
    connection.send(0, "connection.start-ok", **fields)


def amqplain(*pairs: tuple[str, object]) -> bytes:
    """Return a login table without its length."""
    return codec.encode_table(list(pairs))[4:]


@scenario
def the_server_properties(s: Run) -> None:
    connection = s.raw()
    connection.log.hidden.add("connection.start")
    start = connection.start()

    for name, field in start["server_properties"]:
        changing = name in (b"cluster_name", b"platform", b"version", b"copyright", b"information")
        connection.log.write(0, f"{name.decode()} {field.tag if changing else render.field(field)}")
    connection.log.write(0, f"locales {start['locales']!r}")


@scenario(versions=("4.3", "4.0"))
def the_mechanisms(s: Run) -> None:
    connection = s.raw()
    connection.log.hidden.add("connection.start")
    start = connection.start()

    connection.log.write(0, f"mechanisms {sorted(start['mechanisms'].split())}")


@scenario
def what_tune_offers(s: Run) -> None:
    connection = started(s)
    answer(connection, "PLAIN", b"\0guest\0guest")

    connection.take(0, "connection.tune")


@scenario
def a_login_by_amqplain(s: Run) -> None:
    connection = started(s)
    answer(connection, "AMQPLAIN", amqplain(("LOGIN", "guest"), ("PASSWORD", "guest")))

    connection.take(0, "connection.tune")


@scenario
def a_login_by_amqplain_in_another_order(s: Run) -> None:
    connection = started(s)
    answer(connection, "AMQPLAIN", amqplain(("PASSWORD", "guest"), ("LOGIN", "guest")))

    connection.take(0, "connection.tune")


@scenario(versions=("4.3", "4.0"))
def an_anonymous_login(s: Run) -> None:
    connection = started(s)
    answer(connection, "ANONYMOUS", b"whatever")

    connection.take(0, "connection.tune")


@scenario
def refused_logins_are_told_to_clients_that_can_hear_it(s: Run) -> None:
    for response in (b"\0guest\0wrong", b"\0nobody\0guest", b"\0guest\0"):
        connection = started(s)
        answer(connection, "PLAIN", response)
        connection.take(0, "connection.close")
    connection = started(s)
    answer(connection, "AMQPLAIN", amqplain(("LOGIN", "guest"), ("PASSWORD", "wrong")))
    connection.take(0, "connection.close")


@scenario
def after_a_refused_login_the_socket_is_reset_in_three_seconds(s: Run) -> None:
    told, silent = started(s), started(s)
    told.answers_close = False
    answer(told, "PLAIN", b"\0guest\0wrong")
    answer(silent, "PLAIN", b"\0guest\0wrong", {})
    told.take(0, "connection.close")

    s.expect_end(told, after_ms=3000)
    s.expect_end(silent)


@scenario
def malformed_logins_are_reset_in_three_seconds(s: Run) -> None:
    cases = (
        ("PLAIN", b"guest\0guest\0guest"),
        ("PLAIN", b"guest"),
        ("PLAIN", b"\0guest"),
        ("PLAIN", b""),
        ("PLAIN", b"\0guest\0guest\0more"),
        ("PLAIN", b"\0guest\0guest\0"),
        ("AMQPLAIN", b"garbage"),
        ("AMQPLAIN", amqplain(("LOGIN", "guest"))),
        ("AMQPLAIN", amqplain(("LOGIN", 5), ("PASSWORD", "guest"))),
        ("plain", b"\0guest\0guest"),
        ("NONESUCH", b"\0guest\0guest"),
    )
    connections = [started(s) for _ in cases]
    for connection, case in zip(connections, cases, strict=True):
        answer(connection, *case)

    for index, connection in enumerate(connections):
        s.expect_end(connection, after_ms=0 if index else 3000)


@scenario
def a_password_that_is_no_string_is_wrong(s: Run) -> None:
    for password in (5, True, None, ["guest"]):
        connection = started(s)
        answer(connection, "AMQPLAIN", amqplain(("LOGIN", "guest"), ("PASSWORD", password)))
        connection.take(0, "connection.close")


@scenario
def methods_out_of_order_before_tuning_are_reset_in_three_seconds(s: Run) -> None:
    twice, early_open, early_tune, early_channel, early_close = (started(s) for _ in range(5))
    for connection in (twice, early_close):
        answer(connection, "PLAIN", b"\0guest\0guest")
        connection.take(0, "connection.tune")
    answer(twice, "PLAIN", b"\0guest\0guest")
    early_close.send(0, "connection.close", reply_code=200)
    early_open.send(0, "connection.open", virtual_host=s.vhost)
    early_tune.send(0, "connection.tune-ok", frame_max=131_072)
    early_channel.send(1, "channel.open")

    for index, connection in enumerate((twice, early_open, early_tune, early_channel, early_close)):
        s.expect_end(connection, after_ms=0 if index else 3000)


@scenario
def tuning_out_of_range_is_reset_in_three_seconds(s: Run) -> None:
    cases = ((2047, 0), (2047, 4095), (2047, 131_073), (0, 131_072), (2048, 131_072))
    connections = [started(s) for _ in cases]
    for connection, (channel_max, frame_max) in zip(connections, cases, strict=True):
        connection.log.hidden.add("connection.tune")
        connection.log_in("guest", "guest", WITH_CLOSE)
        connection.tune(channel_max, frame_max)
        connection.send(0, "connection.open", virtual_host=s.vhost)

    for index, connection in enumerate(connections):
        s.expect_end(connection, after_ms=0 if index else 3000)


@scenario(versions=("4.3",))
def a_frame_max_below_8192_is_reset_in_three_seconds(s: Run) -> None:
    connection = started(s)
    connection.log.hidden.add("connection.tune")
    connection.log_in("guest", "guest", WITH_CLOSE)
    connection.tune(2047, 8191)

    s.expect_end(connection, after_ms=3000)


@scenario
def the_smallest_frame_max_and_channel_max(s: Run) -> None:
    connection = s.connect(channel_max=1, frame_max=8192)

    s.channel(on=connection).declare("q")


@scenario
def heartbeats_are_missed_for_three_intervals(s: Run) -> None:
    connection = s.connect(heartbeat=1)

    s.expect_end(connection, after_ms=3100)


@scenario
def heartbeats_are_sent_from_tune_ok_on(s: Run) -> None:
    connection = started(s)
    connection.log.hidden |= {"connection.tune", "connection.start"}
    connection.log_in("guest", "guest", WITH_CLOSE)
    connection.log.hidden.discard("heartbeat")
    connection.tune(heartbeat=2)
    s.elapse_liveness(1500)

    connection.take(0, "heartbeat")


def hear(s: Run, connection: Connection, beats: int) -> None:
    """Wait for heartbeats that come a second apart."""
    connection.log.hidden.discard("heartbeat")
    s.elapse_liveness(beats * 1000)
    for _ in range(beats):
        connection.take(0, "heartbeat")
    connection.log.hidden.add("heartbeat")


@scenario
def heartbeats_come_every_half_interval_until_the_third_check(s: Run) -> None:
    connection = s.connect(heartbeat=2)
    hear(s, connection, 5)

    s.expect_end(connection, after_ms=1100)


@scenario
def a_byte_of_the_client_counts_until_the_next_check(s: Run) -> None:
    connection = s.connect(heartbeat=2)
    hear(s, connection, 3)
    connection.send_frame(codec.HEARTBEAT, 0, b"")
    hear(s, connection, 4)

    s.expect_end(connection, after_ms=1100)


@scenario
def a_heartbeat_is_left_out_when_something_else_was_sent(s: Run) -> None:
    connection = s.connect(heartbeat=2)
    hear(s, connection, 1)
    s.channel(on=connection).declare("q")
    s.elapse_liveness(1000)
    hear(s, connection, 3)

    s.expect_end(connection, after_ms=1100)


@scenario
def without_heartbeats_nobody_is_missed(s: Run) -> None:
    connection = s.connect(heartbeat=0)
    s.elapse(3000)

    s.channel(on=connection).declare("q")


@scenario
def an_unfinished_handshake_is_reset_after_ten_seconds(s: Run) -> None:
    without_start_ok, without_open = started(s), started(s)
    without_open.log.hidden.add("connection.tune")
    without_open.log_in("guest", "guest", WITH_CLOSE)
    without_open.tune()

    s.expect_end(without_start_ok, after_ms=10_000)
    s.expect_end(without_open)


@scenario
def opening_a_missing_vhost(s: Run) -> None:
    s.connect(vhost="no such vhost")
    s.connect(vhost="")


@scenario
def open_ok_has_no_known_hosts(s: Run) -> None:
    connection = started(s)
    connection.log.hidden.add("connection.tune")
    connection.log_in("guest", "guest", WITH_CLOSE)
    connection.tune()
    fields = {"virtual_host": s.vhost, "capabilities": "anything", "insist": True}

    connection.call("connection.open", "connection.open-ok", **fields)


@scenario
def a_user_without_permissions_may_not_open_the_vhost(s: Run) -> None:
    s.operator.add_user("stranger", "secret")

    s.connect(user="stranger", password="secret")


@scenario
def permissions_that_match_nothing_let_a_user_connect(s: Run) -> None:
    s.operator.add_user("nobody", "secret")
    s.operator.set_permissions("nobody", s.vhost, "^$", "^$", "^$")

    s.channel(on=s.connect(user="nobody", password="secret")).sync()


@scenario
def update_secret_is_accepted(s: Run) -> None:
    connection = s.connect()

    connection.call("connection.update-secret", "connection.update-secret-ok", new_secret="x", reason="why")


@scenario
def a_client_may_close_with_any_code(s: Run) -> None:
    for code in (0, 200, 541):
        connection = s.connect()
        connection.call("connection.close", "connection.close-ok", reply_code=code, reply_text="x")
        connection.drop()
    ch = s.channel()
    ch.call("channel.close", reply_code=0, reply_text="")
    ch.connection.forget_channel(ch.number)


@scenario
def frames_after_the_clients_close_are_ignored(s: Run) -> None:
    connection = s.connect()
    connection.send(0, "connection.close", reply_code=200)
    connection.send(1, "queue.declare", queue="q")

    connection.take(0, "connection.close-ok")
    connection.drop()


@scenario
def methods_on_a_closing_channel_are_ignored(s: Run) -> None:
    ch = s.channel()
    ch.connection.answers_close = False
    ch.send("queue.purge", queue="missing")
    ch.send("queue.declare", queue="q", durable=True)
    ch.receive("channel.close")
    ch.send("queue.declare", queue="q2", durable=True)
    ch.send("channel.close-ok")
    ch.open()

    ch.send("queue.declare", queue="q", passive=True)
    ch.receive("queue.declare-ok")


@scenario
def a_close_of_the_client_crossing_the_servers_is_answered(s: Run) -> None:
    ch = s.channel()
    ch.connection.answers_close = False
    ch.send("queue.purge", queue="missing")
    ch.send("channel.close", reply_code=200)
    ch.receive("channel.close")
    ch.receive("channel.close-ok")
    ch.send("channel.close-ok")

    ch.open()
    ch.declare("q")


@scenario
def other_channels_go_on_after_a_channel_error(s: Run) -> None:
    one = s.channel()
    two = s.channel()
    one.purge("missing")

    two.declare("q")


@scenario
def channel_numbers_come_in_any_order_and_are_reused(s: Run) -> None:
    connection = s.connect()
    for number in (65_535, 2, 2_048, 1):
        ch = s.channel(number, on=connection)
        ch.declare(f"q{number}")
    ch.close()
    again = s.channel(1, on=connection)

    again.declare("again")


@scenario
def too_many_channels(s: Run) -> None:
    connection = s.connect(channel_max=2)
    s.channel(1, on=connection)
    s.channel(7, on=connection)

    s.channel(2, on=connection)


@scenario
def a_server_close_is_followed_by_a_reset_when_answered(s: Run) -> None:
    connection = s.connect()
    connection.answers_close = False
    connection.send(0, "channel.open")
    connection.take(0, "connection.close")
    connection.send(0, "connection.close-ok")

    s.expect_end(connection)


@scenario
def a_close_of_the_client_in_a_closing_connection_is_answered(s: Run) -> None:
    connection = s.connect()
    connection.answers_close = False
    connection.send(0, "channel.open")
    connection.take(0, "connection.close")
    connection.send(0, "connection.close", reply_code=200)

    connection.take(0, "connection.close-ok")


@scenario
def a_close_ok_after_the_clients_own_close_ends_the_socket(s: Run) -> None:
    connection = s.connect()
    connection.answers_close = False
    connection.send(0, "channel.open")
    connection.take(0, "connection.close")
    connection.call("connection.close", "connection.close-ok", reply_code=200)
    connection.send(0, "connection.close-ok")

    s.expect_end(connection)


@scenario
def closing_twice_is_answered_twice(s: Run) -> None:
    connection = s.connect()
    for _ in range(2):
        connection.call("connection.close", "connection.close-ok", reply_code=200)
    connection.send(0, "connection.close-ok")

    s.expect_end(connection)


@scenario
def the_capabilities_and_properties_of_a_client_may_be_odd(s: Run) -> None:
    odd = {"capabilities": 5, "product": 7, "connection_name": True}
    connection = started(s)
    answer(connection, "PLAIN", b"\0guest\0guest", odd)

    connection.take(0, "connection.tune")


@scenario
def a_client_without_cancel_capability_is_not_told_of_a_deleted_queue(s: Run) -> None:
    able, unable = s.connect(), s.connect(capabilities={**CAPABILITIES, "consumer_cancel_notify": False})
    for connection in (able, unable):
        ch = s.channel(on=connection)
        ch.declare("q")
        ch.consume("q")
    other = s.channel(2, on=able)
    other.delete("q")

    able.take(1, "basic.cancel")


def tuned(s: Run) -> Connection:
    """Open a socket and go on until connection.open is due."""
    connection = started(s)
    connection.log.hidden |= {"connection.tune"}
    answer(connection, "PLAIN", b"\0guest\0guest")
    connection.take(0, "connection.tune")
    connection.tune()
    return connection


@scenario
def a_text_that_is_not_utf8_before_the_connection_is_open(s: Run) -> None:
    for fields in (
        {"virtual_host": b"\xff"},
        {"virtual_host": s.vhost, "capabilities": b"\xff"},
    ):
        connection = tuned(s)
        connection.send(0, "connection.open", **fields)
        connection.take(0, "connection.close")


@scenario
def a_text_that_is_not_utf8_in_a_method_of_the_connection(s: Run) -> None:
    for name, fields in (
        ("connection.update-secret", {"new_secret": b"\xff", "reason": b"\xff"}),
        ("connection.close", {"reply_code": 200, "reply_text": b"\xff"}),
        ("connection.open", {"virtual_host": b"\xff"}),
        ("connection.blocked", {"reason": b"\xff"}),
        ("queue.declare", {"queue": b"\xff"}),
        ("queue.declare-ok", {"queue": b"\xff"}),
        ("basic.publish", {"exchange": b"\xff"}),
    ):
        connection = s.connect()
        connection.send(0, name, **fields)
        connection.take(0, "connection.close")


@scenario
def a_text_that_is_not_utf8_in_a_method_of_a_channel(s: Run) -> None:
    for name, fields in (
        ("channel.close", {"reply_code": 200, "reply_text": b"\xff"}),
        ("connection.close", {"reply_code": 200, "reply_text": b"\xff"}),
        ("connection.blocked", {"reason": b"\xff"}),
        ("queue.declare-ok", {"queue": b"\xff"}),
        ("basic.consume-ok", {"consumer_tag": b"\xff"}),
        ("basic.deliver", {"consumer_tag": b"\xff", "delivery_tag": 1}),
    ):
        ch = s.channel(on=s.connect())
        ch.send(name, **fields)
        if name == "basic.deliver":
            ch.send_content("x")
        ch.connection.take(0, "connection.close")


@scenario
def a_text_that_is_not_utf8_before_tuning_is_reset_in_three_seconds(s: Run) -> None:
    connection = started(s)
    connection.send(
        0,
        "connection.start-ok",
        client_properties={},
        mechanism=b"\xff",
        response=b"\0guest\0guest",
        locale="en_US",
    )

    s.expect_end(connection, after_ms=3000)


@scenario
def a_text_that_is_not_utf8_in_a_closing_connection_is_ignored(s: Run) -> None:
    connection = s.connect()
    connection.answers_close = False
    connection.send(0, "connection.blocked", reason="x")
    connection.take(0, "connection.close")
    connection.send(0, "connection.close", reply_code=200, reply_text=b"\xff")
    connection.send(0, "connection.close-ok")

    s.expect_end(connection)


@scenario
def a_close_cut_short_in_a_closing_connection_is_ignored(s: Run) -> None:
    connection = s.connect()
    connection.answers_close = False
    connection.send(0, "connection.blocked", reason="x")
    connection.take(0, "connection.close")
    connection.send_frame(codec.METHOD, 0, b"\0\x0a\0\x32\0")
    connection.send(0, "connection.close-ok")

    s.expect_end(connection)


@scenario
def a_refusal_before_open_ok_that_is_too_long_in_octets(s: Run) -> None:
    for vhost in ("v" * 200, "v" * 255, "ä" * 100, "ä" * 127):
        connection = tuned(s)
        connection.send(0, "connection.open", virtual_host=vhost)
        connection.take(0, "connection.close", "closed", "reset")


@scenario
def a_hard_refusal_that_is_too_long_in_octets(s: Run) -> None:
    ch = s.channel(on=s.connect())
    ch.declare("ä" * 112, arguments={"x-queue-type": "stream"})
    ch.get("ä" * 112)
    ch.connection.take(0, "connection.close", "closed", "reset")
