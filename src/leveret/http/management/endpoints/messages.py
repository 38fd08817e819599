"""The endpoints that publish and get messages."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count as count_up
from typing import Final

from leveret.admin.values import Item, described_properties, octets_of
from leveret.core.model.errors import AmqpError
from leveret.core.model.message import Message
from leveret.core.model.vhost import VirtualHost
from leveret.core.protocol import publishing
from leveret.core.protocol.confirms import Confirms
from leveret.core.protocol.handlers import basic
from leveret.core.protocol.receiving.assembler import Content
from leveret.core.wire.errors import ShortStringTooLong
from leveret.core.wire.methods import BasicGet, BasicGetOk, BasicNack, BasicPublish, BasicReject
from leveret.core.wire.properties import PROPERTY_NAMES, Properties, PropertyValue
from leveret.http.management.calls import ACCESS_REFUSED, ManagementCall, bad_request, not_authorised, not_found
from leveret.http.management.listing import Described
from leveret.http.management.routes import endpoint

# What becomes of the messages that were got: whether they are acknowledged, and whether they return to the queue.
_ACK_MODES: Final = {
    "ack_requeue_true": (True, True),
    "ack_requeue_false": (True, False),
    "reject_requeue_true": (False, True),
    "reject_requeue_false": (False, False),
}
# The properties that are numbers, and the bits that each has room for.
_BITS: Final = {"delivery_mode": 8, "priority": 8, "timestamp": 64}


@endpoint("POST", "/api/exchanges/{vhost}/{exchange}/publish", "vhost")
def publish(call: ManagementCall) -> object:
    """Publish a message, and answer whether it reached a queue."""
    with call.engine.looking():
        vhost = _vhost(call)
        if call.exchange_name not in vhost.exchanges and call.compat.looks_for_exchange:
            raise not_found("exchange_not_found")
    body = call.body("routing_key", "properties", "payload", "payload_encoding")
    octets = _payload(body)
    content = Content(_encoded(_properties(body.inner("properties"))), octets, b"")
    method = BasicPublish(call.exchange_name, body.text("routing_key"), True, False)
    with call.acting(), call.channel(vhost) as channel:
        channel.confirms = Confirms()
        with named(is_get=False):
            message = publishing.checked(channel, method, content)
            publishing.publish(channel, message, is_mandatory=True)
        channel.flush_confirms()
        if channel.is_refused:
            raise bad_request("rejected Unable to publish message. Check queue limits.")
    return {"routed": not channel.is_returned}


def _vhost(call: ManagementCall) -> VirtualHost:
    if call.values["vhost"] not in call.node.vhosts and not call.compat.looks_for_exchange:
        raise not_authorised(ACCESS_REFUSED)
    return call.changed_vhost


def _payload(body: Item) -> bytes:
    text, encoding = body.text("payload", reason="payload_not_string"), body.get("payload_encoding")
    if encoding == "string":
        return text.encode("utf-8", "surrogateescape")
    if encoding != "base64":
        raise bad_request(["unsupported_encoding", encoding])
    try:
        return octets_of(text)
    except ValueError:
        raise bad_request(["not_base64", text]) from None


def _properties(given: Item) -> Properties:
    """Return the properties of a body. Those that AMQP does not have are ignored."""
    properties: dict[str, PropertyValue] = {}
    for name in PROPERTY_NAMES:
        if name not in given:
            continue
        if name == "headers":
            properties[name] = Item({name: _truncated(given.get(name))}).table(name)
        elif name in _BITS:
            properties[name] = given.number(name, reason=["not_int", name]) % 2 ** _BITS[name]
        else:
            properties[name] = given.text(name, reason=["not_string", name])
    return Properties(**properties)


def _truncated(value: object) -> object:
    """Return a JSON value with the lowest 64 bits of each integer, which is what RabbitMQ sends (seen on 4.3)."""
    if isinstance(value, Mapping):
        return {name: _truncated(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_truncated(each) for each in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return (value + 2**63) % 2**64 - 2**63
    return value


def _encoded(properties: Properties) -> bytes:
    try:
        return properties.encode()
    except ShortStringTooLong:
        raise bad_request("506 failed to deliver message: content_properties_shortstr_overflow") from None


@endpoint("POST", "/api/queues/{vhost}/{queue}/get", "vhost")
def get_messages(call: ManagementCall) -> object:
    """Take messages from a queue, and settle them as the request wants."""
    name = call.values["queue"]
    with call.engine.looking():
        vhost = _vhost(call)
        if name not in vhost.queues and call.compat.looks_for_exchange:
            raise not_found("queue_not_found")
    body = call.body("ackmode", "count", "encoding")
    # A number stands for a byte of the text.
    number = body.get("ackmode")
    mode = chr(number) if isinstance(number, int) and number in range(256) else body.text("ackmode")
    if mode not in _ACK_MODES:
        raise bad_request(f"Invalid ackmode value: {mode}. Valid values are: {', '.join(_ACK_MODES)}")
    count, encoding = body.parsed_number("count"), body.get("encoding")
    if encoding not in ("auto", "base64"):
        raise bad_request("Unsupported encoding. Please use auto or base64.")
    limit = body.parsed_number("truncate") if "truncate" in body else None
    if limit is not None and limit < 0:
        raise body.wrong("truncate", f"must be 0 or more, not {limit}")
    is_acked, is_requeued = _ACK_MODES[mode]
    with call.acting(), call.channel(vhost) as channel, named(is_get=True):
        # A negative count never becomes 0, so it takes all.
        for number in count_up(1) if count < 0 else range(1, count + 1):
            basic.get(channel, BasicGet(name, is_acked and not is_requeued))
            if len(channel.got) < number:
                break
        for ok, _, _ in channel.got:
            if not is_acked:
                basic.reject(channel, BasicReject(ok.delivery_tag, is_requeued))
            elif is_requeued and call.compat.nacks_after_get:
                basic.nack(channel, BasicNack(ok.delivery_tag, False, True))
    return [_shown(ok, message, octets, limit, encoding) for ok, message, octets in channel.got]


@contextmanager
def named(*, is_get: bool) -> Iterator[None]:
    """Answer a refusal with its code and name, as RabbitMQ does where a channel of its own was refused."""
    try:
        yield
    except AmqpError as error:
        if is_get and error.code == 403:
            raise not_authorised(error.reply_text) from None
        if is_get and error.code == 404:
            raise not_found(error.reply_text) from None
        text = error.explanation if error.is_hard and error.explanation else error.reply_text
        raise bad_request(f"{error.code} {text}") from None


def _shown(
    ok: BasicGetOk, message: Message, octets: bytes | None, limit: int | None, wanted_encoding: object
) -> Described:
    properties = message.properties if octets is None else Properties.decode(octets)
    text, encoding = _text(message.body[:limit], wanted_encoding)
    return {
        "payload_bytes": len(message.body),
        "redelivered": ok.redelivered,
        "exchange": ok.exchange,
        "routing_key": ok.routing_key,
        "message_count": ok.message_count,
        "properties": described_properties(properties),
        "payload": text,
        "payload_encoding": encoding,
    }


def _text(octets: bytes, encoding: object) -> tuple[str, str]:
    if encoding == "auto":
        try:
            return octets.decode(), "string"
        except UnicodeDecodeError:
            pass
    return base64.b64encode(octets).decode(), "base64"
