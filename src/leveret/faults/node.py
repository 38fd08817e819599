"""What goes wrong with the whole broker: it restarts, now or when something happens."""

from __future__ import annotations

from typing import ClassVar

from leveret.faults.fault import ANYWHERE, Fault, Point, Target
from leveret.faults.occasion import Occasion


class Restart(Fault):
    """The broker shuts down with RabbitMQ's text and is back at once; what is durable stays."""

    name = "restart"
    is_ending = True
    points: ClassVar[tuple[Point, ...]] = tuple(point for point in ANYWHERE if point != "accept")
    target: ClassVar[Target] = "node"

    def __init__(self, at: float | None = None) -> None:
        if at is not None and not at >= 0:
            raise ValueError(f"at={at!r} is no number of seconds from now")
        # So much later on the broker's clock; at once, when the broker has finished what it is about, without it.
        self.at = at

    def strike(self, occasion: Occasion) -> bool:
        """Restart; a method or an answer at hand is lost with it."""
        if self.at:
            occasion.later(round(self.at * 1_000_000), occasion.node.restart)
            return False
        occasion.soon(occasion.node.restart)
        if occasion.point == "deliver":
            occasion.proceed_silently()
        return True
