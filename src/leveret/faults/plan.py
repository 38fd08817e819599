"""The fault plan, `broker.faults`: the rules of a broker and how often each has fired.

The plan sets only the hooks of the core (`hooks.Faults`) that its rules need, and clears a hook when the last of these
rules is spent. A broker without faults therefore calls no hook. Chance comes from seeded dice and delays are timers of
the node, so the same seed and the same bytes give the same faults.

At a hook, the plan describes the moment as an `Occasion`, and `Rule.fires` decides. `apply` taps the event and calls
`Fault.apply`; if that returns True, the core does nothing more about the matter. On an event, a fault applies a moment
later, from `Runtime.work`. When the block of a rule or the test ends, the judge reports a rule that never fired.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Unpack, cast

from leveret.core.model.message import Message, QueueEntry
from leveret.core.model.node import Node
from leveret.core.model.queues.consumer import Consumer
from leveret.core.protocol.channel import Channel
from leveret.core.protocol.connection import Connection
from leveret.core.protocol.receiving.assembler import Content
from leveret.core.wire.methods import Method
from leveret.errors import BrokerError
from leveret.faults.fault import Fault
from leveret.faults.named import NamedFaults
from leveret.faults.occasion import Occasion, Point
from leveret.faults.rule import ACCEPT, OPTIONS, PLACES, Rule
from leveret.observe.assertions.keywords import FaultOptions
from leveret.observe.calls.hinting import Hinting, checks_calls
from leveret.observe.texts.state import connections
from leveret.trace import events
from leveret.trace.events import Event, RawEvent, Tap
from leveret.wording import span_text

if TYPE_CHECKING:
    from random import Random

Acting = Callable[[], AbstractContextManager["Node"]]
# The points a treatment sees: each method, reply and delivery is one occasion.
TREATED: Final[tuple[Point, ...]] = ("method", "reply", "deliver")


class Treatment(NamedTuple):
    """What is done to a broker in a trial. It sees each occasion before the rules do, and survives a reset."""

    # How a refusal calls it.
    name: str
    # Called under the broker's lock. If it returns True, it takes over from the rules and the broker.
    takes: Callable[[Occasion], bool]
    # What it keeps back from the broker and has to let go at each barrier.
    catch_up: Callable[[], None] | None = None


@checks_calls
class FaultPlan(NamedFaults, Hinting):
    """The rules of one broker. They are offered each occasion in the order in which they were added."""

    _called = "broker.faults"

    def __init__(
        self,
        acting: Acting,
        new_dice: Callable[[], Random],
        *,
        ending: Acting | None = None,
        test: Callable[[], str | None] = lambda: None,
        on_unused: Callable[[Rule], None] | None = None,
    ) -> None:
        """`acting` waits for the barrier and holds the broker's lock while rules change.

        `ending` does the same to remove rules, if that is allowed for longer. `test` returns the test that runs.
        `on_unused` takes each rule that has never fired when its `with` block ends.
        """
        self._acting: Final = acting
        self._ending: Final = ending or acting
        self._new_dice: Final = new_dice
        self._test: Final = test
        self._on_unused: Final = on_unused
        self._treatment: Treatment | None = None
        # Set by `attach`.
        self._node: Node
        self._dice: Random
        self._rules: list[Rule]
        # The tap that every event still goes to while this plan has rules for events.
        self._tap: Tap | None
        # What faults hold back: by which fault, and until when.
        self._held: dict[Occasion, tuple[str, int]]
        # The point that the next occasion passes without any rule, because a fault lets the broker proceed.
        self._passing: Point | None

    def add(self, *, on: str | None = None, do: Fault, **options: Unpack[FaultOptions]) -> Rule:
        """Apply a fault on a method or an event, and return the rule.

        `on` is the name that RabbitMQ gives a method or the trace gives an event, or "accept". Without it, the fault
        applies at once. `after` occasions pass first. `probability` is the chance of each occasion after that, by the
        broker's seed. `times` is how often the fault applies; None means every time. Without `times`, a fault
        that ends something applies once if it has `on`, and every other fault every time. If both sides send a method,
        `on` means the client's, unless `sent_by="broker"`. The other keywords select occasions by `vhost`, `client`
        (its name), `connection` (its number), `channel`, `queue`, `consumer`, and by the message, as in every
        assertion. A rule that fires less often fails the test, unless `optional`. Raises ValueError or TypeError if the
        rule is invalid.
        """
        words: dict[str, Any] = {"times": _times(on, do), **options}
        places = {name: words.pop(name) for name in PLACES if name in words}
        settings = {name: words.pop(name) for name in OPTIONS if name in words}
        rule = Rule(on=on, do=do, **settings, places=places, matcher=words, test=self._test())
        with self._acting() as node:
            rule.on_remove, rule.on_unused = self._remove, self._on_unused
            self._rules.append(rule)
            self._arm()
            if rule.point == "now":
                self._fire_now(rule, node)
        return rule

    @property
    def rules(self) -> list[Rule]:
        """All rules that were added, including spent ones."""
        return list(self._rules)

    def _remove(self, rule: Rule) -> None:
        with self._ending() as node:
            if not rule.is_removed:
                rule.is_removed = True
                self._arm()
                if rule in self._rules:
                    rule.fault.end(node)

    def _arm(self) -> None:
        """Set the hooks that a rule or the treatment needs, and clear all others."""
        faults, hooks = self._node.hooks.faults, self._node.hooks
        points: list[Point] = [rule.point for rule in self._rules if not rule.is_spent]
        if self._treatment is not None:
            points += TREATED
        faults.accept = self._on_accept if "accept" in points else None
        # For publishes outside confirm mode, which never reach the point "confirm"; see `_note_unconfirmed`.
        faults.method = self._on_method if "method" in points or "confirm" in points else None
        faults.reply = self._on_reply if "reply" in points else None
        faults.deliver = self._on_deliver if "deliver" in points else None
        faults.confirm = self._on_confirm if "confirm" in points else None
        hooks.tap = self._on_event if "event" in points else self._tap
        faults.is_armed = any(point != "now" for point in points)

    def _offer(self, occasion: Occasion) -> bool:
        """Offer an occasion to the treatment, then to each matching rule, until one takes over."""
        if self._passing == occasion.point:
            self._passing = None
            return False
        if self._treatment is not None and occasion.point in TREATED:
            act = occasion.proceed
            occasion.proceed = partial(self._go_on, occasion, act)
            if self._treatment.takes(occasion):
                return True
            occasion.proceed = act
        return self._offer_to_rules(occasion)

    def _go_on(self, occasion: Occasion, act: Callable[[], None]) -> None:
        """Offer to the rules what the treatment has kept until now, and let the broker proceed if none takes over."""
        occasion.proceed = act
        if occasion.is_gone or not self._offer_to_rules(occasion):
            act()

    def _offer_to_rules(self, occasion: Occasion) -> bool:
        channel = occasion.channel
        last_tag = None if channel is None else channel.last_tag
        is_taken = any(
            self._fire(rule, occasion) for rule in self._candidates(occasion) if rule.fires(occasion, self._dice)
        )
        is_unsent = channel is not None and channel.last_tag == last_tag and occasion not in self._held
        if is_taken and is_unsent and occasion.point == "deliver":
            # The fault leaves it at that, so the delivery is lost on its way: the consumer holds it.
            occasion.proceed_silently()
            occasion.is_lost = True
        return is_taken

    def _candidates(self, occasion: Occasion) -> list[Rule]:
        return [rule for rule in self._rules if rule.point == occasion.point and rule.on == occasion.on]

    def _fire(self, rule: Rule, occasion: Occasion) -> bool:
        if rule.is_spent:
            self._arm()
        return apply(self, rule.fault, occasion)

    def _fire_later(self, rule: Rule, occasion: Occasion) -> None:
        if not rule.is_removed:
            self._fire(rule, occasion)

    def _pass(self, point: Point, act: Callable[[], object]) -> None:
        """Have the broker do what the rules were already offered, without offering it again."""
        self._passing = point
        try:
            act()
        finally:
            # Without any rule left at this point, its hook is gone and has not cleared this.
            self._passing = None

    def _on_accept(self, connection: Connection) -> bool:
        return self._offer(self._occasion(ACCEPT, "accept", connection, None))

    def _on_method(
        self,
        connection: Connection,
        channel_number: int,
        method: Method,
        content: Content | None,
        act: Callable[[], None],
    ) -> bool:
        occasion = self._occasion(method.NAME, "method", connection, channel_number)
        occasion.method, occasion.content = method, content
        occasion.proceed = partial(self._pass, "method", act)
        if content is not None and self._passing is None:
            self._note_unconfirmed(occasion)
        return self._offer(occasion)

    def _note_unconfirmed(self, occasion: Occasion) -> None:
        """Note in the rules that wait for confirms why this publish will not be confirmed."""
        waiting = [rule for rule in self._rules if rule.point == "confirm" and not rule.is_spent]
        if not waiting or occasion.channel is None:
            return
        refusal = occasion.refusal
        for rule in waiting:
            if refusal is not None:
                rule.misses.note("refused", refusal)
            elif occasion.channel.confirms is None:
                rule.misses.note(rule.fault.unmet)

    def _on_reply(
        self, connection: Connection, channel_number: int, method: Method, octets: bytes, message: Message | None
    ) -> bool:
        occasion = self._occasion(method.NAME, "reply", connection, channel_number)
        occasion.method, occasion.octets, occasion.source = method, octets, message
        occasion.proceed = partial(connection.send, octets)
        return self._offer(occasion)

    def _on_deliver(self, channel: Channel, consumer: Consumer, entry: QueueEntry) -> bool:
        occasion = self._occasion_of_consumer("basic.deliver", "deliver", channel, consumer)
        occasion.entry, occasion.source, occasion.is_redelivered = entry, entry.message, entry.redelivered
        occasion.proceed = partial(self._deliver, occasion, channel, consumer, entry)
        return self._offer(occasion)

    def _deliver(self, occasion: Occasion, channel: Channel, consumer: Consumer, entry: QueueEntry) -> None:
        """Send a delivery, now or late.

        If its consumer has gone meanwhile, the message returns to its queue, unless the queue has taken it back.
        """
        if occasion.is_lost:
            raise BrokerError(
                "proceed() comes too late: a delivery is lost once apply() returns True; "
                "to send it later, hold it with occasion.hold_for(name, microseconds, occasion.proceed)"
            )
        if not consumer.no_ack and consumer.queue.has_taken_back(entry, consumer):
            return
        if not occasion.is_gone and channel.consumers.get(consumer.tag) is consumer:
            self._pass("deliver", partial(channel.deliver, consumer, entry))
        elif not consumer.no_ack:
            consumer.queue.requeue([(entry, consumer)], "channel_closed", is_failure=True)

    def _on_confirm(self, channel: Channel, message: Message, sequence: int, is_taken: bool) -> bool:
        occasion = self._occasion("basic.publish", "confirm", channel.connection, channel.number)
        occasion.source, occasion.sequence, occasion.is_taken = message, sequence, is_taken
        return self._offer(occasion)

    def _on_event(self, raw: RawEvent) -> None:
        """Pass an event on. Faults apply once the broker has finished its current step."""
        if self._tap is not None:
            self._tap(raw)
        for rule in [rule for rule in self._rules if rule.point == "event" and rule.on == raw[0]]:
            occasion = self._occasion_of(Event(raw))
            if rule.fires(occasion, self._dice):
                occasion.call_soon(partial(self._fire_later, rule, occasion))

    def _occasion_of(self, event: Event) -> Occasion:
        connection = cast("Connection | None", self._node.connections.get(cast("int", event.get("conn"))))
        occasion = self._occasion(event.kind, "event", connection, cast("int | None", event.get("chan")))
        occasion.source = cast("Message | None", event.get("message"))
        occasion.is_redelivered = bool(event.get("redelivered"))
        occasion.queue_name = cast("str | None", event.get("queue"))
        occasion.vhost_name = cast("str | None", event.get("vhost"))
        occasion.consumer_tag = cast("str | None", event.get("consumer"))
        return occasion

    def _occasion(self, on: str, point: Point, connection: Connection | None, channel_number: int | None) -> Occasion:
        return Occasion(on, point, self._node, self._dice, connection, channel_number, held=self._held)

    def _fire_now(self, rule: Rule, node: Node) -> None:
        for occasion in list(self._present(rule, node)):
            if rule.fires(occasion, self._dice):
                self._fire(rule, occasion)

    def _present(self, rule: Rule, node: Node) -> list[Occasion]:
        """Return what a rule without `on=` can apply to: the node, or every object of the kind its fault targets."""
        if rule.fault.target == "node":
            return [self._occasion("now", "now", None, None)]
        if rule.fault.target == "connection":
            return [self._occasion("now", "now", client, None) for client in connections(node)]
        channels = [channel for client in connections(node) for channel in client.channels.values()]
        if rule.fault.target == "channel":
            return [self._occasion("now", "now", channel.connection, channel.number) for channel in channels]
        consumers = [(channel, consumer) for channel in channels for consumer in channel.consumers.values()]
        return [self._occasion_of_consumer("now", "now", *each) for each in consumers]

    def _occasion_of_consumer(self, on: str, point: Point, channel: Channel, consumer: Consumer) -> Occasion:
        occasion = self._occasion(on, point, channel.connection, channel.number)
        occasion.subscription, occasion.consumer_tag, occasion.queue_name = consumer, consumer.tag, consumer.queue.name
        return occasion


def attach(plan: FaultPlan, node: Node) -> None:
    """Let the plan serve a new node, without rules and with new dice."""
    plan._node, plan._dice = node, plan._new_dice()
    plan._rules, plan._held, plan._passing = [], {}, None
    plan._tap = node.hooks.tap
    if plan._treatment is not None:
        plan._arm()


def treat(plan: FaultPlan, treatment: Treatment | None) -> None:
    """Let a treatment begin, or end it with None. Call this under the broker's lock.

    Raises BrokerError if the broker has another one.
    """
    if treatment is not None and plan._treatment is not None:
        raise BrokerError(
            f"{treatment.name} cannot treat this broker, because {plan._treatment.name} does; run one after the other"
        )
    plan._treatment = treatment
    plan._arm()


def apply(plan: FaultPlan, fault: Fault, occasion: Occasion) -> bool:
    """Apply a fault to an occasion and record that in the trace. Return True if the fault takes over."""
    if plan._tap is not None:
        connection = occasion.connection
        vhost = None if connection is None else connection.vhost.name
        where = (vhost, None if connection is None else connection.number, occasion.channel_number or None)
        plan._tap((events.FAULT, plan._node.now, *where, occasion.on, fault.name))
    return fault.apply(occasion)


def kept_back(plan: FaultPlan) -> list[str]:
    """Return a line for each fault that holds something back from a connected client or from a queue."""
    groups: dict[tuple[str, str | None, str], list[int]] = {}
    for occasion, (fault_name, until) in plan._held.items():
        if occasion.entry is not None:
            groups.setdefault((fault_name, occasion.queue, "delivery"), []).append(until)
        elif not occasion.is_gone:
            groups.setdefault((fault_name, None, occasion.on), []).append(until)
    now = plan._node.now
    return [_held_text(*group, count=len(untils), left_us=max(untils) - now) for group, untils in groups.items()]


def report(plan: FaultPlan) -> str:
    """Return a title and a line for each rule with how often it fired; an empty text without rules."""
    lines = [
        f"\n  {f'{rule!r} {_fired(rule.fired)}' if rule.fired else rule.complaint()}{_added_by(rule, plan._test())}"
        for rule in plan._rules
        if rule.concerns(plan._test())
    ]
    lines += [f"\n  {text}" for text in kept_back(plan)]
    return "\nfaults:" + "".join(lines) if lines else ""


def _added_by(rule: Rule, test: str | None) -> str:
    return "" if rule.test in (None, test) else f", added in {rule.test}"


def _fired(count: int) -> str:
    return "fired once" if count == 1 else f"fired {count} times"


def _times(on: str | None, fault: object) -> int | None:
    """Return how often a fault applies at most if `times` is left out."""
    return 1 if on is not None and isinstance(fault, Fault) and fault.is_ending else None


def _held_text(fault_name: str, queue: str | None, what: str, *, count: int, left_us: int) -> str:
    things = (
        f"{count} {what}" if queue is None else f"{count} {'delivery' if count == 1 else 'deliveries'} from {queue}"
    )
    return f"{things} held back by the fault {fault_name} for {span_text(left_us)} more of the broker's time"
