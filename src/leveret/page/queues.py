"""The queues of a page: what each was declared with, and how many messages and consumers it had at any moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from leveret.page.lanes import Lanes
from leveret.page.readings.reading import Reading, Times
from leveret.story.entities import CopyLife, Place, QueueLife
from leveret.trace import events
from leveret.trace.events import TABLE
from leveret.trace.redaction import Redaction

if TYPE_CHECKING:
    from leveret.observe.views.views import QueueFacts

# What a queue has at a moment: when that is, by both clocks, and its ready and unacked messages and its consumers.
Point = list[int | None]
# At which place of the timeline the counts of ready and unacked messages and of consumers change, and by how much.
_Change = tuple[int, int, int, int]
_STREAM: Final = "stream"
_COUNTED: Final[dict[str | None, tuple[int, int]]] = {"ready": (1, 0), "unacked": (0, 1)}
# What a copy was before the first that is known of it.
_BEFORE: Final = {
    **dict.fromkeys(events.DELIVERIES, "ready"),
    **dict.fromkeys((*events.REQUEUES, *events.SETTLING), "unacked"),
    **{kind: "ready" for kind in events.ENDS if kind not in (*events.SETTLING, *events.DEATHS)},
}


class QueueStory:
    """The queues of one name, one after the other, and the last of them as it stands at the end."""

    def __init__(self, place: Place, lives: list[QueueLife], state: QueueFacts | None, redaction: Redaction) -> None:
        self.vhost, self.name = place
        self._lives: Final = lives
        self._state: Final = state
        last = lives[-1] if lives else None
        self.type: Final = state.type if state is not None else last.type if last and last.declared else None
        arguments = last.arguments if state is None and last is not None else {}
        self.arguments: Final = redaction.shown(arguments) if state is None else state.arguments
        self.is_deleted: Final = state is None and last is not None and last.deleted is not None

    @property
    def last(self) -> QueueLife | None:
        """The last queue of this name, if events show one."""
        return self._lives[-1] if self._lives else None

    @property
    def was_consumed(self) -> bool:
        """Whether one of them ever had a consumer."""
        return any(life.consumers for life in self._lives)

    @property
    def dead_letters(self) -> tuple[str, str | None] | None:
        """The exchange and the key that the queue's dead letters get, as far as they are set."""
        policy = {} if self._state is None else self._state.policy_keys
        exchange = self.arguments.get("x-dead-letter-exchange", policy.get("dead-letter-exchange"))
        if exchange is None:
            return None
        key = self.arguments.get("x-dead-letter-routing-key", policy.get("dead-letter-routing-key"))
        return str(exchange), None if key is None else str(key)

    def series(
        self, copies: Mapping[QueueLife, list[CopyLife]], times: Callable[[int], Times], *, has_acks: bool
    ) -> list[Point]:
        """Return its counts, raised by what it had before the first event. `times` are those of a place."""
        points: list[Point] = []
        counts = [0, 0, 0]
        for life in self._lives:
            moves = (move for copy in copies.get(life, ()) for move in _moves(copy, has_acks=has_acks))
            for place, *change in sorted([*moves, *_other_changes(life)]):
                counts = [count + more for count, more in zip(counts, change, strict=True)]
                _note(points, times(place), counts)
            if life.deleted is not None:
                counts = [0, 0, 0]
                _note(points, times(life.deleted.place), counts)
        lowest = [min((point[index] or 0 for point in points), default=0) for index in (2, 3, 4)]
        more = [max(at_least, -low) for at_least, low in zip(self._missing(counts), lowest, strict=True)]
        return [
            [t, wall, *[(count or 0) + by for count, by in zip(own, more, strict=True)]] for t, wall, *own in points
        ]

    def _missing(self, counts: list[int]) -> list[int]:
        """Return how much more it has at the end than events show: messages and consumers from before the first."""
        state = self._state
        if state is None or state.type == _STREAM:
            return [0, 0, 0]
        known = (state.ready_count, state.unacked_count, state.consumer_count)
        return [has - count for has, count in zip(known, counts, strict=True)]

    def shown(
        self,
        lanes: Lanes,
        bindings: list[dict[str, Any]],
        series: list[Point],
        deletion: Callable[[QueueLife], tuple[str, int | None]],
    ) -> dict[str, Any]:
        """Return the queue as a page takes it. `deletion` says who deleted one, and when."""
        by, at = deletion(self._lives[-1]) if self.is_deleted else (None, None)
        state = self._state
        shown: dict[str, Any] = {
            "lane": lanes.id_of("queue", self.vhost, self.name),
            "name": self.name,
            "vhost": self.vhost,
            "type": self.type,
            "durable": None if state is None else state.durable,
            "arguments": self.arguments,
            "policy": None if state is None else state.policy,
            "policy_keys": {} if state is None else state.policy_keys,
            "bindings": bindings,
            "series": series,
            "deleted": self.is_deleted or None,
            "deleted_by": by,
            "deleted_at": at,
        }
        return {name: value for name, value in shown.items() if value not in (None, {})}


def queues_of(reading: Reading) -> dict[Place, QueueStory]:
    """Return the queues of a broker by their places, in the order in which they were declared."""
    timeline = reading.timeline
    lives = {place: list(queues) for place, queues in timeline.deleted_queues.items()}
    for place, queue in timeline.queues.items():
        lives.setdefault(place, []).append(queue)
    states = {} if reading.picture is None else {(one.vhost, one.name): one for one in reading.picture.queues}
    # Rows of a file may lack the name of their queue.
    places = sorted(filter(itemgetter(1), lives), key=lambda place: _first(lives[place][0]))
    return {
        place: QueueStory(place, lives.get(place, []), states.get(place), reading.redaction)
        for place in dict.fromkeys([*places, *states])
    }


def _moves(copy: CopyLife, *, has_acks: bool) -> Iterator[_Change]:
    """Yield the changes that one copy makes."""
    if copy.queue.is_stream:
        # It keeps what it hands out.
        for fact in copy.facts:
            if fact.kind in events.ARRIVALS or (fact.kind in events.ENDS and fact.kind not in events.SETTLING):
                yield fact.place, 1 if fact.kind in events.ARRIVALS else -1, 0, 0
        for delivery in copy.deliveries:
            yield delivery.fact.place, 0, 1, 0
            if delivery.ended is not None:
                yield delivery.ended.place, 0, -1, 0
        return
    ready, unacked = _COUNTED.get(_BEFORE.get(copy.facts[0].kind), (0, 0))
    for fact in copy.facts:
        stand = TABLE[fact.kind].stand
        if stand is not None:
            after = _COUNTED.get(stand, (0, 0))
            yield fact.place, after[0] - ready, (after[1] - unacked) if has_acks else 0, 0
            ready, unacked = after


def _other_changes(queue: QueueLife) -> Iterator[_Change]:
    yield from ((fact.place, 0, 0, 0) for fact in queue.declared)
    for one in queue.consumers:
        yield one.since.place, 0, 0, 1
        if one.until is not None:
            yield one.until.place, 0, 0, -1


def _note(points: list[Point], times: Times, counts: list[int]) -> None:
    point: Point = [*times, *counts]
    if points and points[-1][0] == point[0]:
        points[-1] = point
    elif not points or points[-1][2:] != point[2:]:
        points.append(point)


def _first(queue: QueueLife) -> int:
    known = [*queue.declared[:1], *(one.since for one in queue.consumers[:1])]
    return min((fact.place for fact in known), default=-1)
