"""The check for exchanges, queues and bindings that clients declare and the definitions lack.

Definitions hold what lasts. A queue or exchange that is not durable, deletes itself or is gone at the end of the test
does not count, nor does what the test itself declares.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from leveret.core.model.node import Node
from leveret.errors import nearest
from leveret.trace import events
from leveret.trace.events import Event, as_python

# A virtual host, a kind and names: what strings alone can say of an exchange, a queue or a binding.
Part = tuple[str, ...]
# The field of a declaration that names what it declares.
NAMED_BY: Final = {events.QUEUE_DECLARE: "queue", events.EXCHANGE_DECLARE: "exchange"}


def parts_of(node: Node) -> Iterator[Part]:
    """Yield the exchanges, queues and bindings of a node."""
    for vhost in node.vhosts.values():
        yield from ((vhost.name, "queue", name) for name in vhost.queues)
        for exchange in vhost.exchanges.values():
            yield vhost.name, "exchange", exchange.name
            for it in exchange.bindings.values():
                ends = it.source_name, it.destination_kind, it.destination.name
                yield binding_part(vhost.name, *ends, it.routing_key, it.arguments)


def binding_part(vhost: str, source: str, kind: str, destination: str, routing_key: str, arguments: object) -> Part:
    """Return a binding. JSON does not know the wire types of arguments, so these do not count."""
    given = json.dumps(as_python(arguments), sort_keys=True, default=str) if arguments else ""
    return vhost, "binding", source, kind, destination, routing_key, given


def part_of(event: Event) -> Part:
    """Return what a declaration or a bind is about."""
    if event.kind == events.BIND:
        ends = event.exchange, event.destination_kind, event.destination
        return binding_part(event.vhost, *ends, event.routing_key, event.arguments)
    name = NAMED_BY[event.kind]
    return event.vhost, name, str(event.get(name))


def lacking(event: Event, node: Node) -> Part | None:
    """Return what a client has declared if the definitions should hold it and do not."""
    part, defined = part_of(event), node.defined
    vhost = node.vhosts.get(event.vhost)
    if defined is None or vhost is None or event.conn is None or part in defined:
        return None
    if event.kind == events.BIND:
        ends = (event.vhost, "exchange", event.exchange), (event.vhost, event.destination_kind, event.destination)
        return part if all(end in defined for end in ends) and part in parts_of(node) else None
    lasting = (vhost.queues if part[1] == "queue" else vhost.exchanges).get(part[2])
    return part if lasting is not None and lasting.durable and not lasting.auto_delete else None


def part_text(part: Part) -> str:
    """Return an exchange, a queue or a binding as text."""
    vhost, kind, name, *rest = part
    where = "" if vhost == "/" else f" in virtual host {vhost!r}"
    if kind != "binding":
        return f"{kind} {name!r}{where}"
    to_kind, destination, key, arguments = rest
    given = f" and {arguments}" if arguments else ""
    return f"binding of {name!r} to {to_kind} {destination!r} with key {key!r}{given}{where}"


def near(part: Part, defined: frozenset[Part]) -> str | None:
    """Return the nearest name that the definitions have for a queue or an exchange."""
    names = nearest(part[2], (other[2] for other in sorted(defined) if other[:2] == part[:2]))
    return names[0] if names and part[1] != "binding" else None
