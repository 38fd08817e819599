"""The queues of a page: the lives of queues, as they stand at the end, for the page to draw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from leveret.page.lanes import Lanes
from leveret.story.queues import QueueLife

if TYPE_CHECKING:
    from leveret.observe.views.views import QueueFacts

_STREAM: Final = "stream"


def describe(queue: QueueLife, state: QueueFacts) -> None:
    """Add what a queue is at the end."""
    queue.type, queue.durable, queue.arguments = state.type, state.durable, state.arguments
    queue.policy, queue.policy_keys = state.policy, state.policy_keys
    queue.is_deleted = False
    if state.type != _STREAM:
        queue.raise_by = (
            state.ready_count - queue.ready,
            state.unacked_count - queue.unacked,
            state.consumer_count - len(queue.consumers),
        )


def shown_queue(queue: QueueLife, lanes: Lanes, bindings: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a queue as a page takes it."""
    shown: dict[str, Any] = {
        "lane": lanes.id_of("q", queue.vhost, queue.name),
        "name": queue.name,
        "vhost": queue.vhost,
        "type": queue.type,
        "durable": queue.durable,
        "arguments": queue.arguments,
        "policy": queue.policy,
        "policy_keys": queue.policy_keys,
        "bindings": bindings,
        "series": queue.counts(),
        "deleted": queue.is_deleted or None,
        "deleted_by": queue.deleted_by if queue.is_deleted else None,
        "deleted_at": queue.deleted_at if queue.is_deleted else None,
    }
    return {name: value for name, value in shown.items() if value not in (None, {})}
