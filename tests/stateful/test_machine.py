"""A state machine for Hypothesis: the steps it runs, the bugs it finds, and how it reports them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pika
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule, run_state_machine_as_test

from leveret.stateful import BrokerMachine

PLAIN = settings(max_examples=30, stateful_step_count=12)
RULES = ("publish", "deliver", "ack", "requeue", "reject", "crash", "restart", "advance")
SHRUNK = settings(PLAIN, phases=(Phase.generate, Phase.shrink), print_blob=False)
# Where the failing run is not what is tested.
UNSHRUNK = settings(PLAIN, phases=(Phase.generate,), print_blob=False)


class Orders(BrokerMachine):
    """A queue of orders; a rejected order waits for ten minutes and comes back."""

    def set_up(self) -> None:
        self.broker.declare_queue(
            "later",
            arguments={"x-message-ttl": 600_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"},
        )
        letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "later"}
        self.broker.declare_queue("work", arguments=letters)

    delivers_from = "work"


TestOrdersAreNeverLost = Orders.TestCase
TestOrdersAreNeverLost.settings = PLAIN


def story(machine: type[BrokerMachine]) -> list[str]:
    """Return the steps of the shortest failing run."""
    with pytest.raises(AssertionError) as failure:
        run_state_machine_as_test(machine, settings=SHRUNK)
    lines = "\n".join(getattr(failure.value, "__notes__", [])).splitlines()
    steps = [line.partition("(")[0].removeprefix("state.") for line in lines if line.startswith("state.")]
    return [step for step in steps if step in RULES]


def test_a_handler_that_is_not_idempotent_is_found_by_a_crash_before_its_ack() -> None:
    class Shop(BrokerMachine):
        publishes_to = (("", "orders"),)
        bodies = st.integers(0, 3).map(lambda number: {"order": number})

        def set_up(self) -> None:
            self.broker.declare_queue("orders")
            self.charged: Counter[str] = Counter()

        def on_delivery(self, message: Any) -> None:
            self.charged[message.message_id] += 1

        @invariant()
        def nobody_is_charged_twice(self) -> None:
            assert all(times == 1 for times in self.charged.values())

    steps = story(Shop)

    assert steps in (["publish", "deliver", again, "deliver"] for again in ("crash", "requeue", "restart"))


def test_a_confirmed_message_that_is_nowhere_is_lost() -> None:
    class Swallowing(BrokerMachine):
        publish = crash = restart = None

        def set_up(self) -> None:
            self.broker.declare_queue("orders")
            self.broker.faults.drop(optional=True)
            self.client = pika.BlockingConnection(pika.URLParameters(self.broker.url)).channel()
            self.client.confirm_delivery()

        @rule()
        def order(self) -> None:
            self.client.basic_publish("", "orders", b"tea")

    with pytest.raises(AssertionError, match=r"'tea', .* was confirmed and is lost: the fault dropped it"):
        run_state_machine_as_test(Swallowing, settings=UNSHRUNK)


def test_clients_of_the_application_lose_their_connections_in_a_crash() -> None:
    class Connected(BrokerMachine):
        publish = deliver = ack = requeue = reject = restart = advance = None

        def set_up(self) -> None:
            self.client = pika.BlockingConnection(pika.URLParameters(self.broker.url))

        @invariant()
        def the_client_is_connected(self) -> None:
            self.client.process_data_events(0)

    with pytest.raises(pika.exceptions.ConnectionClosed):
        run_state_machine_as_test(Connected, settings=UNSHRUNK)


def test_only_the_rule_advance_moves_time() -> None:
    class Waiting(BrokerMachine):
        spans = st.just(60)
        publish = None

        def set_up(self) -> None:
            self.began_at = self.broker.clock.now

        @invariant()
        def whole_minutes_have_passed(self) -> None:
            assert (self.broker.clock.now - self.began_at) % 60 == 0

    run_state_machine_as_test(Waiting, settings=PLAIN)


def test_a_machine_with_nothing_to_publish_to_raises() -> None:
    class Nowhere(BrokerMachine):
        pass

    with pytest.raises(ValueError, match=r"Nowhere.set_up\(\) declares no queue, and publishes_to is empty"):
        run_state_machine_as_test(Nowhere, settings=UNSHRUNK)


def test_a_mistake_in_set_up_is_raised_and_leaves_no_broker() -> None:
    class Mistaken(BrokerMachine):
        def set_up(self) -> None:
            self.broker.bind_queue("nowhere", "nothing")

    with pytest.raises(Exception, match=r"nowhere|nothing"):
        run_state_machine_as_test(Mistaken, settings=UNSHRUNK)
