"""Naps: a client waits with a message in its hands, and the broker's clock says for how long.

A worker such as Celery's fetches a message that is due later, and counts the time itself. If it asks the broker's clock
for a nap instead, `advance` and `autojump` stop at the end of the nap and wait until the message is settled. During the
nap the message does not keep the broker from being idle.
"""

from __future__ import annotations

from collections.abc import Callable

from leveret.core.model.timers import Timer
from leveret.core.protocol.delivery import Delivery
from leveret.engine.engine import Engine
from leveret.observe.texts.state import all_holdings


def nap(engine: Engine, port: int, channel: int, tag: int, until: float, wake: Callable[[], None]) -> Timer:
    """Call `wake` on the loop's thread at `until`, in seconds since the epoch. `wake` must return at once.

    The delivery is that with this tag, on this channel of the client whose socket has this port.
    """
    # None if the broker has taken the delivery back meanwhile.
    delivery: Delivery | None = None

    def set_alarm() -> Timer:
        nonlocal delivery
        for it in all_holdings(engine.node):
            if (it.connection.peer[1], it.channel.number, it.delivery.tag) == (port, channel, tag):
                delivery = it.delivery
                delivery.is_postponed = True
        return engine.node.timers.add(round(until * 1_000_000), ring)

    def ring() -> None:
        if delivery is not None:
            delivery.is_postponed = False
        engine.wake_count += 1
        wake()

    return engine.ask(set_alarm)
