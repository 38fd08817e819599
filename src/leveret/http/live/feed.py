"""The feed of the live page: what has changed, a few times a second, however much happens.

One thread makes snapshots while a page is open, as rows by key, and each page gets what differs from what it has. Rows
are counts only: the page asks for the messages of a queue that is open. Between two snapshots
the thread rests, the longer the more a snapshot costs. So the page costs the broker a small share of its time at most,
and a page that is not open costs nothing. A page that does not read is dropped, and connects again by itself.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final

from leveret.clocks import SystemClock, thread_cpu_ns
from leveret.http.control.shapes import Json, fault, json_of
from leveret.http.messages import Response
from leveret.http.stream import EventStream, Pump
from leveret.observe.calls.callers import is_in_debugger, standing_line
from leveret.observe.texts.state import all_holdings, client_text, connections
from leveret.observe.views.views import exchange_view, queue_facts
from leveret.server import native
from leveret.story.words import Numbers, told
from leveret.trace.events import Event, clock_text

if TYPE_CHECKING:
    from leveret.core.model.node import Node
    from leveret.engine.engine import Engine
    from leveret.trace.events import RawEvent

_REAL: Final = SystemClock()
# The rest between two snapshots: so many times longer than the making of one, within these bounds.
_REST_FACTOR: Final = 50
REST_S: Final = 0.1
_REST_MAX_S: Final = 1.0
# How often to look for a debugger, in which nothing else happens.
_PROMPT_S: Final = 0.5
# How many of the last events the page shows.
_EVENTS_MOST: Final = 20
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


class Feed(Pump[Viewer]):
    """What feeds the open pages of one broker."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        # The last event that the pages know, if any.
        self._newest: list[RawEvent] = []
        # When and up to which number messages were counted, and how many a second were published before that.
        self._counted_at = 0
        self._published_count = 0
        self._rate = 0
        self._halted: str | None = None

    def open(self) -> Response:
        """Return the stream for a page that opens."""
        viewer = Viewer(self)
        with self._lock:
            self._begin(viewer)
            self._show(self._news(is_first=True))
        return viewer.response

    def _feed(self) -> tuple[float, float]:
        began_ns = thread_cpu_ns()
        self._show(self._news())
        cost_s = (thread_cpu_ns() - began_ns) / 1_000_000_000
        return min(_REST_MAX_S, max(REST_S, cost_s * _REST_FACTOR)), _PROMPT_S

    def _show(self, news: dict[str, Any]) -> None:
        with self._engine.lock:
            rows = rows_of(self._engine)
        for viewer in list(self._subscribers):
            viewer.show(rows, news)

    def _news(self, *, is_first: bool = False) -> dict[str, Any]:
        """Return what is new for every page: the last events, the rate of publishes, and where the test halts."""
        news: dict[str, Any] = {}
        newest = self._engine.recorder.newest(_EVENTS_MOST)
        if is_first or newest[-1:] != self._newest:
            self._newest = newest[-1:]
            news["events"] = [f"{clock_text(event.at)} {told(event, Numbers())}" for event in map(Event, newest)]
        now, published_count = _REAL.now(), self._engine.node.last_message_id
        seconds = (now - self._counted_at) / 1_000_000
        rate = round(max(0, published_count - self._published_count) / max(REST_S, seconds))
        self._counted_at, self._published_count = now, published_count
        if rate != self._rate or is_first:
            news["rate"] = self._rate = rate
        halted = halted_at()
        if halted != self._halted or is_first:
            self._halted = halted
            news["halted"] = halted
        return news


def halted_at() -> str | None:
    """Return the line of user code at which a debugger holds a thread of this process; None if none does."""
    own = native.thread_ident()
    for thread in list(sys._current_frames()):
        if thread != own and is_in_debugger(thread):
            return standing_line(thread) or "a debugger"
    return None


def rows_of(engine: Engine) -> Rows:
    """Return the rows of a broker, whose lock the caller holds."""
    node = engine.node
    rows: Rows = {("head",): _head(engine)}
    for vhost in node.vhosts.values():
        for queue in vhost.queues.values():
            rows["queues", vhost.name, queue.name] = json_of(queue_facts(queue, vhost))
        for exchange in vhost.exchanges.values():
            if exchange.bindings or not _is_predeclared(exchange.name):
                view = exchange_view(exchange, vhost.name, _BINDINGS_MOST)
                more = len(exchange.bindings) - len(view.bindings)
                rows["exchanges", vhost.name, exchange.name] = {**json_of(view), "more": more}
    _add_connections(rows, node)
    for number, rule in enumerate(engine.fault_rules(), 1):
        rows["faults", str(number)] = fault(number, rule)
    return rows


def _head(engine: Engine) -> Json:
    clock = engine.clock
    return {
        "title": engine.name,
        "rabbitmq": engine.compat.version,
        "now": clock.now() // 1000 if clock.is_held else None,
        "is_held": clock.is_held,
        "is_jumping": engine.time_mover is not None,
        "vhosts": list(engine.node.vhosts),
    }


def _is_predeclared(name: str) -> bool:
    return not name or name.startswith("amq.")


def _add_connections(rows: Rows, node: Node) -> None:
    held: dict[int, int] = {}
    for holding in all_holdings(node):
        number = holding.connection.number
        held[number] = held.get(number, 0) + 1
    for connection in connections(node):
        rows["connections", str(connection.number)] = {
            "number": connection.number,
            "name": client_text(connection),
            "user": connection.user,
            "vhost": connection.vhost_name,
            "channels": len(connection.channels),
            "unacked": held.get(connection.number, 0),
            "is_blocked": connection.is_blocked,
        }
