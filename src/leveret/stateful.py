"""A Hypothesis state machine around a broker: publish, deliver, settle, crash, restart and advance in every order.

A subclass says what there is (`set_up`) and what the application does with a delivery (`on_delivery`); rules and
invariants of its own stand beside those here. Hypothesis shrinks what fails to the shortest story. It needs hypothesis,
which nothing else of leveret imports. See docs/stateful.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from leveret.broker import Broker
from leveret.engine.broker_options import BrokerOptions
from leveret.exploration.losses import confirmed_messages, lost_messages, persistent_messages
from leveret.observe.keywords import BasicProperties
from leveret.scripted.consumer import Delivered, ScriptedConsumer

_PERSISTENT: Final = 2

# A strategy may be a class attribute: it is asked of the machine at each step.
_BODIES: Final = st.runner().flatmap(lambda machine: cast("BrokerMachine", machine).bodies)
_TARGETS: Final = st.runner().flatmap(lambda machine: st.sampled_from(cast("BrokerMachine", machine).targets()))
_SPANS: Final = st.runner().flatmap(lambda machine: cast("BrokerMachine", machine).spans)
_WHICH: Final = st.integers(min_value=0, max_value=15)


class BrokerMachine(RuleBasedStateMachine):
    """This has a fresh broker, `self.broker`, whose time stands still but for the rule `advance`.

    Its rules are `publish`, `deliver`, `ack`, `requeue`, `reject`, `crash`, `restart` and `advance`; a subclass drops
    one by setting it to None. After every step no message may be lost that was persistent, or confirmed to a client.
    """

    # Where `publish` publishes: pairs of exchange and routing key. Empty: to every queue, by the default exchange.
    publishes_to: ClassVar[Sequence[tuple[str, str]]] = ()
    # The queues `deliver` takes from. Empty: every queue.
    delivers_from: ClassVar[Sequence[str]] = ()
    # What is published: bytes and text as they are, anything else as JSON.
    bodies: ClassVar[st.SearchStrategy[object]] = st.binary(max_size=4)
    # How far `advance` goes, in seconds.
    spans: ClassVar[st.SearchStrategy[float]] = st.sampled_from((1, 60, 3600))
    # Keywords for the Broker.
    options: ClassVar[BrokerOptions] = {}

    def __init__(self) -> None:
        super().__init__()
        self.broker = Broker(**self.options).start()
        self._deliveries: list[tuple[ScriptedConsumer, Delivered]] = []
        self._published_count = 0
        try:
            self.broker.clock.hold()
            self.set_up()
        except BaseException:
            self.broker.stop()
            raise

    def set_up(self) -> None:
        """Declare what there is, and start what is to be tested. Called on each fresh broker."""

    def on_delivery(self, message: Delivered) -> None:
        """Do what the application does with a delivery; it is acknowledged by a later step, or never."""

    @property
    def held(self) -> list[Delivered]:
        """The deliveries that were not settled yet, oldest first."""
        return [message for _, message in self._deliveries]

    def targets(self) -> list[tuple[str, str]]:
        """Where `publish` may publish; ValueError when there is nowhere."""
        queues = [("", queue.name) for queue in self.broker.queues]
        if not (self.publishes_to or queues):
            raise ValueError(f"{type(self).__name__}.set_up() declares no queue, and publishes_to is empty")
        return list(self.publishes_to) or queues

    @rule(to=_TARGETS, body=_BODIES)
    def publish(self, to: tuple[str, str], body: object) -> None:
        """A persistent message is published, with a message id that no other has."""
        exchange, routing_key = to
        self._published_count += 1
        properties: BasicProperties = {"delivery_mode": _PERSISTENT, "message_id": f"m{self._published_count}"}
        if isinstance(body, (bytes, str)):
            self.broker.publish(exchange, routing_key, body, **properties)
        else:
            self.broker.publish(exchange, routing_key, json=body, **properties)

    @precondition(lambda self: self._with_ready())
    @rule(which=_WHICH)
    def deliver(self, which: int) -> None:
        """A message is delivered, and the application handles it."""
        queues = self._with_ready()
        consumer = self.broker.consume(queues[which % len(queues)], prefetch=1)
        if not consumer.messages:
            # Not this queue's turn: an exclusive or active consumer has it.
            consumer.close()
            return
        message = consumer.next(timeout=0)
        consumer.cancel()
        self._deliveries.append((consumer, message))
        self.on_delivery(message)

    @precondition(lambda self: self._deliveries)
    @rule(which=_WHICH)
    def ack(self, which: int) -> None:
        """The application acknowledges a delivery."""
        self._take(which).ack()

    @precondition(lambda self: self._deliveries)
    @rule(which=_WHICH)
    def requeue(self, which: int) -> None:
        """The application gives a delivery back."""
        self._take(which).nack(requeue=True)

    @precondition(lambda self: self._deliveries)
    @rule(which=_WHICH)
    def reject(self, which: int) -> None:
        """The application rejects a delivery for good."""
        self._take(which).reject(requeue=False)

    @rule()
    def crash(self) -> None:
        """Every client loses its connection, the application with its deliveries among them."""
        for consumer, _ in self._deliveries:
            consumer.close()
        self._deliveries.clear()
        self.broker.admin.close_all_connections("the machine crashed its clients")

    @rule()
    def restart(self) -> None:
        """The node stops and starts again."""
        self._deliveries.clear()
        self.broker.restart()

    @rule(seconds=_SPANS)
    def advance(self, seconds: float) -> None:
        """Time passes."""
        self.broker.clock.advance(seconds=seconds)

    @invariant()
    def nothing_is_lost(self) -> None:
        """Every persistent or confirmed message is in a queue, was settled, or ended by a rule of its queue."""
        raw_events = self.broker.events.raw()
        safe = persistent_messages(raw_events) | confirmed_messages(raw_events)
        with self.broker._engine.looking() as node:
            lost = lost_messages(raw_events, node, safe)
        assert not lost, "; ".join(lost)

    def teardown(self) -> None:
        """Stop the broker; what went wrong inside it is raised."""
        self.broker.stop()
        self.broker.check()

    def _with_ready(self) -> list[str]:
        wanted = self.delivers_from
        return [queue.name for queue in self.broker.queues if queue.ready and (not wanted or queue.name in wanted)]

    def _take(self, which: int) -> Delivered:
        _, message = self._deliveries.pop(which % len(self._deliveries))
        return message
