"""Which names exist or existed: a queue or exchange nobody ever declared or used is a typo, and is said to be one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from leveret.errors import NotDeclaredError, expected
from leveret.trace import events
from leveret.trace.events import Event

if TYPE_CHECKING:
    from leveret.core.model.node import Node
    from leveret.core.model.stored_queue import StoredQueue
    from leveret.core.model.vhost import VirtualHost
    from leveret.observe.searching import Place
    from leveret.trace.events import RawEvent

_SHOWN_NAMES: Final = 10
_NAMING_QUEUES: Final = frozenset(name for name, kind in events.TABLE.items() if "queue" in kind.fields)
# Only these name exchanges that exist: a dead letter may go to one that does not.
_NAMING_EXCHANGES: Final = frozenset(
    name for name, kind in events.TABLE.items() if kind.category == "topology" and "exchange" in kind.fields
)


def find_vhost(node: Node, name: str) -> VirtualHost:
    """The virtual host of this name; raises NotDeclaredError."""
    __tracebackhide__ = True
    vhost = node.vhosts.get(name)
    if vhost is None:
        raise NotDeclaredError(f"there is no virtual host {name!r}{_hint(name, node.vhosts)}")
    return vhost


def find_queue(node: Node, vhost_name: str, name: str, *, timeout: float | None = None) -> StoredQueue:
    """The queue of this name as it is now, after so long a wait; raises NotDeclaredError."""
    __tracebackhide__ = True
    queues = find_vhost(node, vhost_name).queues
    if name not in queues:
        hint = _hint(name, queues)
        raise NotDeclaredError(f"there is no queue {name!r} in vhost {vhost_name!r}{_waited(timeout)}{hint}")
    return queues[name]


def refuse_unknown(
    node: Node, trace: Iterable[RawEvent], vhost_name: str, place: Place, name: str, *, timeout: float | None = None
) -> None:
    """Raise NotDeclaredError for a queue or exchange that neither exists nor occurs in the trace."""
    __tracebackhide__ = True
    vhost = find_vhost(node, vhost_name)
    known: dict[str, None] = {}
    if place != "exchange":
        known.update(dict.fromkeys(vhost.queues))
    if place != "queue":
        known.update(dict.fromkeys(vhost.exchanges))
    if name in known:
        return
    for raw in trace:
        event = Event(raw)
        if event.get("vhost") == vhost_name:
            known.update(dict.fromkeys(_names_in(event, place)))
    if name not in known:
        what = "queue or exchange" if place == "either" else place
        raise NotDeclaredError(
            f"no {what} {name!r} was ever declared or used in vhost {vhost_name!r}{_waited(timeout)}"
            f"{_hint(name, known)}"
        )


def _names_in(event: Event, place: Place) -> Iterable[str]:
    if place != "exchange" and event.kind in _NAMING_QUEUES and event.queue is not None:
        yield event.queue
    if place != "queue" and event.kind in _NAMING_EXCHANGES:
        yield event.exchange
    if place != "queue" and event.kind == events.PUBLISHED:
        yield event.message.exchange


def _waited(timeout: float | None) -> str:
    return "" if timeout is None else f", and nobody declared it in the {timeout:g} s this has waited for it"


def _hint(name: str, known: Iterable[str]) -> str:
    return expected(name, (one for one in known if one and not one.startswith("amq.")), most=_SHOWN_NAMES)
