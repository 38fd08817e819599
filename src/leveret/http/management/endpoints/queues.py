"""The endpoints about queues."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from leveret.admin.definitions_export import described_queue
from leveret.core.compat import SINCE_3_13
from leveret.core.model.operators.node_settings import NODE_NAME
from leveret.core.model.operators.policy import combined
from leveret.core.model.queues.stored_queue import StoredQueue
from leveret.core.model.vhost import VirtualHost
from leveret.core.protocol.handlers import queue as methods
from leveret.core.wire.constants import SHORT_STRING_MAX_SIZE
from leveret.core.wire.methods import QueueDeclare, QueueDelete, QueuePurge
from leveret.http.management.calls import (
    CREATED,
    DONE,
    ManagementCall,
    UsersChannel,
    bad_request,
    not_found,
    refuse_other_node,
)
from leveret.http.management.listing import Described
from leveret.http.management.measures import delivery_limit, in_detail, measured, policies_of, totals
from leveret.http.management.routes import describes, endpoint, lists

_QUEUE: Final = "/api/queues/{vhost}/{queue}"
# What only the description of one queue shows, by type.
_ONLY_OF_ONE: Final = {"stream": ("garbage_collection",)}
# Where a replicated queue is.
_PLACED: Final[Described] = {"leader": NODE_NAME, "members": [NODE_NAME], "online": [NODE_NAME]}


@lists("/api/queues", "management", in_vhost="vhost", paged=True)
def list_queues(call: ManagementCall) -> list[Described]:
    """List the queues of a virtual host, or of all that the user sees."""
    return _all(call, is_detailed=call.compat.lists_queues_in_detail or "columns" in call.parameters)


@lists("/api/queues/detailed", "management", paged=True, versions=SINCE_3_13)
def list_in_detail(call: ManagementCall) -> list[Described]:
    """List the queues with nearly all that the description of one shows."""
    return _all(call, is_detailed=True)


def _all(call: ManagementCall, *, is_detailed: bool) -> list[Described]:
    shown = _detailed if is_detailed and not call.flag("disable_stats") else _listed
    return [shown(call, vhost, queue) for vhost in call.vhosts() for queue in vhost.queues.values()]


def _listed(call: ManagementCall, vhost: VirtualHost, queue: StoredQueue) -> Described:
    if not call.flag("disable_stats"):
        return {**_declared(call, queue), **_effective(call, vhost, queue), **measured(call, vhost, queue)}
    if call.flag("enable_queue_totals"):
        return _with_totals(call, vhost, queue)
    return {**_declared(call, queue), **_by_operator(call, vhost, queue)}


def _with_totals(call: ManagementCall, vhost: VirtualHost, queue: StoredQueue) -> Described:
    """Return a queue with how many messages it holds, which RabbitMQ does not look up for streams."""
    declared = _declared(call, queue)
    policies = {name: value for name, value in policies_of(vhost, queue).items() if value is not None}
    if queue.type_name == "classic":
        online = {"online": None} if call.compat.places_all_queues else {}
        return {**declared, **online, **policies, **totals(queue)}
    declared["exclusive"] = None
    if queue.type_name == "stream":
        shown = {name: value for name, value in declared.items() if name not in ("leader", "members", "node")}
        return {**shown, "totals": None, "type_specific": None}
    further = {name: value for name, value in _by_operator(call, vhost, queue).items() if name != "policy"}
    return {**declared, **further, **policies, **totals(queue)}


@describes(_QUEUE, "vhost")
def get_queue(call: ManagementCall) -> Described:
    """Describe a queue, with its consumers."""
    vhost = call.vhost
    queue = call.existing(vhost.queues, "queue")
    if call.flag("disable_stats"):
        return {**_declared(call, queue), **_by_operator(call, vhost, queue)}
    return _in_full(call, vhost, queue)


def _in_full(call: ManagementCall, vhost: VirtualHost, queue: StoredQueue) -> Described:
    declared, policies = _declared(call, queue), {**policies_of(vhost, queue), **_effective(call, vhost, queue)}
    return {**declared, **policies, **measured(call, vhost, queue), **in_detail(call, queue)}


def _detailed(call: ManagementCall, vhost: VirtualHost, queue: StoredQueue) -> Described:
    description = _in_full(call, vhost, queue)
    for name in ("consumer_details", "incoming", "deliveries", *_ONLY_OF_ONE.get(queue.type_name, ())):
        del description[name]
    return description


@endpoint("PUT", _QUEUE, "vhost")
def put_queue(call: ManagementCall) -> object:
    """Declare a queue."""
    size = len(call.values["queue"].encode("utf-8", "surrogateescape"))
    if size > SHORT_STRING_MAX_SIZE:
        raise bad_request(f"queue should be less than {SHORT_STRING_MAX_SIZE} bytes, actually was {size}\n")
    body = call.body()
    # The queue has no owner, but the flag makes it transient.
    durable = body.parsed_flag("durable") and not body.flag("exclusive", False)
    auto_delete = body.parsed_flag("auto_delete")
    arguments, name = body.table("arguments"), call.values["queue"]
    with call.acting(), call.channel(call.changed_vhost) as channel:
        refuse_other_node(body, call.compat)
        is_known = name in channel.vhost.queues
        methods.declare(channel, QueueDeclare(name, False, durable, False, auto_delete, True, arguments))
    return DONE if is_known else CREATED


@endpoint("DELETE", _QUEUE, "vhost")
def delete_queue(call: ManagementCall) -> None:
    """Delete a queue."""
    if_unused, if_empty = call.flag("if-unused"), call.flag("if-empty")
    with _changing(call) as (channel, name):
        methods.delete(channel, QueueDelete(name, if_unused, if_empty, True))


@endpoint("DELETE", f"{_QUEUE}/contents", "vhost")
def purge_queue(call: ManagementCall) -> None:
    """Drop the ready messages of a queue."""
    with _changing(call) as (channel, name):
        methods.purge(channel, QueuePurge(name, True))


@contextmanager
def _changing(call: ManagementCall) -> Iterator[tuple[UsersChannel, str]]:
    """Open a channel to change the queue of the path, which must exist."""
    with call.acting():
        name = call.existing(call.vhost.queues, "queue").name
        with call.channel(call.vhost) as channel:
            yield channel, name


@endpoint("POST", f"{_QUEUE}/actions", "administrator")
def post_action(call: ManagementCall) -> object:
    """Refuse an action on a queue: those of mirrored queues are gone."""
    with call.engine.looking():
        if call.values["queue"] not in call.changed_vhost.queues:
            raise not_found("queue_not_found")
    action = call.body("action").get("action")
    if call.compat.has_mirroring and action in ("sync", "cancel_sync"):
        return DONE
    raise bad_request(["unknown", action])


def _declared(call: ManagementCall, queue: StoredQueue) -> Described:
    is_short = call.flag("disable_stats") and not call.flag("enable_queue_totals")
    is_placed = queue.type_name == "quorum" or (queue.type_name == "stream" and call.compat.places_all_queues)
    is_nowhere = queue.type_name == "quorum" and not call.compat.places_all_queues and call.flag("disable_stats")
    return {
        **(_PLACED if is_placed else {}),
        **described_queue(queue),
        "exclusive": queue.is_exclusive,
        **({} if is_nowhere else {"node": NODE_NAME}),
        "state": call.compat.idle_queue_state if is_short else "running",
    }


def _by_operator(call: ManagementCall, vhost: VirtualHost, queue: StoredQueue) -> Described:
    """Return the policies of a queue, in versions that show them without statistics."""
    if not call.compat.shows_policies_without_statistics:
        return {name: value for name, value in policies_of(vhost, queue).items() if value is not None}
    shown = {**policies_of(vhost, queue), **_effective(call, vhost, queue), **delivery_limit(call, queue)}
    hidden = call.compat.queue_internals if call.flag("enable_queue_totals") else ()
    return {name: value for name, value in shown.items() if name not in hidden}


def _effective(call: ManagementCall, vhost: VirtualHost, queue: StoredQueue) -> Described:
    definition = combined(*vhost.policies.for_queue(queue.name, queue.type_name))
    return {"effective_policy_definition": dict(definition), **call.compat.queue_internals}
