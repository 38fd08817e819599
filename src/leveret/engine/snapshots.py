"""Snapshots of a broker: what it keeps, the events that explain it, and the clock's place; and going back to one.

The clients of the broker are not in it. As when the broker is reset, they are gone, and what they held is back in its
queue, to be redelivered. Their end happens once, on a copy, when the snapshot is made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from leveret.core.hooks import Hooks
from leveret.core.model.errors import Shutdown
from leveret.core.model.node import Node
from leveret.engine.copying import copier, home_of
from leveret.errors import BrokerError
from leveret.trace import events
from leveret.trace.events import RawEvent
from leveret.wording import count_text

if TYPE_CHECKING:
    from leveret.core.protocol.connection import Connection
    from leveret.engine.engine import Engine
    from leveret.observe.checks.judge import EventChecks

_OF_TESTS: Final = (events.TEST_START, events.TEST_END)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state of a broker at one moment, for `broker.restore`. It lives in memory and fits brokers of its kind."""

    text: str
    # What the brokers that take it have in common.
    kind: dict[str, object]
    # Makes a node, with the hooks of its broker, and what the strict checks know of it.
    new_state: Callable[[Hooks], tuple[Node, EventChecks]] = field(repr=False)
    # What had happened, as the recorder keeps it, and whether older events were forgotten.
    past: list[RawEvent] = field(repr=False)
    has_dropped: bool
    # The clock's place in microseconds since the epoch, and whether it was held there.
    now: int
    is_held: bool
    # How many clients had connected, so that those after it have other numbers.
    connection_count: int

    def __repr__(self) -> str:
        return f"<snapshot of {self.text}>"

    def restore(self, engine: Engine) -> None:
        """Put a broker into this state. Raises BrokerError if it is of another kind."""
        engine.refuse_not_running()
        for word, value in _kind(engine).items():
            if self.kind[word] != value:
                raise BrokerError(
                    f"this snapshot is of a broker with {word}={self.kind[word]!r}, and this one has {word}={value!r}; "
                    "restore it on a broker with the same settings, or take another snapshot there"
                )
        engine.begin_anew(partial(self._begin, engine))

    def _begin(self, engine: Engine) -> Node:
        """Return a node in this state. The engine's recorder and clock go to the same moment."""
        past = self.past
        if engine.test is not None:
            # What made the state happened for the test that runs now.
            past = [(events.TEST_START, past[0][1] if past else self.now, engine.test), *past]
        engine.recorder.begin_anew(past, has_dropped=self.has_dropped)
        node, checks = self.new_state(engine.new_hooks())
        engine.judge.begin_anew(checks)
        engine.clock.set(self.now, is_held=self.is_held)
        engine.connection_count = self.connection_count
        return node


def snapshot_of(engine: Engine) -> Snapshot:
    """Return the state of a broker without its clients. Raises BrokerError if it does not run."""
    engine.refuse_not_running()
    return engine.ask(partial(_taken, engine))


def _taken(engine: Engine) -> Snapshot:
    happened = [event for event in engine.recorder.raw() if event[0] not in _OF_TESTS]
    hooks = Hooks(None if engine.recorder.tap is None else happened.append)
    node = copier(engine.node, keep=[engine], slot=engine.node.hooks)(hooks)
    end_clients(node)
    queue_count = sum(len(vhost.queues) for vhost in node.vhosts.values())
    return Snapshot(
        f"RabbitMQ {engine.compat.version} with {count_text(queue_count, 'queue')}",
        _kind(engine),
        copier((node, engine.judge.past(happened, node)), slot=hooks),
        engine.recorder.as_kept(happened),
        engine.recorder.has_dropped,
        engine.clock.now(),
        engine.clock.is_held,
        engine.connection_count,
    )


def end_clients(node: Node) -> None:
    """End what the clients of a node, its faults and the test have begun. What they held is back in its queue."""
    clients = cast("list[Connection]", list(node.connections.values()))
    for client in clients:
        # First of all, so that nothing comes back to a client that is ending too.
        for channel in client.channels.values():
            channel.drop_consumers()
    for client in clients:
        client.shut_down(Shutdown())
    node.finish_work()
    _end_plans(node)


def _end_plans(node: Node) -> None:
    """Let faults hold nothing back any more, and forget what responders and waits of the test have planned.

    These are not copied, so their plans would act on the broker of the snapshot.
    """
    for timer in (*node.timers.pending, *node.liveness.pending):
        act, home = timer.action, home_of(timer.action)
        if home.startswith("leveret.core."):
            continue
        timer.cancel()
        if act is not None and home in ("leveret.faults.occasion", "leveret.faults.messages"):
            act()
    node.finish_work()


def _kind(engine: Engine) -> dict[str, object]:
    words = {"permit": engine.permit, "plugins": engine.plugins, "settings": engine.settings}
    return {"rabbitmq": engine.compat.version, "record": engine.recorder.level, **words}
