"""The course of a soak: rounds of faults while the clients work, and the account at the end.

Each round adds one to three faults, lets the clients work, and removes the faults in any order. After each round every
client must get on by itself; only the connections that a fault leaves waiting for ever are reset.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field

from leveret import Broker
from leveret.faults import Rule
from tests.soak.clients import Crew
from tests.soak.faults import ADD, CONNECTING, HANGING, HOLDING, NotedFaults
from tests.soak.ledger import Ledger

QUEUES = {"classic": "classic", "quorum": "quorum"}
# How long a client may take to get on once all faults are removed.
PATIENCE = 20
# How long the faults of a round last, in seconds.
SPANS = (0.02, 0.05, 0.1, 0.3)


@dataclass
class Result:
    """The figures of a soak."""

    seconds: float = 0
    rounds: int = 0
    confirmed: int = 0
    received: int = 0
    redelivered: int = 0
    restarts: int = 0
    # How often each fault has fired, by its name in `broker.faults`.
    fired: Counter[str] = field(default_factory=Counter)
    # What faults account for, by violation and fault.
    excused: Counter[tuple[str, str]] = field(default_factory=Counter)
    # What nothing accounts for.
    found: dict[str, list[str]] = field(default_factory=dict)

    @property
    def is_good(self) -> bool:
        """Whether every message is accounted for."""
        return not self.found

    def __str__(self) -> str:
        """Return the report."""
        lines = [
            f"{self.seconds:.0f} s, {self.rounds} rounds, {self.restarts} restarts",
            f"{self.confirmed:,} messages confirmed, {self.received:,} received, {self.redelivered:,} redelivered",
            "faults: " + ", ".join(f"{name} {count}" for name, count in sorted(self.fired.items())),
            "accounted for: "
            + (", ".join(f"{what} by {fault} {n}" for (what, fault), n in sorted(self.excused.items())) or "nothing"),
        ]
        for what in ("lost", "duplicated", "out of order", "garbled"):
            lines.append(f"{what}: {len(self.found.get(what, ()))}")
        for what, texts in self.found.items():
            lines += [f"  {what}: {text}" for text in texts[:5]]
        return "\n".join(lines)


class Soak:
    """One soak of a broker."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.broker = Broker(seed=seed).start()
        for queue, kind in QUEUES.items():
            # However often connections are lost, no message is given up.
            arguments = {"x-delivery-limit": -1} if kind == "quorum" else {}
            self.broker.declare_queue(queue, arguments={"x-queue-type": kind, **arguments})
        self.ledger = Ledger()
        self.faults = NotedFaults(self.broker, self.ledger)
        self.crew = Crew(self.broker, self.ledger, list(QUEUES))
        self.result = Result()

    def run(self, *, seconds: float = 0, rounds: int = 0) -> Result:
        """Run for so long, and at least so many rounds, and return the figures."""
        began = time.monotonic()
        self.crew.start()
        self._expect_progress([])
        # Every fault has its turn before any has a second one.
        names: list[str] = []
        while time.monotonic() < began + seconds or self.result.rounds < rounds:
            if self.ledger.found:
                break
            if not names:
                names = self.dice.sample(list(ADD), len(ADD))
            others = self.dice.choice(((), (), list(ADD), HOLDING, HOLDING))
            others = self.dice.sample(others, min(len(others), self.dice.choice((1, 2))))
            self._round([names.pop(), *others, *(["restart"] if self.dice.random() < 0.1 else [])])
        self.crew.stopping_publishers.set()
        self.ledger.close(PATIENCE)
        self._finish(began)
        return self.result

    def _round(self, names: list[str]) -> None:
        rules = [(name, self.faults.add_named(name, self.dice, self._where())) for name in names]
        if CONNECTING.intersection(names):
            self._reset(self.dice.choice(self.crew.clients).session)
        self.crew.stopping_consumers.wait(self.dice.choice(SPANS))
        for name, rule in self.dice.sample(rules, len(rules)):
            self._end(name, rule)
        self._release()
        self.result.rounds += 1
        self._expect_progress(names)

    def _where(self) -> dict[str, object]:
        """Return whom a fault affects: everything, or one client."""
        return self.dice.choice(({}, {"client": self.dice.choice(self.crew.clients).session}))

    def _end(self, name: str, rule: Rule) -> None:
        rule.remove()
        self.result.fired[name] += rule.fired
        if name == "restart":
            self.result.restarts += rule.fired

    def _release(self) -> None:
        """Reset the connections that a fault leaves waiting, and note what a wrong byte may have done."""
        for number, names in self.faults.take_connections().items():
            if "corrupt" in names:
                opened = self.broker.events.query("conn_open", conn=number)
                carried = self.broker.events.query("published", "delivered", conn=number)
                bodies = [event.message.body for event in carried]
                self.ledger.corrupt([event.client for event in opened], bodies)
            if HANGING.intersection(names):
                self.broker.faults.reset_peer(connection=number, optional=True).remove()

    def _reset(self, session: str) -> None:
        self.broker.faults.reset_peer(client=session, optional=True).remove()

    def _expect_progress(self, names: list[str]) -> None:
        """Check that every client gets on, now that no fault is left."""
        late = self.ledger.wait_for_steps([client.name for client in self.crew.clients], 1, PATIENCE)
        self.ledger.settle()
        for name in late:
            self.ledger.report("stuck", f"{name} after {', '.join(names) or 'the start'}")

    def _finish(self, began: float) -> None:
        result, ledger = self.result, self.ledger
        for name in self.crew.join(PATIENCE, lambda: self.broker.faults.reset_peer(optional=True).remove()):
            ledger.report("stuck", f"{name} at the end")
        self.broker.stop()
        for error in self.broker._engine.node.internal_errors:
            ledger.report("internal error", repr(error))
        result.seconds = time.monotonic() - began
        result.confirmed, result.received = ledger.confirmed_count, len(ledger.received)
        result.redelivered, result.excused, result.found = ledger.redelivered_count, ledger.excused, ledger.found
