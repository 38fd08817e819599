"""How clients handled their deliveries: the errors that ended them, or that they caught and logged, and their refusals.

An error belongs to a delivery if it came after the delivery and before its end, and is the only one there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final

from leveret.story.asked import Caught, TaskDeath
from leveret.story.causes import Cause
from leveret.story.entities import ChannelLife, DeliveryLife, Fact
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
        return is_about and subject.get("name") == queue and self.is_last_act(refusal)

    def stopping(self) -> Iterator[Fact]:
        """Yield the errors in this test after which a client did nothing more."""
        for fact in self._timeline.refusals:
            if fact.place >= self._inquiry.began and fact.code != FORCED and self.is_last_act(fact):
                yield fact

    def is_last_act(self, refusal: Fact) -> bool:
        """Return whether the client of an error did nothing more."""
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
        for *others, last in self._acks.values() if _is_unknown_tag(refusal) else ():
            for one in others:
                if _is_on(refusal, one) and str(one.fact.tag) == (refusal.subject or {})["tag"]:
                    return self._inquiry.say("taken_along", one, one.settled, request=last.copy.message.number)
        return None

    @cached_property
    def _acks(self) -> dict[tuple[ChannelLife | None, object], list[DeliveryLife]]:
        """What each multiple ack has settled, the delivery that it named last, by its channel and that one's tag."""
        found: dict[tuple[ChannelLife | None, object], list[DeliveryLife]] = {}
        deliveries = (one for copy in self._timeline.copies.values() for one in copy.deliveries)
        for one in sorted(filter(_up_to_tag, deliveries), key=lambda one: one.fact.place):
            found.setdefault((one.channel, _up_to_tag(one)), []).append(one)
        return {key: together for key, together in found.items() if together[-1].fact.tag == key[1]}

    def acked_with(self, delivery: DeliveryLife) -> list[DeliveryLife]:
        """Return all that the ack of a delivery has settled, the one that it named last; nothing if that is unknown."""
        return self._acks.get((delivery.channel, _up_to_tag(delivery)), [])

    def has_acked_fewer(self, together: list[DeliveryLife]) -> bool:
        """Return whether an earlier multiple ack of the same channel settled fewer than one did: no batches."""
        alike = (one for (channel, _), one in self._acks.items() if channel is together[0].channel)
        return any(len(one) < len(together) and one[0].fact.place < together[0].fact.place for one in alike)


def _is_unknown_tag(refusal: Fact) -> bool:
    return (refusal.subject or {}).get("problem") == "unknown_tag"


def _distinct(errors: Iterable[TaskDeath | Caught]) -> list[TaskDeath | Caught]:
    """Return errors without those that were logged twice, as a client and asyncio both do."""
    return list({(one.error, one.line): one for one in errors}.values())


def _is_refused(delivery: DeliveryLife) -> bool:
    return delivery.settled is not None and delivery.settled.kind in events.REFUSING


def _up_to_tag(delivery: DeliveryLife) -> object:
    """Return the newest tag that the ack of a delivery has settled; None if it was no multiple one."""
    settled = delivery.settled
    return settled.get("up_to_tag") if settled is not None and settled.kind == events.ACKED else None


def _is_on(refusal: Fact, delivery: DeliveryLife) -> bool:
    """Return whether an error came on the channel of a delivery: a later channel may have its number."""
    channel = delivery.channel
    if channel is None or (channel.connection.number, channel.number) != (refusal.conn, refusal.chan):
        return False
    return delivery.fact.place < refusal.place and (channel.closed is None or refusal.place < channel.closed.place)
