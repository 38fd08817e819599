"""The kinds of fault that exploration places at a step, by name.

Each says where it can be placed and what it does there, in words. A fault of the user's own becomes a kind by its name.
Where two would do the same at neighbouring steps, one of them is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import Final, Literal

from leveret.core.protocol.state import State
from leveret.errors import unknown
from leveret.exploration.lost import LostAfter
from leveret.exploration.out_of_order import OutOfOrder
from leveret.exploration.step import Step
from leveret.faults import Duplicate, Fault, Occasion, Redeliver, Reorder, ResetPeer, Restart
from leveret.faults.plan import WATCHED

# The names, for type checkers, in the order of `KINDS`.
FaultKind = Literal["lost before", "lost after", "redelivered", "out of order", "duplicated", "restart before"]

LOST_BEFORE: Final = "lost before"
LOST_AFTER: Final = "lost after"
REDELIVERED: Final = "redelivered"
OUT_OF_ORDER: Final = "out of order"
DUPLICATED: Final = "duplicated"
RESTART_BEFORE: Final = "restart before"


@dataclass(frozen=True, slots=True)
class Kind:
    """This is one kind of fault: how to make one, and what it does at a step, in words."""

    name: str
    new: Callable[[], Fault]
    words: Callable[[Step], str]

    def fits(self, occasion: Occasion) -> bool:
        """Whether it can be placed at what is at hand."""
        fault = self.new()
        if occasion.point not in fault.points or (fault.needs_channel and not occasion.channel_number):
            return False
        if not fault.can_apply(occasion):
            return False
        connection = occasion.connection
        assert connection is not None
        if self.name == LOST_AFTER:
            return connection.state is not State.ENDING
        if self.name == RESTART_BEFORE:
            # RabbitMQ tells only those who have come in.
            return connection.state is State.OPENED
        return True

    def repeats(self, step: Step, before: Step | None) -> bool:
        """Whether another placement does the same: to lose an answer is to lose the connection after the question.

        `before` is the step before on the same connection.
        """
        return self.name == LOST_BEFORE and not step.is_from_client and before is not None and before.is_from_client


def _lost_before(step: Step) -> str:
    if step.is_from_client:
        return f"connection {step.connection} is lost before the broker gets this"
    return f"connection {step.connection} is lost before the client gets this"


def _lost_after(step: Step) -> str:
    if step.is_from_client:
        return f"connection {step.connection} is lost after the broker has handled this; no answer arrives"
    return f"connection {step.connection} is lost once the client has got this"


def _restart_before(step: Step) -> str:
    return f"the broker restarts before it {'handles' if step.is_from_client else 'sends'} this"


KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind(LOST_BEFORE, lambda: ResetPeer("before"), _lost_before),
        Kind(LOST_AFTER, LostAfter, _lost_after),
        Kind(REDELIVERED, Redeliver, lambda step: "this is delivered, and once more, flagged as redelivered"),
        Kind(OUT_OF_ORDER, OutOfOrder, lambda step: "this comes late, behind what follows it, flagged as redelivered"),
        Kind(DUPLICATED, Duplicate, lambda step: "this is delivered, and a second copy of it, without a flag"),
        Kind(RESTART_BEFORE, Restart, _restart_before),
    )
}
# After these a connection is no more.
ENDING: Final = (LOST_BEFORE, LOST_AFTER, RESTART_BEFORE)
# A second copy without a flag is what a publisher makes that repeats itself; RabbitMQ alone never does.
DEFAULT: Final[tuple[FaultKind, ...]] = (LOST_BEFORE, LOST_AFTER, REDELIVERED, OUT_OF_ORDER, RESTART_BEFORE)


def kinds_of(faults: FaultKind | Fault | Iterable[FaultKind | Fault]) -> dict[str, Kind]:
    """The kinds of these names, and of these faults, by name; ValueError and TypeError for what cannot be placed."""
    several = (faults,) if isinstance(faults, str | Fault) else faults
    kinds = [_kind_named(fault) if isinstance(fault, str) else _kind_of(fault) for fault in several]
    if not kinds:
        raise ValueError("faults=() leaves nothing to explore")
    return {kind.name: kind for kind in kinds}


def _kind_named(name: str) -> Kind:
    if name not in KINDS:
        raise ValueError(unknown("kind of fault", name, KINDS))
    return KINDS[name]


def _kind_of(fault: object) -> Kind:
    if not isinstance(fault, Fault):
        raise TypeError(
            f"{fault!r} is neither the name of a kind nor a fault; give one, as in faults=[CloseChannel(404)]"
        )
    if isinstance(fault, Reorder):
        raise ValueError(f"{fault.name} needs several deliveries; the kind 'out of order' is placed at one")
    if not set(WATCHED) & set(fault.points):
        raise ValueError(f"{fault.name} acts on no method, answer or delivery, so it cannot be placed at one")
    # Each run gets one that has not struck yet.
    return Kind(fault.name, lambda: deepcopy(fault), lambda step: f"{fault!r} strikes here")
