"""What RabbitMQ measures of queues: their messages by state, size and priority, and how they are consumed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from leveret.core.model.message import QueueEntry
from leveret.core.model.operators.node_settings import NODE_NAME
from leveret.core.model.queues.classic import ClassicQueue
from leveret.core.model.queues.queue import Queue
from leveret.core.model.queues.quorum import QuorumQueue
from leveret.core.model.queues.stored_queue import StoredQueue
from leveret.core.model.vhost import VirtualHost
from leveret.http.management import statistics
from leveret.http.management.calls import ManagementCall
from leveret.http.management.clients import consumers_of, peer_details
from leveret.http.management.constant import constant
from leveret.http.management.listing import Described

_COUNTED: Final = (("publish",), statistics.DELIVERING)
# The flag, in the first byte of encoded properties, of those that name a delivery mode.
_HAS_DELIVERY_MODE: Final = 0x10
_DELIVERY_LIMIT_OFF: Final = -1


def totals(queue: StoredQueue) -> dict[str, int]:
    """Return how many messages a queue holds. Those that a stream has delivered stay ready."""
    ready = len(queue.ready)
    unacked = 0 if queue.type_name == "stream" else len(queue.unacked)
    return {"messages": ready + unacked, "messages_ready": ready, "messages_unacknowledged": unacked}


def measured(call: ManagementCall, vhost: VirtualHost, queue: StoredQueue) -> Described:
    """Return what RabbitMQ measures of a queue every few seconds."""
    counts, now = call.state.statistics.of("queue", vhost.name, queue.name), call.node.now
    description: Described = {
        **statistics.rates(counts, totals(queue), now),
        **statistics.message_stats(counts, now, *_COUNTED),
        "consumers": len(queue.consumers),
        "memory": 0,
        "reductions": 0,
        "reductions_details": {"rate": 0.0},
        **{name: policy for name, policy in policies_of(vhost, queue).items() if policy is not None},
    }
    if isinstance(queue, ClassicQueue):
        description |= {**_classic(queue), **call.compat.classic_queue_internals}
    elif isinstance(queue, QuorumQueue):
        description |= {**_quorum(call, queue), **delivery_limit(call, queue)}
        if call.compat.has_delayed_retry:
            description |= {"delayed_retry": queue.settings.delayed_retry_type, "messages_delayed": len(queue.delayed)}
    else:
        description |= {
            "members": [NODE_NAME],
            "online": [NODE_NAME],
            "readers": {NODE_NAME: len(queue.consumers)},
            **call.compat.stream_internals,
        }
    return description


def policies_of(vhost: VirtualHost, queue: StoredQueue) -> Described:
    """Return the names of the policies of a queue, None for one that it lacks."""
    policy, operator_policy = vhost.policies.for_queue(queue.name, queue.type_name)
    return {
        "policy": None if policy is None else policy.name,
        "operator_policy": None if operator_policy is None else operator_policy.name,
    }


def _classic(queue: ClassicQueue) -> Described:
    ready, persistent_ready, ready_count = _sizes(queue.ready)
    unacked, persistent_unacked, unacked_count = _sizes(queue.unacked.values())
    return {
        **_bytes(queue, ready, unacked),
        "message_bytes_ram": ready + unacked,
        "message_bytes_persistent": persistent_ready + persistent_unacked,
        "messages_persistent": ready_count + unacked_count,
        "messages_ram": len(queue.ready) + len(queue.unacked),
        "messages_ready_ram": len(queue.ready),
        "messages_unacknowledged_ram": len(queue.unacked),
    }


def _bytes(queue: Queue, ready: int, unacked: int) -> Described:
    return {
        "consumer_capacity": _capacity(queue),
        "consumer_utilisation": _capacity(queue),
        "message_bytes": ready + unacked,
        "message_bytes_ready": ready,
        "message_bytes_unacknowledged": unacked,
    }


def _sizes(entries: Iterable[QueueEntry]) -> tuple[int, int, int]:
    """Return the bytes of bodies, and of those that are persistent, and how many are."""
    total = persistent = count = 0
    # Messages of one publisher often share their head, which says whether they are persistent.
    by_head: dict[int, bool] = {}
    for entry in entries:
        message = entry.message
        size = len(message.body)
        total += size
        head = message.head
        octets = head[2]
        if isinstance(octets, bytes) and not octets[0] & _HAS_DELIVERY_MODE:
            continue
        is_persistent = by_head.get(id(head))
        if is_persistent is None:
            is_persistent = by_head[id(head)] = message.is_persistent
        if is_persistent:
            persistent += size
            count += 1
    return total, persistent, count


def _capacity(queue: StoredQueue) -> int:
    return int(any(consumer.has_room() for consumer in queue.consumers))


def _quorum(call: ManagementCall, queue: QuorumQueue) -> Described:
    """Return what a quorum queue holds, all of which is on disk. Its bytes are those that count towards its limit."""
    is_body_only = call.compat.quorum_bytes_are_body_only
    unacked = [entry.message for entry in queue.unacked.values()]
    held = sum(len(it.body) + (0 if is_body_only else it.counted_properties_size) for it in unacked)
    ready = queue.ready.size_bytes
    # Messages that were returned wait apart from the others.
    waiting = Counter(entry.priority for entry in queue.ready if not entry.acquired_count)
    return {
        **_bytes(queue, ready, held),
        "message_bytes_ram": 0,
        "message_bytes_persistent": ready + held,
        "messages_persistent": len(queue.ready) + len(unacked),
        "messages_ram": 0,
        "open_files": {NODE_NAME: 0},
        "messages_dlx": len(queue.pending_letters),
        "message_bytes_dlx": 0,
        **_by_priority(call, queue, waiting),
    }


def _by_priority(call: ManagementCall, queue: QuorumQueue, waiting: Counter[int]) -> Described:
    publisher_count = call.state.statistics.publisher_count(queue.vhost.name, queue.name, call.node.connections)
    returned_count = len(queue.ready) - waiting.total()
    counts: Described = {"publishers": publisher_count, "messages_ready_returned": returned_count}
    match call.compat.quorum_priorities:
        case "levels":
            by_priority = {str(level): count for level, count in sorted(waiting.items())}
            return {**counts, "messages_by_priority": by_priority, "messages_active_priorities": len(by_priority)}
        case "two_classes":
            return {**counts, "messages_ready_normal": waiting[0], "messages_ready_high": waiting[1]}
        case _:
            return {}


def delivery_limit(call: ManagementCall, queue: StoredQueue) -> Described:
    """Return the delivery limit of a quorum queue, in versions that show it."""
    if not isinstance(queue, QuorumQueue) or not call.compat.shows_delivery_limit:
        return {}
    return {"delivery_limit": _DELIVERY_LIMIT_OFF if queue.delivery_limit is None else queue.delivery_limit}


def in_detail(call: ManagementCall, queue: StoredQueue) -> Described:
    """Return what only the description of one queue has."""
    details: Described = {
        "consumer_details": consumers_of(call, queue),
        # By exchange and channel; empty in the rates mode "basic".
        "incoming": [],
        "deliveries": [],
        "garbage_collection": constant("garbage"),
    }
    if isinstance(queue, Queue):
        exclusive, active, head = queue.exclusive_consumer, queue.active_consumer, next(iter(queue.ready), None)
        if queue.type_name == "quorum" and not queue.settings.is_single_active:
            # RabbitMQ shows the first of those that compete.
            active = next(iter(queue.consumers), None)
        if call.compat.shows_delivery_limit or queue.type_name == "classic":
            details["single_active_consumer_tag"] = None if active is None else active.tag
        if queue.type_name == "classic":
            details["exclusive_consumer_tag"] = None if exclusive is None else exclusive.tag
            details["head_message_timestamp"] = head.message.properties.timestamp if head else None
            details["idle_since"] = moment(call.node.now)
    if queue.exclusive_owner is not None:
        details["owner_pid_details"] = peer_details(queue.exclusive_owner)
    return details


def moment(at: int) -> str:
    """Return an instant in microseconds as the management API writes it."""
    return datetime.fromtimestamp(at / 1_000_000, UTC).isoformat(timespec="milliseconds")
