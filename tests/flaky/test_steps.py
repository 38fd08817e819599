"""The names of steps are the same in every run, whatever the broker generates."""

from __future__ import annotations

import pika
from pytest_leveret.flaky.steps import Naming, text_of

from leveret import Broker
from leveret.engine.harness import Harness
from leveret.faults import Occasion
from leveret.faults.plan import Treatment


def steps_with(seed: int) -> list[str]:
    """Return the steps of a client that sends itself a message through a queue that the broker names."""
    naming, steps = Naming(), list[str]()

    def note(occasion: Occasion) -> bool:
        if occasion.connection is not None:
            steps.extend(text_of(name) for name in naming.names_of(occasion))
        return False

    with Broker(seed=seed) as broker:
        Harness(broker).treat(Treatment("a test", note))
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            queue = channel.queue_declare("", exclusive=True).method.queue
            channel.basic_publish("", queue, b"x")
            channel.basic_get(queue, auto_ack=True)
    return steps


def test_a_step_about_a_queue_that_the_broker_names_has_one_name_in_every_run() -> None:
    first, second = steps_with(seed=1), steps_with(seed=2)

    assert any("publish of amq.gen-*" in step for step in first)
    assert first == second
