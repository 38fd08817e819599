"""The harness of a broker: what the plugin does with one.

leveret is imported here, and only once there is a broker, so that a run without one pays nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leveret import Broker
    from leveret.engine.harness import Harness


def harness_of(broker: Broker) -> Harness:
    """Return the harness of a broker."""
    from leveret.engine.harness import Harness

    return Harness(broker)
