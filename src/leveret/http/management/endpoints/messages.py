"""The endpoints that publish and get messages."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from leveret.core.model.errors import AmqpError
from leveret.core.model.message import Message
from leveret.core.model.vhost import VirtualHost
from leveret.core.protocol.handlers import basic
from leveret.core.wire.errors import ShortStringTooLong
from leveret.core.wire.methods import BasicGet, BasicGetOk, BasicReject
from leveret.core.wire.properties import PROPERTY_NAMES, Properties, PropertyValue
from leveret.http.management.calls import ACCESS_REFUSED, Call, bad_request, not_authorised, not_found
from leveret.http.management.listing import Described
from leveret.http.management.routes import endpoint
from leveret.http.management.values import described_properties, table_of
from leveret.scripted.own_publisher import OwnPublisher

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
def publish(call: Call) -> object:
    """Publish a message, and answer whether it reached a queue."""
    with call.engine.looking():
        vhost = _vhost(call)
        if call.exchange_name not in vhost.exchanges and call.compat.looks_for_exchange:
            raise not_found("exchange_not_found")
    body = call.body("routing_key", "properties", "payload", "payload_encoding")
    octets = _payload(body)
    properties = _encoded(_properties(body.get("properties")))
    with call.acting():
        publisher = OwnPublisher(vhost)
        publisher.rights = call.rights(vhost)
        exchange, routing_key = call.exchange_name, str(body["routing_key"])
        with named(is_get=False):
            is_routed = publisher.publish(exchange, routing_key, octets, properties, is_mandatory=True)
    return {"routed": is_routed}


def _vhost(call: Call) -> VirtualHost:
    if call.values["vhost"] not in call.node.vhosts and not call.compat.looks_for_exchange:
        raise not_authorised(ACCESS_REFUSED)
    return call.changed_vhost


def _payload(body: Mapping[str, object]) -> bytes:
    text, encoding = body["payload"], body["payload_encoding"]
    if not isinstance(text, str):
        raise bad_request("payload_not_string")
    if encoding == "string":
        return text.encode("utf-8", "surrogateescape")
    if encoding != "base64":
        raise bad_request(["unsupported_encoding", encoding])
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise bad_request(["not_base64", text]) from None


def _properties(given: object) -> Properties:
    """Return the properties of a body. Those that AMQP does not have are ignored."""
    values = given if isinstance(given, Mapping) else {}
    properties: dict[str, PropertyValue] = {}
    for name in PROPERTY_NAMES:
        value = values.get(name)
        if name not in values:
            continue
        if name == "headers":
            properties[name] = table_of(_truncated(value))
        elif name in _BITS:
            if not isinstance(value, int) or isinstance(value, bool):
                raise bad_request(["not_int", name])
            properties[name] = value % 2 ** _BITS[name]
        elif isinstance(value, str):
            properties[name] = value
        else:
            raise bad_request(["not_string", name])
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
def get_messages(call: Call) -> object:
    """Take messages from a queue, and settle them as the request wants."""
    name = call.values["queue"]
    with call.engine.looking():
        vhost = _vhost(call)
        if name not in vhost.queues and call.compat.looks_for_exchange:
            raise not_found("queue_not_found")
    body = call.body("ackmode", "count", "encoding")
    mode = str(body["ackmode"])
    if mode not in _ACK_MODES:
        raise bad_request(f"Invalid ackmode value: {mode}. Valid values are: {', '.join(_ACK_MODES)}")
    if body["encoding"] not in ("auto", "base64"):
        raise bad_request("Unsupported encoding. Please use auto or base64.")
    count = _count(body)
    is_acked, is_requeued = _ACK_MODES[mode]
    with call.acting(), call.channel(vhost) as channel, named(is_get=True):
        for number in range(1, count + 1):
            basic.get(channel, BasicGet(name, is_acked and not is_requeued))
            if len(channel.got) < number:
                break
        for ok, _, _ in channel.got:
            if not is_acked or is_requeued:
                basic.reject(channel, BasicReject(ok.delivery_tag, is_requeued))
    return [_shown(ok, message, octets, body) for ok, message, octets in channel.got]


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


def _count(body: Mapping[str, object]) -> int:
    count = body["count"]
    try:
        return int(str(count))
    except ValueError:
        raise bad_request(["not_integer", count]) from None


def _shown(ok: BasicGetOk, message: Message, octets: bytes | None, body: Mapping[str, object]) -> Described:
    properties = message.properties if octets is None else Properties.decode(octets)
    payload = message.body
    limit = body.get("truncate")
    if isinstance(limit, int):
        payload = payload[:limit]
    text, encoding = _text(payload, body["encoding"])
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
