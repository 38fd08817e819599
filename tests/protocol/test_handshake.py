"""The handshake: every order of its steps, and the errors for wrong steps."""

from __future__ import annotations

import pytest
from pamqp import commands, heartbeat
from pamqp.commands import Channel

from leveret.core.protocol.state import State
from tests.protocol.peer import PROTOCOL_HEADER, Frame, Peer, Server, names, octets, split, start_ok, the

STEPS: dict[str, Frame] = {
    "start-ok": start_ok(),
    "secure-ok": commands.Connection.SecureOk("My password is guest"),
    "tune-ok": commands.Connection.TuneOk(2047, 131072, 0),
    "open": commands.Connection.Open("/"),
}
ORDER = ("start-ok", "tune-ok", "open")


@pytest.fixture
def server() -> Server:
    return Server()


def after(server: Server, *steps: str) -> Peer:
    peer = server.stranger()
    peer.send_octets(PROTOCOL_HEADER)
    for step in steps:
        peer.send(0, STEPS[step])
    return peer


def test_a_client_is_led_to_an_open_connection(server: Server) -> None:
    peer = after(server, *ORDER)

    assert names(peer.read()) == ["Connection.Start", "Connection.Tune", "Connection.OpenOk"]
    assert peer.connection.state is State.OPENED
    assert list(server.node.connections.values()) == [peer.connection]


def test_the_whole_handshake_may_come_in_one_read(server: Server) -> None:
    piecemeal = after(server, *ORDER)
    at_once = server.stranger()

    at_once.send_octets(PROTOCOL_HEADER + octets(0, *(STEPS[step] for step in ORDER)))

    assert at_once.read_octets() == piecemeal.read_octets()


def test_start_names_rabbitmq_and_its_capabilities(server: Server) -> None:
    start = the(after(server).read(), commands.Connection.Start)

    assert (start.version_major, start.version_minor, start.locales) == (0, 9, "en_US")
    assert start.server_properties["product"] == "RabbitMQ"
    assert list(start.server_properties["capabilities"]) == [
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "consumer_priorities",
        "authentication_failure_close",
        "per_consumer_qos",
        "direct_reply_to",
    ]


def test_tune_offers_what_rabbitmq_offers(server: Server) -> None:
    tune = the(after(server, "start-ok").read(), commands.Connection.Tune)

    assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (2047, 131072, 60)


@pytest.mark.parametrize("octet_count", range(8))
def test_an_incomplete_protocol_header_is_waited_for(server: Server, octet_count: int) -> None:
    peer = server.stranger()

    peer.send_octets(PROTOCOL_HEADER[:octet_count])

    assert peer.read() == []
    assert not peer.connection.is_reset


@pytest.mark.parametrize(
    ("header", "offer"),
    [
        (b"AMQP\x00\x00\x09\x00", b"AMQP\x00\x00\x09\x01"),
        (b"AMQP\x00\x00\x0a\x00", b"AMQP\x00\x00\x09\x01"),
        (b"AMQP\x01\x01\x08\x00", b"AMQP\x03\x01\x00\x00"),
        (b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00"),
        (b"GET / HT", b"AMQP\x03\x01\x00\x00"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", b"AMQP\x03\x01\x00\x00"),
    ],
)
def test_a_client_of_another_protocol_is_offered_amqp_and_reset(server: Server, header: bytes, offer: bytes) -> None:
    peer = server.stranger()

    peer.send_octets(header)

    assert peer.read_octets() == offer
    assert peer.connection.is_reset


def test_the_0_9_header_is_read_as_0_9_1(server: Server) -> None:
    peer = server.stranger()

    peer.send_octets(b"AMQP\x01\x01\x00\x09")

    assert names(peer.read()) == ["Connection.Start"]


WRONG = [(ORDER[:count], step) for count in range(3) for step in STEPS if step != ORDER[count]]


@pytest.mark.parametrize(("steps", "wrong"), WRONG)
def test_a_step_out_of_order_ends_the_conversation(server: Server, steps: tuple[str, ...], wrong: str) -> None:
    peer = after(server, *steps)
    peer.read()

    answer = peer.call(0, STEPS[wrong])
    peer.send(0, *(STEPS[step] for step in ORDER))

    assert not server.node.connections
    if "tune-ok" in steps:
        close = the(answer, commands.Connection.Close)
        assert (close.reply_code, close.reply_text) == (
            504,
            "CHANNEL_ERROR - unexpected method in connection state opening",
        )
    else:
        assert answer == []
        assert peer.connection.state is State.ENDING


@pytest.mark.parametrize("step", ["start-ok", "secure-ok", "tune-ok", "open"])
def test_a_step_of_the_handshake_is_refused_once_it_is_over(server: Server, step: str) -> None:
    peer = server.peer()

    close = the(peer.call(0, STEPS[step]), commands.Connection.Close)

    assert (close.reply_code, close.reply_text) == (
        504,
        "CHANNEL_ERROR - unexpected method in connection state running",
    )
    assert (close.class_id, close.method_id) == (10, STEPS[step].frame_id)


def test_a_failure_before_tuning_resets_after_three_seconds(server: Server) -> None:
    peer = after(server)
    peer.send(0, STEPS["open"])

    server.elapse(2.9)
    before = peer.connection.is_reset
    server.elapse(0.1)

    assert (before, peer.connection.is_reset) == (False, True)


def test_a_handshake_has_ten_seconds(server: Server) -> None:
    peer = after(server, "start-ok", "tune-ok")

    server.elapse(9.9)
    before = peer.connection.is_reset
    server.elapse(0.1)

    assert (before, peer.connection.is_reset) == (False, True)


def test_an_open_connection_has_no_time_limit(server: Server) -> None:
    peer = after(server, *ORDER)

    server.elapse(100_000)

    assert peer.connection.state is State.OPENED


def test_a_client_with_authentication_failure_close_learns_of_a_wrong_password(server: Server) -> None:
    peer = after(server)
    peer.read()
    capabilities = {"authentication_failure_close": True}

    close = the(peer.call(0, start_ok(response="\0guest\0wrong", capabilities=capabilities)), commands.Connection.Close)

    assert (close.reply_code, close.class_id, close.method_id) == (403, 0, 0)
    assert close.reply_text == (
        "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile."
    )


@pytest.mark.parametrize(
    "answer",
    [
        start_ok(response="\0guest\0wrong"),
        start_ok(response="\0nobody\0guest"),
        start_ok(response="guest\0guest\0guest"),
        start_ok(response="guest"),
        start_ok(response="\0guest\0"),
        start_ok(mechanism="plain"),
        start_ok(mechanism="EXTERNAL"),
    ],
    ids=["password", "user", "authzid", "malformed", "empty", "case", "unknown"],
)
def test_other_clients_get_no_reason_for_a_failed_login(server: Server, answer: Frame) -> None:
    peer = after(server)
    peer.read()

    received = peer.call(0, answer)
    server.elapse(3)

    assert received == []
    assert peer.connection.is_reset


def test_an_anonymous_client_is_the_guest(server: Server) -> None:
    peer = after(server)

    peer.send(0, start_ok(mechanism="ANONYMOUS", response=""), STEPS["tune-ok"], STEPS["open"])

    assert peer.connection.user == "guest"
    assert peer.connection.state is State.OPENED


@pytest.mark.parametrize(
    ("channel_max", "frame_max"), [(2047, 0), (2047, 8191), (2047, 131073), (0, 131072), (2048, 131072)]
)
def test_limits_out_of_range_end_in_a_reset(server: Server, channel_max: int, frame_max: int) -> None:
    peer = after(server, "start-ok")
    peer.read()

    received = peer.call(0, commands.Connection.TuneOk(channel_max, frame_max, 0), STEPS["open"])
    server.elapse(3)

    assert received == []
    assert peer.connection.is_reset


def test_a_missing_vhost_is_refused(server: Server) -> None:
    peer = after(server, "start-ok", "tune-ok")
    peer.read()

    close = the(peer.call(0, commands.Connection.Open("nowhere")), commands.Connection.Close)

    assert (close.reply_code, close.reply_text) == (530, "NOT_ALLOWED - vhost nowhere not found")
    assert (close.class_id, close.method_id) == (10, 40)


def test_a_user_without_rights_on_the_vhost_is_refused(server: Server) -> None:
    server.node.access.set_user("eve", "eve")
    peer = after(server)
    peer.send(0, start_ok(response="\0eve\0eve"), STEPS["tune-ok"])
    peer.read()

    close = the(peer.call(0, STEPS["open"]), commands.Connection.Close)

    assert close.reply_text == "NOT_ALLOWED - access to vhost '/' refused for user 'eve'"


@pytest.mark.parametrize("steps", [ORDER[:count] for count in range(4)])
def test_a_heartbeat_is_welcome_at_any_time(server: Server, steps: tuple[str, ...]) -> None:
    peer = after(server, *steps)
    peer.read()

    received = peer.call(0, heartbeat.Heartbeat())
    peer.send(0, *(STEPS[step] for step in ORDER[len(steps) :]))

    assert received == []
    assert peer.connection.state is State.OPENED


def test_a_channel_before_the_vhost_is_refused(server: Server) -> None:
    peer = after(server, "start-ok", "tune-ok")
    peer.read()

    close = the(peer.call(1, Channel.Open()), commands.Connection.Close)

    assert (close.reply_code, close.reply_text) == (
        505,
        "UNEXPECTED_FRAME - type 1, all octets = <<0,20,0,10,1,48>>",
    )


def test_a_connection_lost_during_the_handshake_leaves_nothing_behind(server: Server) -> None:
    peer = after(server, "start-ok")

    peer.connection.connection_lost()
    peer.connection.connection_lost()

    assert not server.node.connections
    assert server.node.next_liveness_deadline() is None
    assert not server.trace


def test_a_name_the_client_gives_the_connection_is_its_name(server: Server) -> None:
    peer = after(server)
    properties = {"product": "pika", "connection_name": "billing"}
    peer.send(0, commands.Connection.StartOk(properties, "PLAIN", "\0guest\0guest", "en_US"))

    assert peer.connection.client_name == "billing"


def test_input_after_a_wrong_step_is_ignored(server: Server) -> None:
    peer = after(server)
    peer.send(0, STEPS["open"])

    peer.send_octets(b"\xff" * 5000)

    assert list(split(peer.read_octets()))[1:] == []
    assert not server.node.internal_errors


# 192.0.2.1 belongs to another machine. 4.3 looks at the client's end, older versions at their own (seen on 4.3.6, 4.0.5
# and 3.10.8, through IPv4).
@pytest.mark.parametrize(
    ("version", "peer", "local", "is_let_in"),
    [
        ("4.3", "192.0.2.1", "192.0.2.2", False),
        ("4.3", "192.0.2.1", "127.0.0.1", False),
        ("4.3", "127.0.0.1", "192.0.2.2", True),
        ("4.3", "127.0.0.2", "127.0.0.2", True),
        ("4.3", "::1", "::1", True),
        ("4.3", "::ffff:127.0.0.1", "::ffff:127.0.0.1", True),
        ("4.0", "192.0.2.1", "192.0.2.2", False),
        ("4.0", "192.0.2.1", "127.0.0.1", True),
        ("4.0", "127.0.0.1", "192.0.2.2", False),
        ("3.10", "192.0.2.1", "127.0.0.1", True),
        ("3.10", "127.0.0.1", "192.0.2.2", False),
    ],
)
def test_guest_logs_in_over_loopback_only(version: str, peer: str, local: str, is_let_in: bool) -> None:
    guest = Server(version).stranger(peer=peer, local=local)
    guest.send_octets(PROTOCOL_HEADER)
    guest.read()

    guest.send(0, start_ok(capabilities={"authentication_failure_close": True}))

    assert names(guest.read()) == ["Connection.Tune" if is_let_in else "Connection.Close"]


def test_other_users_log_in_from_anywhere() -> None:
    server = Server()
    server.node.access.set_user("shop", "secret")
    user = server.stranger(peer="192.0.2.1", local="192.0.2.2")
    user.send_octets(PROTOCOL_HEADER)
    user.read()

    user.send(0, start_ok(response="\0shop\0secret"))

    assert names(user.read()) == ["Connection.Tune"]
