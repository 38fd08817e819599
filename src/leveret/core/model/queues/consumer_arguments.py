"""The arguments of basic.consume: their valid values, and refusals of arguments that the queue type does not support.

RabbitMQ checks the values first, in a fixed order and only of arguments that the type knows. Then it refuses the first
argument, in the order given, that only other types know (seen on 4.3). It ignores arguments that no type knows.
"""

from __future__ import annotations

from typing import Final

from leveret.core.compat import Compat
from leveret.core.model.errors import PreconditionFailed
from leveret.core.model.queues.arguments import Check, check_value, integer_in, not_negative
from leveret.core.model.queues.queue_types import CONSUMER_ARGUMENTS
from leveret.core.model.queues.stored_queue import StoredQueue
from leveret.core.wire.values import Field, Table

_FILTERS: Final = ("x-stream-filter", "x-stream-match-unfiltered")


def refuse_invalid(queue: StoredQueue, arguments: Table) -> None:
    """Refuse arguments that a consumer of this queue cannot have. Raises AmqpError."""
    compat, names = queue.node.compat, queue.type.consumer_arguments
    for name, check in _CHECKS.items():
        field = arguments.get(name)
        if field is not None and name in names:
            check_value(name, field, check, queue.title, compat)
    ignored = _ignored(compat)
    for name, _ in arguments:
        if name in CONSUMER_ARGUMENTS and name not in names and name not in ignored:
            raise PreconditionFailed(f"invalid arg '{name}' for {queue.title} of queue type {queue.type.erlang_name}")


def _ignored(compat: Compat) -> tuple[str, ...]:
    """Return the arguments that a version does not know, or accepts on a type that does not use them."""
    filters = () if compat.has_stream_filters else _FILTERS
    return (*compat.unknown_queue_arguments, *compat.misplaced_queue_arguments, *filters)


def _integer(field: Field, _compat: Compat) -> None:
    integer_in(field)


def _timeout(field: Field, compat: Compat) -> None:
    if "x-consumer-timeout" not in _ignored(compat):
        not_negative(field, compat)


def _stream_offset(field: Field, compat: Compat) -> None:
    from leveret.core.model.streams import stream_offset

    stream_offset.refuse_invalid_string(field, compat)


_CHECKS: Final[dict[str, Check]] = {
    "x-priority": _integer,
    "x-stream-offset": _stream_offset,
    "x-consumer-timeout": _timeout,
}
