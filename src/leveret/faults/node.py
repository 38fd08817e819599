"""The fault that affects the whole broker: a restart, at once or on an occasion."""

from __future__ import annotations

from typing import ClassVar

from leveret.faults.fault import ANYWHERE, Fault, Point, Target
from leveret.faults.occasion import Occasion


class Restart(Fault):
    """A restart: the broker shuts down with RabbitMQ's text and is back at once. What is durable stays."""

    name = "restart"
    is_ending = True
    points: ClassVar[tuple[Point, ...]] = tuple(point for point in ANYWHERE if point != "accept")
    target: ClassVar[Target] = "node"

    def __init__(self, at: float | None = None) -> None:
        __tracebackhide__ = True
        if at is not None and not at >= 0:
            raise ValueError(f"at={at!r} must be a number of seconds from now, 0 or more")
        # Seconds of the broker's clock to wait; without it, the broker restarts after its current step.
        self.at = at

    def apply(self, occasion: Occasion) -> bool:
        """Restart. The method or the reply of this occasion is lost."""
        if self.at:
            occasion.call_later(round(self.at * 1_000_000), occasion.node.restart)
            return False
        occasion.call_soon(occasion.node.restart)
        if occasion.point == "deliver":
            occasion.proceed_silently()
        return True
