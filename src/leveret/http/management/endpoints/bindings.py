"""The endpoints about bindings. A properties key names one binding among those of the same two ends."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Final, NamedTuple
from urllib.parse import quote_plus, unquote_plus

from leveret.admin.definitions_export import described_binding
from leveret.core.model.operators.access import Kind
from leveret.core.model.vhost import VirtualHost
from leveret.core.protocol.handlers import exchange, queue
from leveret.core.wire.methods import ExchangeBind, ExchangeUnbind, QueueBind, QueueUnbind
from leveret.core.wire.values import Table
from leveret.http.management.calls import ManagementCall, bad_request, no_object
from leveret.http.management.erlang_hash import hash_of_arguments
from leveret.http.management.listing import Described
from leveret.http.management.routes import describes, endpoint, lists
from leveret.http.messages import Response

_BETWEEN: Final = "/api/bindings/{vhost}/e/{exchange}/{kind}/{destination}"
_KINDS: Final[dict[str, Kind]] = {"q": "queue", "e": "exchange"}
_ORDER: Final = ("vhost", "source", "destination", "routing_key", "properties_key")


class _ShownBinding(NamedTuple):
    """A binding as it is shown. Those of the default exchange are implied, so they are not in the model."""

    vhost: str
    source: str
    destination: str
    kind: str
    routing_key: str
    arguments: Table

    @property
    def properties_key(self) -> str:
        """The name of the binding among those of its two ends (rabbit_mgmt_format:pack_binding_props)."""
        key = quote_plus(self.routing_key.encode("utf-8", "surrogateescape")).replace("~", "%7E")
        return f"{key}~{self.digest}" if self.arguments else key or "~"

    @property
    def digest(self) -> str:
        """The hash of the arguments, "" if there are none."""
        if not self.arguments:
            return ""
        return base64.urlsafe_b64encode(hash_of_arguments(self.arguments)).decode().rstrip("=")

    def shown(self) -> Described:
        """Return the binding as JSON."""
        return {**described_binding(*self), "properties_key": self.properties_key}


def rows_of(vhost: VirtualHost) -> Iterator[_ShownBinding]:
    """Yield the bindings of a virtual host, those of the default exchange first."""
    for name in vhost.queues:
        yield _implied(vhost, name)
    for source in vhost.exchanges.values():
        for it in source.bindings.values():
            ends = (it.source_name, it.destination.name, it.destination_kind)
            yield _ShownBinding(vhost.name, *ends, it.routing_key, it.arguments)


def _rows_of_path(call: ManagementCall) -> Iterator[_ShownBinding]:
    """Yield the bindings in the virtual host of the path; none if it does not exist."""
    vhost = call.node.vhosts.get(call.values["vhost"])
    return iter(()) if vhost is None else rows_of(vhost)


def _implied(vhost: VirtualHost, queue_name: str) -> _ShownBinding:
    # RabbitMQ implies the binding to the default exchange without looking for the queue.
    return _ShownBinding(vhost.name, "", queue_name, "queue", queue_name, Table.EMPTY)


@lists("/api/bindings", "management", _ORDER, in_vhost="vhost")
def list_bindings(call: ManagementCall) -> list[Described]:
    """List all bindings of a virtual host, or of all that the user sees."""
    return [row.shown() for vhost in call.vhosts() for row in rows_of(vhost)]


@lists("/api/queues/{vhost}/{queue}/bindings", "vhost", _ORDER)
def list_of_queue(call: ManagementCall) -> list[Described]:
    """List the bindings that lead to a queue."""
    name = call.name_of("queue")
    rows = [row for row in _rows_of_path(call) if row.source]
    if call.values["vhost"] in call.node.vhosts:
        rows.insert(0, _implied(call.vhost, name))
    return [row.shown() for row in rows if (row.kind, row.destination) == ("queue", name)]


@lists("/api/exchanges/{vhost}/{exchange}/bindings/source", "vhost", _ORDER)
def list_from_exchange(call: ManagementCall) -> list[Described]:
    """List the bindings that begin at an exchange."""
    return [row.shown() for row in _rows_of_path(call) if row.source == call.exchange_name]


@lists("/api/exchanges/{vhost}/{exchange}/bindings/destination", "vhost", _ORDER)
def list_to_exchange(call: ManagementCall) -> list[Described]:
    """List the bindings that lead to an exchange."""
    end = ("exchange", call.exchange_name)
    return [row.shown() for row in _rows_of_path(call) if (row.kind, row.destination) == end]


@lists(_BETWEEN, "vhost", _ORDER)
def list_between(call: ManagementCall) -> list[Described]:
    """List the bindings between an exchange and a queue or another exchange. Missing ends have none."""
    if (call.exchange_name, _kind(call)) == ("", "queue") and call.values["vhost"] in call.node.vhosts:
        return [_implied(call.vhost, call.name_of("destination")).shown()]
    return [row.shown() for row in _between(call)]


def _between(call: ManagementCall) -> list[_ShownBinding]:
    ends = (call.exchange_name, _kind(call), call.name_of("destination"))
    return [row for row in _rows_of_path(call) if (row.source, row.kind, row.destination) == ends]


def _kind(call: ManagementCall) -> Kind:
    kind = _KINDS.get(call.values["kind"])
    if kind is None:
        raise bad_request(f"{call.values['kind']!r} is no kind of destination; it is q or e")
    return kind


@endpoint("POST", _BETWEEN, "vhost")
def post_binding(call: ManagementCall) -> object:
    """Bind a queue or an exchange to an exchange. The answer names the binding in its location."""
    body = call.body()
    arguments, routing_key = body.table("arguments"), body.text("routing_key", "")
    source, kind, destination = call.exchange_name, _kind(call), call.name_of("destination")
    with call.acting(), call.channel(call.changed_vhost) as channel:
        if kind == "queue":
            # RabbitMQ leaves an empty name as it is here (rabbit_mgmt_util:direct_request).
            channel.last_queue_name = ""
            queue.bind(channel, QueueBind(destination, source, routing_key, True, arguments))
        else:
            exchange.bind(channel, ExchangeBind(destination, source, routing_key, True, arguments))
        row = _ShownBinding(channel.vhost.name, source, destination, kind, routing_key, arguments)
    return Response(201, (("location", _relative(call, row)),))


def _relative(call: ManagementCall, row: _ShownBinding) -> str:
    """Return the path of a binding relative to that of the request, which may be encoded otherwise."""
    asked = call.request.path.rstrip("/").split("/")[:-1]
    source, destination = (quote_plus(call.values[name], safe="") for name in ("exchange", "destination"))
    binding = quote_plus(row.properties_key, safe="")
    # The path begins with "", "api", "bindings", the virtual host and "e".
    target = [*asked[:5], source, call.values["kind"], destination, binding]
    common = next(
        (at for at, (ours, theirs) in enumerate(zip(asked, target, strict=False)) if ours != theirs), len(asked)
    )
    return "/".join([".."] * (len(asked) - common) + target[common:])


@describes(f"{_BETWEEN}/{{properties}}", "vhost")
def get_binding(call: ManagementCall) -> Described:
    """Describe one binding."""
    return _named(call).shown()


def _named(call: ManagementCall) -> _ShownBinding:
    # Clients differ in how often they encode the key.
    key, _, digest = call.values["properties"].partition("~")
    routing_key = unquote_plus(key, errors="surrogateescape")
    for row in _between(call):
        if row.routing_key == routing_key and row.digest == digest:
            return row
    raise no_object()


@endpoint("DELETE", f"{_BETWEEN}/{{properties}}", "vhost")
def delete_binding(call: ManagementCall) -> None:
    """Remove one binding."""
    with call.acting():
        row = _named(call)
        with call.channel(call.vhost) as channel:
            if row.kind == "queue":
                queue.unbind(channel, QueueUnbind(row.destination, row.source, row.routing_key, row.arguments))
            else:
                method = ExchangeUnbind(row.destination, row.source, row.routing_key, True, row.arguments)
                exchange.unbind(channel, method)
