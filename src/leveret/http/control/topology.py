"""The endpoints for virtual hosts and what is declared in them, and for the connections of clients."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from leveret.engine.urls import amqp_url
from leveret.errors import BrokerError, NotDeclaredError, expected
from leveret.http.control import shapes
from leveret.http.control.endpoint import Call, Endpoint, Parameter
from leveret.http.control.shapes import COUNT, FLAG, TABLE, TEXT, Json, Schema, component, listed, record
from leveret.observe.views.names import find_queue, find_vhost
from leveret.observe.views.views import connection_view, exchange_view
from leveret.server import native

ROOT: Final = "/leveret/v1"
VHOST: Final = f"{ROOT}/vhosts/{{vhost}}"
# How many messages of a queue the answer holds, if the request does not say.
_MESSAGES_MOST: Final = 1000
# Held while a virtual host is added: two tests that ask for one name at the same time must not share it.
_ADDING: Final = native.reentrant_lock()
_VHOST: Final = record({"name": TEXT, "url": TEXT})


def vhost_json(call: Call, name: str) -> Json:
    """Return a virtual host, with the URL for the user of the request."""
    credentials = call.request.credentials
    assert credentials is not None
    host = urlsplit(f"//{call.request.headers.get('host', '')}").hostname or call.request.local
    url = amqp_url(host, call.engine.port, user=credentials.user, password=credentials.password, vhost=name)
    return {"name": name, "url": url}


def _list_vhosts(call: Call) -> object:
    return [vhost_json(call, name) for name in call.admin.list_vhosts()]


def _add_vhost(call: Call) -> object:
    name = call.body.get("name") or _free_name(call)
    with _ADDING:
        _require_new(call, name)
        call.admin.add_vhost(name, default_queue_type=call.body.get("default_queue_type", "classic"))
    for user in call.admin.list_users():
        call.admin.set_permissions(user, name)
    return vhost_json(call, name)


def _require_new(call: Call, name: str) -> None:
    with call.engine.lock:
        if name in call.engine.node.vhosts:
            raise BrokerError(
                f"virtual host {name!r} exists already; choose another name, or leave it out to get a new one"
            )


def _free_name(call: Call) -> str:
    with call.engine.lock:
        return next(name for number in call.numbers if (name := f"test-{number}") not in call.engine.node.vhosts)


def _delete_vhost(call: Call) -> object:
    call.admin.delete_vhost(call.scope.vhost)
    return None


def _list_queues(call: Call) -> object:
    with call.engine.looking() as node:
        queues = find_vhost(node, call.scope.vhost).queues.values()
        return [shapes.queue_head(queue, node) for queue in queues]


def _get_queue(call: Call) -> object:
    return _queue(call, call.values["queue"])


def _queue(call: Call, name: str) -> Json:
    limit = int(call.parameters.get("limit", _MESSAGES_MOST))
    with call.engine.looking() as node:
        return shapes.queue(find_queue(node, call.scope.vhost, name), node, limit)


def _declare_queue(call: Call) -> object:
    return _queue(call, call.scope.declare_queue(**call.body, vhost=call.scope.vhost).name)


def _delete_queue(call: Call) -> object:
    return {"messages": call.scope.delete_queue(call.values["queue"], vhost=call.scope.vhost)}


def _purge_queue(call: Call) -> object:
    return {"messages": call.scope.purge_queue(call.values["queue"], vhost=call.scope.vhost)}


def _list_exchanges(call: Call) -> object:
    with call.engine.looking() as node:
        vhost = find_vhost(node, call.scope.vhost)
        return [shapes.exchange(exchange_view(exchange, vhost.name)) for exchange in vhost.exchanges.values()]


def _get_exchange(call: Call) -> object:
    name = call.values["exchange"]
    with call.engine.looking() as node:
        known = find_vhost(node, call.scope.vhost).exchanges
        if name not in known:
            raise NotDeclaredError(
                f"exchange {name!r} does not exist in vhost {call.scope.vhost!r}{expected(name, known)}"
            )
        return shapes.exchange(exchange_view(known[name], call.scope.vhost))


def _declare_exchange(call: Call) -> object:
    return shapes.exchange(call.scope.declare_exchange(**call.body, vhost=call.scope.vhost))


def _delete_exchange(call: Call) -> object:
    call.scope.delete_exchange(call.values["exchange"], vhost=call.scope.vhost)
    return None


def _bind(call: Call) -> object:
    body, vhost = call.body, call.scope.vhost
    further = {"routing_key": body.get("routing_key", ""), "arguments": body.get("arguments"), "vhost": vhost}
    bind = call.scope.bind_exchange if body.get("destination_kind") == "exchange" else call.scope.bind_queue
    bind(body["destination"], body["source"], **further)
    return None


def _unbind(call: Call) -> object:
    body, vhost = call.body, call.scope.vhost
    further = {"routing_key": body.get("routing_key", ""), "arguments": body.get("arguments"), "vhost": vhost}
    unbind = call.scope.unbind_exchange if body.get("destination_kind") == "exchange" else call.scope.unbind_queue
    unbind(body["destination"], body["source"], **further)
    return None


def _list_connections(call: Call) -> object:
    from leveret.observe.texts.state import connections

    with call.engine.looking():
        node = call.scope.node
        return [shapes.connection(connection_view(one, node)) for one in connections(node)]


def _close_connections(call: Call) -> object:
    return {"closed": call.admin.close_all_connections(vhost=call.scope.vhost)}


_BINDING: Final[Schema] = record(
    {
        "source": TEXT,
        "destination": TEXT,
        "destination_kind": {"enum": ["queue", "exchange"]},
        "routing_key": TEXT,
        "arguments": TABLE,
    },
    *("destination_kind", "routing_key", "arguments"),
)
_NEW_QUEUE: Final[Schema] = record(
    {"name": TEXT, "durable": FLAG, "auto_delete": FLAG, "arguments": TABLE},
    *("name", "durable", "auto_delete", "arguments"),
)
_NEW_EXCHANGE: Final[Schema] = record(
    {"name": TEXT, "type": TEXT, "durable": FLAG, "auto_delete": FLAG, "internal": FLAG, "arguments": TABLE},
    *("type", "durable", "auto_delete", "internal", "arguments"),
)
_MESSAGES: Final[Schema] = record({"messages": COUNT})

ENDPOINTS: Final = (
    Endpoint("listVhosts", "GET", f"{ROOT}/vhosts", "List the virtual hosts.", _list_vhosts, listed(_VHOST)),
    Endpoint(
        "addVhost",
        "POST",
        f"{ROOT}/vhosts",
        "Add a virtual host that all users may use, such as one for each test. Without a name it gets a new one.",
        _add_vhost,
        _VHOST,
        record({"name": TEXT, "default_queue_type": TEXT}, "name", "default_queue_type"),
        status=201,
    ),
    Endpoint(
        "deleteVhost",
        "DELETE",
        VHOST,
        "Delete a virtual host with all it holds, and close its connections.",
        _delete_vhost,
    ),
    Endpoint(
        "listQueues",
        "GET",
        f"{VHOST}/queues",
        "List the queues without their messages.",
        _list_queues,
        listed(component("QueueHead")),
    ),
    Endpoint(
        "declareQueue",
        "POST",
        f"{VHOST}/queues",
        "Declare a queue. Without a name, the broker generates one.",
        _declare_queue,
        component("Queue"),
        _NEW_QUEUE,
        status=201,
    ),
    Endpoint(
        "getQueue",
        "GET",
        f"{VHOST}/queues/{{queue}}",
        "Return a queue with its messages, consumers and bindings.",
        _get_queue,
        component("Queue"),
        query={
            "limit": Parameter(
                f"how many ready and how many unacked messages to return at most; {_MESSAGES_MOST} by default", COUNT
            )
        },
    ),
    Endpoint("deleteQueue", "DELETE", f"{VHOST}/queues/{{queue}}", "Delete a queue.", _delete_queue, _MESSAGES),
    Endpoint(
        "purgeQueue",
        "POST",
        f"{VHOST}/queues/{{queue}}/purge",
        "Remove the ready messages of a queue.",
        _purge_queue,
        _MESSAGES,
    ),
    Endpoint(
        "listExchanges",
        "GET",
        f"{VHOST}/exchanges",
        "List the exchanges, including the predeclared ones.",
        _list_exchanges,
        listed(component("Exchange")),
    ),
    Endpoint(
        "declareExchange",
        "POST",
        f"{VHOST}/exchanges",
        "Declare an exchange.",
        _declare_exchange,
        component("Exchange"),
        _NEW_EXCHANGE,
        status=201,
    ),
    Endpoint(
        "getExchange",
        "GET",
        f"{VHOST}/exchanges/{{exchange}}",
        "Return an exchange with its bindings.",
        _get_exchange,
        component("Exchange"),
    ),
    Endpoint("deleteExchange", "DELETE", f"{VHOST}/exchanges/{{exchange}}", "Delete an exchange.", _delete_exchange),
    Endpoint("bind", "POST", f"{VHOST}/bind", "Bind a queue, or an exchange, to an exchange.", _bind, body=_BINDING),
    Endpoint("unbind", "POST", f"{VHOST}/unbind", "Remove a binding.", _unbind, body=_BINDING),
    Endpoint(
        "listConnections",
        "GET",
        f"{VHOST}/connections",
        "List the connections of clients, oldest first.",
        _list_connections,
        listed(component("Connection")),
    ),
    Endpoint(
        "closeConnections",
        "POST",
        f"{VHOST}/connections/close",
        "Close all connections of clients, as an operator does.",
        _close_connections,
        record({"closed": COUNT}),
    ),
)
