"""The watcher of one run: it numbers the steps that come, and has the faults of a schedule strike at theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from leveret.core.protocol.state import ChannelState, State
from leveret.core.wire.methods import BasicAck
from leveret.exploration.kinds import ENDING, LOST_AFTER, OUT_OF_ORDER, Kind
from leveret.exploration.out_of_order import OutOfOrder
from leveret.exploration.schedule import Placement, Schedule
from leveret.exploration.step import CLIENT_TO_SERVER, SERVER_TO_CLIENT, Seen, Step
from leveret.observe.wording import MADE_UP
from leveret.trace.events import preview

if TYPE_CHECKING:
    from leveret.broker import Broker
    from leveret.core.protocol.connection import Connection
    from leveret.faults import Occasion

_THEN: Final = ", then "

# Connection, channel, delivery tag, and whether it covers those before it.
Confirm = tuple[int, int, int, bool]


class Watcher:
    """This watches one broker, from before its first client."""

    def __init__(self, broker: Broker, schedule: Schedule, kinds: Mapping[str, Kind]) -> None:
        """`kinds` are those that may be placed; the schedule's are among them."""
        self.schedule: Final = schedule
        # Every step that came, in order.
        self.seen: Final[list[Seen]] = []
        self.struck: Final[list[Placement]] = []
        # Confirms that never reached their publishers.
        self.untold: Final[list[Confirm]] = []
        self._engine: Final = broker._engine
        self._plan: Final = broker.faults
        self._kinds: Final = kinds
        self._counts: Final[dict[tuple[int, int, str, str], int]] = {}
        # What connections are called in steps, by number, and how many there were of a name.
        self._names: Final[dict[int, str]] = {}
        self._name_counts: Final[dict[str, int]] = {}
        # Connections that a fault is about to end.
        self._doomed: Final[list[Connection]] = []
        self._last_of: Final[dict[int, Step]] = {}
        self._faults: Final = {placement: kinds[placement.kind].new() for placement in schedule.placements}

    def watch(self) -> None:
        """Begin."""
        with self._engine.looking():
            self._plan.watch(self._look)

    def end(self) -> None:
        """Look no more: what comes now is not the scenario's."""
        with self._engine.looking():
            self._plan.watch(None)

    @property
    def missing(self) -> list[Placement]:
        """The faults whose step never came, or was none where they can act."""
        return [placement for placement in self.schedule.placements if placement not in self.struck]

    def _look(self, occasion: Occasion) -> bool:
        connection = occasion.connection
        if connection is None or not connection.is_client:
            return False
        if occasion.point == "method" and self._are_confirms_its_end(occasion, connection):
            return True
        if _is_gone(connection):
            # What is said to somebody who has gone is no step.
            self._note_confirm(occasion)
            return False
        if connection in self._doomed and connection.state is not State.CLOSING:
            self._lose(occasion, connection)
            return True
        return self._pass(occasion, connection)

    def _pass(self, occasion: Occasion, connection: Connection) -> bool:
        unnamed = self._number(occasion, connection)
        step = replace(unnamed, connection=self._name_of(connection))
        before = self._last_of.get(connection.number)
        fitting = [name for name, kind in self._kinds.items() if kind.fits(occasion)]
        telling = tuple(name for name in fitting if not self._kinds[name].repeats(step, before))
        seen = Seen(step, about(occasion), telling, is_redelivered=occasion.is_redelivered)
        self.seen.append(seen)
        self._last_of[connection.number] = step
        self._let_overtake(occasion)
        for placement, fault in self._faults.items():
            if placement.step in (step, unnamed) and placement.kind in fitting and placement not in self.struck:
                seen.struck = placement.kind
                self.struck.append(placement)
                if placement.kind in ENDING:
                    self._doomed.append(connection)
                if self._plan.apply(fault, occasion):
                    if placement.kind != LOST_AFTER:
                        self._note_confirm(occasion)
                    return True
        return False

    def _lose(self, occasion: Occasion, connection: Connection) -> None:
        """The connection is about to end: what is said on it comes too late."""
        self._note_confirm(occasion)
        if occasion.point == "method":
            connection.reset()
        elif occasion.point == "deliver":
            occasion.proceed_silently()

    def _number(self, occasion: Occasion, connection: Connection) -> Step:
        direction = CLIENT_TO_SERVER if occasion.point == "method" else SERVER_TO_CLIENT
        place = (connection.number, occasion.channel_number or 0, direction, occasion.on)
        nth = self._counts[place] = self._counts.get(place, 0) + 1
        return Step(*place, nth)

    def _name_of(self, connection: Connection) -> int | str:
        """The client's name for a connection, once it has told one: it does not depend on who connects first."""
        name = self._names.get(connection.number)
        if name is None:
            field = connection.client_properties.get("connection_name")
            told = field.value.decode("utf-8", "replace") if field and isinstance(field.value, bytes) else ""
            # What is another one each time is no name to know a connection by again.
            told = MADE_UP.sub("*", told)
            if not told or told.isdecimal() or not told.isprintable() or _THEN in told:
                return connection.number
            count = self._name_counts[told] = self._name_counts.get(told, 0) + 1
            name = self._names[connection.number] = told if count == 1 else f"{told} ({count})"
        return name

    def _are_confirms_its_end(self, occasion: Occasion, connection: Connection) -> bool:
        """Tell publishers now what they are owed, so that no confirm depends on how the octets came.

        True where a fault at a confirm has ended the connection: then what is at hand never arrived.
        """
        for channel in list(connection.confirming):
            if channel.state not in (ChannelState.CLOSING, ChannelState.CLOSED):
                channel.flush_confirms()
        if occasion.node.work:
            occasion.node.run_work()
        return connection.state is State.ENDING

    def _let_overtake(self, occasion: Occasion) -> None:
        if occasion.point == "deliver":
            for placement, fault in self._faults.items():
                if placement.kind == OUT_OF_ORDER and isinstance(fault, OutOfOrder):
                    fault.passed_by(occasion)

    def _note_confirm(self, occasion: Occasion) -> None:
        method, connection = occasion.method, occasion.connection
        if isinstance(method, BasicAck) and occasion.point == "reply" and connection is not None:
            self.untold.append(
                (connection.number, occasion.channel_number or 0, method.delivery_tag, bool(method.multiple))
            )


def _is_gone(connection: Connection) -> bool:
    is_open = connection.number in connection.node.connections
    return connection.state is State.ENDING or (connection.state is State.OPENED and not is_open)


def about(occasion: Occasion) -> str:
    """What is at hand, in a few words: a message, else a queue or an exchange."""
    message, method = occasion.message, occasion.method
    if message is not None:
        text = preview(message.body)
        if occasion.on == "basic.publish":
            return f"{text} to {message.exchange or 'the default exchange'}, key {message.routing_key!r}"
        return f"{text} from {occasion.queue}" if occasion.queue else text
    names = [getattr(method, name, None) for name in ("exchange", "queue")]
    return " ".join(str(name) for name in names if name)
