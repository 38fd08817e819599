"""What the control API returns: for each thing its JSON, and the JSON Schema that describes it.

Both stand side by side, so that they stay equal. Values that JSON lacks are written as trace files write them. Instants
are microseconds since the epoch by the broker's clock.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from leveret.observe.texts.state import all_holdings
from leveret.observe.views.message_view import MessageView, held_view, ready_view
from leveret.observe.views.views import BindingView, ConsumerView, binding_view, consumer_view
from leveret.trace.redaction import plain

if TYPE_CHECKING:
    from leveret.core.model.node import Node
    from leveret.core.model.queues.stored_queue import StoredQueue
    from leveret.faults.rule import Rule
    from leveret.observe.views.views import ConnectionView, ExchangeView

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


def record(properties: Mapping[str, Schema], *left_out: str) -> Schema:
    """Return the schema of an object with these properties and no others; those in `left_out` may be missing."""
    required = [name for name in properties if name not in left_out]
    return {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": False}


def component(name: str) -> Schema:
    """Return a reference to one of `COMPONENTS`."""
    return {"$ref": f"#/components/schemas/{name}"}


_DEATH: Final = record(
    {
        "queue": TEXT,
        "reason": TEXT,
        "count": COUNT,
        "exchange": TEXT,
        "routing_keys": listed(TEXT),
    }
)
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
        "redelivered": FLAG,
        "delivery_count": COUNT,
        "deaths": listed(_DEATH),
        "consumer_tag": optional(TEXT),
        "connection": optional(TEXT),
        "expires_at": optional(COUNT),
    }
)


def message(view: MessageView) -> Json:
    """Return a message."""
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
        "redelivered": view.redelivered,
        "delivery_count": view.delivery_count,
        "deaths": [
            {
                "queue": death.queue,
                "reason": death.reason,
                "count": death.count,
                "exchange": death.exchange,
                "routing_keys": list(death.routing_keys),
            }
            for death in view.deaths
        ],
        "consumer_tag": view.consumer_tag,
        "connection": view.connection,
        "expires_at": view.expires_at,
    }


_BINDING: Final = record(
    {
        "source": TEXT,
        "destination_kind": {"enum": ["queue", "exchange"]},
        "destination": TEXT,
        "routing_key": TEXT,
        "arguments": TABLE,
    }
)


def binding(view: BindingView) -> Json:
    """Return a binding."""
    return {
        "source": view.source,
        "destination_kind": view.destination_kind,
        "destination": view.destination,
        "routing_key": view.routing_key,
        "arguments": plain(view.arguments),
    }


_CONSUMER: Final = record(
    {
        "tag": TEXT,
        "queue": TEXT,
        "connection": TEXT,
        "channel": COUNT,
        "no_ack": FLAG,
        "exclusive": FLAG,
        "active": FLAG,
        "prefetch_count": COUNT,
        "unacked_count": COUNT,
        "priority": {"type": "integer"},
        "arguments": TABLE,
    }
)


def consumer(view: ConsumerView) -> Json:
    """Return a consumer."""
    return {**{name: getattr(view, name) for name in _CONSUMER["properties"]}, "arguments": plain(view.arguments)}


_QUEUE_HEAD: Final[dict[str, Schema]] = {
    "name": TEXT,
    "vhost": TEXT,
    "type": TEXT,
    "durable": FLAG,
    "exclusive": FLAG,
    "auto_delete": FLAG,
    "arguments": TABLE,
    "ready_count": COUNT,
    "unacked_count": COUNT,
    "consumers": listed(component("Consumer")),
    "bindings": listed(component("Binding")),
}
_QUEUE: Final = record({**_QUEUE_HEAD, "ready": listed(component("Message")), "unacked": listed(component("Message"))})


def queue_head(queue: StoredQueue, node: Node) -> Json:
    """Return a queue without its messages. The caller holds the broker's lock."""
    incoming = node.vhosts[queue.vhost.name].incoming.get(queue, {})
    return {
        "name": queue.name,
        "vhost": queue.vhost.name,
        "type": queue.type.name,
        "durable": queue.durable,
        "exclusive": queue.is_exclusive,
        "auto_delete": queue.auto_delete,
        "arguments": plain(queue.arguments.to_python()),
        "ready_count": len(queue.ready),
        "unacked_count": len(queue.unacked),
        "consumers": [consumer(consumer_view(one, node)) for one in queue.consumers],
        "bindings": [binding(binding_view(one)) for one in incoming.values()],
    }


def queue(queue: StoredQueue, node: Node, most: int) -> Json:
    """Return a queue with at most so many of its ready and unacked messages, the next to be delivered first.

    The caller holds the broker's lock.
    """
    held = (holding for holding in all_holdings(node) if holding.delivery.queue is queue)
    unacked = (held_view(one.delivery, one.connection) for one in islice(held, most))
    return {
        **queue_head(queue, node),
        "ready": [message(ready_view(entry, queue)) for entry in islice(queue.ready, most)],
        "unacked": [message(one) for one in unacked],
    }


_EXCHANGE: Final = record(
    {
        "name": TEXT,
        "vhost": TEXT,
        "type": TEXT,
        "durable": FLAG,
        "auto_delete": FLAG,
        "internal": FLAG,
        "arguments": TABLE,
        "bindings": listed(component("Binding")),
    }
)


def exchange(view: ExchangeView) -> Json:
    """Return an exchange."""
    return {
        **{name: getattr(view, name) for name in _EXCHANGE["properties"]},
        "arguments": plain(view.arguments),
        "bindings": [binding(one) for one in view.bindings],
    }


_CONNECTION: Final = record(
    {
        "number": COUNT,
        "name": TEXT,
        "user": TEXT,
        "vhost": TEXT,
        "peer": TEXT,
        "channels": listed(
            record(
                {
                    "number": COUNT,
                    "prefetch_count": COUNT,
                    "unacked_count": COUNT,
                    "confirming": FLAG,
                    "consumers": COUNT,
                }
            )
        ),
    }
)


def connection(view: ConnectionView) -> Json:
    """Return a connection."""
    return {
        **{name: getattr(view, name) for name in ("number", "name", "user", "vhost")},
        "peer": f"{view.peer[0]}:{view.peer[1]}",
        "channels": [
            {
                "number": one.number,
                "prefetch_count": one.prefetch_count,
                "unacked_count": len(one.unacked),
                "confirming": one.confirming,
                "consumers": len(one.consumers),
            }
            for one in view.channels
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


_REFUSAL: Final = record(
    {
        # A word for programs.
        "error": TEXT,
        # Sentences for people. Of an assertion: what it expected, and the nearest misses.
        "reason": TEXT,
        # The state of the virtual host at that moment, and its last events.
        "report": TEXT,
        # The reply code, if RabbitMQ would have refused this to a client.
        "code": COUNT,
    },
    "report",
    "code",
)

COMPONENTS: Final[dict[str, Schema]] = {
    "Binding": _BINDING,
    "Connection": _CONNECTION,
    "Consumer": _CONSUMER,
    "Exchange": _EXCHANGE,
    "Fault": _FAULT,
    "Message": _MESSAGE,
    "Queue": _QUEUE,
    "QueueHead": record(_QUEUE_HEAD),
    "Refusal": _REFUSAL,
}
