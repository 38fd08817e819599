"""From a publish and its content to a message: what RabbitMQ checks, in its order, and what it changes.

The properties travel as the octets that came, unless there are headers: those go out sorted, each name once, without
BCC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from leveret.core.model import reply_to
from leveret.core.model.arguments import TEN_YEARS_MS
from leveret.core.model.errors import AccessRefused, PreconditionFailed
from leveret.core.model.exchanges.exchange import Exchange
from leveret.core.model.message import Message
from leveret.core.model.node_settings import NODE_NAME
from leveret.core.protocol.assembler import Content, undecodable_properties
from leveret.core.wire import erlang
from leveret.core.wire.errors import WireError
from leveret.core.wire.methods import BasicPublish
from leveret.core.wire.properties import Properties
from leveret.core.wire.values import TYPE_NAMES, Field, Table

if TYPE_CHECKING:
    from leveret.core.protocol.channel import Channel

_DIGITS: Final = frozenset("0123456789")


def refuse_oversize(channel: Channel, content: Content) -> None:
    """Refuse a body above the broker's limit; checked before everything else."""
    limit, size = channel.node.max_message_size, len(content.body)
    if size > limit:
        raise PreconditionFailed(f"message size {size} is larger than configured max size {limit}")


def target(channel: Channel, name: str) -> Exchange:
    """The exchange a client publishes to; raises NotFound, or AccessRefused for one without the right or internal."""
    channel.require("write", "exchange", name)
    exchange = channel.vhost.exchange(name)
    if exchange.internal:
        raise AccessRefused(f"cannot publish to internal exchange '{name}' in vhost '{channel.vhost.name}'")
    return exchange


def build(channel: Channel, method: BasicPublish, content: Content) -> Message:
    """The message of a publish; raises PreconditionFailed for properties RabbitMQ does not take.

    Hot: once per publish.
    """
    compat = channel.node.compat
    octets = content.properties_octets
    properties = _decoded(channel, octets)
    routing_keys: tuple[str, ...] = (method.routing_key,)
    hidden_keys: tuple[str, ...] = ()
    if properties.reply_to == reply_to.NAME:
        properties = _with_reply_name(channel, properties)
        octets = properties.encode()
    if properties.user_id is not None and not compat.checks_user_id_last:
        channel.connection.rights.refuse_false_user_id(properties.user_id)
    if properties.expiration is not None:
        refuse_invalid_expiration(properties.expiration)
    if compat.checks_delivery_mode and properties.delivery_mode not in (None, 1, 2):
        raise PreconditionFailed(f"invalid message: {{delivery_mode_unknown,{properties.delivery_mode}}}")
    headers = properties.headers
    if octets[1] & 0x03:
        # Flag bits that mean nothing are not passed on.
        octets = properties.encode()
    if headers is not None:
        copied_keys = keys_in(headers, "CC")
        hidden_keys = keys_in(headers, "BCC")
        routing_keys = (method.routing_key, *copied_keys, *hidden_keys)
        if headers and (hidden_keys or compat.sorts_header_keys or "BCC" in headers):
            properties = properties.replace(headers=delivered_headers(channel, headers))
            octets = properties.encode()
    channel.connection.rights.require_topic("write", method.exchange, routing_keys)
    if properties.user_id is not None:
        channel.connection.rights.refuse_false_user_id(properties.user_id)
    if channel.node.settings.intercepts_incoming:
        properties = _intercepted(channel, properties)
        octets = properties.encode()
    return Message(
        channel.node.new_message_id(),
        method.exchange,
        method.routing_key,
        properties,
        octets,
        content.body,
        routing_keys,
        hidden_keys,
    )


def _intercepted(channel: Channel, properties: Properties) -> Properties:
    """The properties with what the node's interceptors add: when it came, and to which node."""
    node, settings = channel.node, channel.node.settings
    headers = properties.headers or Table.EMPTY
    if settings.overwrites_timestamp is not None:
        if settings.overwrites_timestamp or "timestamp_in_ms" not in headers:
            headers = headers.with_entry("timestamp_in_ms", Field("l", node.now // 1000))
        if settings.overwrites_timestamp or properties.timestamp is None:
            properties = properties.replace(timestamp=node.now // 1_000_000)
    if settings.overwrites_routing_node or (
        settings.overwrites_routing_node is not None and "x-routed-by" not in headers
    ):
        headers = headers.with_entry("x-routed-by", Field("S", NODE_NAME.encode()))
    return properties.replace(headers=headers.sorted_unique() if node.compat.sorts_header_keys else headers)


def _decoded(channel: Channel, octets: bytes) -> Properties:
    known = channel.last_properties
    if known is not None and known[0] == octets:
        return known[1]
    try:
        properties = Properties.decode(octets)
    except WireError:
        raise undecodable_properties() from None
    channel.last_properties = (octets, properties)
    return properties


def _with_reply_name(channel: Channel, properties: Properties) -> Properties:
    if channel.reply_queue is None:
        raise PreconditionFailed("fast reply consumer does not exist")
    return properties.replace(reply_to=channel.reply_queue.name)


def refuse_invalid_expiration(expiration: str) -> None:
    """Refuse an expiration that Erlang's string:to_integer does not take whole, or that is out of range."""
    digits = expiration[1:] if expiration[:1] in ("+", "-") else expiration
    count = next((at for at, character in enumerate(digits) if character not in _DIGITS), len(digits))
    if not count:
        raise PreconditionFailed(f"invalid expiration '{expiration}': no_integer")
    if count < len(digits):
        rest = erlang.string(erlang.text(digits[count:]))
        raise PreconditionFailed(f"invalid expiration '{expiration}': {{leftover_string,{rest}}}")
    value = int(expiration)
    if value < 0:
        raise PreconditionFailed(f"invalid expiration '{expiration}': {{value_negative,{value}}}")
    if value > TEN_YEARS_MS:
        raise PreconditionFailed(f"invalid expiration '{expiration}': {{value_too_large,{value}}}")


def keys_in(headers: Table, name: str) -> tuple[str, ...]:
    """The further routing keys in a CC or BCC header: the strings of its array."""
    field = headers.get(name)
    if field is None:
        return ()
    if field.tag != "A" or not isinstance(field.value, tuple):
        type_name = TYPE_NAMES[field.tag]
        raise PreconditionFailed(f'invalid message: {{unacceptable_type_in_header,"{name}",{type_name}}}')
    return tuple(
        item.value.decode("utf-8", "surrogateescape")
        for item in field.value
        if isinstance(item, Field) and item.tag == "S" and isinstance(item.value, bytes)
    )


def delivered_headers(channel: Channel, headers: Table) -> Table:
    """The headers as consumers get them."""
    if "BCC" in headers:
        headers = headers.without("BCC")
    return headers.sorted_unique() if channel.node.compat.sorts_header_keys else headers
