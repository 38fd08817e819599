"""The treatment of a broker: there is one at a time, and it sees what passes before the rules do."""

from __future__ import annotations

import pika
import pytest

from leveret import Broker, BrokerError
from leveret.engine.harness import Harness
from leveret.faults import Occasion
from leveret.faults.plan import Treatment


def test_a_second_treatment_of_a_broker_is_refused_by_name(leveret: Broker) -> None:
    harness = Harness(leveret)
    harness.treat(Treatment("exploration", lambda occasion: False))

    with pytest.raises(BrokerError, match=r"leveret needs cannot treat this broker, because exploration does"):
        harness.treat(Treatment("leveret needs", lambda occasion: False))

    harness.end_treatment()
    harness.treat(Treatment("leveret needs", lambda occasion: False))


def test_a_treatment_goes_on_after_a_reset_until_it_ends(leveret: Broker) -> None:
    seen: list[str] = []

    def take(occasion: Occasion) -> bool:
        seen.append(occasion.on)
        return False

    Harness(leveret).treat(Treatment("exploration", take))
    leveret.reset()
    with pika.BlockingConnection(pika.URLParameters(leveret.url)):
        count = len(seen)
        Harness(leveret).end_treatment()

    assert count > 0
    assert len(seen) == count
