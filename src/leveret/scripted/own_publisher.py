"""The test as a publisher, for its own publishes and for the replies of its responders.

It publishes as a client does. An argument that cannot be encoded is tried by itself, for an error that names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import error as StructError
from typing import Final

from leveret.core.model.message import Message
from leveret.core.model.operators.access import Kind, Right, TopicRight
from leveret.core.model.reply_to import ReplyQueue
from leveret.core.model.vhost import VirtualHost
from leveret.core.protocol import publishing
from leveret.core.protocol.confirms import Confirms
from leveret.core.protocol.receiving.assembler import Content
from leveret.core.protocol.rights import UserRights
from leveret.core.protocol.transaction import Transaction
from leveret.core.wire.errors import WireError
from leveret.core.wire.methods import BasicPublish, BasicReturn
from leveret.core.wire.properties import PROPERTY_NAMES, Properties
from leveret.core.wire.values import encode_short_string
from leveret.errors import unknown_keyword

# The valid values of the properties that are not text.
_NUMBERS: Final = {
    "delivery_mode": "a number from 0 to 255",
    "priority": "a number from 0 to 255",
    "timestamp": "a datetime, or whole seconds since 1970",
}
_OTHER_ARGUMENTS: Final = ("exchange", "routing_key", "body", "json", "mandatory", "vhost")


def tap_as_test(vhost: VirtualHost, kind: str, *fields: object) -> None:
    """Record an event of the test itself, which has no connection and no channel."""
    node = vhost.node
    if node.hooks.tap is not None:
        node.hooks.tap((kind, node.now, vhost.name, None, None, *fields))


class OwnPublisher:
    """The test as a publisher: it has all permissions, but no connection, direct replies or confirms."""

    confirms: Confirms | None = None
    transaction: Transaction | None = None
    reply_queue: ReplyQueue | None = None

    def __init__(self, vhost: VirtualHost) -> None:
        self.node = vhost.node
        self.vhost = vhost
        self.rights: UserRights = EveryRight("", vhost)
        self.last_properties: tuple[bytes, Properties] | None = None

    def publish(
        self, exchange: str, routing_key: str, body: bytes, properties_octets: bytes, *, is_mandatory: bool
    ) -> bool:
        """Publish as a client does, and return whether the message reached a queue.

        Raises AmqpError if RabbitMQ would refuse the publish.
        """
        method = BasicPublish(exchange, routing_key, is_mandatory, False)
        message = publishing.checked(self, method, Content(properties_octets, body, b""))
        published = publishing.publish(self, message, is_mandatory=is_mandatory)
        assert published is not None
        return published.is_routed

    def tap(self, kind: str, *fields: object) -> None:
        """Record an event of the test itself."""
        tap_as_test(self.vhost, kind, *fields)

    def send_return(self, method: BasicReturn, message: Message) -> None:
        """Send nothing. The trace records that the message was returned, and the call of the test reports it."""

    def owe_confirm(self, sequence: int, message: Message, is_taken: bool) -> None:
        """Owe nothing, because the test is not in confirm mode."""

    def confirm_at_once(self, sequence: int, message: Message) -> None:
        """Confirm nothing, because the test is not in confirm mode."""


class EveryRight(UserRights):
    """The permissions of a test, which can do everything."""

    __slots__ = ()

    def require(self, right: Right, kind: Kind, name: str) -> None:
        """Permit everything."""

    def require_topic(self, right: TopicRight, exchange_name: str, routing_keys: tuple[str, ...]) -> None:
        """Permit everything."""

    def refuse_false_user_id(self, user_id: str) -> None:
        """Permit every user_id."""


def octets_of(call: str, body: object) -> bytes:
    """Return the bytes of a body. Raises TypeError or ValueError, naming `call`, for anything but bytes and text."""
    __tracebackhide__ = True
    if isinstance(body, str):
        try:
            return body.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{call}: body {body!r} cannot be encoded as UTF-8; give bytes instead") from None
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    raise TypeError(f"{call}: body must be bytes or text, not {type(body).__name__}; for JSON use json=")


def encoded(call: str, exchange: str, routing_key: str, body: bytes, properties: Mapping[str, object]) -> bytes:
    """Return the properties as bytes. Raises TypeError or ValueError, naming `call`, if an argument cannot be sent."""
    __tracebackhide__ = True
    try:
        encode_short_string(exchange)
        encode_short_string(routing_key)
        return Properties.from_python(properties).encode()
    except (AttributeError, TypeError, ValueError, OverflowError, StructError, WireError, RecursionError):
        raise _unsendable(call, exchange, routing_key, body, properties) from None


def _unsendable(
    call: str, exchange: object, routing_key: object, body: bytes, properties: Mapping[str, object]
) -> TypeError | ValueError:
    """Return the error for arguments that cannot be encoded: which of them, and what to write instead."""
    # Imported here because only an invalid call needs it.
    from leveret.observe.calls.calls import wrong_text

    wrong = wrong_text("exchange", exchange)
    if wrong is None:
        wrong = wrong_text("routing_key", routing_key)
        if isinstance(wrong, TypeError) and not body:
            wrong = TypeError(f"{wrong}; {_with_key(exchange, routing_key)}")
    for name, value in properties.items():
        if name not in PROPERTY_NAMES:
            return unknown_keyword(call, name, (*_OTHER_ARGUMENTS, *PROPERTY_NAMES))
        if wrong is None and value is not None:
            wrong = _wrong_property(name, value)
    assert wrong is not None, "every argument can be encoded by itself"
    return type(wrong)(f"{call}: {wrong}")


def _wrong_property(name: str, value: object) -> TypeError | ValueError | None:
    from leveret.observe.calls.calls import shown, wrong_table, wrong_text

    if name == "headers":
        return wrong_table(name, value)
    if name not in _NUMBERS:
        return wrong_text(name, value)
    try:
        Properties.from_python({name: value}).encode()
    except (AttributeError, TypeError, ValueError, OverflowError, StructError):
        kind = ValueError if isinstance(value, int) else TypeError
        return kind(f"{name} must be {_NUMBERS[name]}, not {shown(value)}")
    return None


def _with_key(exchange: object, routing_key: object) -> str:
    """Return the correct call for one that has a body in place of the routing key."""
    from leveret.observe.calls.calls import shown

    is_body = isinstance(routing_key, bytes | bytearray | memoryview)
    body = f"{'' if is_body else 'json='}{shown(routing_key)}"
    to_queue = f", or to a queue publish('', {shown(exchange)}, {body})" if exchange else ""
    written = f"publish({shown(exchange)}, {'key' if exchange else 'queue'!r}, {body}){to_queue}"
    quoted = written if '"' in written else written.replace("'", '"')
    return f"the body comes after the routing key: {quoted}"
