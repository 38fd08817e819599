"""How clients handled their deliveries: the errors that ended them, or that they caught and logged, and their refusals.

An error belongs to a delivery if it came after the delivery and before its end, and is the only one there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from leveret.story.asked import Caught, TaskDeath
from leveret.story.causes import Cause
from leveret.story.entities import DeliveryLife, Fact
from leveret.story.ways.inquiry import FORCED, Inquiry
from leveret.trace import events
from leveret.trace.caller import Caller


class Handling:
    """What is known of how clients handled their deliveries."""

    def __init__(self, inquiry: Inquiry) -> None:
        self._inquiry: Final = inquiry
        self._timeline: Final = inquiry.timeline
        self.client_deaths: Final = [death for death in inquiry.asked.deaths if death.is_client]

    def error_of(self, delivery: DeliveryLife) -> dict[str, object]:
        """Return the error with which a client handled a delivery, if one is known: it died of it, or logged it."""
        known: list[TaskDeath | Caught] = [*self._inquiry.asked.caught, *self.client_deaths]
        if not known:
            return {}
        settled = len(self._timeline.facts) if delivery.settled is None else delivery.settled.place
        begun = delivery.fact.place
        consumer = delivery.consumer
        for other in () if consumer is None else consumer.deliveries:
            if other is not delivery and other.settled is not None and other.settled.place < settled:
                # A consumer handles one after the other what it got at once.
                begun = max(begun, other.settled.place)
        near = [one for one in known if one.place is not None and begun < one.place <= settled]
        if not near and _is_refused(delivery):
            near = self._only_task()
        return {"error": near[0].error, "line": near[0].line} if len(near) == 1 else {}

    def _only_task(self) -> list[TaskDeath | Caught]:
        """Return the one task of a client that an error has ended, if one delivery alone was refused: it was that.

        asyncio reports the error of a task only once the task is collected.
        """
        deliveries = (delivery for copy in self._timeline.copies.values() for delivery in copy.deliveries)
        tasks: list[TaskDeath | Caught] = [death for death in self.client_deaths if death.name is None]
        return tasks if sum(map(_is_refused, deliveries)) == 1 == len(tasks) else []

    def deaths_of(self, delivery: DeliveryLife) -> Iterator[Cause]:
        """Yield what died while it was at work on a delivery."""
        for death in self.client_deaths:
            if self._is_of(death, delivery):
                yield self._inquiry.say(
                    "died", delivery, delivery.fact, what=death.what, error=death.error, line=death.line
                )

    def _is_of(self, death: TaskDeath, delivery: DeliveryLife) -> bool:
        """Return whether what died was at work on a delivery: it is of that client, and died in that time."""
        if death.place is not None and death.place <= delivery.fact.place:
            return False
        holders = {
            self._inquiry.name(connection)
            for connection in self._timeline.connections.values()
            if any(channel.held for channel in connection.channels.values())
        }
        return death.name in (self._inquiry.name(delivery.connection), None) or (
            death.name not in holders and len(holders) == 1
        )

    def refusals_after(self, delivery: DeliveryLife) -> Iterator[Cause]:
        """Yield the errors that the connection of a delivery got after it."""
        connection = delivery.connection
        for fact in () if connection is None else connection.refusals:
            if fact.place > delivery.fact.place and fact.code != FORCED:
                yield self.refusal(fact)

    def is_unknown_to(self, delivery: DeliveryLife) -> bool:
        """Return whether the client of a delivery got an unknown delivery tag after it: it acks what it should not."""
        connection = delivery.connection
        return connection is not None and any(
            (fact.subject or {}).get("problem") == "unknown_tag" and fact.place > delivery.fact.place
            for fact in connection.refusals
        )

    def refusal(self, fact: Fact) -> Cause:
        """Return an error that a client got, as a cause."""
        caller = Caller.read(fact.get("caller"))
        names: dict[str, object] = {
            "client": fact.client or "a client",
            "code": fact.code,
            "text": fact.text.partition("\n")[0].rstrip("."),
            "line": None if caller is None else caller.inner,
        }
        return Cause("refused", names, {}, (fact,), self._taken_along(fact))

    def _taken_along(self, refusal: Fact) -> Cause | None:
        """Return that the ack of another message took along the one that a client settles: it was a multiple one."""
        subject = refusal.subject or {}
        if subject.get("problem") != "unknown_tag":
            return None
        for copy in self._timeline.copies.values():
            for delivery in copy.deliveries:
                if _channel_of(delivery) == (refusal.conn, refusal.chan) and str(delivery.fact.tag) == subject["tag"]:
                    others = self.settled_with(delivery)
                    if others:
                        number = others[-1].copy.message.number
                        return self._inquiry.say("taken_along", delivery, delivery.settled, request=number)
        return None

    def settled_with(self, delivery: DeliveryLife) -> list[DeliveryLife]:
        """Return the other deliveries that the same method has settled: it was a multiple one."""
        settled = delivery.settled
        if settled is None or not settled.get("multiple"):
            return []
        return [
            one.deliveries[-1]
            for one in self._timeline.copies.values()
            if one is not delivery.copy
            and one.deliveries
            and (last := one.deliveries[-1].settled) is not None
            and (last.raw[1], last.conn, last.chan) == (settled.raw[1], settled.conn, settled.chan)
            and last.get("multiple")
        ]


def _is_refused(delivery: DeliveryLife) -> bool:
    return delivery.settled is not None and delivery.settled.kind in events.REFUSING


def _channel_of(delivery: DeliveryLife) -> tuple[int, int] | None:
    channel = delivery.channel
    return None if channel is None else (channel.connection.number, channel.number)
