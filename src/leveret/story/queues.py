"""The queues of a story: what each was declared with, and how many messages and consumers it had at any moment."""

from __future__ import annotations

from typing import Any, Final, cast

from leveret.story.facts import HAS_ACKS, Fact
from leveret.trace import events
from leveret.trace.events import as_python

# From a kind of event to the changes of ready and unacked messages.
_CHANGES: Final[dict[str, tuple[int, int]]] = {
    **dict.fromkeys(events.ARRIVALS, (1, 0)),
    **dict.fromkeys(events.DELIVERIES, (-1, 1)),
    **dict.fromkeys(events.REQUEUES, (1, -1)),
}
_TYPE: Final = "x-queue-type"


class QueueLife:
    """What one queue was declared with, and what it held."""

    def __init__(self, vhost: str, name: str) -> None:
        self.vhost = vhost
        self.name = name
        self.type: str | None = None
        self.durable: bool | None = None
        self.arguments: dict[str, Any] = {}
        self.policy: str | None = None
        self.policy_keys: dict[str, Any] = {}
        self.is_deleted = False
        # Who deleted it, when by the broker's clock, and how that came.
        self.deleted_by: str | None = None
        self.deleted_at: int | None = None
        self.deleted_how: str | None = None
        self.was_consumed = False
        self.ready = 0
        self.unacked = 0
        self.consumers: dict[tuple[object, object, object], None] = {}
        self.series: list[list[int | None]] = []
        # How much the counts must be raised: messages and consumers from before the first event.
        self.raise_by = (0, 0, 0)

    def note(self, t: int | None, wall: int | None) -> None:
        """Note the counts at this moment."""
        point: list[int | None] = [t, wall, self.ready, self.unacked, len(self.consumers)]
        if self.series and self.series[-1][0] == t:
            self.series[-1] = point
        elif not self.series or self.series[-1][2:] != point[2:]:
            self.series.append(point)

    @property
    def dead_letters(self) -> tuple[str, str | None] | None:
        """The exchange and the key that the queue's dead letters get, as far as they are set."""
        exchange = self.arguments.get("x-dead-letter-exchange", self.policy_keys.get("dead-letter-exchange"))
        if exchange is None:
            return None
        key = self.arguments.get("x-dead-letter-routing-key", self.policy_keys.get("dead-letter-routing-key"))
        return str(exchange), None if key is None else str(key)

    def counts(self) -> list[list[int | None]]:
        """Return the series of counts, raised so that none is negative."""
        lowest = [min((point[index] or 0 for point in self.series), default=0) for index in (2, 3, 4)]
        more = [max(known, -low) for known, low in zip(self.raise_by, lowest, strict=True)]
        return [
            [t, wall, *((count or 0) + by for count, by in zip(counts, more, strict=True))]
            for t, wall, *counts in self.series
        ]


class Queues:
    """The queues of one broker, found while facts go by."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], QueueLife] = {}
        # For each copy: whether a client holds it.
        self._held: dict[int, bool] = {}

    def queue(self, vhost: str, name: str) -> QueueLife:
        """Return the life of a queue."""
        found = self.known.get((vhost, name))
        if found is None:
            found = self.known[vhost, name] = QueueLife(vhost, name)
        return found

    def take(self, fact: Fact, t: int | None, wall: int | None) -> None:
        """Take the next fact, which happened at these instants."""
        kind, name = fact.kind, cast("str | None", fact.get("queue"))
        if kind in (events.CONN_CLOSE, events.CHAN_CLOSE):
            self._channel_closed(fact, t, wall)
        if name is None or kind in (events.BIND, events.UNBIND):
            return
        queue = self.queue(str(fact.get("vhost") or "/"), name)
        match kind:
            case events.QUEUE_DECLARE:
                queue.is_deleted = False
                queue.arguments = cast("dict[str, Any]", as_python(fact.get("arguments")) or {})
                queue.type = str(queue.arguments.get(_TYPE, "classic"))
            case events.QUEUE_DELETE:
                queue.is_deleted, queue.deleted_at = True, t
                queue.ready = queue.unacked = 0
                queue.consumers.clear()
            case events.CONSUME:
                queue.consumers[fact.get("conn"), fact.get("chan"), fact.get("consumer")] = None
                queue.was_consumed = True
            case events.CANCEL:
                queue.consumers.pop((fact.get("conn"), fact.get("chan"), fact.get("consumer")), None)
            case _:
                self._moved(queue, fact)
        queue.note(t, wall)

    def _moved(self, queue: QueueLife, fact: Fact) -> None:
        kind, copy = fact.kind, cast("int | None", fact.get("copy"))
        if copy is None:
            return
        if kind in _CHANGES:
            ready, unacked = _CHANGES[kind]
            if kind in events.REQUEUES and not self._held.get(copy, True):
                return
            queue.ready += ready
            queue.unacked += 0 if fact.get(HAS_ACKS) is False else unacked
            self._held[copy] = kind in events.DELIVERIES
        elif kind in events.ENDS and (copy in self._held or kind not in events.DEATHS):
            # What a client settles, it held.
            if self._held.pop(copy, False) or kind in events.SETTLING:
                queue.unacked -= 1
            else:
                queue.ready -= 1

    def _channel_closed(self, fact: Fact, t: int | None, wall: int | None) -> None:
        gone = (fact.get("conn"), fact.get("chan"))
        for queue in self.known.values():
            left = [one for one in queue.consumers if one[0] == gone[0] and (gone[1] is None or one[1] == gone[1])]
            for one in left:
                del queue.consumers[one]
            if left:
                queue.note(t, wall)
