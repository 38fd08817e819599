"""The queue types: one row each, with what the type supports and where it differs from the others.

A row's `arguments` come from the rows of `arguments.QUEUE_ARGUMENTS` that name the type, in the order in which a
redeclaration compares them. Its `consumer_arguments` are those of basic.consume.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from leveret.core.compat import Compat
from leveret.core.model.errors import PreconditionFailed
from leveret.core.model.queues.arguments import QUEUE_ARGUMENTS, Check, check_value, integer_in, not_negative, printed
from leveret.core.wire.values import TYPE_NAMES, Field, Table

_FILTERS: Final = ("x-stream-filter", "x-stream-match-unfiltered")


class QueueType(NamedTuple):
    """The properties of one queue type."""

    name: str
    # The name of RabbitMQ's module, which appears in its texts.
    erlang_name: str
    arguments: tuple[str, ...]
    consumer_arguments: tuple[str, ...]
    # Classic queues may be exclusive, auto-delete, transient or server-named; the other types may not.
    is_always_durable: bool = True
    # Which one applies if both an argument and a policy set the overflow mode.
    overflow_by: str = "policy"
    # Whether the type supports reject-publish-dlx; a type that does not drops from its head instead.
    has_reject_publish_dlx: bool = False

    def known_arguments(self, compat: Compat) -> tuple[str, ...]:
        """Return the arguments that this type knows in one version, in order of comparison."""
        hidden = (*compat.unknown_queue_arguments, *compat.unchecked_queue_arguments)
        if self.name == "classic" and not compat.classic_knows_leader_locator:
            hidden = (*hidden, "x-queue-leader-locator")
        return tuple([name for name in self.arguments if name not in hidden]) if hidden else self.arguments


# A redeclaration of a quorum queue compares these in this order, not in the order of validation.
_QUORUM_COMPARED_FIRST: Final = (
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-expires",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-overflow",
    "x-single-active-consumer",
    "x-queue-type",
    "x-quorum-initial-group-size",
    "x-delivery-limit",
    "x-message-ttl",
    "x-queue-leader-locator",
    "x-consumer-disconnected-timeout",
)


def _arguments_of(type_name: str, first: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the arguments whose rows name the type, in order of comparison."""
    return (*first, *(row.name for row in QUEUE_ARGUMENTS.values() if type_name in row.types and row.name not in first))


CLASSIC: Final = QueueType(
    name="classic",
    erlang_name="rabbit_classic_queue",
    arguments=_arguments_of("classic"),
    consumer_arguments=("x-priority",),
    is_always_durable=False,
    overflow_by="argument",
    has_reject_publish_dlx=True,
)

QUORUM: Final = QueueType(
    name="quorum",
    erlang_name="rabbit_quorum_queue",
    arguments=_arguments_of("quorum", _QUORUM_COMPARED_FIRST),
    consumer_arguments=("x-priority", "x-consumer-timeout"),
)

STREAM: Final = QueueType(
    name="stream",
    erlang_name="rabbit_stream_queue",
    arguments=_arguments_of("stream"),
    consumer_arguments=("x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered"),
)

QUEUE_TYPES: Final[dict[str, QueueType]] = {row.name: row for row in (CLASSIC, QUORUM, STREAM)}
# All consumer arguments of all types. RabbitMQ refuses one of these on the wrong type and ignores any other.
CONSUMER_ARGUMENTS: Final = frozenset(name for row in QUEUE_TYPES.values() for name in row.consumer_arguments)


def requested_type(arguments: Table, title: str, compat: Compat, default: str) -> QueueType:
    """Return the queue type that the arguments request, classic if they name none. Some words mean the default type.

    RabbitMQ checks the type before the other arguments. Raises PreconditionFailed for an unknown type.
    """
    field = arguments.get("x-queue-type")
    if field is None:
        return CLASSIC
    if field.tag != "S" or not isinstance(field.value, bytes):
        tail = f"{{unacceptable_type,{TYPE_NAMES[field.tag]}}}"
        raise PreconditionFailed(f"invalid arg 'x-queue-type' for {title}: {tail}")
    word = field.value.decode("utf-8", "surrogateescape")
    if word in compat.default_queue_type_words:
        return QUEUE_TYPES[default]
    if word not in QUEUE_TYPES:
        tail = f"\"unsupported queue type '{printed(field, compat)}'\""
        raise PreconditionFailed(f"invalid arg 'x-queue-type' for {title}: {tail}")
    return QUEUE_TYPES[word]


def refuse_invalid_consumer(queue_type: QueueType, arguments: Table, title: str, compat: Compat) -> None:
    """Refuse arguments that a consumer of a queue of this type cannot have. Raises AmqpError.

    RabbitMQ checks the values first, in a fixed order and only of arguments that the type knows. Then it refuses the
    first argument, in the order given, that only other types know (seen on 4.3). It ignores arguments that no type
    knows.
    """
    names = queue_type.consumer_arguments
    for name, check in _CHECKS.items():
        field = arguments.get(name)
        if field is not None and name in names:
            check_value(name, field, check, title, compat)
    ignored = _ignored(compat)
    for name, _ in arguments:
        if name in CONSUMER_ARGUMENTS and name not in names and name not in ignored:
            raise PreconditionFailed(f"invalid arg '{name}' for {title} of queue type {queue_type.erlang_name}")


def _ignored(compat: Compat) -> tuple[str, ...]:
    """Return the arguments that a version does not know, or accepts on a type that does not use them."""
    filters = () if compat.has_stream_filters else _FILTERS
    return (*compat.unknown_queue_arguments, *compat.unchecked_queue_arguments, *filters)


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
