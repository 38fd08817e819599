"""Random conversations with a broker that was restored, beside one that goes on by itself.

Clients without sockets do the same on both brokers, and end. One of them then does something else, and goes back to
the state before. From there on, both must send the same bytes.
"""

from __future__ import annotations

from typing import Any

from leveret import Broker
from leveret.core.model.node import Node
from leveret.engine.snapshots import end_clients
from leveret.faults import FaultPlan
from tests.properties.programs import Interpreter, Step
from tests.protocol.peer import SECOND, Server
from tests.story.conversations import Conversation, conversation


class BrokerServer(Server):
    """The node of a broker whose clock is held, for clients without sockets."""

    def __init__(self, broker: Broker) -> None:
        broker.clock.hold()
        self.broker = broker
        self.engine = broker._engine
        self.dirty = []
        self.peer_count = 0

    @property
    def node(self) -> Node:
        return self.engine.node

    @property
    def faults(self) -> FaultPlan:
        return self.engine.faults

    def remove_faults(self) -> None:
        """Remove the rules for faults, which no snapshot has."""
        for rule in list(self.faults.rules):
            rule.remove()

    def elapse(self, seconds: float) -> None:
        self.engine.clock.skip(int(seconds * SECOND))
        self.node.advance(self.engine.clock.now(), self.node.wall_now + int(seconds * SECOND))


class Talk(Conversation):
    """A conversation with a broker that has a state already."""

    def __init__(self, server: BrokerServer) -> None:
        Interpreter.__init__(self, server)

    def take(self) -> None:
        """Read no events."""


def difference_of(seed: int) -> str:
    """Return how the bytes of a restored broker differ from those of one that goes on, "" if they do not."""
    first, second, other = (_program(3 * seed + part) for part in range(3))
    # What is recorded changes no bytes, and a look at clients for each refusal would take half of the time.
    options: dict[str, Any] = {"seed": seed, "record": "off", "checks": "all=off"}
    with Broker(**options) as one, Broker(**options) as two:
        lasting, restored = BrokerServer(one), BrokerServer(two)
        begin = two._engine.clock.now() + SECOND
        for each in (lasting, restored):
            each.engine.clock.jump(begin)
            each.engine.sync()
            _talk(each, first)
            each.remove_faults()
            each.engine.sync()
        with one._engine.lock:
            end_clients(one._engine.node)
        state = two.snapshot()
        _talk(restored, other)
        two.restore(state)
        for each in (lasting, restored):
            each.remove_faults()
            # What is due is done before the next client comes.
            each.engine.sync()
            each.peer_count = 0
        expected, got = _talk(lasting, second), _talk(restored, second)
        if one._engine.node.internal_errors or two._engine.node.internal_errors:
            return f"seed {seed}: {one._engine.node.internal_errors} {two._engine.node.internal_errors}"
    return "" if expected == got else f"seed {seed}: {_first_difference(expected, got)}"


def _program(seed: int) -> list[Step]:
    return [step for step in conversation(seed, length=60) if step[0] != "reset"]


def _talk(server: BrokerServer, program: list[Step]) -> list[bytes]:
    """Return what each client was sent, in the order of connecting."""
    with server.engine.lock:
        talk = Talk(server)
        talk.run(program)
        talk.end()
    return talk.octets


def _first_difference(expected: list[bytes], got: list[bytes]) -> str:
    number = next((number for number, pair in enumerate(zip(expected, got, strict=False)) if pair[0] != pair[1]), -1)
    return f"client {number}: expected {expected[number]!r}, got {got[number]!r}"
