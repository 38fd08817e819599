"""A lock as an AsyncAPI 3 document, and as a folder of JSON Schemas.

Each exchange and routing key is a channel, and so is each queue that a client receives from. A publisher sends by the
first, a consumer receives by the second. AsyncAPI has no place for bindings, arguments and some properties of AMQP;
they stand in fields of their own, beginning with "x-amqp-", which other tools skip. Read again, the document gives the
lock that was exported, but for the words of fields that may become enumerations.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

from leveret.trace.shapes import Shape
from pytest_leveret.contract.documents.files import YAML
from pytest_leveret.contract.documents.reading import CLIENT, DRAFT_7, KEY, PARAMETER, PROPERTIES, TOPOLOGY
from pytest_leveret.contract.documents.schemas import body_schema, schema_of
from pytest_leveret.contract.lock import Lock, LockedMessage, MessageKey

ASYNCAPI: Final = "3.0.0"
_BINDING: Final = "0.3.0"
_EXCHANGE_TYPES: Final = ("topic", "direct", "fanout", "headers")
Named = TypeVar("Named", bound="tuple[str, ...]")
_CORRELATION: Final = {"location": "$message.header#/correlation_id"}


def document_of(lock: Lock, title: str, version: str) -> dict[str, Any]:
    """Return a lock as an AsyncAPI document."""
    return _Writer(lock).document(title, version)


def document_text(document: Mapping[str, Any], path: Path | None) -> str:
    """Return the text of a document: YAML if the name of its file says so, or else JSON."""
    if path is None or path.suffix.lower() not in YAML:
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    try:
        import yaml
    except ImportError:
        raise ValueError(f"{path}: YAML needs PyYAML; pip install 'leveret[asyncapi]', or name a .json file") from None
    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))


def schemas_of(lock: Lock) -> dict[str, dict[str, Any]]:
    """Return the JSON Schema of the bodies of each exchange and key, by the path of its file."""
    several: dict[str, list[dict[str, Any]]] = {}
    for key, message in sorted(lock.messages.items()):
        body = message.shape.fields.get("body")
        if body is not None:
            headers = message.shape.fields.get("headers", Shape())
            names = [key.exchange, key.routing_key] if key.exchange else [key.routing_key]
            path = "/".join(map(_file_name, names))
            several.setdefault(f"{path}.json", []).append({"title": str(key), **body_schema(body, headers)})
    return {
        path: {"$schema": DRAFT_7, **(each[0] if len(each) == 1 else {"anyOf": each})} for path, each in several.items()
    }


def _file_name(name: str) -> str:
    """Return the name of a file or folder for a name of AMQP. Mostly an exchange without keys has the empty one."""
    return quote(name, safe="{}# ") if name.strip(".") else name.replace(".", "%2E") or "#"


class _Writer:
    """Writes one document."""

    def __init__(self, lock: Lock) -> None:
        self._lock: Final = lock
        self._channels: Final[dict[str, Any]] = {}
        self._operations: Final[dict[str, Any]] = {}
        self._messages: Final[dict[str, Any]] = {}
        self._names: Final = _unique(
            lock.messages, lambda key: ".".join(filter(None, (key.exchange, key.routing_key, key.name)))
        )

    def document(self, title: str, version: str) -> dict[str, Any]:
        """Return the document."""
        by_exchange: dict[tuple[str, str, str], list[MessageKey]] = {}
        by_queue: dict[tuple[str, str], list[MessageKey]] = {}
        for key, message in sorted(self._lock.messages.items()):
            self._messages[self._names[key]] = _message(key, message)
            for consumer in message.consumers.values():
                by_queue.setdefault((key.vhost, consumer.queue), []).append(key)
            if key.exchange:
                by_exchange.setdefault(key[:3], []).append(key)
            else:
                by_queue.setdefault((key.vhost, key.routing_key), []).append(key)
        channels = _unique([*by_exchange, *by_queue], lambda place: ".".join(place[1:]))
        for address, keys in by_exchange.items():
            self._exchange_channel(channels[address], keys)
        for place, keys in by_queue.items():
            self._queue_channel(channels[place], place, [*dict.fromkeys(keys)])
        return {
            "asyncapi": ASYNCAPI,
            "info": {"title": title, "version": version},
            "defaultContentType": "application/json",
            "channels": self._channels,
            "operations": self._operations,
            "components": {"messages": self._messages},
            TOPOLOGY: self._lock.topology(),
        }

    def _exchange_channel(self, name: str, keys: list[MessageKey]) -> None:
        vhost, exchange, routing_key = keys[0][:3]
        declared = self._lock.exchanges.get((vhost, exchange))
        types = sorted(declared.types) if declared else []
        usual = next((each for each in types if each in _EXCHANGE_TYPES), None)
        binding = {"name": exchange, **({"type": usual} if usual else {}), "vhost": vhost}
        self._channels[name] = _channel(routing_key, keys, self._names, {"is": "routingKey", "exchange": binding})
        self._send(name, keys)

    def _queue_channel(self, name: str, place: tuple[str, str], keys: list[MessageKey]) -> None:
        vhost, queue = place
        binding = {"is": "queue", "queue": {"name": queue, "vhost": vhost}}
        self._channels[name] = _channel(queue, keys, self._names, binding)
        self._send(name, [key for key in keys if not key.exchange])
        consumers = [(it, key) for key in keys for it in self._lock.messages[key].consumers.values()]
        readers = [(it.client, key) for it, key in consumers if it.queue == queue]
        self._operations_of("receive", name, readers)

    def _send(self, channel: str, keys: list[MessageKey]) -> None:
        senders = [(publisher, key) for key in keys for publisher in self._lock.messages[key].publishers]
        self._operations_of("send", channel, senders)

    def _operations_of(self, action: str, channel: str, clients: list[tuple[str, MessageKey]]) -> None:
        verb = "sends" if action == "send" else "receives"
        for client in sorted({client for client, _ in clients}):
            self._operations[_id(f"{client}.{verb}.{channel}")] = {
                "action": action,
                "channel": {"$ref": f"#/channels/{channel}"},
                "title": f"{client} {verb} {channel}",
                CLIENT: client,
                "messages": [
                    {"$ref": f"#/channels/{channel}/messages/{self._names[key]}"}
                    for each, key in clients
                    if each == client
                ],
            }


def _message(key: MessageKey, message: LockedMessage) -> dict[str, Any]:
    parts = message.shape.fields
    body, headers, properties = (parts.get(part, Shape()) for part in ("body", "headers", "properties"))
    content_types = properties.fields["content_type"].forms if "content_type" in properties.fields else ()
    is_typed = key.name and "type" in properties.fields
    return {
        **({"name": key.name} if key.name else {}),
        "title": str(key),
        **({"contentType": content_types[0]} if len(content_types) == 1 else _untyped(body)),
        **({"correlationId": _CORRELATION} if "correlation_id" in properties.fields else {}),
        **({"headers": schema_of(headers)} if headers.fields else {}),
        **({"payload": body_schema(body, headers)} if body.count else {}),
        **({"bindings": {"amqp": {"messageType": key.name, "bindingVersion": _BINDING}}} if is_typed else {}),
        **({PROPERTIES: schema_of(properties)} if properties.fields else {}),
        KEY: key._asdict(),
    }


def _untyped(body: Shape) -> dict[str, str]:
    """Return the content type of a body that does not say it, if it is no JSON."""
    content_types = {"text": "text/plain", "bytes": "application/octet-stream"}
    only = next(iter(body.types)) if len(body.types) == 1 else ""
    return {"contentType": content_types[only]} if only in content_types else {}


def _channel(
    routing_key: str, keys: list[MessageKey], names: Mapping[MessageKey, str], binding: Mapping[str, Any]
) -> dict[str, Any]:
    address, parameters = _address(routing_key)
    return {
        "address": address,
        "messages": {names[key]: {"$ref": f"#/components/messages/{names[key]}"} for key in keys},
        **({"parameters": {each: {} for each in parameters}} if parameters else {}),
        "bindings": {"amqp": {**binding, "bindingVersion": _BINDING}},
    }


def _address(routing_key: str) -> tuple[str, list[str]]:
    """Return a routing key as an address, and its parameters: a mark that comes twice gets a number."""
    names: list[str] = []

    def parameter(match: re.Match[str]) -> str:
        count = sum(name.rstrip("0123456789") == match[1] for name in names)
        names.append(f"{match[1]}{count + 1}" if count else match[1])
        return f"{{{names[-1]}}}"

    return PARAMETER.sub(parameter, routing_key), names


def _id(text: str) -> str:
    """Return a text as a key of components: letters, digits, dots, dashes and underscores."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text) or "_"


def _unique(keys: Iterable[Named], name: Callable[[Named], str]) -> dict[Named, str]:
    """Return a key of components for each of several keys."""
    names: dict[Named, str] = {}
    for key in sorted(keys):
        wanted, number = _id(name(key)), 1
        while (given := wanted if number == 1 else f"{wanted}-{number}") in names.values():
            number += 1
        names[key] = given
    return names
