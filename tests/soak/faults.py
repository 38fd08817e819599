"""The faults of a soak: how each of `broker.faults` is added, with arguments by chance, and what it touches.

`ADD` has an entry for each name. A fault that a soak cannot use belongs in `EXCUSED`, with the reason; a test compares
both with `broker.faults`.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from leveret import Broker
from leveret.faults import Fault, Rule
from leveret.faults.named import NamedFaults
from leveret.faults.occasion import Occasion
from tests.soak.ledger import Ledger

NAMES = tuple(name for name, value in vars(NamedFaults).items() if callable(value) and name != "add" and name[0] != "_")
EXCUSED: dict[str, str] = {}

Options = dict[str, object]
Add = Callable[["NotedFaults", random.Random, Options], Rule]
# After these, a client may wait for what never comes, or may have read a wrong byte. The soak resets its connection.
HANGING = frozenset({"withhold", "withhold_confirms", "drop", "cancel_consumers", "corrupt"})
# These hold bytes back, and are combined most often.
HOLDING = ("blackhole", "bandwidth", "slicer", "stall")
# These act on what a client does while it connects, so the soak has one connect again.
CONNECTING = frozenset({"refuse_connections", "withhold", "delay"})

_METHODS = ("basic.publish", "basic.ack", "basic.consume", "queue.declare", "channel.open")
_REPLIES = ("queue.declare-ok", "basic.consume-ok", "basic.qos-ok", "confirm.select-ok", "channel.open-ok")


class Noted(Fault):
    """A fault that reports to the ledger what it acts on."""

    def __init__(self, fault: Fault, called: str, faults: NotedFaults) -> None:
        self.fault, self.called, self._faults = fault, called, faults
        for attribute in ("name", "points", "target", "needs_connection", "needs_channel", "is_ending", "unmet"):
            setattr(self, attribute, getattr(fault, attribute))

    def can_apply(self, occasion: Occasion) -> bool:
        return self.fault.can_apply(occasion)

    def apply(self, occasion: Occasion) -> bool:
        message, connection = occasion.message, occasion.connection
        self._faults.ledger.touch(self.fault.name, occasion.point, None if message is None else message.body)
        if connection is not None:
            self._faults.connections.setdefault(connection.number, set()).add(self.called)
            if self.called == "corrupt":
                # One in each direction.
                self._faults.ledger.expect_wrong_bytes(2)
        return self.fault.apply(occasion)

    def end(self, node: object) -> None:
        self.fault.end(node)


class NotedFaults(NamedFaults):
    """`broker.faults`, except that every fault is noted."""

    def __init__(self, broker: Broker, ledger: Ledger) -> None:
        self.broker, self.ledger = broker, ledger
        # The connections that faults have touched since `take_connections`, by number.
        self.connections: dict[int, set[str]] = {}
        self._called = ""

    def add(self, *, on: str | None = None, do: Fault, **options: object) -> Rule:
        return self.broker.faults.add(on=on, do=Noted(do, self._called, self), optional=True, **options)

    def add_named(self, name: str, dice: random.Random, options: dict[str, object]) -> Rule:
        """Add the fault with this name, with arguments by chance."""
        self._called = name
        return ADD[name](self, dice, options)

    def take_connections(self) -> dict[int, set[str]]:
        """Return the connections that faults have touched, with the names of the faults, and forget them."""
        taken, self.connections = self.connections, {}
        return taken


def _once(name: str) -> Add:
    """Return how to add a fault that ends something: at once, or on one of the next methods."""

    def add(faults: NotedFaults, dice: random.Random, where: Options) -> Rule:
        on = dice.choice((None, "basic.publish", "basic.ack"))
        after = {} if on is None else {"on": on, "after": dice.randrange(20)}
        return getattr(faults, name)(**after, **where)

    return add


def _on_bytes(name: str, *choices: object, has_direction: bool = True) -> Add:
    """Return how to add a fault on bytes, with one of these as its argument."""

    def add(faults: NotedFaults, dice: random.Random, where: Options) -> Rule:
        on = dice.choice((None, None, "accept", "basic.publish", "basic.deliver", "basic.ack"))
        options = {} if on == "accept" else dict(where)
        if on is not None:
            options["on"] = on
        if has_direction:
            options["direction"] = dice.choice(("both", "both", "to_client", "to_broker"))
        return getattr(faults, name)(*([dice.choice(choices)] if choices else []), **options)

    return add


def _on_messages(name: str, *choices: object, **options: object) -> Add:
    """Return how to add a fault that acts on some messages, with one of these as its argument."""

    def add(faults: NotedFaults, dice: random.Random, where: Options) -> Rule:
        arguments = [dice.choice(choices)] if choices else []
        return getattr(faults, name)(*arguments, probability=dice.choice((0.02, 0.2)), **options, **where)

    return add


def _refuse_connections(faults: NotedFaults, dice: random.Random, where: Options) -> Rule:
    return faults.refuse_connections(dice.choice(("reset", "login", "close")))


def _withhold(faults: NotedFaults, dice: random.Random, where: Options) -> Rule:
    return faults.withhold(dice.choice(_REPLIES), times=1)


def _delay(faults: NotedFaults, dice: random.Random, where: Options) -> Rule:
    on = dice.choice((*_METHODS, *_REPLIES, "basic.deliver"))
    return faults.delay(on, seconds=dice.choice((0.001, 0.02)), times=20)


def _block_publishers(faults: NotedFaults, dice: random.Random, where: Options) -> Rule:
    return faults.block_publishers(dice.choice(("memory", "disk")))


def _expire(faults: NotedFaults, dice: random.Random, where: Options) -> Rule:
    return faults.expire(probability=dice.choice((0.02, 0.2)))


def _restart(faults: NotedFaults, dice: random.Random, where: Options) -> Rule:
    return faults.restart(**dice.choice(({}, {"at": 0.02}, {"on": "basic.publish", "after": dice.randrange(50)})))


ADD: dict[str, Add] = {
    "close_channel": _once("close_channel"),
    "close_connection": _once("close_connection"),
    "reset_peer": _once("reset_peer"),
    "refuse_connections": _refuse_connections,
    "withhold": _withhold,
    "delay": _delay,
    "nack_publishes": _on_messages("nack_publishes"),
    "withhold_confirms": _on_messages("withhold_confirms"),
    "delay_confirms": _on_messages("delay_confirms", seconds=0.02),
    "cancel_consumers": _once("cancel_consumers"),
    "block_publishers": _block_publishers,
    "drop": _on_messages("drop", "basic.publish", "basic.deliver", "basic.ack"),
    "duplicate": _on_messages("duplicate"),
    "redeliver": _on_messages("redeliver"),
    "reorder": _on_messages("reorder", 2, 5, seconds=0.02),
    "expire": _expire,
    "blackhole": _on_bytes("blackhole"),
    "bandwidth": _on_bytes("bandwidth", 500, 20_000, 1_000_000),
    "slicer": _on_bytes("slicer", 1, 7, 500),
    "stall": _on_bytes("stall", None, 0.02, 0.1),
    "corrupt": _on_bytes("corrupt", 1, 10, 100, 1000),
    "limit_data": _on_bytes("limit_data", 0, 100, 5000, has_direction=False),
    "half_close": _on_bytes("half_close", has_direction=False),
    "restart": _restart,
}
