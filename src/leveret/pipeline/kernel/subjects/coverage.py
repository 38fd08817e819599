"""Coverage: the exchanges, queues, bindings, dead-letter exchanges and consumed queues that a run used.

`routes` counts events by their address: one numbering of rows by six columns. `run_coverage` goes through its rows and
the different declarations one by one, because a run repeats few of them often.

A copy used a binding if it came through the binding's exchange into its queue, under a routing key that the binding
matches. The exchanges of a copy are the one that its message was published or dead-lettered to, and every exchange
bound to that one on the way. The pipeline does not match headers, so a binding of a headers exchange counts every copy
that could have come through it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import date
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.codes import PREDECLARED
from leveret.pipeline.kernel.columns import NO_ROW, NULL, Array, NameColumn, pick, table
from leveret.pipeline.kernel.control import attributes_of, text_at
from leveret.pipeline.kernel.events import Events
from leveret.pipeline.kernel.grouping import Row, grouped
from leveret.pipeline.kernel.groups import Index, numbered
from leveret.pipeline.kernel.subjects.messages import Messages
from leveret.pipeline.reading import chosen
from leveret.trace.events import (
    ARRIVALS,
    BIND,
    CONSUME,
    DEATHS,
    EXCHANGE_DECLARE,
    PUBLISHED,
    QUEUE_DECLARE,
)

_ROUTED: Final = (PUBLISHED, *ARRIVALS, *DEATHS)


def routes(events: Events, messages: Messages) -> pa.Table:
    """Return the table `routes`: what was published, enqueued and dead-lettered by exchange, routing key and queue."""
    row = np.flatnonzero(events.kind.is_in(_ROUTED))
    exchange, key = events.exchange.codes[row], events.routing_key.codes[row]
    lacking = np.flatnonzero((exchange < 0) & events.kind.at(row).is_in(ARRIVALS))
    if len(lacking):
        # A trace may leave out the exchange of an `enqueued` event; its message's publish or death has it.
        origin = _origins(events, messages, row[lacking])
        exchange[lacking], key[lacking] = events.exchange.codes[origin], events.routing_key.codes[origin]
        is_known = np.ones(len(row), bool)
        is_known[lacking[origin == NO_ROW]] = False
        row, exchange, key = row[is_known], exchange[is_known], key[is_known]
    groups = numbered(
        events.day.codes[row], events.vhost.codes[row], events.kind.codes[row], exchange, key, events.queue.codes[row]
    )
    first = row[groups.first]
    return table(
        schema.ROUTES,
        {
            **events.run_of(first),
            **events.names_of(first, "vhost", "kind", "queue"),
            "exchange": NameColumn(exchange[groups.first], events.exchange.distinct),
            "routing_key": NameColumn(key[groups.first], events.routing_key.distinct),
            "n": groups.counts(),
        },
    )


def _origins(events: Events, messages: Messages, enqueued: Array) -> Array:
    """Return the events that sent these copies to an exchange: a publish, or the death of another copy."""
    copy_id, source_id = events.copy_ids
    published = messages.index.find(events.message_id[enqueued])
    died = np.flatnonzero(events.kind.is_in(DEATHS) & (events.copy != NULL))
    death = Index(copy_id[died]).find(source_id[enqueued])
    is_published = events.src_copy[enqueued] == NULL
    return np.where(is_published, pick(messages.event, published, NO_ROW), pick(died, death, NO_ROW))


# A run on a day.
_Scope = tuple[str, date | None]


class Named(NamedTuple):
    """A declaration or a row of `routes`."""

    run: str
    day: date | None
    kind: str
    vhost: str | None
    exchange: str | None
    routing_key: str | None
    queue: str | None

    @classmethod
    def of(cls, row: Row) -> Named:
        """Return a row of the table `control` or `routes`."""
        return cls(*(row[name] for name in cls._fields))

    @property
    def scope(self) -> _Scope:
        """The run and the day."""
        return self.run, self.day

    @property
    def exchange_label(self) -> str | None:
        """The exchange, with its virtual host in front unless that is the default one."""
        return _label(self.vhost, self.exchange)

    @property
    def queue_label(self) -> str | None:
        """The queue, likewise."""
        return _label(self.vhost, self.queue)


# What a run declared, once or often, with the attributes of the declaration.
_Declaration = tuple[Named, dict[str, Any]]


class TypedBinding(NamedTuple):
    """A binding with the type of its exchange. Of `to_queue` and `to_exchange`, one is set."""

    exchange_type: str | None
    key: str
    to_queue: str | None
    to_exchange: str | None
    name: str

    def matches(self, routing_key: str) -> bool:
        """Return whether the binding matches a routing key; true if its type is not known."""
        if self.exchange_type == "direct":
            return self.key == routing_key
        return self.exchange_type != "topic" or _matches_topic(_words(self.key), _words(routing_key))


# Scope, kind and name of a thing that a run declares or uses.
_Thing = tuple[_Scope, str, str]


def run_coverage(control: pa.Table, routes: pa.Table, consumers: pa.Table) -> pa.Table:
    """Return the table `run_coverage`, from these tables: what the run declared, and how many messages used it."""
    # Tests mostly repeat the same declarations.
    declaring = chosen(control, {"kind": (EXCHANGE_DECLARE, QUEUE_DECLARE, CONSUME, BIND)})
    declarations = [
        (Named.of(row), attributes_of(row["attrs"])) for row in grouped(declaring, (*Named._fields, "attrs"))
    ]
    rows = [(Named.of(row), row["n"]) for row in grouped(routes, Named._fields, sums=["n"])]
    declared = {thing for declaration in declarations for thing in _declared(*declaration)}
    used: Counter[_Thing] = Counter()
    for route, count in rows:
        for kind, name in _used(route):
            used[route.scope, kind, name] += count
    named = consumers.filter(pc.and_(pc.is_valid(consumers["consumer"]), pc.is_valid(consumers["queue"])))
    for row in grouped(named, ("run", "day", "vhost", "queue"), sums=["deliveries"]):
        used[(row["run"], row["day"]), "consumer", _label(row["vhost"], row["queue"]) or ""] += row["deliveries"]
    topologies = _topologies(declarations)
    for (scope, _), bindings in topologies.items():
        declared.update((scope, "binding", binding.name) for of in bindings.values() for binding in of)
    for route, count in rows:
        if route.kind in ARRIVALS:
            for name in _used_bindings(route, topologies.get((route.scope, route.vhost), {})):
                used[route.scope, "binding", name] += count
    things = list(dict.fromkeys([*declared, *used]))
    return table(
        schema.RUN_COVERAGE,
        {
            "day": [day for (_, day), _, _ in things],
            "run": [run for (run, _), _, _ in things],
            "kind": [kind for _, kind, _ in things],
            "name": [name for _, _, name in things],
            "declared": [thing in declared for thing in things],
            "messages": [used[thing] for thing in things],
        },
    )


def _declared(each: Named, attributes: dict[str, Any]) -> Iterator[_Thing]:
    exchange, queue = each.exchange_label, each.queue_label
    if each.kind == EXCHANGE_DECLARE and exchange is not None:
        yield each.scope, "exchange", exchange
    if each.kind == QUEUE_DECLARE and queue is not None:
        yield each.scope, "queue", queue
        target = text_at(attributes, "arguments", "x-dead-letter-exchange")
        if target is not None:
            yield each.scope, "dlx", f"{queue} -> {target}"
    if each.kind == CONSUME and queue is not None:
        yield each.scope, "consumer", queue


def _used(route: Named) -> Iterator[tuple[str, str]]:
    exchange, queue = route.exchange_label, route.queue_label
    if route.kind not in ARRIVALS and exchange is not None:
        yield "exchange", exchange
    if route.kind in ARRIVALS and queue is not None:
        yield "queue", queue
    if route.kind in DEATHS and queue is not None and route.exchange is not None:
        yield "dlx", f"{queue} -> {route.exchange}"


# The bindings of a virtual host on a day, each once, by their exchange.
_Topology = dict[str | None, dict[TypedBinding, None]]
# A virtual host of a run on a day.
_Host = tuple[_Scope, str | None]


def _topologies(declarations: list[_Declaration]) -> dict[_Host, _Topology]:
    types: dict[tuple[_Scope, str | None, str | None], str] = {}
    for each, attributes in declarations:
        if each.kind == EXCHANGE_DECLARE:
            kind = text_at(attributes, "arguments", "x-delayed-type") or text_at(attributes, "type")
            key = (each.scope, each.vhost, each.exchange)
            if kind is not None:
                types[key] = max(kind, types.get(key, ""))
    found: dict[_Host, _Topology] = defaultdict(lambda: defaultdict(dict))
    for each, attributes in declarations:
        if each.kind == BIND:
            kind = types.get((each.scope, each.vhost, each.exchange), PREDECLARED.get(each.exchange or ""))
            binding = _binding(each, attributes, kind)
            if binding is not None:
                found[each.scope, each.vhost][each.exchange][binding] = None
    return found


def _binding(bind: Named, attributes: dict[str, Any], exchange_type: str | None) -> TypedBinding | None:
    is_to_exchange = text_at(attributes, "destination_kind") == "exchange"
    destination = text_at(attributes, "destination")
    destination = bind.queue if destination is None else destination
    source, key = bind.exchange_label, bind.routing_key or ""
    if source is None or destination is None:
        return None
    name = f"{source} {'=>' if is_to_exchange else '->'} {destination} ({key})"
    to_queue, to_exchange = (None, destination) if is_to_exchange else (destination, None)
    return TypedBinding(exchange_type, key, to_queue, to_exchange, name)


def _used_bindings(route: Named, bindings: _Topology) -> set[str]:
    """Return the names of the bindings by which these copies came, each once."""
    used: set[str] = set()
    reached = [route.exchange]
    # `reached` grows while the loop goes through it.
    for source in reached:
        for binding in bindings.get(source, ()):
            if binding.to_queue not in (None, route.queue) or not binding.matches(route.routing_key or ""):
                continue
            used.add(binding.name)
            if binding.to_exchange is not None and binding.to_exchange not in reached:
                reached.append(binding.to_exchange)
    return used


def _words(key: str) -> list[str]:
    """Return the words of a key; the empty key has none."""
    return key.split(".") if key else []


def _matches_topic(pattern: list[str], words: list[str]) -> bool:
    """Return whether words match a pattern, in which "*" is one word and "#" any number of words."""
    # For each place in the pattern, whether what stands before it matches the words so far.
    matches = list(accumulate(pattern, lambda matching, wanted: matching and wanted == "#", initial=True))
    for word in words:
        before, matches = matches, [False]
        for place, wanted in enumerate(pattern):
            is_match = before[place] and wanted in ("*", word)
            matches.append(matches[place] or before[place + 1] if wanted == "#" else is_match)
    return matches[-1]


def _label(vhost: str | None, name: str | None) -> str | None:
    """Return a name, with its virtual host in front unless that is the default one."""
    return name if name is None or vhost in (None, "/") else f"{vhost}/{name}"
