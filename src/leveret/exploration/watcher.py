"""The watcher of one run: it numbers the steps and applies the faults of a schedule at theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from leveret.core.protocol.state import ChannelState, State
from leveret.core.wire.methods import BasicAck
from leveret.engine.harness import Harness
from leveret.exploration.faults import LostAfter, OutOfOrder
from leveret.exploration.kinds import FaultMaker
from leveret.exploration.schedule import CLIENT_TO_SERVER, SERVER_TO_CLIENT, THEN, Placement, Schedule, Seen, Step
from leveret.faults.plan import Treatment, apply
from leveret.trace.events import content
from leveret.trials.steps import ClientNames
from leveret.wording import masked

if TYPE_CHECKING:
    from leveret.broker import Broker
    from leveret.core.protocol.connection import Connection
    from leveret.faults import Occasion

# Connection, channel, delivery tag, and whether it covers the tags before it.
Confirm = tuple[int, int, int, bool]


class Watcher:
    """The watcher of one broker. It starts before the first client connects."""

    def __init__(self, broker: Broker, schedule: Schedule, kinds: Mapping[str, FaultMaker]) -> None:
        """`kinds` are all kinds that can be placed. They include those of the schedule."""
        self.schedule: Final = schedule
        # Every step that occurred, in order.
        self.seen: Final[list[Seen]] = []
        self.applied: Final[list[Placement]] = []
        # Confirms that never reached their publishers.
        self.undelivered: Final[list[Confirm]] = []
        self._harness: Final = Harness(broker)
        self._plan: Final = broker.faults
        self._kinds: Final = kinds
        self._counts: Final[dict[tuple[int, int, str, str], int]] = {}
        self._clients: Final = ClientNames()
        # Connections that a fault is about to end.
        self._ending: Final[list[Connection]] = []
        self._last_of: Final[dict[int, Step]] = {}
        self._faults: Final = {placement: kinds[placement.kind].new() for placement in schedule.placements}

    def start(self) -> None:
        """Start watching."""
        self._harness.treat(Treatment("exploration", self._on_occasion))

    def stop(self) -> None:
        """Stop watching, because what happens from now on is cleanup and not the scenario."""
        self._harness.end_treatment()

    @property
    def missing(self) -> list[Placement]:
        """The faults whose step never occurred, or could not have this fault."""
        return [placement for placement in self.schedule.placements if placement not in self.applied]

    def _on_occasion(self, occasion: Occasion) -> bool:
        connection = occasion.connection
        if connection is None or not connection.is_client:
            return False
        if occasion.point == "method" and self._is_ended_by_confirms(occasion, connection):
            return True
        if _is_gone(connection):
            # What the broker sends to a client that has gone is not a step.
            self._note_lost_confirm(occasion)
            return False
        if connection in self._ending and connection.state is not State.CLOSING:
            self._lose(occasion, connection)
            return True
        return self._take_step(occasion, connection)

    def _take_step(self, occasion: Occasion, connection: Connection) -> bool:
        unnamed = self._number(occasion, connection)
        step = replace(unnamed, connection=self._name_of(connection))
        before = self._last_of.get(connection.number)
        fitting = [name for name, kind in self._kinds.items() if kind.fits(occasion)]
        distinct = tuple(name for name in fitting if not self._kinds[name].is_redundant_at(step, before))
        seen = Seen(step, about(occasion), distinct, is_redelivered=occasion.is_redelivered)
        self.seen.append(seen)
        self._last_of[connection.number] = step
        self._note_overtaking(occasion)
        for placement, fault in self._faults.items():
            if placement.step in (step, unnamed) and placement.kind in fitting and placement not in self.applied:
                seen.applied = placement.kind
                self.applied.append(placement)
                if self._kinds[placement.kind].is_ending:
                    self._ending.append(connection)
                if apply(self._plan, fault, occasion):
                    if not isinstance(fault, LostAfter):
                        self._note_lost_confirm(occasion)
                    return True
        return False

    def _lose(self, occasion: Occasion, connection: Connection) -> None:
        """Drop what comes too late on a connection that is about to end."""
        self._note_lost_confirm(occasion)
        if occasion.point == "method":
            connection.reset()
        elif occasion.point == "deliver":
            occasion.proceed_silently()

    def _number(self, occasion: Occasion, connection: Connection) -> Step:
        direction = CLIENT_TO_SERVER if occasion.point == "method" else SERVER_TO_CLIENT
        key = (connection.number, occasion.channel_number or 0, direction, occasion.on)
        nth = self._counts[key] = self._counts.get(key, 0) + 1
        return Step(*key, nth)

    def _name_of(self, connection: Connection) -> int | str:
        """Return the name that the client gives the connection, or else its number."""
        name = self._clients.get(connection)
        if name is None:
            # Parts that are different in each run, such as random ids, cannot identify a connection.
            given = masked(connection.client_name) if "connection_name" in connection.client_properties else ""
            if not given or given.isdecimal() or not given.isprintable() or THEN in given:
                return connection.number
            name = self._clients.name_of(connection, given)
        return name

    def _is_ended_by_confirms(self, occasion: Occasion, connection: Connection) -> bool:
        """Send the confirms that are owed, so that they do not depend on how the bytes arrived in pieces.

        Return True if a fault at a confirm has ended the connection, so that this method never arrived.
        """
        for channel in list(connection.confirming):
            if channel.state not in (ChannelState.CLOSING, ChannelState.CLOSED):
                channel.flush_confirms()
        if occasion.node.work:
            occasion.node.run_work()
        return connection.state.is_over

    def _note_overtaking(self, occasion: Occasion) -> None:
        if occasion.point == "deliver":
            for fault in self._faults.values():
                if isinstance(fault, OutOfOrder):
                    fault.note_delivery(occasion)

    def _note_lost_confirm(self, occasion: Occasion) -> None:
        method, connection = occasion.method, occasion.connection
        if isinstance(method, BasicAck) and occasion.point == "reply" and connection is not None:
            self.undelivered.append(
                (connection.number, occasion.channel_number or 0, method.delivery_tag, bool(method.multiple))
            )


def _is_gone(connection: Connection) -> bool:
    is_open = connection.number in connection.node.connections
    return connection.state.is_over or (connection.state is State.OPENED and not is_open)


def about(occasion: Occasion) -> str:
    """Return a short description of the occasion: its message, or else its exchange and queue."""
    message, method = occasion.message, occasion.method
    if message is not None:
        text = content(message.source)
        if occasion.on == "basic.publish":
            return f"{text} to {message.exchange or 'the default exchange'}, key {message.routing_key!r}"
        return f"{text} from {occasion.queue}" if occasion.queue else text
    names = [getattr(method, name, None) for name in ("exchange", "queue")]
    return " ".join(str(name) for name in names if name)
