"""Dead-lettering: what happens to a message that a queue gives up.

A death makes a new message with the same id and with the history in front of the headers, and puts it on the node's
work list. Nothing here recurses. The history is kept beside the headers, as in RabbitMQ 4. An x-death that a client
publishes is an ordinary header (4.3), or the history continues it (3.x). The headers are made when something reads
them, so a chain of letters costs what it is long.

`send` looks the exchange up now, as RabbitMQ does. `VirtualHost.post` puts the letter's arrival on `Runtime.work`. What
exceeds the allowance of a turn waits in `Runtime.left_over`, and the barrier waits for it. With at-least-once
dead-lettering, a `PendingLetter` offers its letter to the targets until every one has taken it.
"""

from __future__ import annotations

from typing import Final

from leveret.core.compat import Compat
from leveret.core.model.dead_letters.death import (
    REJECTED,
    Death,
    Deaths,
    LetterProperties,
    count_in,
    origin_headers,
)
from leveret.core.model.message import Message, QueueEntry
from leveret.core.model.queues.stored_queue import StoredQueue
from leveret.core.wire.values import Field, Table
from leveret.trace import events

EXPIRED: Final = "expired"
MAXLEN: Final = "maxlen"
DELIVERY_LIMIT: Final = "delivery_limit"

_FIRST_DEATH_HEADERS: Final = ("x-first-death-exchange", "x-first-death-queue", "x-first-death-reason")
_LAST_DEATH_HEADERS: Final = ("x-last-death-exchange", "x-last-death-queue", "x-last-death-reason")


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
    if reason != REJECTED:
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
    removes_copies = new_key is not None and compat.cc_removed_by_dead_letter_routing_key
    return Message(
        message.id,
        exchange_name,
        routing_keys[0],
        None,
        _letter_properties(message, deaths, compat, removes_copies=removes_copies),
        message.body,
        routing_keys,
        message.hidden_keys if new_key is None else (),
        deaths,
        _failures(queue, entry),
        message.counted_properties_size,
    )


def _failures(queue: StoredQueue, entry: QueueEntry) -> int:
    """Return how many failed deliveries the next queue begins with (rabbit_fifo, annotate_msg, seen on 4.0 and 4.3)."""
    survive = queue.node.compat.failures_survive_death
    if survive == "nowhere":
        return 0
    if survive == "everywhere" or queue.hands_on_failures:
        return entry.delivery_count
    return entry.message.failed_delivery_count


def _letter_properties(message: Message, deaths: Deaths, compat: Compat, *, removes_copies: bool) -> LetterProperties:
    """Return the properties of the letter of `message`, without its header CC if `removes_copies` says so."""
    source = message.head[2]
    if isinstance(source, LetterProperties):
        # The x-first-death headers stay as they were.
        envelope, first = source.envelope, source.first
    else:
        headers = message.headers or Table.EMPTY
        others = headers.without("x-death", *_FIRST_DEATH_HEADERS)
        if compat.has_x_last_death:
            others = others.without(*_LAST_DEATH_HEADERS)
        envelope = message.properties.replace(expiration=None, headers=others)
        if _keeps_first(message, compat):
            first = [(name, field) for name, field in headers if name in _FIRST_DEATH_HEADERS]
        else:
            first = origin_headers("first", deaths[0])
    if removes_copies:
        envelope = envelope.replace(headers=(envelope.headers or Table.EMPTY).without("CC"))
    return LetterProperties(envelope, deaths, first, message.exchange, compat)


def _recorded(history: Deaths, message: Message, queue_name: str, reason: str, now_s: int, compat: Compat) -> Deaths:
    """Return the history with one more death in front; if queue and reason are known, only the count goes up."""
    previous = _death_in(history, queue_name, reason)
    if history:
        has_published, is_update = history[0].has_published_x_death, True
    else:
        published = (message.headers or Table.EMPTY).get("x-death")
        has_published = published is not None
        # A client may have published an array without deaths.
        is_update = published is not None and published.tag == "A"
    is_sorted = compat.sorts_x_death_after_update and is_update
    others = history
    if previous is None:
        expiration = message.envelope.expiration
        newest = Death(queue_name, reason, 1, now_s, message.exchange, _visible_keys(message), expiration, is_sorted)
        newest = newest._replace(has_published_x_death=has_published)
    else:
        newest = previous._replace(
            death_count=previous.death_count + 1, is_sorted=is_sorted, has_published_x_death=has_published
        )
        others = tuple([death for death in history if death is not previous])
    return (newest, *(reversed(others) if compat.reverses_x_death_on_update else others))


def _death_in(history: Deaths, queue_name: str, reason: str) -> Death | None:
    """Return the newest death in this queue for this reason, None if there is none."""
    for death in history:
        if death.queue == queue_name and death.reason == reason:
            return death
    return None


def _visible_keys(message: Message) -> tuple[str, ...]:
    """Return the keys without BCC: each hidden key removes its first match (mc:record_death, seen on 4.3)."""
    keys = list(message.routing_keys)
    for hidden in message.hidden_keys:
        keys.remove(hidden)
    return tuple(keys)


def _keeps_first(message: Message, compat: Compat) -> bool:
    """Return whether the x-first-death headers stay as they are: they were set when x-death first appeared."""
    return bool(message.deaths) or (
        compat.published_x_death_continues and "x-death" in (message.headers or Table.EMPTY)
    )


def _history(message: Message, compat: Compat) -> Deaths:
    if message.deaths or not compat.published_x_death_continues:
        return message.deaths
    field = message.headers.get("x-death") if message.headers is not None else None
    if field is None or not isinstance(field.value, tuple):
        return ()
    published = [item.value for item in field.value if isinstance(item, Field) and isinstance(item.value, Table)]
    return tuple([_parsed(table) for table in published])


def _parsed(table: Table) -> Death:
    entry = table.to_python()
    keys = entry.get("routing-keys")
    time = table.get("time")
    expiration = entry.get("original-expiration")
    return Death(
        queue=str(entry.get("queue", "")),
        reason=str(entry.get("reason", "")),
        death_count=count_in(table),
        time_s=time.value if time is not None and isinstance(time.value, int) else 0,
        exchange=str(entry.get("exchange", "")),
        routing_keys=tuple(str(key) for key in keys) if isinstance(keys, list) else (),
        original_expiration=None if expiration is None else str(expiration),
        published=table,
    )
