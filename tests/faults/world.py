"""A node with faults and peers without sockets, and clients of a broker that has both."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

from leveret.core.model.node import Node
from leveret.faults import FaultPlan
from tests.protocol.peer import Server


class FaultyServer(Server):
    """A server whose faults are at `faults`."""

    def __init__(self, version: str = "4.3", *, seed: int = 7, **node_options: object) -> None:
        super().__init__(version, seed=seed, **node_options)
        self.faults = FaultPlan(self._acting, lambda: random.Random(seed))
        self.faults.attach(self.node)

    @contextmanager
    def _acting(self) -> Iterator[Node]:
        yield self.node
        self.node.run_work()
