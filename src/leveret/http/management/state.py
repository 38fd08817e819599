"""What the management API keeps of a broker beside the broker's own state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.core.model.operators.node_settings import NODE_NAME
from leveret.http.management.statistics import Statistics
from leveret.server import native

if TYPE_CHECKING:
    from leveret.core.model.node import Node
    from leveret.engine.engine import Engine


class State:
    """The state of one management API. A broker that is reset begins with a fresh one."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        # Held while a request is answered. It is taken before the broker's lock, which is held for parts of that only.
        self.lock = native.reentrant_lock()
        self._begin(engine.node)

    def _begin(self, node: Node) -> None:
        self._node = node
        self.statistics = Statistics()
        self.started_at = node.wall_now
        self.cluster_name = NODE_NAME
        self.global_parameters: dict[str, object] = {}
        # The virtual hosts that the API refuses to delete, and those that were once so.
        self.protected: dict[str, bool] = {}

    def catch_up(self) -> None:
        """Count what has happened. The caller holds this state's lock, and not the broker's."""
        with self.engine.lock:
            if self.engine.node is not self._node:
                self._begin(self.engine.node)
            new = self.statistics.unread(self.engine.recorder)
        self.statistics.read(new)
