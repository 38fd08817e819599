"""Dead-lettering: what happens to a message that a queue gives up.

A death makes a new message with the same id and with the history in front of the headers, and puts it on the node's
work list. Nothing here recurses. The history is kept beside the headers, as in RabbitMQ 4. An x-death that a client
publishes is an ordinary header (4.3), or the history continues it (3.x).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from leveret.core.model.message import Death, Message, QueueEntry
from leveret.core.wire.values import Field, Table
from leveret.trace import events

if TYPE_CHECKING:
    from leveret.core.compat import Compat
    from leveret.core.model.stored_queue import StoredQueue

REJECTED: Final = "rejected"
EXPIRED: Final = "expired"
MAXLEN: Final = "maxlen"
DELIVERY_LIMIT: Final = "delivery_limit"

_FIRST_DEATH_HEADERS: Final = ("x-first-death-exchange", "x-first-death-queue", "x-first-death-reason")
_HISTORY_HEADERS: Final = (
    "x-death",
    *_FIRST_DEATH_HEADERS,
    "x-last-death-exchange",
    "x-last-death-queue",
    "x-last-death-reason",
)


def send(queue: StoredQueue, entry: QueueEntry, reason: str) -> bool:
    """Dead-letter an entry that left the queue; return False if it has no dead-letter exchange or that is missing."""
    exchange_name = queue.settings.dead_letter_exchange
    if exchange_name is None:
        return False
    if queue.dead_letter_at_least_once(entry, reason, exchange_name):
        return True
    exchange = queue.vhost.exchanges.get(exchange_name)
    if exchange is None:
        # RabbitMQ looks the exchange up at the moment of death. If it is missing, the message is dropped silently.
        return False
    letter = letter_of(queue, entry, reason, exchange_name)
    queue.tap_copy(events.DEAD_LETTERED, entry, reason, exchange_name, letter.routing_key)
    queue.vhost.post(letter, exchange, entry.copy, reason)
    return True


def closes_cycle(message: Message, queue_name: str, reason: str) -> bool:
    """Return whether a dead letter would enter a queue where it already died, with no rejection in between."""
    if reason == REJECTED:
        return False
    for death in message.deaths:
        if death.reason == REJECTED:
            return False
        if death.queue == queue_name:
            return True
    return False


def letter_of(queue: StoredQueue, entry: QueueEntry, reason: str, exchange_name: str) -> Message:
    """Return the message that an entry becomes when it dies."""
    message, compat = entry.message, queue.node.compat
    new_key = queue.settings.dead_letter_routing_key
    routing_keys = message.routing_keys if new_key is None else (new_key,)
    deaths = _recorded(_history(message, compat), message, queue.name, reason, queue.node.now // 1_000_000, compat)
    headers = _headers(message, deaths, compat)
    if new_key is not None and compat.cc_removed_by_dead_letter_routing_key:
        headers = headers.without("CC")
    properties = message.properties.replace(expiration=None, headers=headers)
    return Message(
        message.id,
        exchange_name,
        routing_keys[0],
        properties,
        properties.encode(),
        message.body,
        routing_keys,
        message.hidden_keys if new_key is None else (),
        deaths,
        entry.delivery_count if reason != EXPIRED or entry.delivery_count else message.failed_delivery_count,
        message.counted_properties_size,
    )


def _recorded(
    history: tuple[Death, ...], message: Message, queue_name: str, reason: str, now_s: int, compat: Compat
) -> tuple[Death, ...]:
    """Return the history with one more death in front; if queue and reason are known, only the count goes up."""
    known = next((death for death in history if (death.queue, death.reason) == (queue_name, reason)), None)
    is_sorted = compat.sorts_x_death_after_update and bool(history)
    if known is None:
        expiration = message.properties.expiration
        newest = Death(queue_name, reason, 1, now_s, message.exchange, _visible_keys(message), expiration, is_sorted)
    else:
        newest = known._replace(death_count=known.death_count + 1, is_sorted=is_sorted)
    others = [death for death in history if death is not known]
    return (newest, *(reversed(others) if compat.reverses_x_death_on_update else others))


def _visible_keys(message: Message) -> tuple[str, ...]:
    """Return the keys without BCC: each hidden key removes its first match (mc:record_death, seen on 4.3)."""
    keys = list(message.routing_keys)
    for hidden in message.hidden_keys:
        keys.remove(hidden)
    return tuple(keys)


def _headers(message: Message, deaths: tuple[Death, ...], compat: Compat) -> Table:
    headers = message.headers or Table.EMPTY
    entries = list(headers.without(*_HISTORY_HEADERS))
    entries.append(("x-death", Field("A", tuple(_death_field(death, compat) for death in deaths))))
    if _keeps_first(message, compat):
        entries += [(name, field) for name, field in headers if name in _FIRST_DEATH_HEADERS]
    else:
        entries += _origin_headers("first", deaths[-1])
    if compat.has_x_last_death:
        # An entry whose count went up keeps its exchange; these headers name the exchange of this death.
        entries += _origin_headers("last", deaths[0]._replace(exchange=message.exchange))
    table = Table(tuple(entries))
    return table.sorted_unique() if compat.sorts_header_keys else table


def _keeps_first(message: Message, compat: Compat) -> bool:
    """Return whether the x-first-death headers stay as they are: they were set when x-death first appeared."""
    return bool(message.deaths) or (
        compat.published_x_death_continues and "x-death" in (message.headers or Table.EMPTY)
    )


def _origin_headers(which: str, death: Death) -> list[tuple[str, Field]]:
    parts = (("exchange", death.exchange), ("queue", death.queue), ("reason", death.reason))
    return [(f"x-{which}-death-{part}", _string(value)) for part, value in parts]


def _death_field(death: Death, compat: Compat) -> Field:
    if death.published is not None:
        table = death.published.with_entry("count", Field("l", death.death_count))
        return Field("F", table.sorted_unique() if death.is_sorted else table)
    values = {
        "count": Field("l", death.death_count),
        "reason": _string(death.reason),
        "queue": _string(death.queue),
        "time": Field("T", death.time_s),
        "exchange": _string(death.exchange),
        "routing-keys": Field("A", tuple(_string(key) for key in death.routing_keys)),
    }
    if death.original_expiration is not None:
        values["original-expiration"] = _string(death.original_expiration)
    table = Table(tuple((name, values[name]) for name in compat.x_death_fields if name in values))
    return Field("F", table.sorted_unique() if death.is_sorted else table)


def _history(message: Message, compat: Compat) -> tuple[Death, ...]:
    if message.deaths or not compat.published_x_death_continues:
        return message.deaths
    field = message.headers.get("x-death") if message.headers is not None else None
    if field is None or not isinstance(field.value, tuple):
        return ()
    published = [item.value for item in field.value if isinstance(item, Field) and isinstance(item.value, Table)]
    return tuple(_parsed(table) for table in published)


def _parsed(table: Table) -> Death:
    entry = table.to_python()
    keys = entry.get("routing-keys")
    count, time = table.get("count"), table.get("time")
    expiration = entry.get("original-expiration")
    return Death(
        queue=str(entry.get("queue", "")),
        reason=str(entry.get("reason", "")),
        death_count=count.value if count is not None and isinstance(count.value, int) else 0,
        time_s=time.value if time is not None and isinstance(time.value, int) else 0,
        exchange=str(entry.get("exchange", "")),
        routing_keys=tuple(str(key) for key in keys) if isinstance(keys, list) else (),
        original_expiration=None if expiration is None else str(expiration),
        published=table,
    )


def _string(value: str) -> Field:
    return Field("S", value.encode("utf-8", "surrogateescape"))
