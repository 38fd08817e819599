"""How clients handled their deliveries: the errors that ended them, or that they caught and logged, and their refusals.

An error belongs to a delivery if it came after the delivery and before its end, and is the only one there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from leveret.story.asked import Caught, TaskDeath
from leveret.story.causes import Cause
from leveret.story.entities import DeliveryLife, Fact
from leveret.story.ways.inquiry import FORCED, Inquiry
from leveret.trace import events

# A shorter id may be in a text by chance.
_ID_MIN: Final = 8


class Handling:
    """What is known of how clients handled their deliveries."""

    def __init__(self, inquiry: Inquiry) -> None:
        self._inquiry: Final = inquiry
        self._timeline: Final = inquiry.timeline
        self.client_deaths: Final = [death for death in inquiry.asked.deaths if death.is_client]

        # The deliveries that each multiple ack has settled, once one is asked for.
        self._settled: Final[dict[object, list[DeliveryLife]]] = {}

    def error_of(self, delivery: DeliveryLife) -> dict[str, object]:
        """Return the error with which a client handled a delivery, if one is known: it died of it, or logged it."""
        known: list[TaskDeath | Caught] = [*self._inquiry.asked.caught, *self.client_deaths]
        if not known:
            return {}
        properties = [delivery.copy.message.property(name) for name in ("message_id", "correlation_id")]
        ids = [one for one in properties if isinstance(one, str) and len(one) > _ID_MIN]
        if named := [one for one in known if any(own in one.text for own in ids)]:
            return {"error": named[0].error, "line": named[0].line}
        settled = len(self._timeline.facts) if delivery.settled is None else delivery.settled.place
        begun = delivery.fact.place
        consumer = delivery.consumer
        for other in () if consumer is None else consumer.deliveries:
            if other is not delivery and other.settled is not None and other.settled.place < settled:
                # A consumer handles one after the other what it got at once.
                begun = max(begun, other.settled.place)
        near = [one for one in known if one.place is not None and begun < one.place <= settled]
        near = [one for one in near if not self._is_of_another(one.place or 0, delivery)]
        if not near and _is_refused(delivery):
            near = self._only_task()
        near = _distinct(near)
        return {"error": near[0].error, "line": near[0].line} if len(near) == 1 else {}

    def _is_of_another(self, place: int, delivery: DeliveryLife) -> bool:
        """Return whether another consumer had a message as well when an error came: the error may be of that one."""
        others = (one for copy in self._timeline.copies.values() for one in copy.deliveries)
        return any(
            one.consumer is not delivery.consumer
            and one.fact.place < place
            and (one.ended is None or place <= one.ended.place)
            for one in others
        )

    def _only_task(self) -> list[TaskDeath | Caught]:
        """Return the one task of a client that an error has ended, if one delivery alone was refused: it was that.

        asyncio reports the error of a task only once the task is collected.
        """
        deliveries = (delivery for copy in self._timeline.copies.values() for delivery in copy.deliveries)
        tasks = _distinct(death for death in self.client_deaths if death.name is None)
        return tasks if sum(map(_is_refused, deliveries)) == 1 == len(tasks) else []

    def deaths_of(self, delivery: DeliveryLife) -> Iterator[Cause]:
        """Yield what died while it was at work on a delivery."""
        # What came after a consumer had died of an earlier one stays with it too.
        together = [delivery] if delivery.channel is None else [delivery, *delivery.channel.held.values()]
        for death in self.client_deaths:
            if any(self._is_of(death, one) for one in together):
                yield self._inquiry.say(
                    "died", delivery, delivery.fact, what=death.what, error=death.error, line=death.line
                )

    def death_in(self, delivery: DeliveryLife) -> TaskDeath | None:
        """Return what died between a delivery and the moment when its client left with it; None if nothing did."""
        if delivery.ended is None or not delivery.is_left:
            return None
        begun, left = delivery.fact.place, delivery.ended.place
        places = [(one, one.place) for one in self.client_deaths if one.place is not None and begun < one.place]
        during = [one for one, place in places if place <= left]
        # The error of a thread closes the connection of a with statement before it ends the thread.
        lefts = {one.connection for copy in self._timeline.copies.values() for one in copy.deliveries if one.is_left}
        is_only = len(self.client_deaths) == len(places) == len(lefts) == 1
        return next(iter(during or [one for one, _ in places if is_only]), None)

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

    def is_refused(self, refusal: Fact, queue: str) -> bool:
        """Return whether a client was refused what it wanted of a queue, and did nothing more."""
        subject = refusal.subject or {}
        is_unread = subject.get("problem") == "no_right" and subject.get("right") == "read"
        is_about = is_unread or subject.get("kind") == "queue"
        return is_about and subject.get("name") == queue and self._is_last_act(refusal)

    def stopping(self) -> Iterator[Fact]:
        """Yield the errors in this test after which a client did nothing more."""
        for fact in self._timeline.refusals:
            if fact.place >= self._inquiry.began and fact.code != FORCED and self._is_last_act(fact):
                yield fact

    def _is_last_act(self, refusal: Fact) -> bool:
        client = self._timeline.by(refusal)
        return client is None or client.last_act is None or client.last_act.place < refusal.place

    def is_unknown_to(self, delivery: DeliveryLife) -> bool:
        """Return whether the client of a delivery got an unknown delivery tag after it: it acks what it should not."""
        connection = delivery.connection
        return connection is not None and any(
            _is_unknown_tag(fact) and fact.place > delivery.fact.place for fact in connection.refusals
        )

    def refusal(self, fact: Fact) -> Cause:
        """Return an error that a client got, as a cause."""
        names: dict[str, object] = {
            "client": fact.client or "a client",
            "code": fact.code,
            "text": fact.text.partition("\n")[0].rstrip("."),
            "line": None if fact.caller is None else fact.caller.inner,
        }
        because = self._taken_along(fact) or self._closed_before(fact)
        if because is None and _is_unknown_tag(fact):
            names["hint"] = fact.get("cause")
        return Cause("refused", names, {}, (fact,), because)

    def _closed_before(self, refusal: Fact) -> Cause | None:
        """Return that an error had closed the channel on which a client settles: it opened it again."""
        alike = (one for one in self._timeline.refusals if (one.conn, one.chan) == (refusal.conn, refusal.chan))
        before = [one for one in alike if one.place < refusal.place and not _is_unknown_tag(one)]
        return self.refusal(before[-1])._replace(kind="closed_before") if before and _is_unknown_tag(refusal) else None

    def _taken_along(self, refusal: Fact) -> Cause | None:
        """Return that the ack of another message took along the one that a client settles: it was a multiple one."""
        subject = refusal.subject or {}
        if not _is_unknown_tag(refusal):
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
        if not self._settled:
            for copy in self._timeline.copies.values():
                last = copy.deliveries[-1] if copy.deliveries else None
                if last is not None and last.settled is not None and last.settled.get("multiple"):
                    self._settled.setdefault(_method_of(last.settled), []).append(last)
        return [one for one in self._settled.get(_method_of(settled), ()) if one.copy is not delivery.copy]

    def has_settled_fewer(self, delivery: DeliveryLife) -> bool:
        """Return whether an earlier multiple ack of its channel settled fewer than that of a delivery: no batches."""
        own = 1 + len(self.settled_with(delivery))
        alike = ((len(one), one[0].settled) for one in self._settled.values() if one[0].channel is delivery.channel)
        settled = delivery.settled
        return any(count < own and one and settled and one.place < settled.place for count, one in alike)


def _is_unknown_tag(refusal: Fact) -> bool:
    return (refusal.subject or {}).get("problem") == "unknown_tag"


def _distinct(errors: Iterable[TaskDeath | Caught]) -> list[TaskDeath | Caught]:
    """Return errors without those that were logged twice, as a client and asyncio both do."""
    return list({(one.error, one.line): one for one in errors}.values())


def _is_refused(delivery: DeliveryLife) -> bool:
    return delivery.settled is not None and delivery.settled.kind in events.REFUSING


def _method_of(settled: Fact) -> object:
    """Return what all events of one multiple ack have in common."""
    return settled.at, settled.conn, settled.chan


def _channel_of(delivery: DeliveryLife) -> tuple[int, int] | None:
    channel = delivery.channel
    return None if channel is None else (channel.connection.number, channel.number)
