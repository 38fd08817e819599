"""What the control API returns: for each thing its JSON, and the JSON Schema that describes it.

Both are made from the fields of the views (`leveret.observe.views`), so that they stay equal. Only a message, a
connection and a fault are written here. Values that JSON lacks are written as trace files write them. Instants are
microseconds since the epoch by the broker's clock.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

from leveret.core.model.node import Node
from leveret.core.model.queues.stored_queue import StoredQueue
from leveret.faults.rule import Rule
from leveret.observe.texts.state import connections as clients
from leveret.observe.views.message_view import DeathView, MessageView
from leveret.observe.views.views import (
    BindingView,
    ConsumerView,
    ExchangeView,
    QueueView,
    connection_view,
    queue_view,
)
from leveret.trace.redaction import plain

Json = dict[str, Any]
Schema = Mapping[str, Any]

TEXT: Final[Schema] = {"type": "string"}
NUMBER: Final[Schema] = {"type": "number"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
FLAG: Final[Schema] = {"type": "boolean"}
TABLE: Final[Schema] = {"type": "object", "additionalProperties": True}
ANYTHING: Final[Schema] = {}


def optional(schema: Schema) -> Schema:
    """Return the schema of a value that may be null."""
    return {"oneOf": [schema, {"type": "null"}]}


def listed(schema: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": schema}


def record(properties: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    """Return the schema of an object with these properties and no others; those in `optional` may be missing."""
    every = {**properties, **(optional or {})}
    return {"type": "object", "properties": every, "required": list(properties), "additionalProperties": False}


def component(name: str) -> Schema:
    """Return a reference to one of `COMPONENTS`."""
    return {"$ref": f"#/components/schemas/{name}"}


# The schemas of the fields of views: by the name if that says more, otherwise by the annotation.
_BY_NAME: Final[dict[str, Schema]] = {
    "destination_kind": {"enum": ["queue", "exchange"]},
    "priority": {"type": "integer"},
}
_BY_TYPE: Final[dict[str, Schema]] = {
    "str": TEXT,
    "str | None": optional(TEXT),
    "int": COUNT,
    "int | None": optional(COUNT),
    "bool": FLAG,
    "dict[str, object]": TABLE,
    "tuple[str, ...]": listed(TEXT),
    "tuple[BindingView, ...]": listed(component("Binding")),
    "tuple[ConsumerView, ...]": listed(component("Consumer")),
    "tuple[MessageView, ...]": listed(component("Message")),
}


def _fields_of(view: type[Any], *without: str) -> dict[str, Schema]:
    """Return the schema of each field of a view."""
    return {
        each.name: _BY_NAME.get(each.name) or _BY_TYPE[str(each.type)]
        for each in fields(view)
        if each.name not in without
    }


def json_of(value: object) -> Any:
    """Return a view as JSON, with everything in it."""
    if isinstance(value, MessageView):
        return _message(value)
    if isinstance(value, Mapping):
        return plain(value)
    if isinstance(value, tuple | list):
        return [json_of(each) for each in value]
    if is_dataclass(value):
        return {each.name: json_of(getattr(value, each.name)) for each in fields(value)}
    return value


# What is written field by field: the schema of each, and its value.
Written = dict[str, tuple[Schema, Callable[[Any], object]]]


def _record_of(written: Written, further: Mapping[str, Schema] | None = None) -> Schema:
    return record({**{name: schema for name, (schema, _) in written.items()}, **(further or {})})


def _json_of(written: Written, thing: object) -> Json:
    return {name: value(thing) for name, (_, value) in written.items()}


_MESSAGE: Final[Written] = {
    "id": (COUNT, lambda view: view.source.id),
    "exchange": (TEXT, lambda view: view.exchange),
    "routing_key": (TEXT, lambda view: view.routing_key),
    # Null if the body is not UTF-8. Then only `body_base64` holds it.
    "body": (optional(TEXT), lambda view: _text_of(view.body)),
    "body_base64": (TEXT, lambda view: b64encode(view.body).decode()),
    "headers": (TABLE, lambda view: plain(view.headers)),
    "properties": (
        TABLE,
        lambda view: plain({name: value for name, value in view.properties.items() if name != "headers"}),
    ),
    "deaths": (listed(record(_fields_of(DeathView))), lambda view: json_of(view.deaths)),
}


def _text_of(octets: bytes) -> str | None:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return None


def _message(view: MessageView) -> Json:
    return {**_json_of(_MESSAGE, view), **{name: getattr(view, name) for name in _fields_of(MessageView, "source")}}


_MESSAGES: Final = ("ready", "unacked")


def queue(queue: StoredQueue, node: Node, most: int) -> Json:
    """Return a queue with at most so many of its ready and unacked messages, the next to be delivered first.

    The caller holds the broker's lock.
    """
    answer: Json = json_of(queue_view(queue, node, most))
    return answer


def queue_heads(node: Node) -> list[Json]:
    """Return the queues of a node without their messages. The caller holds the broker's lock."""
    queues = [queue(each, node, 0) for vhost in node.vhosts.values() for each in vhost.queues.values()]
    return [{name: value for name, value in each.items() if name not in _MESSAGES} for each in queues]


_CHANNEL: Final[Written] = {
    "number": (COUNT, lambda channel: channel.number),
    "prefetch_count": (COUNT, lambda channel: channel.prefetch_count),
    "unacked_count": (COUNT, lambda channel: len(channel.unacked)),
    "confirming": (FLAG, lambda channel: channel.confirming),
    "consumers": (COUNT, lambda channel: len(channel.consumers)),
}
_CONNECTION: Final[Written] = {
    "number": (COUNT, lambda view: view.number),
    "name": (TEXT, lambda view: view.name),
    "user": (TEXT, lambda view: view.user),
    "vhost": (TEXT, lambda view: view.vhost),
    "peer": (TEXT, lambda view: f"{view.peer[0]}:{view.peer[1]}"),
    "channels": (listed(_record_of(_CHANNEL)), lambda view: [_json_of(_CHANNEL, one) for one in view.channels]),
}


def connections(node: Node) -> list[Json]:
    """Return the connections of clients, oldest first. Of their messages and consumers, it says how many there are."""
    return [_json_of(_CONNECTION, connection_view(each, node)) for each in clients(node)]


_FAULT: Final[Written] = {
    "fault": (TEXT, lambda rule: rule.fault.name),
    "on": (TEXT, lambda rule: rule.on),
    "text": (TEXT, repr),
    "fired": (COUNT, lambda rule: rule.fired),
    "seen": (COUNT, lambda rule: rule.seen),
    "is_spent": (FLAG, lambda rule: rule.is_spent),
    # Null for any other pattern of names than a name.
    "vhost": (optional(TEXT), lambda rule: vhost if isinstance(vhost := rule.places.get("vhost"), str) else None),
}


def fault(number: int, rule: Rule) -> Json:
    """Return a rule for a fault."""
    return {"id": number, **_json_of(_FAULT, rule)}


_DIFFERENCE: Final = record({"what": TEXT, "expected": ANYTHING, "found": ANYTHING})
# How a copy of a message stands: in which queue, and its state or how it ended.
_STAND: Final = record({"queue": TEXT, "state": TEXT, "reason": optional(TEXT), "deliveries": COUNT})
_NEAR: Final = record(
    {"message": COUNT, "broker": optional(TEXT), "differs": listed(_DIFFERENCE), "stands": listed(_STAND)}
)
_FAILURE: Final = record(
    {
        "asked": record(
            {"call": TEXT, "expected": TEXT, "place": optional(TEXT), "vhost": TEXT, "times": optional(COUNT)}
        ),
        "seen": COUNT,
        "messages": listed(COUNT),
        "queues": listed(TEXT),
        "nearest": listed(_NEAR),
    }
)
_REFUSAL: Final = record(
    {
        # A word for programs.
        "error": TEXT,
        # Sentences for people. Of an assertion: what it expected, and the nearest misses.
        "reason": TEXT,
    },
    {
        # The state of the virtual host at that moment, and its last events.
        "report": TEXT,
        # Of an assertion, the same as values: what was asked, the nearest messages, and in what each differs.
        "failure": _FAILURE,
        # The reply code, if RabbitMQ would have refused this to a client.
        "code": COUNT,
    },
)

COMPONENTS: Final[dict[str, Schema]] = {
    "Binding": record(_fields_of(BindingView)),
    "Connection": _record_of(_CONNECTION),
    "Consumer": record(_fields_of(ConsumerView)),
    "Exchange": record(_fields_of(ExchangeView)),
    "Fault": _record_of(_FAULT, {"id": COUNT}),
    "Message": _record_of(_MESSAGE, _fields_of(MessageView, "source")),
    "Queue": record(_fields_of(QueueView)),
    "QueueHead": record(_fields_of(QueueView, *_MESSAGES)),
    "Refusal": _REFUSAL,
}
