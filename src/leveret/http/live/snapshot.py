"""A snapshot of a broker for the live page: rows by key, small enough to be made ten times a second.

Counts only: the page asks the control API for the messages of a queue that is open. The caller holds the broker's lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from leveret.observe.texts.state import all_holdings, client_text, connections

if TYPE_CHECKING:
    from leveret.core.model.node import Node
    from leveret.core.model.vhost import VirtualHost
    from leveret.engine.engine import Engine

Row = dict[str, Any]
# A row's key: its section, and its names there.
Rows = dict[tuple[str, ...], Row]

# How many bindings of an exchange are named.
_BINDINGS_MOST: Final = 20


def rows_of(engine: Engine) -> Rows:
    """Return the rows of a broker."""
    node = engine.node
    rows: Rows = {("head",): _head(engine)}
    for vhost in node.vhosts.values():
        _add_queues(rows, vhost)
        _add_exchanges(rows, vhost)
    _add_connections(rows, node)
    for number, rule in enumerate(engine.fault_rules(), 1):
        text = repr(rule).strip("<>")
        rows["faults", str(number)] = {"id": number, "text": text, "fired": rule.fired, "is_spent": rule.is_spent}
    return rows


def _head(engine: Engine) -> Row:
    clock = engine.clock
    return {
        "title": engine.name,
        "rabbitmq": engine.compat.version,
        "now": clock.now() // 1000 if clock.is_held else None,
        "is_held": clock.is_held,
        "is_jumping": engine.time_mover is not None,
        "vhosts": list(engine.node.vhosts),
    }


def _add_queues(rows: Rows, vhost: VirtualHost) -> None:
    for queue in vhost.queues.values():
        rows["queues", vhost.name, queue.name] = {
            "vhost": vhost.name,
            "name": queue.name,
            "type": queue.type.name,
            "ready": len(queue.ready),
            "unacked": len(queue.unacked),
            "consumers": len(queue.consumers),
            "dead_letters": queue.settings.dead_letter_exchange,
            "dead_letter_key": queue.settings.dead_letter_routing_key,
        }


def _add_exchanges(rows: Rows, vhost: VirtualHost) -> None:
    for exchange in vhost.exchanges.values():
        if not exchange.bindings and _is_predeclared(exchange.name):
            continue
        bindings = list(exchange.bindings.values())
        rows["exchanges", vhost.name, exchange.name] = {
            "vhost": vhost.name,
            "name": exchange.name,
            "type": exchange.type_name,
            "bindings": [
                [one.routing_key, one.destination_kind, one.destination_name] for one in bindings[:_BINDINGS_MOST]
            ],
            "more": max(0, len(bindings) - _BINDINGS_MOST),
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
