"""The queues of a page: the lives of queues, as they stand at the end, for the page to draw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from leveret.page.lanes import Lanes
from leveret.story.queues import QueueLife

if TYPE_CHECKING:
    from leveret.observe.views.views import QueueFacts

_STREAM: Final = "stream"


class QueueStory(QueueLife):
    """The story of one queue."""

    def describe(self, state: QueueFacts) -> None:
        """Take what the queue is at the end."""
        self.type, self.durable, self.arguments = state.type, state.durable, state.arguments
        self.policy, self.policy_keys = state.policy, state.policy_keys
        self.is_deleted = False
        if state.type != _STREAM:
            self.raise_by = (
                state.ready_count - self.ready,
                state.unacked_count - self.unacked,
                state.consumer_count - len(self.consumers),
            )

    def shown(self, lanes: Lanes, bindings: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the queue as a page takes it."""
        shown: dict[str, Any] = {
            "lane": lanes.id_of("q", self.vhost, self.name),
            "name": self.name,
            "vhost": self.vhost,
            "type": self.type,
            "durable": self.durable,
            "arguments": self.arguments,
            "policy": self.policy,
            "policy_keys": self.policy_keys,
            "bindings": bindings,
            "series": self.counts(),
            "deleted": self.is_deleted or None,
            "deleted_by": self.deleted_by if self.is_deleted else None,
            "deleted_at": self.deleted_at if self.is_deleted else None,
        }
        return {name: value for name, value in shown.items() if value not in (None, {})}
