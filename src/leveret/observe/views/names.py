"""The names that exist or existed.

The name of a queue or exchange that was never declared or used is a typo, so it raises with the closest known names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from leveret.errors import NotDeclaredError, did_you_mean, expected
from leveret.observe.texts.advice import queue_not_exchange
from leveret.trace import events
from leveret.trace.events import Event, RawEvent

if TYPE_CHECKING:
    from leveret.core.model.exchanges.exchange import Exchange
    from leveret.core.model.node import Node
    from leveret.core.model.queues.stored_queue import StoredQueue
    from leveret.core.model.vhost import VirtualHost
    from leveret.observe.assertions.searching import Place

_SHOWN_NAMES: Final = 10
_NAMING_QUEUES: Final = frozenset(name for name, kind in events.TABLE.items() if "queue" in kind.fields)
# Other events may name an exchange that does not exist, as the target of a dead letter.
_NAMING_EXCHANGES: Final = frozenset(
    name for name, kind in events.TABLE.items() if kind.category == "topology" and "exchange" in kind.fields
)


def find_vhost(node: Node, name: str) -> VirtualHost:
    """Return the virtual host of this name. Raises NotDeclaredError if it does not exist."""
    __tracebackhide__ = True
    vhost = node.vhosts.get(name)
    if vhost is None:
        raise NotDeclaredError(f"virtual host {name!r} does not exist{_hint(name, node.vhosts)}")
    return vhost


def existing_queue(node: Node, vhost_name: str, name: str | None) -> StoredQueue | None:
    """Return the queue of this name, None if it does not exist."""
    vhost = node.vhosts.get(vhost_name)
    return None if vhost is None or name is None else vhost.queues.get(name)


def find_queue(node: Node, vhost_name: str, name: str, *, timeout: float | None = None) -> StoredQueue:
    """Return the queue of this name. Raises NotDeclaredError if it does not exist.

    `timeout` is how many seconds the caller has waited for it, for the error text.
    """
    __tracebackhide__ = True
    queues = find_vhost(node, vhost_name).queues
    if name not in queues:
        hint = _hint(name, queues)
        raise NotDeclaredError(f"queue {name!r} does not exist in vhost {vhost_name!r}{_waited(timeout)}{hint}")
    return queues[name]


def find_exchange(node: Node, vhost_name: str, name: str) -> Exchange:
    """Return the exchange of this name. Raises NotDeclaredError if it does not exist."""
    __tracebackhide__ = True
    exchanges = find_vhost(node, vhost_name).exchanges
    if name not in exchanges:
        raise NotDeclaredError(
            f"exchange {name!r} does not exist in vhost {vhost_name!r}{did_you_mean(name, exchanges)}"
        )
    return exchanges[name]


def require_known(
    node: Node, trace: Iterable[RawEvent], vhost_name: str, place: Place, name: str, *, timeout: float | None = None
) -> None:
    """Raise NotDeclaredError if a queue or exchange neither exists nor occurs in the trace."""
    __tracebackhide__ = True
    vhost = find_vhost(node, vhost_name)
    names: dict[str, None] = {}
    if place != "exchange":
        names.update(dict.fromkeys(vhost.queues))
    if place != "queue":
        names.update(dict.fromkeys(vhost.exchanges))
    if name in names:
        return
    for raw in trace:
        event = Event(raw)
        if event.get("vhost") == vhost_name:
            names.update(dict.fromkeys(_names_in(event, place)))
    if name not in names:
        what = "queue or exchange" if place == "either" else place
        is_queue = place == "exchange" and name in vhost.queues
        hint = f"; {queue_not_exchange(name)}" if is_queue else _hint(name, names)
        raise NotDeclaredError(
            f"{what} {name!r} was never declared or used in vhost {vhost_name!r}{_waited(timeout)}{hint}"
        )


def require_known_somewhere(node: Node, trace: Iterable[RawEvent], fields: Mapping[str, object]) -> None:
    """Raise NotDeclaredError if a field names a queue or exchange that has never existed, in its virtual host or any.

    Objects that are not text are left to their own `__eq__`.
    """
    __tracebackhide__ = True
    vhost = fields.get("vhost")
    hosts = [vhost] if isinstance(vhost, str) else list(node.vhosts)
    raw_events = list(trace)
    places: tuple[Place, ...] = ("queue", "exchange")
    for place in places:
        name = fields.get(place)
        if isinstance(name, str):
            for host in hosts[:-1]:
                with suppress(NotDeclaredError):
                    require_known(node, raw_events, host, place, name)
                    break
            else:
                require_known(node, raw_events, hosts[-1], place, name)
    if isinstance(vhost, str):
        find_vhost(node, vhost)


def require_known_client(known: Iterable[str], name: str | None) -> None:
    """Raise NotDeclaredError if no client of this name is known. None names none."""
    __tracebackhide__ = True
    names = list(known)
    if name is not None and name not in names:
        raise NotDeclaredError(f"client {name!r} has never connected{expected(name, names, most=_SHOWN_NAMES)}")


def _names_in(event: Event, place: Place) -> Iterable[str]:
    if place != "exchange" and event.kind in _NAMING_QUEUES and event.queue is not None:
        yield event.queue
    if place != "queue" and event.kind in _NAMING_EXCHANGES:
        yield event.exchange
    if place != "queue" and event.kind == events.PUBLISHED:
        yield event.message.exchange


def _waited(timeout: float | None) -> str:
    return "" if timeout is None else f" (waited {timeout:g} s)"


def _hint(name: str, names: Iterable[str]) -> str:
    return expected(name, (other for other in names if other and not other.startswith("amq.")), most=_SHOWN_NAMES)


def has_clients(raw_events: Iterable[RawEvent]) -> bool:
    """Return whether a client has connected, or tried to and was refused."""
    return any(raw[0] in (events.CONN_OPEN, events.REFUSED) for raw in raw_events)
