"""A Hypothesis state machine around a broker: publish, deliver, settle, crash, restart and advance in every order.

A subclass declares queues and exchanges (`set_up`) and does what the application does with a delivery (`on_delivery`).
It may add rules and invariants of its own. Hypothesis shrinks a failure to the shortest sequence of steps. Nothing else
in leveret imports hypothesis. See docs/how-to/stateful.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from leveret.broker import Broker
from leveret.engine.broker_options import BrokerOptions
from leveret.exploration.losses import confirmed_messages, lost_messages, persistent_messages
from leveret.observe.assertions.keywords import BasicProperties
from leveret.scripted.consumer import Delivered, ScriptedConsumer
from leveret.wording import texts_in

_PERSISTENT: Final = 2

# The strategy may be a class attribute, because each step reads it from the machine.
_BODIES: Final = st.runner().flatmap(lambda machine: cast("BrokerMachine", machine).bodies)
_TARGETS: Final = st.runner().flatmap(lambda machine: st.sampled_from(cast("BrokerMachine", machine).targets()))
_SPANS: Final = st.runner().flatmap(lambda machine: cast("BrokerMachine", machine).spans)
_WHICH: Final = st.integers(min_value=0, max_value=15)


class BrokerMachine(RuleBasedStateMachine):
    """A state machine with a fresh broker, `self.broker`, whose time moves only by the rule `advance`.

    Its rules are `publish`, `deliver`, `ack`, `requeue`, `reject`, `crash`, `restart` and `advance`. A subclass drops a
    rule by setting it to None. After every step, no message that was persistent, or confirmed to a client, may be lost.
    """

    # Where `publish` publishes: pairs of exchange and routing key. If empty, to every queue, by the default exchange.
    publishes_to: ClassVar[Sequence[tuple[str, str]]] = ()
    # The queues that `deliver` takes from. If empty, every queue.
    delivers_from: ClassVar[str | Sequence[str]] = ()
    # The bodies to publish: bytes and text as they are, anything else as JSON.
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
        """Declare queues and exchanges, and start what is to be tested. Called on each fresh broker."""

    def on_delivery(self, message: Delivered) -> None:
        """Do what the application does with a delivery. A later step acknowledges it, or none does."""

    @property
    def held(self) -> list[Delivered]:
        """The deliveries that are not settled yet, oldest first."""
        return [message for _, message in self._deliveries]

    def targets(self) -> list[tuple[str, str]]:
        """Return where `publish` may publish. Raises ValueError if there is no queue or exchange to publish to."""
        queues = [("", queue.name) for queue in self.broker.queues]
        if not (self.publishes_to or queues):
            raise ValueError(f"{type(self).__name__}.set_up() declares no queue, and publishes_to is empty")
        return list(self.publishes_to) or queues

    @rule(to=_TARGETS, body=_BODIES)
    def publish(self, to: tuple[str, str], body: object) -> None:
        """Publish a persistent message, with a message id that no other has."""
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
        """Deliver a message, which the application handles."""
        queues = self._with_ready()
        consumer = self.broker.consume(queues[which % len(queues)], prefetch=1)
        if not consumer.messages:
            # An exclusive or active consumer of the queue keeps this one from its deliveries.
            consumer.close()
            return
        message = consumer.next(timeout=0)
        consumer.cancel()
        self._deliveries.append((consumer, message))
        self.on_delivery(message)

    @precondition(lambda self: self._deliveries)
    @rule(which=_WHICH)
    def ack(self, which: int) -> None:
        """Acknowledge a delivery, as the application does."""
        self._take(which).ack()

    @precondition(lambda self: self._deliveries)
    @rule(which=_WHICH)
    def requeue(self, which: int) -> None:
        """Requeue a delivery, as the application does."""
        self._take(which).nack(requeue=True)

    @precondition(lambda self: self._deliveries)
    @rule(which=_WHICH)
    def reject(self, which: int) -> None:
        """Reject a delivery for good, as the application does."""
        self._take(which).reject(requeue=False)

    @rule()
    def crash(self) -> None:
        """Close every connection, including the application's with its deliveries."""
        for consumer, _ in self._deliveries:
            consumer.close()
        self._deliveries.clear()
        self.broker.admin.close_all_connections("the machine crashed its clients")

    @rule()
    def restart(self) -> None:
        """Stop the node and start it again."""
        self._deliveries.clear()
        self.broker.restart()

    @rule(seconds=_SPANS)
    def advance(self, seconds: float) -> None:
        """Move time on."""
        self.broker.clock.advance(seconds=seconds)

    @invariant()
    def nothing_is_lost(self) -> None:
        """Assert that each persistent or confirmed message is in a queue, is settled, or ended by its queue's rules."""
        raw_events = [event.raw for event in self.broker.events]
        safe = persistent_messages(raw_events) | confirmed_messages(raw_events)
        with self.broker._engine.looking() as node:
            lost = lost_messages(raw_events, node, safe)
        assert not lost, "; ".join(lost)

    def teardown(self) -> None:
        """Stop the broker, and raise what went wrong inside it."""
        self.broker.stop()
        self.broker.check()

    def _with_ready(self) -> list[str]:
        wanted = texts_in(self.delivers_from)
        return [queue.name for queue in self.broker.queues if queue.ready and (not wanted or queue.name in wanted)]

    def _take(self, which: int) -> Delivered:
        _, message = self._deliveries.pop(which % len(self._deliveries))
        return message
