"""The queues of a story: how many messages and consumers each had over time, and what it was declared with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from leveret.page.lanes import Lanes
from leveret.page.readings.reading import PageRow
from leveret.story.facts import HAS_ACKS
from leveret.trace import events

if TYPE_CHECKING:
    from leveret.observe.views.views import QueueFacts

# From a kind of event to the changes of ready and unacked messages.
_CHANGES: Final[dict[str, tuple[int, int]]] = {
    events.ENQUEUED: (1, 0),
    events.DELIVERED: (-1, 1),
    events.GOT: (-1, 1),
    events.ACKED: (0, -1),
    events.REQUEUED: (1, -1),
}
_LEAVING: Final = frozenset({events.EXPIRED, events.DROPPED, events.DEAD_LETTERED, events.PURGED})
_STREAM: Final = "stream"
_TYPE: Final = "x-queue-type"


class QueueStory:
    """The story of one queue."""

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

    def describe(self, state: QueueFacts) -> None:
        """Take what the queue is at the end."""
        self.type, self.durable, self.arguments = state.type, state.durable, state.arguments
        self.policy, self.policy_keys = state.policy, state.policy_keys
        self.is_deleted = False
        if state.type != _STREAM:
            self.raise_by = (
                state.ready_count - self.ready,
                state.unacked_count - self.unacked,
                state.consumer_count - len(self.consumers),
            )

    @property
    def dead_letters(self) -> tuple[str, str | None] | None:
        """The exchange and the key that the queue's dead letters get, as far as they are set."""
        exchange = self.arguments.get("x-dead-letter-exchange", self.policy_keys.get("dead-letter-exchange"))
        if exchange is None:
            return None
        key = self.arguments.get("x-dead-letter-routing-key", self.policy_keys.get("dead-letter-routing-key"))
        return str(exchange), None if key is None else str(key)

    def shown(self, lanes: Lanes, bindings: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the queue as a page takes it."""
        ready, unacked, consumers = self._raised()
        shown: dict[str, Any] = {
            "lane": lanes.id_of("q", self.vhost, self.name),
            "name": self.name,
            "vhost": self.vhost,
            "type": self.type,
            "durable": self.durable,
            "arguments": self.arguments,
            "policy": self.policy,
            "policy_keys": self.policy_keys,
            "bindings": bindings,
            "series": [
                [t, wall, (has_ready or 0) + ready, (held or 0) + unacked, (count or 0) + consumers]
                for t, wall, has_ready, held, count in self.series
            ],
            "deleted": self.is_deleted or None,
            "deleted_by": self.deleted_by if self.is_deleted else None,
            "deleted_at": self.deleted_at if self.is_deleted else None,
        }
        return {name: value for name, value in shown.items() if value not in (None, {})}

    def _raised(self) -> tuple[int, int, int]:
        """Return how much to raise each count, so that none is negative."""
        lowest = [min((point[index] or 0 for point in self.series), default=0) for index in (2, 3, 4)]
        ready, unacked, consumers = (max(known, -low) for known, low in zip(self.raise_by, lowest, strict=True))
        return ready, unacked, consumers


class Queues:
    """The queues of one broker, found while its rows go by."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], QueueStory] = {}
        # For each copy: whether a client holds it.
        self._held: dict[int, bool] = {}

    def queue(self, vhost: str, name: str) -> QueueStory:
        """Return the story of a queue."""
        found = self.known.get((vhost, name))
        if found is None:
            found = self.known[vhost, name] = QueueStory(vhost, name)
        return found

    def take(self, row: PageRow, t: int | None, wall: int | None) -> None:
        """Take the next row."""
        kind, name = row["kind"], row.get("queue")
        if kind in (events.CONN_CLOSE, events.CHAN_CLOSE):
            self._channel_closed(row, t, wall)
        if name is None or kind in (events.BIND, events.UNBIND):
            return
        queue = self.queue(row.get("vhost") or "/", name)
        match kind:
            case events.QUEUE_DECLARE:
                self._declared(queue, row)
            case events.QUEUE_DELETE:
                queue.is_deleted, queue.deleted_at = True, t
                queue.ready = queue.unacked = 0
                queue.consumers.clear()
            case events.CONSUME:
                queue.consumers[row.get("conn"), row.get("chan"), row.get("consumer")] = None
                queue.was_consumed = True
            case events.CANCEL:
                queue.consumers.pop((row.get("conn"), row.get("chan"), row.get("consumer")), None)
            case _:
                self._moved(queue, row)
        queue.note(t, wall)

    def _moved(self, queue: QueueStory, row: PageRow) -> None:
        kind, copy = row["kind"], row.get("copy")
        if copy is None:
            return
        if kind in _CHANGES:
            ready, unacked = _CHANGES[kind]
            if kind == events.REQUEUED and not self._held.get(copy, True):
                return
            queue.ready += ready
            queue.unacked += 0 if row["attrs"].get(HAS_ACKS) is False else unacked
            self._held[copy] = kind in events.DELIVERIES
        elif kind in _LEAVING and copy in self._held:
            if self._held.pop(copy):
                queue.unacked -= 1
            else:
                queue.ready -= 1
        elif kind in _LEAVING and kind != events.DEAD_LETTERED:
            queue.ready -= 1

    @staticmethod
    def _declared(queue: QueueStory, row: PageRow) -> None:
        queue.is_deleted = False
        arguments = row["attrs"].get("arguments") or {}
        queue.arguments = arguments
        queue.type = str(arguments.get(_TYPE, "classic"))

    def _channel_closed(self, row: PageRow, t: int | None, wall: int | None) -> None:
        gone = (row.get("conn"), row.get("chan"))
        for queue in self.known.values():
            left = [one for one in queue.consumers if one[0] == gone[0] and (gone[1] is None or one[1] == gone[1])]
            for one in left:
                del queue.consumers[one]
            if left:
                queue.note(t, wall)
