"""A fault: one thing that can go wrong. What each does stands in a class of its own; when it does is its rule's.

The smallest is `Fault` itself: it strikes and nothing happens. A fault says at which points it can act, and at each it
answers whether it has taken over: then the broker does nothing more about the matter at hand. docs/writing-a-fault.md
shows how to write one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Literal

if TYPE_CHECKING:
    from leveret.core.model.node import Node
    from leveret.faults.occasion import Occasion

# Where a fault may be asked: when a client connects; before the broker handles a method; before it sends one, or a
# delivery; before it owes a publisher a confirm; after an event; and at once, when the rule is added.
Point = Literal["accept", "method", "reply", "deliver", "confirm", "event", "now"]
# What a rule without a name to wait for strikes at once.
Target = Literal["node", "connection", "channel", "consumer"]

ANYWHERE: Final[tuple[Point, ...]] = ("accept", "method", "reply", "deliver", "event", "now")


class Fault:
    """This one does nothing, wherever it strikes."""

    # As the trace and the report call it.
    name: str = "nothing"
    points: ClassVar[tuple[Point, ...]] = ANYWHERE
    target: ClassVar[Target] = "connection"
    # Whether there has to be a client whose doing it is.
    needs_connection: ClassVar[bool] = False
    # Whether it concerns a channel, so that the methods of the connection itself are beyond it.
    needs_channel: ClassVar[bool] = False
    # Whether it ends something: a rule that waits for a name strikes once then, unless it says how often.
    is_ending: ClassVar[bool] = False
    # Why it does not apply, for a rule that never fired.
    not_here: ClassVar[str] = "where it could not happen"

    def strike(self, occasion: Occasion) -> bool:
        """Go wrong; True when the broker has to do nothing more about it."""
        return False

    def applies(self, occasion: Occasion) -> bool:
        """Whether it could go wrong here at all; an occasion where it could not is no match."""
        return True

    def end(self, node: Node) -> None:
        """Undo what lasts: the rule is removed."""

    def __repr__(self) -> str:
        return self.name
