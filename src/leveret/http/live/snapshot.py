"""A snapshot of a broker for the live page: rows by key, small enough to be made ten times a second.

Counts only: the page asks the control API for the messages of a queue that is open. The caller holds the broker's lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from leveret.http.control.shapes import Json, fault, json_of
from leveret.observe.texts.state import all_holdings, client_text, connections
from leveret.observe.views.views import exchange_view, queue_facts

if TYPE_CHECKING:
    from leveret.core.model.node import Node
    from leveret.engine.engine import Engine

# By the key of a row: its section, and its names there.
Rows = dict[tuple[str, ...], Json]

# How many bindings of an exchange are named.
_BINDINGS_MOST: Final = 20


def rows_of(engine: Engine) -> Rows:
    """Return the rows of a broker."""
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
