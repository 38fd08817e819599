"""A fault: one thing that can go wrong. Its class says what happens; its rule says when.

A fault lists the points at which it can apply. Each time it applies, it returns whether it takes over from the broker.
If it does, the broker skips what it was about to do. docs/how-to/writing-a-fault.md shows how to write one.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Self

from leveret.observe.calls.calls import refuse_wrong

if TYPE_CHECKING:
    from leveret.core.model.node import Node
    from leveret.faults.occasion import Occasion, Point

# What a rule without `on=` applies to.
Target = Literal["node", "connection", "channel", "consumer"]

ANYWHERE: Final[tuple[Point, ...]] = ("accept", "method", "reply", "deliver", "event", "now")
AFTER_ACCEPT: Final = ANYWHERE[1:]
SECOND_US: Final = 1_000_000


def checked_span_us(seconds: float) -> int:
    """Return a delay in microseconds. Raises ValueError if it is not above 0."""
    __tracebackhide__ = True
    if not seconds > 0:
        raise ValueError(f"seconds={seconds!r} must be above 0")
    return round(seconds * SECOND_US)


class Fault:
    """The base class of all faults, which does nothing itself."""

    # The name in the trace and in reports.
    name: str = "nothing"
    points: ClassVar[tuple[Point, ...]] = ANYWHERE
    target: ClassVar[Target] = "connection"
    # Whether it needs a connection to apply to.
    needs_connection: ClassVar[bool] = False
    # Whether it needs a channel, so that it cannot wait for the methods of a connection.
    needs_channel: ClassVar[bool] = False
    # Whether it ends something. With `on=` and without `times=`, its rule then fires once.
    is_ending: ClassVar[bool] = False
    # Why it could not apply, for the report of a rule that never fired.
    unmet: ClassVar[str] = "where the fault cannot apply"
    # What it was made with, so that a report can print the code that makes one like it.
    made_with: tuple[tuple[object, ...], dict[str, object]] = ((), {})

    def __new__(cls, *arguments: object, **words: object) -> Self:
        """Note what the fault is made with. Raises TypeError or ValueError if one of leveret's own cannot be so."""
        __tracebackhide__ = True
        fault, made = super().__new__(cls), cls.__init__
        if isinstance(made, FunctionType) and (made.__module__ or "").startswith("leveret."):
            given = {**dict(zip(made.__code__.co_varnames[1:], arguments, strict=False)), **words}
            refuse_wrong(f"{cls.__name__}()", made.__annotations__, given)
        fault.made_with = arguments, words
        return fault

    def apply(self, occasion: Occasion) -> bool:
        """Make it go wrong. Return True to take over, so that the broker does nothing more about the occasion."""
        return False

    def can_apply(self, occasion: Occasion) -> bool:
        """Return whether the fault can apply here. An occasion where it cannot does not count as a match."""
        return occasion.connection is not None or not self.needs_connection

    def end(self, node: Node) -> None:
        """Undo lasting effects. Called when the rule is removed."""

    def __repr__(self) -> str:
        return self.name
