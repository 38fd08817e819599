"""Turn what a server sent during one step into lines that can be compared (see ``exclusions``).

One ``Reader`` belongs to one server and one run. It knows which queue each consumer reads and which publishes are
unconfirmed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from tests.semantics.client import Event

from .side import Place, Side

ENDINGS = ("connection.close", "closed", "reset")
# Replies that the channel sends before a queue can act on the method.
_FIRST = ("basic.consume-ok", "tx.commit-ok", "basic.recover-ok", "basic.qos-ok")

# Lines by place ("1.2" is channel 2 of connection 1), and "queues".
Answer = dict[str, list[str]]


class Reader:
    """The messages of one server, step by step."""

    def __init__(self, side: Side) -> None:
        self._side = side
        # By place and consumer tag: the queue, by the name that the program uses.
        self.queues: dict[tuple[Place, str], str] = {}
        self.types: dict[str, str] = {}
        self._events: dict[Place, list[Event]] = {}
        self._published: dict[Place, int] = {}
        self._unconfirmed: dict[Place, set[int]] = {}
        # Of the unconfirmed, those that arrived together with others and reach no queue.
        self._lost: dict[Place, set[int]] = {}
        # Transactional channels, and whether their transaction holds a publish.
        self._transactions: dict[Place, bool] = {}

    def begin(self) -> None:
        """Start a new step."""
        self._events = {}

    def note_publish(self, place: Place, *, is_lost: bool = False) -> None:
        """Count a publish on this channel, if the channel confirms or is transactional."""
        if place in self._transactions:
            self._transactions[place] = True
        if place in self._published:
            self._published[place] += 1
            self._unconfirmed[place].add(self._published[place])
            if is_lost:
                self._lost.setdefault(place, set()).add(self._published[place])

    def forget(self, place: Place) -> None:
        """Drop what is known of a closed channel."""
        for known in (self._published, self._unconfirmed, self._lost, self._transactions):
            known.pop(place, None)

    def read(self) -> None:
        """Read what the server has sent."""
        for place, event in self._side.collect():
            self._events.setdefault(place, []).append(event)
            if event.name == "confirm.select-ok" and place not in self._published:
                self._published[place], self._unconfirmed[place] = 0, set()
            if event.name == "tx.select-ok":
                self._transactions.setdefault(place, False)

    def deliveries(self, place: Place) -> dict[str, list[int]]:
        """Return the delivery tags of this step, by queue."""
        found: dict[str, list[int]] = {}
        for event in self._events.get(place, ()):
            if event.name == "basic.deliver":
                found.setdefault(self._queue(place, event), []).append(_number(event))
        return found

    def events(self) -> Iterable[tuple[Place, Event]]:
        """Return everything that arrived in this step."""
        return [(place, event) for place, events in self._events.items() for event in events]

    def event_counts(self) -> dict[Place, int]:
        """Return the number of events in this step, by place; confirms are left out, because they may be grouped."""
        counts = {
            place: sum(event.name not in ("basic.ack", "basic.nack") for event in events)
            for place, events in self._events.items()
        }
        return {place: count for place, count in counts.items() if count}

    def count_of(self, queue: str, count: str) -> str:
        """Return a queue's count in the form to compare; a stream's message count lags behind, so it becomes "any"."""
        return count.replace(count.split(" ready")[0], "any", 1) if self.types.get(queue) == "stream" else count

    def answer(self) -> Answer:
        """Return what arrived in this step, as lines."""
        lines = {place: self._lines(place, events) for place, events in sorted(self._events.items())}
        return {f"{place[0]}.{place[1]}": found for place, found in lines.items() if found}

    def _lines(self, place: Place, events: list[Event]) -> list[str]:
        confirms = [event for event in events if event.name in ("basic.ack", "basic.nack")]
        deliveries = [event for event in events if event.name == "basic.deliver"]
        others = [event for event in events if event not in confirms and event.name != "basic.deliver"]
        lines = [self._clean(self._without_lag(event).line()) for event in others]
        lines += self._delivered(place, deliveries)
        lines += self._delivered_too_early(place, events)
        # Queues confirm to a channel that may have refused a later publish by then.
        if confirms and not any(event.name == "channel.close" for event in events):
            lines.append(self._confirmed(place, confirms))
        return lines + self._order_of_lost(place, events)

    def _delivered_too_early(self, place: Place, events: list[Event]) -> list[str]:
        """Return a line if a delivery came before a reply that the channel sends first."""
        if not events or events[0].name != "basic.deliver":
            return []
        first = next((event.name for event in events if event.name in _FIRST), None)
        if first is None or (first == "tx.commit-ok" and self._transactions.get(place)):
            return []
        return [f"(delivered before {first.removeprefix('basic.')})"]

    def _order_of_lost(self, place: Place, events: list[Event]) -> list[str]:
        """Return the order of returns and of the confirms of publishes that reach no queue: the channel sends both."""
        lost, order = set(self._lost.get(place, ())), []
        for event in events:
            if event.name == "basic.return":
                order.append(f"return {event.body.decode()}")
            elif event.name == "basic.ack":
                hit = {number for number in lost if _settles(event, number)}
                order += [f"ack {number}" for number in sorted(hit)]
                lost -= hit
            elif event.name == "channel.close":
                order.append("channel.close")
        return [f"in this order: {', '.join(order)}"] if self._lost.get(place) else []

    def _without_lag(self, event: Event) -> Event:
        if event.name != "queue.declare-ok":
            return event
        name = event.fields["queue"]
        assert isinstance(name, bytes)
        if self.types.get(name.decode("utf-8", "replace")) != "stream":
            return event
        return dataclasses.replace(event, fields={**event.fields, "message_count": "any"})

    def _delivered(self, place: Place, deliveries: list[Event]) -> list[str]:
        by_queue: dict[str, list[Event]] = {}
        for event in deliveries:
            by_queue.setdefault(self._queue(place, event), []).append(event)
        if len(by_queue) < 2:
            return [self._clean(event.line()) for event in deliveries]
        lines = [
            self._clean(event.line().replace(f"delivery_tag={event['delivery_tag']} ", ""))
            for queue in sorted(by_queue)
            for event in by_queue[queue]
        ]
        return [*lines, f"tags {sorted(map(_number, deliveries))}"]

    def _queue(self, place: Place, event: Event) -> str:
        tag = event.fields["consumer_tag"]
        assert isinstance(tag, bytes)
        label = self._side.label(tag)
        queue = self.queues.get((place, label), label)
        # These queues deliver to each consumer in an order of its own.
        return f"{queue} {label}" if self.types.get(queue) in ("quorum", "stream") else queue

    def _confirmed(self, place: Place, confirms: list[Event]) -> str:
        settled: dict[str, list[int]] = {"basic.ack": [], "basic.nack": []}
        unconfirmed = set(self._unconfirmed.get(place, ()))
        for event in confirms:
            tag = _number(event)
            hit = {number for number in unconfirmed if _settles(event, number)}
            settled[event.name] += sorted(hit) or [-tag]
            unconfirmed -= hit
        return f"acked {sorted(settled['basic.ack'])} nacked {sorted(settled['basic.nack'])}"

    def end(self) -> None:
        """End the step: remove the publishes that it confirmed."""
        for place, events in self._events.items():
            for event in events:
                if event.name in ("basic.ack", "basic.nack") and place in self._unconfirmed:
                    for waiting in (self._unconfirmed[place], self._lost.get(place, set())):
                        waiting -= {number for number in waiting if _settles(event, number)}
                if event.name in ("tx.commit-ok", "tx.rollback-ok"):
                    self._transactions[place] = False
                if event.name == "channel.close":
                    self.forget(place)

    def _clean(self, line: str) -> str:
        return self._side.names.clean(line)


def _settles(event: Event, number: int) -> bool:
    """Return whether this confirm covers that publish."""
    return number == _number(event) or bool(event["multiple"] and number < _number(event))


def _number(event: Event) -> int:
    return int(str(event["delivery_tag"]))


__all__ = ["Answer", "Reader"]
