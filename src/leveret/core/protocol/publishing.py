"""Publishes from any publisher: what RabbitMQ checks, in its order, what it changes, and what follows.

`checked` checks every publish: a client's, the test's own, a responder's reply and one that a fault affects. `announce`
gives each its number and its event. `publish` then routes the message, returns it if necessary, and owes the confirm.
`Publisher` describes how publishers differ. Properties keep the bytes they came with, unless there are headers. Headers
go out sorted, each name once, without BCC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from leveret.core.model import reply_to
from leveret.core.model.errors import AccessRefused, InternalRefusal, NotImplementedByBroker, PreconditionFailed
from leveret.core.model.message import Message
from leveret.core.model.operators.node_settings import NODE_NAME
from leveret.core.model.queues.arguments import TEN_YEARS_MS
from leveret.core.model.reply_to import ReplyQueue
from leveret.core.protocol.receiving.assembler import Content
from leveret.core.protocol.transaction import HeldPublish, Transaction
from leveret.core.wire import erlang
from leveret.core.wire.constants import NO_ROUTE
from leveret.core.wire.errors import WireError
from leveret.core.wire.methods import BasicPublish, BasicReturn
from leveret.core.wire.properties import Properties
from leveret.core.wire.values import TYPE_NAMES, Field, Table
from leveret.trace import events

if TYPE_CHECKING:
    from leveret.core.model.firehose import TracedChannel
    from leveret.core.model.node import Node
    from leveret.core.model.vhost import Published, VirtualHost
    from leveret.core.protocol.channel import Channel
    from leveret.core.protocol.confirms import Confirms
    from leveret.core.protocol.rights import UserRights

_DIGITS: Final = frozenset("0123456789")


class Publisher(Protocol):
    """The source of a publish: a client's channel, or the test itself."""

    node: Node
    vhost: VirtualHost
    rights: UserRights
    confirms: Confirms | None
    transaction: Transaction | None
    # Where direct replies go; None for a publisher that does not consume them.
    reply_queue: ReplyQueue | None
    # The properties of its last publish, as bytes and decoded. Publishers repeat themselves.
    last_properties: tuple[bytes, Properties] | None

    def tap(self, kind: str, *fields: object) -> None:
        """Record something the publisher did."""

    def send_return(self, method: BasicReturn, message: Message) -> None:
        """Send the publisher its message back."""

    def owe_confirm(self, sequence: int, message: Message, is_taken: bool) -> None:
        """Confirm a publish at the end of this batch of input."""

    def confirm_at_once(self, sequence: int, message: Message) -> None:
        """Confirm a publish that entered no queue."""


def checked(publisher: Publisher, method: BasicPublish, content: Content) -> Message:
    """Return the message of a publish, or raise RabbitMQ's refusal. Nothing is changed yet.

    The message has no id before `announce`. Hot: once per publish.
    """
    if method.immediate:
        raise NotImplementedByBroker("immediate=true")
    limit, size = publisher.node.max_message_size, len(content.body)
    if size > limit:
        raise PreconditionFailed(f"message size {size} is larger than configured max size {limit}")
    name = method.exchange
    publisher.rights.require("write", "exchange", name)
    if publisher.vhost.exchange(name).internal:
        raise AccessRefused(f"cannot publish to internal exchange '{name}' in vhost '{publisher.vhost.name}'")
    return _message(publisher, method, content)


def announce(publisher: Publisher, message: Message) -> int | None:
    """Begin a publish: give the message its id, record it, and return its number in confirm mode.

    Hot: once per publish.
    """
    node, confirms, sequence = publisher.node, publisher.confirms, None
    node.last_message_id = message.id = node.last_message_id + 1
    if confirms is not None:
        confirms.last_sequence = sequence = confirms.last_sequence + 1
    if node.hooks.tap is not None:
        publisher.tap(events.PUBLISHED, message, sequence)
    return sequence


def publish(
    publisher: Publisher, message: Message, *, is_mandatory: bool, client: TracedChannel | None = None
) -> Published | None:
    """Publish a checked message. Return None if a transaction holds it back. Hot: once per publish.

    `client` is the publisher if it is a client's channel.
    """
    sequence = announce(publisher, message)
    vhost = publisher.vhost
    exchange = vhost.exchanges[message.head[0]]
    if publisher.transaction is not None:
        queues = vhost.route(exchange, message)
        if vhost.firehose is not None:
            vhost.firehose.published(message, queues, client)
        if not publisher.node.compat.reply_names_are_queues:
            replies = [queue for queue in queues if isinstance(queue, ReplyQueue)]
            vhost.put(message, replies, client)
            queues = [queue for queue in queues if queue not in replies]
            if replies and not queues and not is_mandatory:
                return None
        publisher.transaction.publishes.append(HeldPublish(message, queues, is_mandatory))
        return None
    if is_mandatory and not message.head[0] and publisher.node.compat.returns_mandatory_replies:
        queues = vhost.route(exchange, message)
        if queues and all(isinstance(queue, ReplyQueue) for queue in queues):
            # Before 4.2, what reaches requesters alone is returned although it is then delivered.
            _return(publisher, message)
    published = vhost.publish(exchange, message, client)
    if not published.is_routed:
        _unroutable(publisher, message, is_mandatory=is_mandatory)
    if sequence is not None:
        # Copies of a reply may be in queues.
        is_reply_alone = (
            not message.head[0] and message.head[1].startswith(reply_to.PREFIX) and len(message.routing_keys) == 1
        )
        if published.is_routed and not is_reply_alone:
            publisher.owe_confirm(sequence, message, not published.is_refused)
        else:
            # No queue has to answer first, so RabbitMQ's channel confirms before it reads on.
            publisher.confirm_at_once(sequence, message)
    return published


def publish_nowhere(publisher: Publisher, message: Message, *, is_taken: bool) -> None:
    """Publish a checked message into no queue, because of a fault, and confirm it as taken or refused."""
    sequence = announce(publisher, message)
    publisher.vhost.lost(message, "fault")
    if sequence is not None:
        publisher.owe_confirm(sequence, message, is_taken)


def return_unroutable(channel: Channel, publish: HeldPublish) -> None:
    """Return or drop a publish that a transaction held back and that reaches no queue."""
    if not publish.queues:
        _unroutable(channel, publish.message, is_mandatory=publish.is_mandatory)


def enqueue_held(channel: Channel, publish: HeldPublish) -> bool:
    """Enqueue what a transaction held back, except in queues that settle first.

    Return False if a queue refused it or a classic queue no longer exists. A quorum queue that was deleted loses it
    in silence (seen on 4.0).
    """
    gone = publish.deleted_queues
    queues = [queue for queue in publish.queues if queue not in gone and not queue.settles_first_at_commit]
    published = channel.vhost.put(publish.message, queues, channel)
    if gone and len(gone) == len(publish.queues):
        channel.vhost.lost(publish.message)
    return not published.is_refused and not any(queue.type_name == "classic" for queue in gone)


def _unroutable(publisher: Publisher, message: Message, *, is_mandatory: bool) -> None:
    if is_mandatory:
        _return(publisher, message)
    else:
        publisher.vhost.lost(message)


def _return(publisher: Publisher, message: Message) -> None:
    """Return a mandatory message to its publisher."""
    publisher.tap(events.RETURNED, message, "NO_ROUTE")
    publisher.send_return(BasicReturn(NO_ROUTE, "NO_ROUTE", message.exchange, message.routing_key), message)


def _message(publisher: Publisher, method: BasicPublish, content: Content) -> Message:
    """Return the message of a publish. Raises AmqpError for properties that RabbitMQ refuses. Hot: once per publish."""
    compat, rights = publisher.node.compat, publisher.rights
    octets = content.properties_octets
    properties = _decoded(publisher, octets)
    routing_keys: tuple[str, ...] = (method.routing_key,)
    hidden_keys: tuple[str, ...] = ()
    if properties.reply_to == reply_to.NAME:
        properties = _with_reply_name(publisher, properties)
        octets = properties.encode()
    if properties.user_id is not None and not compat.checks_user_id_last:
        rights.refuse_false_user_id(properties.user_id)
    dropped_size = 0
    if properties.expiration is not None:
        printed = str(_expiration_ms(properties.expiration))
        if printed != properties.expiration and compat.prints_expiration_anew:
            dropped_size = len(properties.expiration) - len(printed)
            properties = properties.replace(expiration=printed)
            octets = properties.encode()
    headers = properties.headers
    if octets[1] & 0x03:
        # Flag bits without a meaning are not passed on.
        octets = properties.encode()
    if headers is not None:
        copied_keys = _keys_in(headers, "CC")
        hidden_keys = _keys_in(headers, "BCC")
        routing_keys = (method.routing_key, *copied_keys, *hidden_keys)
        if headers and (hidden_keys or compat.sorts_header_keys or "BCC" in headers):
            properties = properties.replace(headers=_delivered_headers(publisher, headers))
            octets = properties.encode()
    if compat.checks_delivery_mode and properties.delivery_mode not in (None, 1, 2):
        raise PreconditionFailed(f"invalid message: {{delivery_mode_unknown,{properties.delivery_mode}}}")
    rights.require_topic("write", method.exchange, routing_keys)
    if properties.user_id is not None:
        rights.refuse_false_user_id(properties.user_id)
    if publisher.node.settings.intercepts_incoming:
        properties = _intercepted(publisher, properties)
        octets = properties.encode()
    return Message(
        0,
        method.exchange,
        method.routing_key,
        properties,
        octets,
        content.body,
        routing_keys,
        hidden_keys,
        # A limit in bytes counts the expiration as it was published (seen on 4.3).
        published_properties_size=len(octets) + dropped_size if dropped_size else None,
    )


def _intercepted(publisher: Publisher, properties: Properties) -> Properties:
    """Return the properties with what the node's interceptors add: the time of arrival and the node."""
    node, settings = publisher.node, publisher.node.settings
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


def _decoded(publisher: Publisher, octets: bytes) -> Properties:
    last = publisher.last_properties
    if last is not None and last[0] == octets:
        return last[1]
    try:
        properties = Properties.decode(octets)
    except WireError:
        # Such properties crash RabbitMQ's decoder.
        raise InternalRefusal() from None
    publisher.last_properties = (octets, properties)
    return properties


def _with_reply_name(publisher: Publisher, properties: Properties) -> Properties:
    if publisher.reply_queue is None:
        raise PreconditionFailed("fast reply consumer does not exist")
    return properties.replace(reply_to=publisher.reply_queue.name)


def _expiration_ms(expiration: str) -> int:
    """Return the number in an expiration.

    Refuses one that is out of range, or that Erlang's string:to_integer does not read to its end.
    """
    digits = expiration[1:] if expiration[:1] in ("+", "-") else expiration
    count = next((at for at, character in enumerate(digits) if character not in _DIGITS), len(digits))
    if not count:
        raise PreconditionFailed(f"invalid expiration '{expiration}': no_integer")
    if count < len(digits):
        raise _invalid_expiration(expiration, "leftover_string", erlang.string(erlang.text(digits[count:])))
    value = int(expiration)
    if value < 0:
        raise _invalid_expiration(expiration, "value_negative", str(value))
    if value > TEN_YEARS_MS:
        raise _invalid_expiration(expiration, "value_too_large", str(value))
    return value


def _invalid_expiration(expiration: str, reason: str, value: str) -> PreconditionFailed:
    text = f"invalid expiration '{expiration}': "
    return PreconditionFailed(text + erlang.pair(reason, value, len(text)))


def _keys_in(headers: Table, name: str) -> tuple[str, ...]:
    """Return the further routing keys in a CC or BCC header: the strings of its array."""
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


def _delivered_headers(publisher: Publisher, headers: Table) -> Table:
    """Return the headers as consumers get them."""
    if "BCC" in headers:
        headers = headers.without("BCC")
    return headers.sorted_unique() if publisher.node.compat.sorts_header_keys else headers
