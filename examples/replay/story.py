"""a recording of a server's orders is replayed to a service, and to a change of it that forgets the tax"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from examples.replay import billing
from leveret import Broker
from leveret.recording.judging import Outcomes

RECORDING = Path(__file__).parent / "orders.rec"


def tell() -> None:
    """Replay the recording to both, and print what became of one order and in what the change differs."""
    before, now = outcomes_of(billing.main), outcomes_of(billing.main_without_tax)
    for line in before.of(7):
        print(f"  order 7: {line}")
    for sentence in now.differences(before):
        print(f"  the change: {sentence}")


def outcomes_of(service: Callable[[], None]) -> Outcomes:
    """Return what a service makes of the recording."""
    with Broker() as broker:
        recording = broker.replay(RECORDING)
        with broker.worker(service):
            return recording.play()
