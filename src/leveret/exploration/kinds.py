"""The kinds of fault that exploration places at a step, by name.

A kind knows where it can be placed and describes what it does there. A fault of your own becomes a kind by its name. If
two placements at neighbouring steps have the same effect, one of them is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import Final, Literal

from leveret.core.protocol.state import State
from leveret.errors import unknown
from leveret.exploration.faults import Killed, LostAfter, OutOfOrder
from leveret.exploration.schedule import Step
from leveret.faults import Duplicate, Fault, Occasion, Redeliver, Reorder, ResetPeer, Restart
from leveret.faults.plan import TREATED

# The names, for type checkers, in the order of `KINDS`.
FaultKind = Literal[
    "lost before",
    "lost after",
    "killed before",
    "killed after",
    "redelivered",
    "out of order",
    "duplicated",
    "restart before",
]

OUT_OF_ORDER: Final = "out of order"


@dataclass(frozen=True, slots=True)
class FaultMaker:
    """One kind of fault: how to make one, and a description of what it does at a step."""

    name: str
    new: Callable[[], Fault]
    describe: Callable[[Step], str]
    # Whether it ends the connection.
    is_ending: bool = False
    # Returns whether it can be placed in this state of the connection.
    is_possible_in: Callable[[State], bool] = lambda state: True

    def fits(self, occasion: Occasion) -> bool:
        """Return whether a fault of this kind can be placed here."""
        fault = self.new()
        if occasion.point not in fault.points or (fault.needs_channel and not occasion.channel_number):
            return False
        if not fault.can_apply(occasion):
            return False
        assert occasion.connection is not None
        return self.is_possible_in(occasion.connection.state)

    def is_redundant_at(self, step: Step, before: Step | None) -> bool:
        """Return whether a placement at `before`, the step before on the same connection, has the same effect.

        Losing the connection before a reply arrives is the same as losing it after the request was handled.
        """
        return self.name == "lost before" and not step.is_from_client and before is not None and before.is_from_client


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
        FaultMaker("lost before", lambda: ResetPeer("before"), _lost_before, is_ending=True),
        FaultMaker(
            "lost after", LostAfter, _lost_after, is_ending=True, is_possible_in=lambda state: not state.is_over
        ),
        FaultMaker(
            "killed before",
            lambda: Killed("before"),
            lambda step: f"the process of connection {step.connection} is killed before the broker handles this",
            is_ending=True,
        ),
        FaultMaker(
            "killed after",
            lambda: Killed("after"),
            lambda step: f"the process of connection {step.connection} is killed after the broker has handled this",
            is_ending=True,
        ),
        FaultMaker(
            "redelivered", Redeliver, lambda step: "this is delivered twice, the second time flagged as redelivered"
        ),
        FaultMaker(
            OUT_OF_ORDER,
            OutOfOrder,
            lambda step: "this is overtaken by what follows it and comes late, flagged as redelivered",
        ),
        FaultMaker("duplicated", Duplicate, lambda step: "this is delivered twice, the second time without a flag"),
        FaultMaker(
            "restart before",
            Restart,
            _restart_before,
            is_ending=True,
            # A restart notifies only connections that are fully open.
            is_possible_in=lambda state: state is State.OPENED,
        ),
    )
}
# Without "duplicated": RabbitMQ itself never delivers a second copy without a flag, but a publisher that retries can
# cause one.
DEFAULT: Final[tuple[FaultKind, ...]] = (
    *("lost before", "lost after", "killed before", "killed after"),
    *("redelivered", "out of order", "restart before"),
)


def kinds_of(faults: FaultKind | Fault | Iterable[FaultKind | Fault]) -> dict[str, FaultMaker]:
    """Return the kinds for these names and faults, by name. Raises ValueError or TypeError if one cannot be placed."""
    several = (faults,) if isinstance(faults, str | Fault) else faults
    kinds = [_kind_named(fault) if isinstance(fault, str) else _kind_of(fault) for fault in several]
    if not kinds:
        raise ValueError("faults=() is empty; give at least one kind of fault, or leave it out for the default")
    return {kind.name: kind for kind in kinds}


def _kind_named(name: str) -> FaultMaker:
    if name not in KINDS:
        raise ValueError(unknown("kind of fault", name, KINDS))
    return KINDS[name]


def _kind_of(fault: object) -> FaultMaker:
    if not isinstance(fault, Fault):
        raise TypeError(
            f"faults={fault!r} is neither the name of a kind nor a fault; give one, such as faults=[CloseChannel(404)]"
        )
    if isinstance(fault, Reorder):
        raise ValueError(
            f"faults={fault!r} needs several deliveries and cannot be placed at one step; use the kind 'out of order'"
        )
    if not set(TREATED) & set(fault.points):
        raise ValueError(
            f"faults={fault!r} cannot be placed at a step; give a fault that applies to methods or deliveries"
        )
    # Each run gets a copy that has not applied yet.
    return FaultMaker(fault.name, lambda: deepcopy(fault), lambda step: f"{fault!r} applies here")
