"""The endpoints for virtual hosts and what is declared in them, and for the connections of clients."""

from __future__ import annotations

from typing import Final, Literal
from urllib.parse import urlsplit

from leveret.engine.urls import amqp_url
from leveret.errors import BrokerError
from leveret.http.control import shapes
from leveret.http.control.endpoint import ROOT, VHOST, ControlCall, Parameter, endpoint
from leveret.http.control.shapes import COUNT, FLAG, TABLE, TEXT, Json, Schema, component, listed, record
from leveret.observe.views.names import find_exchange, find_queue, find_vhost
from leveret.observe.views.views import exchange_view
from leveret.server import native

# How many messages of a queue the answer holds, if the request does not say.
_MESSAGES_MOST: Final = 1000
# Held while a virtual host is added: two tests that ask for one name at the same time must not share it.
_ADDING: Final = native.reentrant_lock()
_VHOST: Final = record({"name": TEXT, "url": TEXT})
_DECLARED: Final[dict[str, Schema]] = {"durable": FLAG, "auto_delete": FLAG, "arguments": TABLE}
_NEW_EXCHANGE: Final = record({"name": TEXT}, {"type": TEXT, "internal": FLAG, **_DECLARED})
_BINDING: Final = record(
    {"source": TEXT, "destination": TEXT},
    {"destination_kind": {"enum": ["queue", "exchange"]}, "routing_key": TEXT, "arguments": TABLE},
)
_MESSAGES: Final = record({"messages": COUNT})
_LIMIT: Final = Parameter(
    f"how many ready and how many unacked messages to return at most; {_MESSAGES_MOST} by default", COUNT
)


def vhost_json(call: ControlCall, name: str) -> Json:
    """Return a virtual host, with the URL for the user of the request."""
    credentials = call.request.credentials
    assert credentials is not None
    host = urlsplit(f"//{call.request.headers.get('host', '')}").hostname or call.request.local
    url = amqp_url(host, call.engine.port, user=credentials.user, password=credentials.password or "", vhost=name)
    return {"name": name, "url": url}


@endpoint("GET", f"{ROOT}/vhosts", listed(_VHOST))
def list_vhosts(call: ControlCall) -> object:
    """List the virtual hosts."""
    return [vhost_json(call, name) for name in call.admin.list_vhosts()]


@endpoint(
    "POST",
    f"{ROOT}/vhosts",
    _VHOST,
    record({}, {"name": TEXT, "default_queue_type": TEXT}),
    status=201,
)
def add_vhost(call: ControlCall) -> object:
    """Add a virtual host that all users may use, such as one for each test. Without a name it gets a new one."""
    name = call.body.get("name") or _free_name(call)
    with _ADDING:
        if name in call.admin.list_vhosts():
            raise BrokerError(
                f"virtual host {name!r} exists already; choose another name, or leave it out to get a new one"
            )
        call.admin.add_vhost(name, default_queue_type=call.body.get("default_queue_type", "classic"))
    for user in call.admin.list_users():
        call.admin.set_permissions(user, name)
    return vhost_json(call, name)


def _free_name(call: ControlCall) -> str:
    with call.engine.lock:
        return next(name for number in call.numbers if (name := f"test-{number}") not in call.engine.node.vhosts)


@endpoint("DELETE", VHOST)
def delete_vhost(call: ControlCall) -> None:
    """Delete a virtual host with all it holds, and close its connections."""
    call.admin.delete_vhost(call.scope.vhost)


@endpoint("GET", f"{VHOST}/queues", listed(component("QueueHead")))
def list_queues(call: ControlCall) -> object:
    """List the queues without their messages."""
    with call.engine.looking():
        return shapes.queue_heads(call.scope.node)


@endpoint("GET", f"{VHOST}/queues/{{queue}}", component("Queue"), query={"limit": _LIMIT})
def get_queue(call: ControlCall) -> object:
    """Return a queue with its messages, consumers and bindings."""
    return _queue(call, call.values["queue"])


def _queue(call: ControlCall, name: str) -> Json:
    limit = int(call.parameters.get("limit", _MESSAGES_MOST))
    with call.engine.looking() as node:
        return shapes.queue(find_queue(node, call.scope.vhost, name), node, limit)


@endpoint("POST", f"{VHOST}/queues", component("Queue"), record({}, {"name": TEXT, **_DECLARED}), status=201)
def declare_queue(call: ControlCall) -> object:
    """Declare a queue. Without a name, the broker generates one."""
    return _queue(call, call.scope.declare_queue(**call.body, vhost=call.scope.vhost).name)


@endpoint("DELETE", f"{VHOST}/queues/{{queue}}", _MESSAGES)
def delete_queue(call: ControlCall) -> object:
    """Delete a queue."""
    return {"messages": call.scope.delete_queue(call.values["queue"], vhost=call.scope.vhost)}


@endpoint("POST", f"{VHOST}/queues/{{queue}}/purge", _MESSAGES)
def purge_queue(call: ControlCall) -> object:
    """Remove the ready messages of a queue."""
    return {"messages": call.scope.purge_queue(call.values["queue"], vhost=call.scope.vhost)}


@endpoint("GET", f"{VHOST}/exchanges", listed(component("Exchange")))
def list_exchanges(call: ControlCall) -> object:
    """List the exchanges, including the predeclared ones."""
    with call.engine.looking() as node:
        vhost = find_vhost(node, call.scope.vhost)
        return [shapes.json_of(exchange_view(exchange, vhost.name)) for exchange in vhost.exchanges.values()]


@endpoint("GET", f"{VHOST}/exchanges/{{exchange}}", component("Exchange"))
def get_exchange(call: ControlCall) -> object:
    """Return an exchange with its bindings."""
    with call.engine.looking() as node:
        exchange = find_exchange(node, call.scope.vhost, call.values["exchange"])
        return shapes.json_of(exchange_view(exchange, call.scope.vhost))


@endpoint("POST", f"{VHOST}/exchanges", component("Exchange"), _NEW_EXCHANGE, status=201)
def declare_exchange(call: ControlCall) -> object:
    """Declare an exchange."""
    return shapes.json_of(call.scope.declare_exchange(**call.body, vhost=call.scope.vhost))


@endpoint("DELETE", f"{VHOST}/exchanges/{{exchange}}")
def delete_exchange(call: ControlCall) -> None:
    """Delete an exchange."""
    call.scope.delete_exchange(call.values["exchange"], vhost=call.scope.vhost)


@endpoint("POST", f"{VHOST}/bind", None, _BINDING)
def bind(call: ControlCall) -> None:
    """Bind a queue, or an exchange, to an exchange."""
    _change_binding(call, "bind")


@endpoint("POST", f"{VHOST}/unbind", None, _BINDING)
def unbind(call: ControlCall) -> None:
    """Remove a binding."""
    _change_binding(call, "unbind")


def _change_binding(call: ControlCall, verb: Literal["bind", "unbind"]) -> None:
    body = dict(call.body)
    change = getattr(call.scope, f"{verb}_{body.pop('destination_kind', 'queue')}")
    change(body.pop("destination"), body.pop("source"), **body, vhost=call.scope.vhost)


@endpoint("GET", f"{VHOST}/connections", listed(component("Connection")))
def list_connections(call: ControlCall) -> object:
    """List the connections of clients, oldest first."""
    with call.engine.looking():
        return shapes.connections(call.scope.node)


@endpoint("POST", f"{VHOST}/connections/close", record({"closed": COUNT}))
def close_connections(call: ControlCall) -> object:
    """Close all connections of clients, as an operator does."""
    return {"closed": call.admin.close_all_connections(vhost=call.scope.vhost)}
