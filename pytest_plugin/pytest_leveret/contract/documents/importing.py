"""A document as a lock, so that the document of one service is compared with the lock or the document of another.

What a service sends is what its document says, and so is what it needs of what it receives.
"""

from __future__ import annotations

from pathlib import Path

from leveret.trace.shapes import Shape
from pytest_leveret.contract import is_document
from pytest_leveret.contract.documents.files import DocumentNode
from pytest_leveret.contract.documents.reading import ChannelSpec, Document, MessageSpec
from pytest_leveret.contract.documents.reading import read as read_document
from pytest_leveret.contract.documents.schemas import MODES, shape_of, task_shape
from pytest_leveret.contract.lock import (
    ANY,
    PARTS,
    Declared,
    Lock,
    LockedBinding,
    LockedConsumer,
    LockedMessage,
    MessageKey,
    field_shape,
    field_text,
    named_lock,
)
from pytest_leveret.contract.lock import read as read_lock


def read(path: Path) -> Lock:
    """Read a lock, or a document as a lock. Raises ValueError if it is neither, OSError if it cannot be read."""
    if not is_document(path):
        return read_lock(path)
    document = read_document(path)
    try:
        return lock_of(document)
    except RecursionError:
        raise ValueError(f"{path}: a schema refers to itself in its own alternatives") from None


def lock_of(document: Document) -> Lock:
    """Return a document as a lock."""
    lock = named_lock(document.topology)
    lock.is_document = True
    for channel in document.channels:
        if not document.topology:
            _declare(lock, channel)
        for spec in channel.messages:
            key = _key(channel, spec)
            message = lock.messages.get(key)
            if message is None:
                message = lock.messages[key] = LockedMessage(shape=_shape(channel, spec))
            senders = {client for client, places in channel.senders.items() if spec.place in places}
            message.publishers |= senders
            for client, places in channel.receivers.items():
                if spec.place in places:
                    message.consumers[channel.queue or "", client] = LockedConsumer(channel.queue or "", client)
    for message in lock.messages.values():
        needs = _needs(message)
        for consumer in message.consumers.values():
            consumer.needs = dict(needs)
    return lock


def _key(channel: ChannelSpec, spec: MessageSpec) -> MessageKey:
    if spec.key:
        return MessageKey(*(str(spec.key.get(name, "")) for name in MessageKey._fields))
    routing_key = channel.key if channel.queue is None else channel.queue
    return MessageKey(channel.vhost, channel.exchange or "", routing_key or "", spec.type)


def _declare(lock: Lock, channel: ChannelSpec) -> None:
    """Note what a document says of an exchange, and how a queue is bound. It does not say with which arguments."""
    if channel.exchange:
        lock.exchanges.setdefault((channel.vhost, channel.exchange), Declared()).types.update(
            filter(None, [channel.type])
        )
    for exchange, routing_key in channel.bindings:
        lock.bindings.add(LockedBinding(channel.vhost, exchange, "queue", str(channel.queue), routing_key))


def _shape(channel: ChannelSpec, spec: MessageSpec) -> Shape:
    """Return the shape of a message. A part without a schema may be anything."""
    shape = Shape(count=1, types={"object": 1})
    for part in PARTS:
        schema = spec.schemas.get(part)
        reading = task_shape if part == "body" and spec.key.get("name") else shape_of
        shape.fields[part] = Shape(count=1, types={"object": 1}) if schema is None else reading(schema.node)
    body, properties = shape.fields["body"], shape.fields["properties"]
    if "body" not in spec.schemas:
        body.types = {ANY: 1}
    if "string" in body.types:
        del body.types["string"]
        body.types.update(dict.fromkeys(_text_types(channel, spec), 1))
    for name, field in properties.fields.items():
        forms = _forms(spec.schemas["properties"].node["properties"][name], name)
        if forms:
            properties.fields[name] = field_shape(("optional " if field.may_lack else "") + " | ".join(forms))
    if spec.has_content_type and "properties" not in spec.schemas:
        properties.fields["content_type"] = field_shape(f"optional {spec.content_type}")
    return shape


def _text_types(channel: ChannelSpec, spec: MessageSpec) -> tuple[str, ...]:
    """Return what a body that is a text is in a lock: one of JSON, or one as it is."""
    if spec.has_content_type:
        is_text = spec.content_type.startswith("text/")
        return ("string",) if "json" in spec.content_type else ("text",) if is_text else ("bytes",)
    return ("text",) if channel.senders else ("text", "string", "bytes")


def _forms(node: DocumentNode, name: str) -> list[str]:
    """Return the formats of a property whose values are a vocabulary in a lock; none of others."""
    values = node["enum"].value or []
    if name == "delivery_mode":
        return [word for word, number in MODES.items() if number in values]
    return [str(value) for value in values] if name == "content_type" else []


def _needs(message: LockedMessage) -> dict[str, str]:
    """Return what a document says of each field, as what its consumers need."""
    texts = message.fields()
    return {place: text for place, text in texts.items() if ANY not in text and _reads_back(text)}


def _reads_back(text: str) -> bool:
    """Return whether the words of a field can hold it. Values of an enumeration may have commas and brackets."""
    try:
        return field_text(field_shape(text), is_optional=text.startswith("optional ")) == text
    except ValueError:
        return False
