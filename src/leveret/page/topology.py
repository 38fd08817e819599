"""The topology of a story: exchanges, bindings and queues as a graph, with how many messages took each way.

Events say into which queues a message came. Which bindings led there follows from the keys, for the exchange types that
route by key; for the others, every binding that leads to such a queue counts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from leveret.core.model.exchanges import PREDECLARED
from leveret.core.model.exchanges.exchange import ALTERNATE_EXCHANGE
from leveret.core.model.exchanges.topic import topic_matches
from leveret.observe.texts.near import nearest
from leveret.page.lanes import Lanes
from leveret.page.queues import QueueStory
from leveret.page.readings.reading import Reading
from leveret.story.entities import Fact, Place
from leveret.trace import events
from leveret.trace.events import as_python

# An exchange ("exchange") or a queue ("queue"), with its virtual host and its name.
End = tuple[str, str, str]
# What exchanges with these names are, without being declared.
_PREDECLARED: Final = {"": "direct", **{one.name: one.type_name for one in PREDECLARED if not one.internal}}
_NEVER: Final = float("inf")
# The types of exchanges that route by key.
_BY_KEY: Final = ("topic", "direct")


@dataclass(slots=True, eq=False)
class Bound:
    """A binding, from the place at which it was made to the one at which it was removed, and how many took it."""

    source: Place
    kind: str
    destination: str
    key: str
    arguments: Mapping[str, Any]
    since: float = -1
    until: float = _NEVER
    count: int = 0

    @property
    def end(self) -> End:
        """Where it leads to."""
        return self.kind, self.source[0], self.destination


@dataclass(slots=True)
class Way:
    """The publish of a message, or the post of a dead letter: where it went in, and the queues that it came into."""

    at: int
    source: Place
    keys: Sequence[str]
    queues: list[str] = field(default_factory=list)


class Topology:
    """The topology of one broker, and what took which way in it."""

    def __init__(self, reading: Reading) -> None:
        self._reading: Final = reading
        self._timeline: Final = reading.timeline
        self._types: Final[dict[Place, str]] = {}
        self._alternates: Final[dict[Place, str]] = {}
        self._bound: Final = list(self._bindings())
        self._from: Final[dict[Place, list[Bound]]] = {}
        self._to: Final[dict[End, list[Bound]]] = {}
        for one in self._bound:
            self._from.setdefault(one.source, []).append(one)
            self._to.setdefault(one.end, []).append(one)
        self._describe()
        # The messages that found no queue, by exchange and key, with the fact that shows the first of each.
        self._lost: Final[dict[tuple[Place, str], tuple[Fact, dict[int, None]]]] = {}
        for fact in sorted(self._losses(), key=lambda fact: fact.place):
            message = fact.message
            alike = (fact.vhost, message.exchange), message.routing_key
            self._lost.setdefault(alike, (fact, {}))[1][message.id] = None
        # How many more keys may be compared to say what nearly took a lost message.
        self._budget = 20_000
        self._letters: Final[Counter[tuple[Place, str]]] = Counter()
        self._defaults: Final[Counter[Place]] = Counter()
        self._alternate_counts: Final[Counter[tuple[Place, str]]] = Counter()
        self._count(sorted([*self._publishes(), *self._posts()], key=lambda way: way.at))

    def _bindings(self) -> Iterator[Bound]:
        """Yield the bindings that facts show, and those that exist at the end and no fact shows."""
        redacted, known = self._reading.redaction.shown, set[tuple[object, ...]]()
        for one in self._timeline.bindings:
            until = _NEVER if one.until is None else one.until.place
            arguments = redacted(one.arguments)
            bound = Bound(
                one.source, one.destination_kind, one.destination[1], one.routing_key, arguments, one.since.place, until
            )
            known |= {_identity(bound)} if one.until is None else set()
            yield bound
        exchanges = [] if self._reading.picture is None else self._reading.picture.exchanges
        for exchange in exchanges:
            for it in exchange.bindings:
                ends = ((exchange.vhost, it.source), it.destination_kind, it.destination)
                bound = Bound(*ends, it.routing_key, it.arguments)
                if _identity(bound) not in known:
                    yield bound

    def _describe(self) -> None:
        """Take the types of exchanges, and their alternate exchanges."""
        for fact in self._timeline.facts:
            if fact.kind == events.EXCHANGE_DECLARE:
                place = fact.vhost, fact.exchange or ""
                self._types[place] = fact.type
                arguments = as_python(fact.arguments)
                if isinstance(arguments, Mapping) and ALTERNATE_EXCHANGE in arguments:
                    self._alternates[place] = str(arguments[ALTERNATE_EXCHANGE])
        for exchange in [] if self._reading.picture is None else self._reading.picture.exchanges:
            place = exchange.vhost, exchange.name
            self._types[place] = exchange.type
            if exchange.alternate_exchange is not None:
                self._alternates[place] = exchange.alternate_exchange

    def _losses(self) -> Iterator[Fact]:
        """Yield that messages reached no queue."""
        for life in self._timeline.messages.values():
            for fact in life.facts:
                is_lost = fact.kind in events.RETURNS or (
                    fact.kind in events.LOSSES and fact.get("reason") == events.NO_ROUTE
                )
                if is_lost and fact.place >= self._reading.began and fact.get("msg") is not None:
                    yield fact

    def _publishes(self) -> Iterator[Way]:
        for life in self._timeline.messages.values():
            if life.published is not None and life.published.place >= self._reading.began:
                queues = [copy.queue.name for copy in life.copies.values() if copy.source_number is None]
                message = life.message
                yield Way(life.published.place, (life.vhost, message.exchange), message.routing_keys, queues)

    def _posts(self) -> Iterator[Way]:
        dead = (copy for copy in self._timeline.copies.values() if copy.is_dead_lettered)
        for copy in sorted(dead, key=lambda copy: copy.last.place):
            death, place = copy.last, copy.queue.place
            if death.place >= self._reading.began:
                self._letters[place, death.exchange] += 1
                yield Way(death.place, (place[0], death.exchange), (death.routing_key,), copy.arrivals)

    def _count(self, ways: Sequence[Way]) -> None:
        """Count which bindings messages took."""
        found: dict[tuple[object, ...], list[Bound]] = {}
        changes = sorted({edge for one in self._bound for edge in (one.since, one.until)})
        for way in ways:
            if not way.queues:
                continue
            vhost, exchange = way.source
            if exchange == "":
                self._defaults.update((vhost, queue) for queue in way.queues)
                continue
            # Between two changes of bindings, the same key leads to the same queues by the same ways.
            key = (way.source, tuple(way.keys), tuple(way.queues), bisect_right(changes, way.at))
            if key not in found:
                found[key] = self._used(way)
            for bound in found[key]:
                bound.count += 1

    def _used(self, way: Way) -> list[Bound]:
        """Return the bindings that led a message to its queues."""
        used: dict[Bound, None] = {}
        seen: set[str] = set()
        vhost, first = way.source
        waiting = [first]
        while waiting:
            exchange = waiting.pop()
            if exchange in seen:
                continue
            seen.add(exchange)
            place = (vhost, exchange)
            matching = [
                one
                for one in self._from.get(place, ())
                if one.since <= way.at < one.until and self._leads(one, self._type(place), way)
            ]
            for one in matching:
                used[one] = None
                if one.kind == "exchange":
                    waiting.append(one.destination)
            alternate = self._alternates.get(place)
            if not matching and alternate is not None:
                self._alternate_counts[place, alternate] += 1
                waiting.append(alternate)
        return list(used)

    def _leads(self, bound: Bound, exchange_type: str, way: Way) -> bool:
        if bound.kind == "queue" and bound.destination not in way.queues:
            return False
        if exchange_type == "topic":
            return any(topic_matches(bound.key, key) for key in way.keys)
        if exchange_type == "direct":
            return bound.key in way.keys
        return bound.kind == "queue" or exchange_type == "fanout" or self._reaches(bound.destination, way, ())

    def _reaches(self, exchange: str, way: Way, seen: tuple[str, ...]) -> bool:
        """Return whether bindings of an exchange lead to a queue that the message came into."""
        if exchange in seen:
            return False
        place = (way.source[0], exchange)
        return any(
            one.destination in way.queues
            if one.kind == "queue"
            else self._reaches(one.destination, way, (*seen, exchange))
            for one in self._from.get(place, ())
        )

    def _type(self, place: Place) -> str:
        return self._types.get(place) or _PREDECLARED.get(place[1], "")

    def bindings_to(self, queue: Place) -> list[dict[str, Any]]:
        """Return the bindings of a queue as a page takes them."""
        return [
            {
                "exchange": one.source[1],
                "key": one.key,
                "count": one.count,
                **({"arguments": one.arguments} if one.arguments else {}),
            }
            for one in self._to.get(("queue", *queue), ())
            if one.source[1]
        ]

    def shown(
        self, lanes: Lanes, broker: str, queues: Mapping[Place, QueueStory], number_of: Callable[[int], int]
    ) -> dict[str, list[dict[str, Any]]]:
        """Return the graph as a page takes it. `number_of` returns the number of a message there."""
        edges = list(self._edges(queues))
        ends = (
            # Of the exchanges that every virtual host has, those that lead nowhere are left out.
            *(
                ("exchange", *place)
                for place in self._types
                if not (place[1] in _PREDECLARED or place[1].startswith("amq."))
            ),
            *(end for start, target, *_ in edges for end in (start, target)),
            *(("exchange", *place) for place, _ in self._lost),
            *(("queue", *place) for place in queues),
        )
        led_to = {target for _, target, *_ in edges}

        def id_of(end: End) -> str:
            return lanes.id_of(*end)

        nodes = [
            {
                "id": id_of(end),
                "kind": end[0],
                "label": end[2] or "(default exchange)",
                "type": self._type_of(end, queues),
                "broker": broker,
                **self._note(queues.get(end[1:]) if end[0] == "queue" else None, is_led_to=end in led_to),
            }
            for end in dict.fromkeys(ends)
        ]
        return {
            "nodes": nodes,
            "edges": [
                {"from": id_of(start), "to": id_of(to), "label": label, "count": count, "kind": kind}
                for start, to, label, count, kind in edges
            ],
            "unroutable": [
                {
                    "exchange": id_of(("exchange", *place)),
                    "key": key,
                    "messages": list(map(number_of, messages)),
                    "near": self._near(id_of, place, key, fact, queues),
                }
                for (place, key), (fact, messages) in self._lost.items()
            ],
        }

    def _type_of(self, end: End, queues: Mapping[Place, QueueStory]) -> str:
        if end[0] == "exchange":
            return self._type(end[1:])
        queue = queues.get(end[1:])
        return (None if queue is None else queue.type) or ""

    def _note(self, queue: QueueStory | None, *, is_led_to: bool) -> dict[str, str]:
        """Return what to know of a queue: that it is gone, or that nothing leads to it."""
        if queue is None:
            return {}
        if queue.is_deleted and queue.last is not None:
            return {"note": f"deleted {self._timeline.deletion_how(queue.last)}"}
        return {} if is_led_to else {"note": "nothing leads here"}

    def _edges(self, queues: Mapping[Place, QueueStory]) -> Iterator[tuple[End, End, str, int, str]]:
        """Yield the edges, with those that no message took: two ends, a label, a count and a kind."""
        defaults, letters = self._defaults.copy(), self._letters.copy()
        for place, queue in queues.items():
            if queue.dead_letters is not None:
                exchange, key = queue.dead_letters
                letters.setdefault((place, exchange), 0)
                if exchange == "" and key is not None and (place[0], key) in queues:
                    defaults.setdefault((place[0], key), 0)
        for one in self._bound:
            if one.source[1]:
                label = one.key or ", ".join(f"{name}={value}" for name, value in one.arguments.items())
                yield ("exchange", *one.source), one.end, label, one.count, "binding"
        for place, count in defaults.items():
            yield ("exchange", place[0], ""), ("queue", *place), place[1], count, "default"
        for (place, exchange), count in letters.items():
            origin = queues.get(place)
            key = None if origin is None or origin.dead_letters is None else origin.dead_letters[1]
            label = "dead letters" if key is None else f"dead letters → {key}"
            yield ("queue", *place), ("exchange", place[0], exchange), label, count, "dead letter"
        for place, alternate in self._alternates.items():
            count = self._alternate_counts[place, alternate]
            yield ("exchange", *place), ("exchange", place[0], alternate), "alternate", count, "alternate"

    def _near(
        self, id_of: Callable[[End], str], place: Place, key: str, lost: Fact, queues: Collection[Place]
    ) -> list[dict[str, str]]:
        """Return what would have taken a lost message at another time, and the binding keys that nearly match."""
        vhost, exchange = place
        self._budget -= len(self._from.get(place, ())) if exchange else len(queues)
        if self._budget < 0:
            return []
        # Every queue is bound to the default exchange by its name.
        implicit = (Bound(place, "queue", name, name, {}) for host, name in queues if host == vhost)
        matching: list[tuple[str, str, str]] = []
        others: list[tuple[str, str]] = []
        exchange_type = self._type(place)
        for one in (self._from.get(place, ()) if exchange else implicit) if exchange_type in _BY_KEY else ():
            end = (one.key, id_of(one.end))
            is_match = topic_matches(one.key, key) if exchange_type == "topic" else one.key == key
            if is_match and not exchange:
                deletion = self._timeline.deletion_text(vhost, key, self._reading.times(lost)[0])
                matching.append((*end, deletion or f"queue {key!r} was declared later"))
            elif is_match and not one.since <= lost.place < one.until:
                matching.append((*end, "it was bound later" if lost.place < one.since else "it was unbound before"))
            else:
                others.append(end)
        known = [end for *end, _ in matching]
        near = nearest(key, [end for end in others if list(end) not in known])
        return [{"key": pattern, "to": to, "why": why} for pattern, to, why in [*matching, *near]]


def _identity(bound: Bound) -> tuple[object, ...]:
    """Return what makes a binding another than the others: its ends, key and arguments."""
    return (*bound.source, bound.kind, bound.destination, bound.key, repr(sorted(bound.arguments.items())))
