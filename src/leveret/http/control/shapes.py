"""What the control API returns: for each thing its JSON, and the JSON Schema that describes it.

Both are made from the fields of the views (`leveret.observe.views`), so that they stay equal. Only a message, a
connection and a fault are written here. Values that JSON lacks are written as trace files write them. Instants are
microseconds since the epoch by the broker's clock.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final

from leveret.observe.views.message_view import DeathView, MessageView
from leveret.observe.views.views import (
    BindingView,
    ConnectionView,
    ConsumerView,
    ExchangeView,
    QueueView,
    queue_view,
)
from leveret.trace.redaction import plain

if TYPE_CHECKING:
    from leveret.core.model.node import Node
    from leveret.core.model.queues.stored_queue import StoredQueue
    from leveret.faults.rule import Rule

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
    known = {**properties, **(optional or {})}
    return {"type": "object", "properties": known, "required": list(properties), "additionalProperties": False}


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


_MESSAGE: Final = record(
    {
        "id": COUNT,
        "exchange": TEXT,
        "routing_key": TEXT,
        # Null if the body is not UTF-8. Then only `body_base64` holds it.
        "body": optional(TEXT),
        "body_base64": TEXT,
        "headers": TABLE,
        "properties": TABLE,
        "deaths": listed(record(_fields_of(DeathView))),
        **_fields_of(MessageView, "source"),
    }
)


def _message(view: MessageView) -> Json:
    try:
        text = view.body.decode()
    except UnicodeDecodeError:
        text = None
    return {
        "id": view.source.id,
        "exchange": view.exchange,
        "routing_key": view.routing_key,
        "body": text,
        "body_base64": b64encode(view.body).decode(),
        "headers": plain(view.headers),
        "properties": plain({name: value for name, value in view.properties.items() if name != "headers"}),
        "deaths": json_of(view.deaths),
        **{each.name: getattr(view, each.name) for each in fields(view) if each.name != "source"},
    }


_MESSAGES: Final = ("ready", "unacked")


def queue(queue: StoredQueue, node: Node, most: int) -> Json:
    """Return a queue with at most so many of its ready and unacked messages, the next to be delivered first.

    The caller holds the broker's lock.
    """
    found: Json = json_of(queue_view(queue, node, most))
    return found


def queue_head(each: StoredQueue, node: Node) -> Json:
    """Return a queue without its messages. The caller holds the broker's lock."""
    return {name: value for name, value in queue(each, node, 0).items() if name not in _MESSAGES}


_CHANNEL: Final = record(
    {"number": COUNT, "prefetch_count": COUNT, "unacked_count": COUNT, "confirming": FLAG, "consumers": COUNT}
)
_CONNECTION: Final = record(
    {"number": COUNT, "name": TEXT, "user": TEXT, "vhost": TEXT, "peer": TEXT, "channels": listed(_CHANNEL)}
)


def connection(view: ConnectionView) -> Json:
    """Return a connection. Of its messages and consumers, it says how many there are."""
    return {
        **{name: getattr(view, name) for name in ("number", "name", "user", "vhost")},
        "peer": f"{view.peer[0]}:{view.peer[1]}",
        "channels": [
            {
                "number": channel.number,
                "prefetch_count": channel.prefetch_count,
                "unacked_count": len(channel.unacked),
                "confirming": channel.confirming,
                "consumers": len(channel.consumers),
            }
            for channel in view.channels
        ],
    }


_FAULT: Final = record(
    {
        "id": COUNT,
        "fault": TEXT,
        "on": TEXT,
        "text": TEXT,
        "fired": COUNT,
        "seen": COUNT,
        "is_spent": FLAG,
        "vhost": optional(TEXT),
    }
)


def fault(number: int, rule: Rule) -> Json:
    """Return a rule for a fault."""
    vhost = rule.places.get("vhost")
    return {
        "id": number,
        "fault": rule.fault.name,
        "on": rule.on,
        "text": repr(rule),
        "fired": rule.fired,
        "seen": rule.seen,
        "is_spent": rule.is_spent,
        "vhost": vhost if isinstance(vhost, str) else None,
    }


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
    "Connection": _CONNECTION,
    "Consumer": record(_fields_of(ConsumerView)),
    "Exchange": record(_fields_of(ExchangeView)),
    "Fault": _FAULT,
    "Message": _MESSAGE,
    "Queue": record(_fields_of(QueueView)),
    "QueueHead": record(_fields_of(QueueView, *_MESSAGES)),
    "Refusal": _REFUSAL,
}
