"""The endpoints about virtual hosts and their limits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from leveret.admin.admin import announce_metadata
from leveret.admin.definitions_export import described_metadata
from leveret.admin.definitions_import import put_vhost, queue_type_of
from leveret.admin.values import Item, WrongValue
from leveret.core.compat import SINCE_4_2
from leveret.core.model.operators.access import VHOST_LIMITS
from leveret.core.model.operators.node_settings import NODE_NAME
from leveret.core.model.queues.queue_types import QUEUE_TYPES
from leveret.core.model.queues.stored_queue import StoredQueue
from leveret.core.model.vhost import VirtualHost
from leveret.core.wire import erlang
from leveret.errors import expected
from leveret.http.management import statistics
from leveret.http.management.calls import (
    CREATED,
    DONE,
    ManagementCall,
    RefusedCall,
    bad_request,
    not_found,
    refused,
)
from leveret.http.management.listing import Described, chosen
from leveret.http.management.measures import totals
from leveret.http.management.routes import describes, endpoint, lists

_COUNTED: Final = (statistics.PUBLISHING, statistics.DELIVERING)


@endpoint("GET", "/api/vhosts", "management")
def list_vhosts(call: ManagementCall) -> object:
    """List the virtual hosts that the user sees."""
    with call.engine.looking():
        visible = sorted(_visible(call), key=lambda vhost: vhost.name)
        vhosts = [_described(call, vhost) for vhost in visible]
    return [chosen(call, it) for it in vhosts] if call.compat.lists_vhosts_by_columns else vhosts


def _visible(call: ManagementCall) -> list[VirtualHost]:
    """Return the virtual hosts that the user sees: monitors see all."""
    return [it for it in call.node.vhosts.values() if call.is_monitor or call.may_see(it.name)]


@describes("/api/vhosts/{vhost}", "administrator")
@describes("/api/vhosts/{vhost}/deletion/protection", "administrator", SINCE_4_2, has_head=False)
def get_vhost(call: ManagementCall) -> Described:
    """Describe a virtual host."""
    return _described(call, call.vhost)


@endpoint("PUT", "/api/vhosts/{vhost}", "administrator")
def put(call: ManagementCall) -> object:
    """Add a virtual host, or change one: what the body leaves out returns to its default."""
    body, name, compat = call.body(), call.values["vhost"], call.compat
    kind = queue_type_of(body, compat, compat.default_queue_type_keys)
    given = [body.get(key) for key in compat.default_queue_type_keys if key in body]
    # A version that lets it change and does not check it fails.
    is_odd = kind is None and given[:1] not in ([], ["undefined"])
    if is_odd and compat.changes_default_queue_type and not compat.checks_operator_values:
        raise body.wrong("default_queue_type", f"is {given[0]!r}{expected(str(given[0]), QUEUE_TYPES)}")
    # RabbitMQ takes a name that no client can send.
    Item({"vhost": name}).name("vhost")
    is_traced = body.parsed_flag("tracing")
    with call.acting() as node:
        is_known = name in node.vhosts
        vhost = put_vhost(node, name, kind, body, call.user.name)
        if is_known:
            announce_metadata(vhost)
        if "tracing" in body:
            (vhost.trace_on if is_traced else vhost.trace_off)()
    if is_known:
        return DONE
    call.admin.set_permissions(call.user.name, name)
    return CREATED


@endpoint("DELETE", "/api/vhosts/{vhost}", "administrator")
def delete_vhost(call: ManagementCall) -> None:
    """Delete a virtual host, unless it is protected."""
    with call.engine.looking():
        name = call.vhost.name
        if call.vhost.is_protected:
            reason = f"Refusing to delete virtual host '{name}' because it is protected from deletion"
            raise refused(412, "precondition_failed", reason)
    call.admin.delete_vhost(name)


@endpoint("POST", "/api/vhosts/{vhost}/deletion/protection", "administrator", SINCE_4_2)
def protect(call: ManagementCall) -> None:
    """Protect a virtual host from deletion."""
    name = call.values["vhost"]
    with call.engine.looking() as node:
        if name not in node.vhosts:
            raise not_found(f"Cannot enable deletion protection of virtual host '{name}' because it does not exist")
        node.vhosts[name].is_protected = True


@endpoint("DELETE", "/api/vhosts/{vhost}/deletion/protection", "administrator", SINCE_4_2)
def unprotect(call: ManagementCall) -> None:
    """Allow the deletion of a virtual host again."""
    with call.engine.looking():
        call.vhost.is_protected = False


@endpoint("POST", "/api/vhosts/{vhost}/start/{node}", "administrator")
def start(call: ManagementCall) -> None:
    """Do nothing: a virtual host always runs on its only node."""
    node, vhost = call.values["node"], call.values["vhost"]
    if node != NODE_NAME and call.compat.knows_nodes:
        raise bad_request(f"Unknown node: {node}")
    head = f"Request to node {node} failed with "
    if node != NODE_NAME:
        raise bad_request(f"{head}nodedown")
    with call.engine.looking() as state:
        if vhost not in state.vhosts:
            raise bad_request(head + erlang.pair("no_such_vhost", erlang.utf8_binary(vhost.encode()), len(head)))


def _described(call: ManagementCall, vhost: VirtualHost) -> Described:
    metadata = described_metadata(vhost)
    shown_type, shown_metadata = vhost.default_queue_type, metadata
    if shown_type == "classic" and call.compat.unset_queue_type != "classic":
        shown_type = call.compat.unset_queue_type
        shown_metadata = {name: value for name, value in metadata.items() if name != "default_queue_type"}
    description: Described = {
        "name": vhost.name,
        "description": metadata["description"],
        "tags": metadata["tags"],
        "default_queue_type": shown_type,
        "metadata": shown_metadata,
        "tracing": vhost.firehose is not None,
        "cluster_state": {NODE_NAME: "running"},
    }
    if call.compat.protects_vhosts:
        description["protected_from_deletion"] = bool(vhost.is_protected)
    counts, now = call.state.statistics.of("vhost", vhost.name), call.node.now
    if vhost.queues:
        description |= statistics.rates(counts, lengths(vhost.queues.values()), now)
    description |= statistics.message_stats(counts, now, *_COUNTED)
    if call.node.connections_of(vhost_name=vhost.name):
        for name in ("recv_oct", "send_oct"):
            description[name], description[f"{name}_details"] = 0, {"rate": 0.0}
    return description


def lengths(queues: Iterable[StoredQueue]) -> Described:
    """Return how many messages some queues hold together."""
    by_queue = [totals(queue) for queue in queues]
    return {name: sum(each[name] for each in by_queue) for name in statistics.LENGTHS}


@lists("/api/vhost-limits", "management", ("vhost",), in_vhost="visible", has_head=False)
def list_limits(call: ManagementCall) -> list[Described]:
    """List the limits of one virtual host, or of all that the user sees."""
    vhosts = [call.vhost] if "vhost" in call.values else _visible(call)
    return [{"vhost": it.name, "value": dict(it.limits)} for it in vhosts if it.limits]


@endpoint("PUT", "/api/vhost-limits/{vhost}/{name}", "administrator", needs_json=True)
def put_limit(call: ManagementCall) -> None:
    """Set one limit of a virtual host."""
    with call.engine.looking():
        vhost = call.changed_vhost.name
    body = call.body("value")
    try:
        limits = one_limit(call, body, VHOST_LIMITS, "limits")
    except WrongValue as error:
        raise invalid(str(error.reason)) from None
    call.admin.set_vhost_limits(vhost, limits)


def one_limit(call: ManagementCall, body: Item, known: tuple[str, ...], what: str) -> dict[str, int]:
    """Return the limit of the path with the value of the body. Raises WrongValue."""
    return Item({"value": {call.values["name"]: body.get("value")}}).limits("value", known, what)


def invalid(fault: str) -> RefusedCall:
    """Return the refusal of a parameter or policy that RabbitMQ's validation refuses."""
    return bad_request(f"Validation failed\n\n{fault}\n")


@endpoint("DELETE", "/api/vhost-limits/{vhost}/{name}", "administrator")
def delete_limit(call: ManagementCall) -> None:
    """Remove one limit of a virtual host."""
    with call.acting():
        call.changed_vhost.limits.pop(call.values["name"], None)
