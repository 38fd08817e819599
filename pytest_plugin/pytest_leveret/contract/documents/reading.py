"""A document as leveret reads it: AsyncAPI 2 and 3, and folders of JSON Schema.

A document is read into channels. A channel is an exchange and a pattern of routing keys, or a queue, with the messages
that may be there. What a document does otherwise than the specification says, as those of FastStream do, is accepted
if its meaning is certain, and noted as a tolerance. Everything else raises ValueError with the place in the document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from leveret.core.model.exchanges.topic import topic_matches
from pytest_leveret.contract import SUFFIXES
from pytest_leveret.contract.documents.files import DocumentNode, Files, Place

DRAFT_7: Final = "http://json-schema.org/draft-07/schema#"
DRAFT_2020: Final = "https://json-schema.org/draft/2020-12/schema"
# The drafts that can be checked, as `$schema` names them, without a "#" at the end.
DRAFTS: Final = (
    *(f"http://json-schema.org/draft-{number}/schema" for number in ("04", "06", "07")),
    "https://json-schema.org/draft/2019-09/schema",
    DRAFT_2020,
)
# What leveret writes beside the fields of AsyncAPI.
PROPERTIES: Final = "x-amqp-properties"
KEY: Final = "x-amqp-key"
CLIENT: Final = "x-amqp-client"
TOPOLOGY: Final = "x-amqp-topology"
# A parameter of an address, which is a mark in place of a generated part in a lock.
PARAMETER: Final = re.compile(r"\{([^{}]*)\}")
# Keywords of draft 2020-12 that draft-07, the default of AsyncAPI, does not have.
_NEWER: Final = frozenset(
    {
        *("prefixItems", "$defs", "dependentRequired", "dependentSchemas", "minContains", "maxContains"),
        *("unevaluatedItems", "unevaluatedProperties", "$dynamicRef"),
    }
)
# With how many schemas one value may be compared.
_ALTERNATIVES_MAX: Final = 20_000
_VERSION: Final = re.compile(r"[23]\.\d+\.\d+")
_FASTSTREAM: Final = re.compile(r"(?P<name>[^:]*):(?P<exchange>[^:]*):(?P<handler>\w+|\[.*\])")
_SCHEMA_FORMATS: Final = re.compile(r"application/(?:vnd\.aai\.asyncapi|schema)(?:\+(?:json|yaml))?(?:;.*)?")

# What is accepted although the specification says otherwise, by name.
TOLERANCES: Final = {
    "dialect": "JSON Schema of draft 2020-12 without saying so, read as such",
    "address": "a queue with the key of its binding as the address; the binding of AMQP has its name",
    "exchange-in-name": "a queue whose exchange is in the name of its channel only",
    "filters": "the schemas of handlers with filters as oneOf, read as anyOf",
    "empty-payload": "a handler that takes no message as the schema null, read as any message",
    "parameters": "parameters of an address that are not declared",
    "vhost": "a virtual host with the slash of a URL before its name",
    "key-in-operation": "a channel named otherwise than its routing key, which is in `cc` of the operation",
}


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema, and how it is to be read."""

    node: DocumentNode
    # The `$schema` of its dialect.
    dialect: str
    # Whether one of several schemas may be met by more than one.
    is_any: bool = False


@dataclass(frozen=True, slots=True)
class MessageSpec:
    """What a message of a channel has to be."""

    place: Place
    # The AMQP property `type` of such messages; empty if they may have any.
    type: str
    # The media type of the body, and whether the message says so itself, not the document for all.
    content_type: str
    has_content_type: bool
    # By part: body, headers, properties. A part without a schema may be anything.
    schemas: Mapping[str, Schema]
    # The key of the message in a lock that was exported.
    key: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class ChannelSpec:
    """A place that messages go to, or come from."""

    name: str
    place: Place
    vhost: str
    # The exchange, or None if it is a queue; empty is the default exchange. None in both: the document says neither.
    exchange: str | None
    # The queue, or None if it is an exchange.
    queue: str | None
    # The type of the exchange, if the document says it.
    type: str
    # The routing key, with `{name}` for parameters, and `*` and `#` as in a topic binding; None is any key.
    key: str | None
    messages: list[MessageSpec] = field(default_factory=list)
    # The services that send to it and receive from it, and the places of the messages that they do so with: clients in
    # a lock that was exported, or else the title of the document.
    senders: dict[str, set[Place]] = field(default_factory=dict)
    receivers: dict[str, set[Place]] = field(default_factory=dict)
    # Of a queue: the exchanges and keys that it is bound by, as far as the document says it.
    bindings: list[tuple[str, str]] = field(default_factory=list)

    @property
    def is_pattern(self) -> bool:
        """Whether more than one routing key leads to it."""
        return self.key is None or bool(PARAMETER.search(self.key)) or bool({"*", "#"} & {*self.key.split(".")})

    def takes(self, exchange: str, routing_key: str) -> bool:
        """Return whether what is published so goes to this channel, which is no queue."""
        if self.exchange not in (None, exchange):
            return False
        if self.key is None or self.key == routing_key:
            return True
        return self.type != "direct" and self.is_pattern and _is_key(self.key, routing_key)


@dataclass(slots=True)
class Document:
    """A document that was read."""

    path: Path
    title: str
    channels: list[ChannelSpec]
    # What was accepted otherwise than the specification says: the name in `TOLERANCES`, and where.
    tolerated: list[tuple[str, Place]] = field(default_factory=list)
    # The exchanges, queues and bindings of a lock that was exported, as it has them.
    topology: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the file or folder, as the run reports it."""
        return self.path.name

    def located(self, place: Place) -> str:
        """Return a place as the run reports it, with its path from where the document is."""
        folder = self.path.resolve().parent
        is_below = place.path.is_relative_to(folder)
        return f"{place.path.relative_to(folder).as_posix()}{place.pointer}" if is_below else str(place)


def read(path: Path) -> Document:
    """Read a document. Raises ValueError if it is none, and OSError if it cannot be read."""
    files = Files()
    try:
        if path.is_dir():
            return _folder(path, files)
        root = files.root(path.resolve())
        version = root.text("asyncapi")
        if root["asyncapi"].value is None:
            raise ValueError(
                "it has no `asyncapi`; JSON Schemas are in a folder, as EXCHANGE/ROUTING_KEY.json or QUEUE.json"
            )
        if not _VERSION.match(version):
            raise ValueError(f"asyncapi = {version!r}, and this leveret reads versions 2 and 3")
        return _DocumentReader(path, root).document()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = error if isinstance(error, ValueError) else f"an entry is incomplete: {error}"
        if isinstance(error, RecursionError):
            reason = "a reference in it leads through too many others"
        kind = "folder of JSON Schemas" if path.is_dir() else "AsyncAPI document"
        raise ValueError(f"{path} is no {kind}: {reason}") from None


class _DocumentReader:
    """Reads one AsyncAPI document."""

    def __init__(self, path: Path, root: DocumentNode) -> None:
        self._root: Final = root
        self._is_old: Final = root.text("asyncapi").startswith("2")
        self._document: Final = Document(path, root["info"].text("title") or path.stem, [])
        self._document.topology = root[TOPOLOGY].value or {}
        self._dialects: Final[dict[Place, str]] = {}

    def document(self) -> Document:
        """Return the document."""
        for name, node in self._root["channels"].items():
            channel = self._channel(name, node)
            self._document.channels.append(channel)
            if self._is_old:
                # A client that subscribes receives what this service sends.
                for word in ("subscribe", "publish"):
                    message = node[word]["message"]
                    if node[word].value is not None:
                        listed = [*message["oneOf"].each()] or ([message] if message.value else [])
                        self._operation(channel, word == "subscribe", listed)
            else:
                for _, message in node["messages"].items():
                    channel.messages.append(self._message(channel, message))
        if not self._is_old:
            self._operations()
        # A channel for answers gets its address when the service runs.
        self._document.channels = [each for each in self._document.channels if each.exchange or each.key is not None]
        return self._document

    def _tolerate(self, name: str, place: Place) -> None:
        if (name, place) not in self._document.tolerated:
            self._document.tolerated.append((name, place))

    def _channel(self, name: str, node: DocumentNode) -> ChannelSpec:
        binding = node["bindings"]["amqp"]
        if binding["is"].value not in (None, "queue", "routingKey"):
            raise ValueError(f"{binding.place}/is: expected 'queue' or 'routingKey', and it is {binding['is'].value!r}")
        named = _FASTSTREAM.fullmatch(name)
        queue, exchange = binding["queue"].text("name"), binding["exchange"]
        # In version 2, FastStream has a queue for a publisher too, which does not exist.
        is_receiver = self._is_old and named is not None and node["publish"].value is not None
        is_queue = binding.text("is") == "queue" or (is_receiver and bool(queue))
        vhost = binding["queue" if is_queue else "exchange"].text("vhost") or "/"
        if vhost.startswith("/") and vhost != "/":
            self._tolerate("vhost", node.place)
            vhost = vhost[1:]
        key = self._old_key(node, name) if self._is_old else node["address"].value
        channel = ChannelSpec(
            name=name,
            place=node.place,
            vhost=vhost,
            exchange=None if is_queue or binding.value is None else exchange.text("name"),
            queue=(queue or str(key or name)) if is_queue else None,
            type=exchange.text("type"),
            key=key if isinstance(key, str) else None,
        )
        if {*PARAMETER.findall(channel.key or "")} - {*(node["parameters"].value or ())}:
            self._tolerate("parameters", node.place)
        if is_queue:
            self._bind(channel, exchange.text("name"), named)
        elif channel.type in ("fanout", "headers"):
            channel.key = None
        return channel

    def _old_key(self, node: DocumentNode, name: str) -> str | None:
        """Return the routing key of a channel of version 2: its name, or what FastStream has in its operation."""
        keys = [node[word]["bindings"]["amqp"]["cc"].value for word in ("subscribe", "publish")]
        given = next(filter(None, keys), None)
        if not isinstance(given, str) and not _FASTSTREAM.fullmatch(name):
            return name
        self._tolerate("key-in-operation", node.place)
        return given if isinstance(given, str) else None

    def _bind(self, channel: ChannelSpec, source: str, named: re.Match[str] | None) -> None:
        """Note how a queue is bound, and that its key is its own name."""
        if not source and named and named["exchange"] not in ("_", "", "default"):
            source = named["exchange"]
            self._tolerate("exchange-in-name", channel.place)
        if source:
            channel.bindings.append((source, PARAMETER.sub("*", channel.key or "#")))
        if channel.key not in (None, channel.queue) and not self._is_old:
            self._tolerate("address", channel.place)
        channel.key = channel.queue

    def _operation(self, channel: ChannelSpec, is_sent: bool, messages: list[DocumentNode]) -> None:
        specs = [self._message(channel, each) for each in messages]
        channel.messages += specs
        places = (channel.senders if is_sent else channel.receivers).setdefault(self._document.title, set())
        places.update(each.place for each in specs)

    def _operations(self) -> None:
        by_place = {channel.place: channel for channel in self._document.channels}
        for _, operation in self._root["operations"].items():
            channel = by_place.get(operation["channel"].place)
            if channel is None:
                raise ValueError(f"{operation.place}: its channel is none of this document")
            clients = channel.senders if operation.text("action") == "send" else channel.receivers
            places = clients.setdefault(operation.text(CLIENT) or self._document.title, set())
            # An operation that lists none is about all messages of its channel.
            places.update(each.place for each in [*operation["messages"].each()] or channel.messages)

    def _message(self, channel: ChannelSpec, node: DocumentNode) -> MessageSpec:
        traits = [*node["traits"].each()]
        schemas: dict[str, Schema] = {}
        for part, keyword in (("body", "payload"), ("headers", "headers"), ("properties", PROPERTIES)):
            # What a message says itself goes before its traits.
            found = next((each[keyword] for each in (node, *traits) if each[keyword].value is not None), None)
            schema = None if found is None else self._schema(channel, node, found)
            if schema is not None:
                schemas[part] = schema
        content_type = next(filter(None, (each.text("contentType") for each in (node, *traits))), "")
        return MessageSpec(
            node.place,
            node["bindings"]["amqp"].text("messageType"),
            content_type or self._root.text("defaultContentType"),
            bool(content_type),
            schemas,
            node[KEY].value or {},
        )

    def _schema(self, channel: ChannelSpec, message: DocumentNode, node: DocumentNode) -> Schema | None:
        """Return a schema as it is to be read; None if it is in a language that leveret does not check."""
        schema_format = message.text("schemaFormat")
        if isinstance(node.value, Mapping) and "schemaFormat" in node.value and "schema" in node.value:
            schema_format, node = node.text("schemaFormat"), node["schema"]
        match = _SCHEMA_FORMATS.fullmatch(schema_format) if schema_format else None
        if schema_format and match is None:
            return None
        if not isinstance(node.value, Mapping | bool):
            raise ValueError(f"{node.place}: a schema is an object, and this is {node.value!r}")
        named = _FASTSTREAM.fullmatch(channel.name)
        if named and node.value == {"title": "EmptyPayload", "type": "null"}:
            self._tolerate("empty-payload", node.place)
            return None
        is_any = named is not None and named["handler"].startswith("[") and bool(node["oneOf"].value)
        if is_any:
            self._tolerate("filters", node.place)
        _refuse_explosive(node)
        return Schema(node, self._dialect(node, schema_format), is_any)

    def _dialect(self, node: DocumentNode, schema_format: str) -> str:
        given = node.text("$schema") or (DRAFT_2020 if "2020-12" in schema_format else "")
        if given:
            return given
        if node.place not in self._dialects:
            newer = next((each.place for each in _schemas_of(node) if not _NEWER.isdisjoint(each.value)), None)
            if newer is not None:
                self._tolerate("dialect", newer)
            self._dialects[node.place] = DRAFT_7 if newer is None else DRAFT_2020
        return self._dialects[node.place]


def _schemas_of(node: DocumentNode) -> Iterator[DocumentNode]:
    """Yield the objects of a schema and of those it refers to, each once."""
    seen: set[Place] = set()
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if each.place in seen:
            continue
        seen.add(each.place)
        if isinstance(each.value, Mapping):
            yield each
            waiting += [below for _, below in each.items()]
        elif isinstance(each.value, list):
            waiting += each.each()


def _refuse_explosive(node: DocumentNode) -> None:
    """Raise ValueError if one value is compared with more schemas than there is time for.

    Two alternatives that refer to the same two, and these to two more, are a million after twenty of them.
    """
    counts: dict[Place, int] = {}
    explosive: Place | None = None
    # A reference that leads by `$id` is the library's to follow.
    with suppress(ValueError):
        large = (each.place for each in _schemas_of(node) if _count(each, counts) > _ALTERNATIVES_MAX)
        explosive = next(large, None)
    if explosive is not None:
        raise ValueError(f"{explosive}: its alternatives, with theirs, are more than {_ALTERNATIVES_MAX:,}")


def _count(node: DocumentNode, counts: dict[Place, int]) -> int:
    """Return how many schemas apply to a value by this one."""
    if node.place not in counts:
        # What refers back to itself counts once.
        counts[node.place] = 1
        lists = [each for word in ("allOf", "anyOf", "oneOf") for each in node[word].each()]
        counts[node.place] += sum(_count(each, counts) for each in lists if isinstance(each.value, Mapping))
    return counts[node.place]


def _folder(path: Path, files: Files) -> Document:
    """Read a folder of JSON Schemas: `orders/order.created.json`, or `billing.json` for a queue."""
    document = Document(path, path.name, [])
    for file in sorted(each for each in path.rglob("*") if each.suffix.lower() in SUFFIXES):
        names = [unquote(part) for part in (*file.relative_to(path).parts[:-1], file.stem)]
        if len(names) > 2:
            raise ValueError(
                f"{file.relative_to(path)}: expected EXCHANGE/ROUTING_KEY{file.suffix}, or QUEUE{file.suffix}"
            )
        try:
            root = files.root(file.resolve())
        except ValueError as error:
            raise ValueError(f"{file.relative_to(path)}: {error}") from None
        if not isinstance(root.value, Mapping | bool):
            raise ValueError(f"{file.relative_to(path)}: a schema is an object")
        _refuse_explosive(root)
        schema = Schema(root, root.text("$schema") or DRAFT_2020)
        is_queue = len(names) == 1
        channel = ChannelSpec(
            name="/".join(names),
            place=root.place,
            vhost="/",
            exchange=None if is_queue else names[0],
            queue=names[0] if is_queue else None,
            type="",
            key=names[-1],
            messages=[MessageSpec(root.place, "", "", has_content_type=False, schemas={"body": schema})],
        )
        document.channels.append(channel)
    if not document.channels:
        raise ValueError("it holds no schemas")
    return document


def _is_key(pattern: str, routing_key: str) -> bool:
    """Return whether a key of a document, which may have parameters and wildcards, stands for a routing key."""
    words = pattern.split(".")
    if not topic_matches(".".join("*" if "{" in word else word for word in words), routing_key):
        return False
    return "#" in words or all(
        _word_pattern(word).fullmatch(given)
        for word, given in zip(words, routing_key.split("."), strict=True)
        if "{" in word
    )


def _word_pattern(word: str) -> re.Pattern[str]:
    """Return the pattern of a word with parameters. It never looks back: the nearest text that follows is as good."""
    first, *others = map(re.escape, PARAMETER.split(word)[::2])
    return re.compile(first + "".join(f"(?>[^.]+?{part})" for part in others[:-1]) + f"[^.]+{others[-1]}")
