"""connection.*: the handshake and the end of a conversation (AMQP 0-9-1 1.4, RabbitMQ's extensions)."""

from __future__ import annotations

from functools import cache
from typing import Final

from leveret.core.compat import EXTERNAL, Compat
from leveret.core.model.errors import NotAllowed
from leveret.core.model.queues.arguments import is_true
from leveret.core.protocol import auth
from leveret.core.protocol.connection import Connection
from leveret.core.protocol.refusals import LoginRefused
from leveret.core.protocol.state import State
from leveret.core.wire import methods
from leveret.core.wire.constants import PROTOCOL_HEADER
from leveret.core.wire.values import Field, Table

_CAPABILITIES: Final = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)


# Either side has sent connection.close.
_CLOSING: Final = (State.CLOSING, State.CLOSED)


def protocol_offer(header: bytes, compat: Compat) -> bytes | None:
    """Return the protocol header to offer to a client with another protocol, or None if it speaks AMQP 0-9-1."""
    if header in (PROTOCOL_HEADER, b"AMQP\x01\x01\x00\x09"):
        return None
    if compat.accepts_protocol_0_8 and header in (b"AMQP\x01\x01\x08\x00", b"AMQP\x01\x01\x09\x01"):
        return None
    if header == compat.offered_protocol_header:
        # The client wants AMQP 1.0, which leveret lacks. To offer it would be to accept it.
        return PROTOCOL_HEADER
    is_neighbour = header.startswith(b"AMQP\x00\x00") and header[6] >= 9
    return PROTOCOL_HEADER if is_neighbour else compat.offered_protocol_header


def start(connection: Connection) -> None:
    """Send the server's properties and the mechanisms it accepts."""
    compat = connection.node.compat
    texts = (connection.node.cluster_name, compat.copyright, compat.platform, compat.product_version)
    connection.send_control(_greeting(*texts, connection.mechanisms))


@cache
def _greeting(
    cluster_name: str, copyright_text: str, platform: str, version: str, mechanisms: tuple[str, ...]
) -> methods.ConnectionStart:
    capabilities = Table(tuple((name, Field("t", True)) for name in _CAPABILITIES))
    texts = (
        ("cluster_name", cluster_name),
        ("copyright", copyright_text),
        ("information", "Licensed under the MPL 2.0. Website: https://rabbitmq.com"),
        ("platform", platform),
        # Clients branch on these two, so they match RabbitMQ's.
        ("product", "RabbitMQ"),
        ("version", version),
    )
    properties = (
        ("capabilities", Field("F", capabilities)),
        *((name, Field("S", text.encode())) for name, text in texts),
    )
    return methods.ConnectionStart(0, 9, Table(properties), " ".join(mechanisms).encode(), b"en_US")


def start_ok(connection: Connection, method: methods.ConnectionStartOk) -> None:
    """Handle the client's properties and its first answer to the login."""
    if connection.state is not State.START:
        raise connection.out_of_place()
    connection.client_properties = method.client_properties
    field = method.client_properties.get("capabilities")
    capabilities = field.value if field is not None and isinstance(field.value, Table) else Table.EMPTY
    connection.supports_login_close = is_true(capabilities, "authentication_failure_close")
    connection.supports_cancel_notify = is_true(capabilities, "consumer_cancel_notify")
    connection.supports_blocked = is_true(capabilities, "connection.blocked")
    connection.mechanism = method.mechanism
    if method.mechanism not in connection.mechanisms:
        connection.reset_later()
    elif method.mechanism == EXTERNAL:
        # Without a certificate there is no name, and the login is refused.
        name = connection.certificate_names.get(connection.node.settings.ssl_cert_login_from, "")
        _take_answer(connection, auth.Credentials(name, None))
    else:
        _take_answer(connection, auth.MECHANISMS[method.mechanism](method.response))


def _take_answer(connection: Connection, answer: auth.Credentials | None) -> None:
    ends = connection.peer[0], connection.local[0]
    if answer is None:
        connection.reset_later()
    elif (complaint := auth.complaint_about(connection.node, answer, *ends)) is None:
        _announce(connection, "user.authentication.success", name=answer.user)
        connection.user = answer.user
        connection.state = State.TUNE
        settings = connection.node.settings
        connection.send_control(methods.ConnectionTune(settings.channel_max, settings.frame_max, settings.heartbeat))
    else:
        error = [ord(character) for character in f"user '{answer.user}' {complaint}"]
        _announce(connection, "user.authentication.failure", name=answer.user, error=error)
        _refuse_login(connection, answer.user)


def _announce(connection: Connection, event: str, **details: object) -> None:
    if connection.node.event_exchange is not None:
        from leveret.core.model.event_exchange import described

        connection.node.announce(event, **details, **described(connection))


def _refuse_login(connection: Connection, user: str) -> None:
    """Refuse a login. A client that supports authentication_failure_close gets a close, the others only the reset."""
    error = LoginRefused(
        f"Login was refused using authentication mechanism {connection.mechanism}. For details see the broker logfile."
    )
    is_known = user in connection.node.access.users
    error.about("wrong_password" if is_known else "unknown_user", user=user)
    cause = f"user '{user}' {'has another password' if is_known else 'is unknown'}"
    connection.tap_refusal(0, error.because(cause))
    if connection.supports_login_close:
        connection.send_control(methods.ConnectionClose(error.code, error.reply_text, 0, 0))
    connection.reset_later()


def tune_ok(connection: Connection, method: methods.ConnectionTuneOk) -> None:
    """Agree on limits. RabbitMQ closes the connection if one is out of range."""
    if connection.state is not State.TUNE:
        raise connection.out_of_place()
    settings = connection.node.settings
    is_frame_max_fine = connection.node.compat.min_frame_max <= method.frame_max <= settings.frame_max
    if not is_frame_max_fine or not 1 <= method.channel_max <= settings.channel_max:
        connection.reset_later()
        return
    connection.tune(frame_max=method.frame_max, channel_max=method.channel_max, heartbeat_s=method.heartbeat)
    connection.state = State.OPEN


def open_vhost(connection: Connection, method: methods.ConnectionOpen) -> None:
    """Enter a virtual host, which ends the handshake."""
    if connection.state is not State.OPEN:
        raise connection.out_of_place()
    connection.node.refuse_another_connection()
    vhost = connection.node.vhosts.get(method.virtual_host)
    if vhost is None:
        cause = f"user '{connection.user}' asked for it"
        refusal = NotAllowed(f"vhost {method.virtual_host} not found").because(cause)
        raise refusal.about("no_vhost", vhost=method.virtual_host, user=connection.user)
    connection.node.refuse_beyond_limits(connection.user, vhost.name)
    if not connection.node.access.may_open(connection.user, vhost.name):
        refusal = NotAllowed(f"access to vhost '{vhost.name}' refused for user '{connection.user}'")
        raise refusal.about("no_access", vhost=vhost.name, user=connection.user)
    connection.vhost = vhost
    connection.opened()
    connection.send_control(methods.ConnectionOpenOk())


def update_secret(connection: Connection, method: methods.ConnectionUpdateSecret) -> None:
    """Accept a new secret. Users of the internal backend need none, so RabbitMQ accepts any (seen on 4.3)."""
    if connection.state is not State.OPENED:
        raise connection.out_of_place()
    connection.send_control(methods.ConnectionUpdateSecretOk())


def close(connection: Connection, method: methods.ConnectionClose) -> None:
    """End the conversation for the client. A close that crosses the broker's own is answered too, and a second one."""
    if connection.state not in (State.OPENED, *_CLOSING):
        raise connection.out_of_place()
    connection.closed_by_peer()
    connection.send_control(methods.ConnectionCloseOk())


def close_ok(connection: Connection, method: methods.ConnectionCloseOk) -> None:
    """Close the socket at once, because the client has answered the broker's close."""
    if connection.state not in _CLOSING:
        raise connection.out_of_place()
    connection.reset()
