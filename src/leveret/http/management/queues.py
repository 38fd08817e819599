"""The endpoints about queues."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from leveret.core.model.errors import AccessRefused, ResourceLocked
from leveret.core.model.node_settings import NODE_NAME
from leveret.core.model.policy import combined
from leveret.core.model.queue import Queue
from leveret.http.management import statistics
from leveret.http.management.calls import CREATED, DONE, Call, bad_request, not_found
from leveret.http.management.consumers import consumers_of
from leveret.http.management.listing import Described, chosen, listed
from leveret.http.management.values import described, flag_of, table_of
from leveret.observe.state import all_holdings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from leveret.core.model.message import QueueEntry
    from leveret.core.model.stored_queue import StoredQueue
    from leveret.core.model.vhost import VirtualHost

_COUNTED: Final = (("publish",), statistics.DELIVERING)
# What leveret has no figure for: memory and garbage are those of a process, and a broker is only a part of one.
_GARBAGE: Final[Described] = {
    "minor_gcs": 0,
    "fullsweep_after": 0,
    "min_heap_size": 0,
    "min_bin_vheap_size": 0,
    "max_heap_size": 0,
}
# What only the description of one queue shows, by type, in versions whose lists show nearly all.
_ONLY_OF_ONE: Final = {"stream": ("garbage_collection",)}
# The flag, in the first byte of encoded properties, of those that name a delivery mode.
_HAS_DELIVERY_MODE: Final = 0x10
# Where a replicated queue is.
_PLACED: Final[Described] = {"members": [NODE_NAME], "online": [NODE_NAME]}
_DELIVERY_LIMIT_OFF: Final = -1


def list_queues(call: Call) -> object:
    """List the queues of a virtual host, or of all that the user sees."""
    with call.looking():
        found = [_listed(call, vhost, queue) for vhost in call.vhosts() for queue in vhost.queues.values()]
    return listed(call, found)


def _listed(call: Call, vhost: VirtualHost, queue: StoredQueue) -> Described:
    if not call.flag("disable_stats"):
        found = {**_declared(call, queue), **_effective(call, vhost, queue), **_measured(call, vhost, queue)}
        if call.dialect.lists_queues_in_detail:
            found |= {**_policies(vhost, queue), **_in_detail(call, queue)}
            for name in ("consumer_details", "incoming", "deliveries", *_ONLY_OF_ONE.get(queue.type_name, ())):
                del found[name]
        return found
    if call.flag("enable_queue_totals"):
        online = {"online": None} if call.dialect.totals_show_online and queue.type_name == "classic" else {}
        return {**_declared(call, queue), **online, **totals(queue)}
    return {**_declared(call, queue), **_by_operator(call, vhost, queue)}


def get_queue(call: Call) -> object:
    """Describe a queue, with its consumers."""
    with call.looking():
        vhost = call.vhost
        queue = call.found(vhost.queues, "queue")
        found = {**_declared(call, queue), **_by_operator(call, vhost, queue)}
        if not call.flag("disable_stats"):
            found |= {**_policies(vhost, queue), **_effective(call, vhost, queue)}
            found |= _measured(call, vhost, queue)
            found |= _in_detail(call, queue)
        return chosen(call, found)


def put_queue(call: Call) -> object:
    """Declare a queue."""
    body = call.body()
    durable, auto_delete = flag_of(body, "durable"), flag_of(body, "auto_delete")
    arguments, name = table_of(body.get("arguments")), call.values["queue"]
    with call.acting():
        vhost = call.changed_vhost
        rights = call.rights(vhost)
        if body.get("node", NODE_NAME) != NODE_NAME:
            raise bad_request(f"Node {body['node']} is not a cluster member")
        rights.require("configure", "queue", name)
        is_known = name in vhost.queues
        if name.startswith("amq.") and not is_known:
            raise AccessRefused(f"queue name '{name}' contains reserved prefix 'amq.*'")
        if is_known and vhost.queues[name].is_exclusive:
            _refuse_exclusive(vhost.queues[name])
        vhost.declare_queue(name, durable=durable, auto_delete=auto_delete, arguments=arguments, rights=rights.require)
    return DONE if is_known else CREATED


def delete_queue(call: Call) -> object:
    """Delete a queue."""
    with call.acting():
        vhost = call.vhost
        queue = call.found(vhost.queues, "queue")
        call.rights(vhost).require("configure", "queue", queue.name)
        if queue.is_exclusive:
            _refuse_exclusive(queue)
        vhost.delete_queue(queue.name, if_unused=call.flag("if-unused"), if_empty=call.flag("if-empty"))
    return DONE


def purge_queue(call: Call) -> object:
    """Drop the ready messages of a queue."""
    with call.acting():
        vhost = call.vhost
        queue = call.found(vhost.queues, "queue")
        call.rights(vhost).require("read", "queue", queue.name)
        if queue.is_exclusive:
            _refuse_exclusive(queue)
        queue.purge()
    return DONE


def _refuse_exclusive(queue: StoredQueue) -> None:
    try:
        queue.refuse_as_locked()
    except ResourceLocked as error:
        raise bad_request(error.explanation) from None


def post_action(call: Call) -> object:
    """Refuse an action on a queue: those of mirrored queues are gone."""
    with call.looking():
        if call.values["queue"] not in call.vhost.queues:
            raise not_found("queue_not_found")
    action = call.body("action")["action"]
    if call.dialect.mirrors_queues and action in ("sync", "cancel_sync"):
        return DONE
    raise bad_request(["unknown", action])


def _declared(call: Call, queue: StoredQueue) -> Described:
    is_short = call.flag("disable_stats") and not call.flag("enable_queue_totals")
    is_placed = queue.type_name == "quorum" or (queue.type_name == "stream" and call.dialect.places_streams)
    return {
        **({"leader": NODE_NAME, **_PLACED} if is_placed else {}),
        "name": queue.name,
        "vhost": queue.vhost.name,
        "type": queue.type_name,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.is_exclusive,
        "arguments": described(queue.arguments),
        "node": NODE_NAME,
        "state": call.dialect.idle_state if is_short else "running",
    }


def _policies(vhost: VirtualHost, queue: StoredQueue) -> Described:
    policy, operator_policy = vhost.policies.for_queue(queue.name, queue.type_name)
    return {
        "policy": None if policy is None else policy.name,
        "operator_policy": None if operator_policy is None else operator_policy.name,
    }


def _by_operator(call: Call, vhost: VirtualHost, queue: StoredQueue) -> Described:
    """Return the policies of a queue, in versions that show them without statistics."""
    if not call.dialect.shows_policies_without_statistics:
        return {name: value for name, value in _policies(vhost, queue).items() if value is not None}
    return {**_policies(vhost, queue), **_effective(call, vhost, queue), **_limit(call, queue)}


def _effective(call: Call, vhost: VirtualHost, queue: StoredQueue) -> Described:
    definition = combined(*vhost.policies.for_queue(queue.name, queue.type_name))
    return {"effective_policy_definition": dict(definition), **call.dialect.queue}


def totals(queue: StoredQueue) -> dict[str, int]:
    """Return how many messages a queue holds. Those that a stream has delivered stay ready."""
    ready = len(queue.ready)
    unacked = 0 if queue.type_name == "stream" else len(queue.unacked)
    return {"messages": ready + unacked, "messages_ready": ready, "messages_unacknowledged": unacked}


def _measured(call: Call, vhost: VirtualHost, queue: StoredQueue) -> Described:
    counts, now = call.state.statistics.of("queue", vhost.name, queue.name), call.node.now
    policy, operator_policy = vhost.policies.for_queue(queue.name, queue.type_name)
    found: Described = {
        **statistics.rates(counts, totals(queue), now),
        **statistics.message_stats(counts, now, *_COUNTED),
        "consumers": len(queue.consumers),
        "memory": 0,
        "reductions": 0,
        "reductions_details": {"rate": 0.0},
    }
    if policy is not None:
        found["policy"] = policy.name
    if operator_policy is not None:
        found["operator_policy"] = operator_policy.name
    if isinstance(queue, Queue):
        found |= {**_stored(queue), **(call.dialect.classic_queue if queue.type_name == "classic" else {})}
    if queue.type_name == "quorum":
        found |= {**_quorum(queue), **_retries(call, queue), **call.dialect.quorum_queue}
    elif queue.type_name == "stream":
        found |= {**_PLACED, "readers": {NODE_NAME: 0}, **call.dialect.stream}
    return found


def _retries(call: Call, queue: StoredQueue) -> Described:
    """Return how a quorum queue delivers again, in versions that show it."""
    if not call.dialect.shows_delays:
        return _limit(call, queue)
    return {
        **_limit(call, queue),
        "delayed_retry": queue.settings.delayed_retry_type,
        "messages_delayed": len(getattr(queue, "delayed", ())),
    }


def _limit(call: Call, queue: StoredQueue) -> Described:
    if queue.type_name != "quorum" or not call.dialect.shows_limit:
        return {}
    limit = getattr(queue, "delivery_limit", None)
    return {"delivery_limit": _DELIVERY_LIMIT_OFF if limit is None else limit}


def _sizes(entries: Iterable[QueueEntry]) -> tuple[int, int, int]:
    """Return the bytes of bodies, and of those that are persistent, and how many are."""
    total = persistent = count = 0
    # Messages of one publisher often share their head, which says whether they are persistent.
    known: dict[int, bool] = {}
    for entry in entries:
        message = entry.message
        size = len(message.body)
        total += size
        head = message.head
        octets = head[2]
        if isinstance(octets, bytes) and not octets[0] & _HAS_DELIVERY_MODE:
            continue
        is_persistent = known.get(id(head))
        if is_persistent is None:
            is_persistent = known[id(head)] = message.is_persistent
        if is_persistent:
            persistent += size
            count += 1
    return total, persistent, count


def _stored(queue: Queue) -> Described:
    ready, persistent_ready, ready_count = _sizes(queue.ready)
    unacked, persistent_unacked, unacked_count = _sizes(queue.unacked.values())
    count = len(queue.ready) + len(queue.unacked)
    found: Described = {
        "consumer_capacity": _capacity(queue),
        "consumer_utilisation": _capacity(queue),
        "message_bytes": ready + unacked,
        "message_bytes_ready": ready,
        "message_bytes_unacknowledged": unacked,
        "message_bytes_ram": 0,
        "message_bytes_persistent": persistent_ready + persistent_unacked,
        "messages_ram": count,
        "messages_persistent": ready_count + unacked_count,
    }
    if queue.type_name == "classic":
        found |= {
            "message_bytes_ram": ready + unacked,
            "messages_ready_ram": len(queue.ready),
            "messages_unacknowledged_ram": len(queue.unacked),
        }
    return found


def _capacity(queue: StoredQueue) -> int:
    return int(any(consumer.has_room() for consumer in queue.consumers))


def _quorum(queue: StoredQueue) -> Described:
    return {
        "open_files": {NODE_NAME: 0},
        "messages_dlx": len(getattr(queue, "pending_letters", ())),
        "message_bytes_dlx": 0,
    }


def _in_detail(call: Call, queue: StoredQueue) -> Described:
    found: Described = {
        "consumer_details": consumers_of(call, queue),
        # By exchange and channel; empty in the rates mode "basic".
        "incoming": [],
        "deliveries": [],
        "garbage_collection": _GARBAGE,
    }
    if isinstance(queue, Queue):
        exclusive, active = queue.exclusive_consumer, queue.active_consumer
        if call.dialect.shows_limit or queue.type_name == "classic":
            found["single_active_consumer_tag"] = None if active is None else active.tag
        if queue.type_name == "classic":
            found["exclusive_consumer_tag"] = None if exclusive is None else exclusive.tag
            found["head_message_timestamp"] = _head_timestamp(queue)
            if not _is_busy(call, queue):
                found["idle_since"] = moment(call.node.now)
    if queue.exclusive_owner is not None:
        owner = queue.exclusive_owner
        found["owner_pid_details"] = {
            "name": owner.address_name,
            "peer_host": owner.peer[0],
            "peer_port": owner.peer[1],
        }
    return found


def _is_busy(call: Call, queue: StoredQueue) -> bool:
    return bool(queue.consumers) or any(one.delivery.queue is queue for one in all_holdings(call.node))


def _head_timestamp(queue: Queue) -> int | None:
    head = next(iter(queue.ready), None)
    return None if head is None else head.message.properties.timestamp


def moment(at: int) -> str:
    """Return an instant in microseconds as the management API writes it."""
    return datetime.fromtimestamp(at / 1_000_000, UTC).isoformat(timespec="milliseconds")
