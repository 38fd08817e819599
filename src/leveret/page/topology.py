"""The topology of a story: exchanges, bindings and queues as a graph, with how many messages took each way.

Events say into which queues a message came. Which bindings led there follows from the keys, for the exchange types that
route by key; for the others, every binding that leads to such a queue counts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from leveret.core.model.exchanges import PREDECLARED
from leveret.core.model.exchanges.exchange import ALTERNATE_EXCHANGE
from leveret.core.model.exchanges.topic import topic_matches
from leveret.observe.texts.near import nearest
from leveret.page.lanes import Lanes
from leveret.page.readings.reading import PageRow, Picture
from leveret.trace import events

if TYPE_CHECKING:
    from leveret.page.messages import MessageStory
    from leveret.story.queues import QueueLife
    from leveret.story.timeline import Timeline

Place = tuple[str, str]
# An exchange ("x") or a queue ("q"), with its virtual host and its name.
End = tuple[str, str, str]
# What exchanges with these names are, without being declared.
_PREDECLARED: Final = {"": "direct", **{one.name: one.type_name for one in PREDECLARED if not one.internal}}
_NEVER: Final = float("inf")
# The types of exchanges that route by key.
_BY_KEY: Final = ("topic", "direct")


@dataclass(slots=True)
class Bound:
    """A binding, from the row at which it was made to the one at which it was removed."""

    vhost: str
    exchange: str
    kind: str
    destination: str
    key: str
    arguments: dict[str, Any]
    since: float = -1
    until: float = _NEVER
    count: int = 0

    @property
    def identity(self) -> tuple[str, ...]:
        """What makes it another binding than the others: its ends, key and arguments."""
        arguments = repr(sorted(self.arguments.items()))
        return (self.vhost, self.exchange, self.kind, self.destination, self.key, arguments)

    @property
    def end(self) -> End:
        """Where it leads to."""
        return ("q" if self.kind == "queue" else "x", self.vhost, self.destination)


@dataclass(slots=True)
class Way:
    """The publish of a message, or the post of a dead letter: where it went in, and the queues that it came into."""

    at: int
    vhost: str
    exchange: str
    keys: list[str]
    queues: list[str] = field(default_factory=list)


class Topology:
    """The topology of one broker, found while its rows go by."""

    def __init__(self) -> None:
        self._types: dict[Place, str] = {}
        self._alternates: dict[Place, str] = {}
        self._bound: list[Bound] = []
        self._from: dict[Place, list[Bound]] = {}
        # The bindings that were not removed, by their identities, also at each of their ends, and all by destination.
        self._living: dict[tuple[str, ...], Bound] = {}
        self._living_at: dict[End, dict[tuple[str, ...], Bound]] = {}
        self._to: dict[End, list[Bound]] = {}
        self._ways: list[Way] = []
        # The last way of each message, which the queues that it enters belong to.
        self._latest: dict[tuple[int, int | None], Way] = {}
        self._letters: Counter[tuple[str, str, str]] = Counter()
        self._lost: dict[tuple[str, str, str], dict[int, None]] = {}
        # When the first of these was lost: its row, and the instant.
        self._lost_at: dict[tuple[str, str, str], tuple[int, int | None]] = {}
        # How many more keys may be compared to say what nearly took a lost message.
        self._budget = 20_000
        self._defaults: Counter[Place] = Counter()
        self._alternate_counts: Counter[tuple[str, str, str]] = Counter()

    def take(self, row: PageRow, at: int, message: MessageStory | None) -> None:
        """Take the next row, the number `at` of all."""
        vhost, kind = row.get("vhost") or "/", row["kind"]
        exchange, key = row.get("exchange") or "", row.get("routing_key") or ""
        match kind:
            case events.EXCHANGE_DECLARE:
                self._types[vhost, exchange] = str(row["attrs"].get("type"))
                alternate = (row["attrs"].get("arguments") or {}).get(ALTERNATE_EXCHANGE)
                if alternate is not None:
                    self._alternates[vhost, exchange] = str(alternate)
            case events.BIND | events.UNBIND:
                arguments = row["attrs"].get("arguments") or {}
                bound = Bound(vhost, exchange, *_destination(row), key, arguments, at)
                if kind == events.BIND:
                    self.bind(bound)
                else:
                    self._end(self._living.get(bound.identity), at)
            case events.QUEUE_DELETE:
                self._gone(("q", vhost, str(row.get("queue"))), at)
            case events.EXCHANGE_DELETE:
                self._gone(("x", vhost, exchange), at)
            case _ if message is not None:
                self._flow(row, at, vhost, message)

    def bind(self, bound: Bound) -> None:
        """Add a binding, unless it exists: a client that declares it again changes nothing."""
        identity = bound.identity
        if identity in self._living:
            return
        self._living[identity] = bound
        for end in (("x", bound.vhost, bound.exchange), bound.end):
            self._living_at.setdefault(end, {})[identity] = bound
        self._bound.append(bound)
        self._to.setdefault(bound.end, []).append(bound)
        self._from.setdefault((bound.vhost, bound.exchange), []).append(bound)

    def describe(self, picture: Picture) -> None:
        """Take what exists at the end and no row has said."""
        for exchange in picture.exchanges:
            self._types[exchange.vhost, exchange.name] = exchange.type
            if exchange.alternate_exchange is not None:
                self._alternates[exchange.vhost, exchange.name] = exchange.alternate_exchange
            for binding in exchange.bindings:
                ends = (binding.source, binding.destination_kind, binding.destination)
                self.bind(Bound(exchange.vhost, *ends, binding.routing_key, binding.arguments))

    def _gone(self, end: End, at: int) -> None:
        for bound in self._living_at.pop(end, {}).values():
            self._end(self._living.get(bound.identity), at)

    def _end(self, bound: Bound | None, at: int) -> None:
        if bound is not None:
            bound.until = at
            identity = bound.identity
            del self._living[identity]
            for end in (("x", bound.vhost, bound.exchange), bound.end):
                self._living_at.get(end, {}).pop(identity, None)

    def _flow(self, row: PageRow, at: int, vhost: str, message: MessageStory) -> None:
        kind, number = row["kind"], message.number
        if kind == events.PUBLISHED:
            self._begin(number, None, Way(at, vhost, message.exchange, message.routing_keys))
        elif kind in events.DEATHS:
            self._letters[vhost, str(row.get("queue")), row.get("exchange") or ""] += 1
            keys = [row.get("routing_key") or ""]
            self._begin(number, row.get("copy"), Way(at, vhost, row.get("exchange") or "", keys))
        elif kind in events.ARRIVALS:
            way = self._latest.get((number, row.get("src_copy")))
            if way is not None:
                way.queues.append(str(row.get("queue")))
        elif kind in events.LOSSES and row.get("copy") is None:
            if kind not in events.RETURNS and row.get("reason") != events.NO_ROUTE:
                return
            place = (vhost, message.exchange, message.routing_key)
            self._lost_at.setdefault(place, (at, row.get("ts")))
            self._lost.setdefault(place, {})[number] = None

    def _begin(self, number: int, copy: int | None, way: Way) -> None:
        self._ways.append(way)
        self._latest[number, copy] = way

    def count(self) -> None:
        """Count which ways messages took. Call it once, at the end."""
        found: dict[tuple[object, ...], list[Bound]] = {}
        changes = sorted({edge for one in self._bound for edge in (one.since, one.until)})
        for way in self._ways:
            if not way.queues:
                continue
            if way.exchange == "":
                self._defaults.update((way.vhost, queue) for queue in way.queues)
                continue
            # Between two changes of bindings, the same key leads to the same queues by the same ways.
            key = (way.vhost, way.exchange, tuple(way.keys), tuple(way.queues), bisect_right(changes, way.at))
            if key not in found:
                found[key] = self._used(way)
            for bound in found[key]:
                bound.count += 1

    def _used(self, way: Way) -> list[Bound]:
        """Return the bindings that led a message to its queues."""
        used: dict[int, Bound] = {}
        seen: set[str] = set()
        waiting = [way.exchange]
        while waiting:
            exchange = waiting.pop()
            if exchange in seen:
                continue
            seen.add(exchange)
            place = (way.vhost, exchange)
            matching = [
                one
                for one in self._from.get(place, ())
                if one.since <= way.at < one.until and self._leads(one, self._type(place), way)
            ]
            for one in matching:
                used[id(one)] = one
                if one.kind == "exchange":
                    waiting.append(one.destination)
            alternate = self._alternates.get(place)
            if not matching and alternate is not None:
                self._alternate_counts[way.vhost, exchange, alternate] += 1
                waiting.append(alternate)
        return list(used.values())

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
        place = (way.vhost, exchange)
        return any(
            one.destination in way.queues
            if one.kind == "queue"
            else self._reaches(one.destination, way, (*seen, exchange))
            for one in self._from.get(place, ())
        )

    def _type(self, place: Place) -> str:
        return self._types.get(place) or _PREDECLARED.get(place[1], "")

    def bindings_to(self, vhost: str, queue: str) -> list[dict[str, Any]]:
        """Return the bindings of a queue as a page takes them."""
        return [
            {
                "exchange": one.exchange,
                "key": one.key,
                "count": one.count,
                **({"arguments": one.arguments} if one.arguments else {}),
            }
            for one in self._to.get(("q", vhost, queue), ())
            if one.exchange
        ]

    def shown(
        self, lanes: Lanes, broker: str, queues: Mapping[Place, QueueLife], timeline: Timeline
    ) -> dict[str, list[dict[str, Any]]]:
        """Return the graph as a page takes it."""
        edges = list(self._edges(queues))
        ends = (
            # Of the exchanges that every virtual host has, those that lead nowhere are left out.
            *(("x", *place) for place in self._types if not (place[1] in _PREDECLARED or place[1].startswith("amq."))),
            *(end for start, target, *_ in edges for end in (start, target)),
            *(("x", vhost, exchange) for vhost, exchange, _ in self._lost),
            *(("q", *place) for place in queues),
        )
        led_to = {target for _, target, *_ in edges}
        nodes = [
            {
                "id": lanes.id_of(kind, vhost, name),
                "kind": "exchange" if kind == "x" else "queue",
                "label": name or "(default exchange)",
                "type": self._type((vhost, name))
                if kind == "x"
                else getattr(queues.get((vhost, name)), "type", None) or "",
                "broker": broker,
                **_note(queues.get((vhost, name)) if kind == "q" else None, is_led_to=(kind, vhost, name) in led_to),
            }
            for kind, vhost, name in dict.fromkeys(ends)
        ]
        return {
            "nodes": nodes,
            "edges": [
                {"from": lanes.id_of(*start), "to": lanes.id_of(*to), "label": label, "count": count, "kind": kind}
                for start, to, label, count, kind in edges
            ],
            "unroutable": [
                {
                    "exchange": lanes.id_of("x", vhost, exchange),
                    "key": key,
                    "messages": list(messages),
                    "near": self._near(lanes, (vhost, exchange), key, queues, timeline),
                }
                for (vhost, exchange, key), messages in self._lost.items()
            ],
        }

    def _edges(self, queues: Mapping[Place, QueueLife]) -> Iterator[tuple[End, End, str, int, str]]:
        """Yield the edges, also those that no message took: two ends, a label, a count and a kind."""
        defaults, letters = self._defaults.copy(), self._letters.copy()
        for (vhost, name), state in queues.items():
            if state.dead_letters is not None:
                exchange, key = state.dead_letters
                letters.setdefault((vhost, name, exchange), 0)
                if exchange == "" and key is not None and (vhost, key) in queues:
                    defaults.setdefault((vhost, key), 0)
        for one in self._bound:
            if one.exchange:
                label = one.key or ", ".join(f"{name}={value}" for name, value in one.arguments.items())
                yield ("x", one.vhost, one.exchange), one.end, label, one.count, "binding"
        for (vhost, queue), count in defaults.items():
            yield ("x", vhost, ""), ("q", vhost, queue), queue, count, "default"
        for (vhost, queue, exchange), count in letters.items():
            origin = queues.get((vhost, queue))
            key = None if origin is None or origin.dead_letters is None else origin.dead_letters[1]
            label = "dead letters" if key is None else f"dead letters → {key}"
            yield ("q", vhost, queue), ("x", vhost, exchange), label, count, "dead letter"
        for (vhost, exchange), alternate in self._alternates.items():
            count = self._alternate_counts[vhost, exchange, alternate]
            yield ("x", vhost, exchange), ("x", vhost, alternate), "alternate", count, "alternate"

    def _near(
        self, lanes: Lanes, place: Place, key: str, queues: Collection[Place], timeline: Timeline
    ) -> list[dict[str, str]]:
        """Return what would have taken a lost message at another time, and the binding keys that nearly match."""
        vhost, exchange = place
        row, instant = self._lost_at[vhost, exchange, key]
        self._budget -= len(self._from.get(place, ())) if exchange else len(queues)
        if self._budget < 0:
            return []
        # Every queue is bound to the default exchange by its name.
        implicit = (Bound(vhost, "", "queue", name, name, {}) for host, name in queues if host == vhost)
        matching: list[tuple[str, str, str]] = []
        others: list[tuple[str, str]] = []
        exchange_type = self._type(place)
        for one in (self._from.get(place, ()) if exchange else implicit) if exchange_type in _BY_KEY else ():
            end = (one.key, lanes.id_of(*one.end))
            is_match = topic_matches(one.key, key) if exchange_type == "topic" else one.key == key
            if is_match and not exchange:
                why = timeline.deletion_text(vhost, key, instant) or f"queue {key!r} was declared later"
                matching.append((*end, why))
            elif is_match and not one.since <= row < one.until:
                matching.append((*end, "it was bound later" if row < one.since else "it was unbound before"))
            else:
                others.append(end)
        known = [end for *end, _ in matching]
        near = nearest(key, [end for end in others if list(end) not in known])
        return [{"key": pattern, "to": to, "why": why} for pattern, to, why in [*matching, *near]]


def _note(queue: QueueLife | None, *, is_led_to: bool) -> dict[str, str]:
    """Return what to know of a queue: that it is gone, or that nothing leads to it."""
    if queue is None:
        return {}
    if queue.is_deleted:
        return {"note": f"deleted {queue.deleted_how}" if queue.deleted_how else "deleted"}
    return {} if is_led_to else {"note": "nothing leads here"}


def _destination(row: PageRow) -> tuple[str, str]:
    attrs = row["attrs"]
    return str(attrs.get("destination_kind", "queue")), str(attrs.get("destination", row.get("queue")))
