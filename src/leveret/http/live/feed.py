"""The feed of the live page: what has changed, a few times a second, however much happens.

One thread makes snapshots while a page is open, as rows by key, and each page gets what differs from what it has. Rows
are facts and counts, of which the page makes rates: it asks for the messages and consumers of a queue that is open.
Between two snapshots the thread rests, the longer the more a snapshot costs, and in a flood it reads only the newest
events. So the page costs the broker a small share of its time at most, and a page that is not open costs nothing. A
page that does not read is dropped, and connects again by itself.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, deque
from itertools import chain
from typing import Any, Final

from leveret.clocks import thread_cpu_ns
from leveret.core.model.node import Node
from leveret.engine.engine import Engine
from leveret.http.control.shapes import Json, fault, json_of
from leveret.http.messages import Response
from leveret.http.stream import EventStream, Pump
from leveret.observe.calls.callers import is_in_debugger, standing_line
from leveret.observe.checks.finding import PLACES, Finding
from leveret.observe.texts.state import all_holdings, client_text, connections
from leveret.observe.views.views import exchange_view, queue_facts
from leveret.server import native
from leveret.story.causes import sentence
from leveret.story.clients import Clients
from leveret.story.words import Numbers, told, words_of
from leveret.trace.events import CONN_OPEN, ENQUEUED, POSITIONS, Event, clock_text

# The rest between two snapshots: so many times longer than the making of one, within these bounds.
_REST_FACTOR: Final = 50
REST_S: Final = 0.1
_REST_MAX_S: Final = 1.0
# How often to look for a debugger, in which nothing else happens.
_PROMPT_S: Final = 0.5
# How many of the last events the page shows.
_EVENTS_MOST: Final = 20
# How many new events one snapshot reads: in a flood, the newest stand for all. The checks have to read every event, so
# if they are too far behind, they wait until hardly anything happens.
_READ_MOST: Final = 5_000
_JUDGED_MOST: Final = 20_000
_CALM_MOST: Final = 100
# How many findings are grouped, and how many causes the page shows.
_FINDINGS_MOST: Final = 200
_CAUSES_MOST: Final = 10
_VHOST: Final = POSITIONS[ENQUEUED]["vhost"]
_QUEUE: Final = POSITIONS[ENQUEUED]["queue"]
# By the key of a row: its section, and its names there.
Rows = dict[tuple[str, ...], Json]

# How many bindings of an exchange are named.
_BINDINGS_MOST: Final = 20


class Viewer(EventStream):
    """An open page, and the rows that it has."""

    def __init__(self, feed: Feed) -> None:
        super().__init__(lambda: feed.unsubscribe(self))
        self._known: Rows = {}

    def show(self, rows: Rows, news: dict[str, Any]) -> None:
        """Send the rows that differ from those that the page has, and the news that every page gets."""
        changed = [[*key, row] for key, row in rows.items() if self._known.get(key) != row]
        gone = [list(key) for key in self._known if key not in rows]
        if changed or gone or news:
            self._known = rows
            self.send(json.dumps({"rows": changed, "gone": gone, **news}, separators=(",", ":")))


class _Named(Numbers):
    """The names in the line of an event: a client with the name that it gave its connection."""

    def __init__(self, clients: Clients) -> None:
        self._clients: Final = clients

    def who(self, fact: Event) -> str:
        """Return who did it, as its client names itself."""
        who = super().who(fact)
        return self._clients.who(fact) if who and fact.get("conn") is not None else who


class Feed(Pump[Viewer]):
    """What feeds the open pages of one broker."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        # How many events the feed has passed, and how many of them were messages that entered a queue.
        self._seen_count = 0
        self._entered: Counter[tuple[object, object]] = Counter()
        self._clients = Clients()
        # The last events, as the page shows them: their time, what happened, and its tone.
        self._events: deque[tuple[str, str, str]] = deque(maxlen=_EVENTS_MOST)
        # What went wrong, and how many events the checks have yet to read.
        self._causes: Rows = {}
        self._unjudged_count = 0
        self._halted: str | None = None

    def open(self) -> Response:
        """Return the stream for a page that opens."""
        viewer = Viewer(self)
        with self._lock:
            self._begin(viewer)
            self._show(is_first=True)
        return viewer.response

    def _feed(self) -> tuple[float, float]:
        began_ns = thread_cpu_ns()
        self._show()
        cost_s = (thread_cpu_ns() - began_ns) / 1_000_000_000
        return min(_REST_MAX_S, max(REST_S, cost_s * _REST_FACTOR)), _PROMPT_S

    def _show(self, *, is_first: bool = False) -> None:
        with self._engine.lock:
            has_new = self._read()
            rows = self._rows()
        # What is new for every page: the last events, and where the test halts.
        news: dict[str, Any] = {"events": list(self._events)} if has_new or is_first else {}
        halted = halted_at()
        if halted != self._halted or is_first:
            news["halted"] = self._halted = halted
        for viewer in list(self._subscribers):
            viewer.show(rows, news)

    def _read(self) -> bool:
        """Read the new events, and return whether there are any. The caller holds the broker's lock."""
        recorder = self._engine.recorder
        new_count = min(recorder.recorded_count - self._seen_count, len(recorder))
        self._seen_count = recorder.recorded_count
        newest = recorder.newest(min(new_count, _READ_MOST))
        for place, count in Counter((raw[_VHOST], raw[_QUEUE]) for raw in newest if raw[0] == ENQUEUED).items():
            self._entered[place] += round(count * new_count / len(newest))
        for opened in (raw for raw in newest if raw[0] == CONN_OPEN):
            self._clients.take(Event(opened))
        for event in map(Event, newest[-_EVENTS_MOST:]):
            text = told(event, _Named(self._clients))
            self._events.append((clock_text(event.at), text, words_of(event).tone))
        # While work is pending, a message that dies has not arrived where it goes: it would seem lost.
        self._unjudged_count += new_count
        is_calm = new_count <= _CALM_MOST or self._unjudged_count <= _JUDGED_MOST
        if is_calm and not self._engine.node.work_count:
            self._unjudged_count = 0
            self._causes = causes_of(self._engine.judge.found_so_far(most=_FINDINGS_MOST))
        return bool(new_count)

    def _rows(self) -> Rows:
        """Return the rows of the broker, whose lock the caller holds."""
        engine, node = self._engine, self._engine.node
        rows: Rows = {("head",): _head(engine), **self._causes}
        for vhost in node.vhosts.values():
            for queue in vhost.queues.values():
                entered = self._entered[vhost.name, queue.name] if engine.recorder.is_on else None
                rows["queues", vhost.name, queue.name] = {**json_of(queue_facts(queue, vhost)), "entered": entered}
            for exchange in vhost.exchanges.values():
                is_declared = exchange.name and not exchange.name.startswith("amq.")
                if exchange.bindings or is_declared:
                    view = exchange_view(exchange, vhost.name, _BINDINGS_MOST)
                    more = len(exchange.bindings) - len(view.bindings)
                    rows["exchanges", vhost.name, exchange.name] = {**json_of(view), "more": more}
        self._add_connections(rows, node)
        for number, rule in enumerate(engine.fault_rules(), 1):
            rows["faults", str(number)] = fault(number, rule)
        return rows

    def _add_connections(self, rows: Rows, node: Node) -> None:
        held = Counter(holding.connection.number for holding in all_holdings(node))
        for connection in connections(node):
            number = connection.number
            self._clients.known.setdefault(number, connection.client_name)
            rows["connections", str(number)] = {
                "number": number,
                "name": client_text(connection),
                "user": connection.user,
                "vhost": connection.vhost_name,
                "channels": len(connection.channels),
                "unacked": held[number],
                "is_blocked": connection.is_blocked,
            }


def halted_at() -> str | None:
    """Return the line of user code at which a debugger holds a thread of this process; None if none does."""
    own = native.thread_ident()
    for thread in list(sys._current_frames()):
        if thread != own and is_in_debugger(thread):
            return str(standing_line(thread) or "a debugger")
    return None


def causes_of(found: dict[str, list[Finding]]) -> Rows:
    """Return a row for each kind and place of what went wrong, the worst first, with how many more are like it."""
    alike: dict[tuple[object, ...], list[Finding]] = {}
    for finding in chain.from_iterable(found.values()):
        alike.setdefault((finding.kind, *(str(finding.place(name)) for name in PLACES)), []).append(finding)
    causes = sorted(((group[0].cause, len(group) - 1) for group in alike.values()), key=lambda each: each[0].rank)
    is_cut = sum(map(len, found.values())) >= _FINDINGS_MOST
    return {
        ("causes", str(number)): {"text": sentence(cause), "more": more, "is_cut": is_cut}
        for number, (cause, more) in enumerate(causes[:_CAUSES_MOST])
    }


def _head(engine: Engine) -> Json:
    clock = engine.clock
    return {
        "title": engine.name,
        "rabbitmq": engine.compat.version,
        "published": engine.node.last_message_id,
        "now": clock.now() // 1000 if clock.is_held else None,
        "is_held": clock.is_held,
        "is_jumping": engine.is_jumping,
        "vhosts": list(engine.node.vhosts),
    }
