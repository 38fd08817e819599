"""A node with faults, peers without sockets, and real clients of a broker with faults."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

from leveret.core.model.node import Node
from leveret.faults import FaultPlan, Rule
from leveret.faults.plan import attach
from tests.protocol.peer import Server


class FaultyServer(Server):
    """A server whose faults are in `faults`, and those that never fired in their block in `unused`."""

    def __init__(self, version: str = "4.3", *, seed: int = 7, **node_options: object) -> None:
        super().__init__(version, seed=seed, **node_options)
        self.unused: list[Rule] = []
        self.faults = FaultPlan(self._acting, lambda: random.Random(seed), on_unused=self.unused.append)
        attach(self.faults, self.node)

    @contextmanager
    def _acting(self) -> Iterator[Node]:
        yield self.node
        self.node.run_work()
