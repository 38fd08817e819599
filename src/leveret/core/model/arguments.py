"""The arguments of queues: one row each, in the order RabbitMQ validates them.

A row says what values are allowed, which policy key means the same, and what happens when both are there. Which queue
type knows which argument, and in what order a redeclaration compares them, stands in `queue_types`. Texts are those
seen on RabbitMQ 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from leveret.core.compat import Compat
from leveret.core.model.age import age_us
from leveret.core.model.errors import InternalRefusal, PreconditionFailed
from leveret.core.wire import erlang
from leveret.core.wire.values import TYPE_NAMES, Field, Table

INTEGER_TAGS: Final = frozenset("bBsuIil")
TEN_YEARS_MS: Final = 315_360_000_000
_DIGITS: Final = frozenset("0123456789")

QUEUE_TYPES: Final = ("classic", "quorum", "stream")


class _Invalid(Exception):
    """A value that RabbitMQ refuses; the message is the tail of its text."""


Check = Callable[[Field, Compat], None]


class QueueArgument(NamedTuple):
    """One argument of queue.declare."""

    name: str
    check: Check
    # The key of a policy that sets the same, empty when a policy cannot.
    policy_key: str = ""
    # What holds when both are set: the lower number, or whoever is named.
    winner: str = "argument"


def _integer(field: Field) -> int:
    if field.tag not in INTEGER_TAGS or not isinstance(field.value, int):
        raise _Invalid(f'"expected integer, got {TYPE_NAMES[field.tag]}"')
    return field.value


def _not_negative(field: Field, compat: Compat) -> None:
    value = _integer(field)
    if value < 0:
        raise _Invalid(f"{{value_negative,{value}}}")


def _positive(field: Field, compat: Compat) -> None:
    _not_negative(field, compat)
    if field.value == 0:
        raise _Invalid("{value_zero,0}")


def _not_too_long(field: Field, compat: Compat) -> None:
    value = _integer(field)
    if value > TEN_YEARS_MS:
        raise _Invalid(f"{{value_too_large,{value}}}")


def _expires(field: Field, compat: Compat) -> None:
    _positive(field, compat)
    _not_too_long(field, compat)


def _message_ttl(field: Field, compat: Compat) -> None:
    _not_negative(field, compat)
    _not_too_long(field, compat)


def _max_priority(field: Field, compat: Compat) -> None:
    _not_negative(field, compat)
    value = _integer(field)
    if value > 255:
        raise _Invalid(f"{{max_value_exceeded,{value}}}")


def _string(field: Field) -> str:
    if field.tag != "S" or not isinstance(field.value, bytes):
        raise _Invalid(f"{{unacceptable_type,{TYPE_NAMES[field.tag]}}}")
    return field.value.decode("utf-8", "surrogateescape")


def _one_of(words: tuple[str, ...], refusal: str) -> Check:
    def check(field: Field, compat: Compat) -> None:
        if _string(field) not in words:
            raise _Invalid(refusal)

    return check


def _any_string(field: Field, compat: Compat) -> None:
    _string(field)


def _boolean(field: Field, compat: Compat) -> None:
    if field.tag != "t":
        raise _Invalid(f"{{unacceptable_type,{TYPE_NAMES[field.tag]}}}")


def _queue_version(field: Field, compat: Compat) -> None:
    value = _integer(field)
    if value not in compat.queue_versions:
        raise _Invalid(f"\"unsupported queue version '{value}'\"")


def _queue_mode(field: Field, compat: Compat) -> None:
    if not compat.checks_queue_mode:
        return
    word = _string(field)
    if word not in ("default", "lazy"):
        raise _Invalid(f"\"unsupported queue mode '{word}'\"")


def _max_age(field: Field, compat: Compat) -> None:
    text = _string(field)
    if age_us(text) is not None:
        return
    if compat.bad_stream_offset_is_hard and text[:1] not in _DIGITS:
        raise InternalRefusal().at(0)
    raise _Invalid("invalid_max_age")


def _segment_size(field: Field, compat: Compat) -> None:
    _not_negative(field, compat)
    if _integer(field) > 3_000_000_000:
        raise PreconditionFailed("Exceeded max value for x-stream-max-segment-size-bytes")


def _filter_size(field: Field, compat: Compat) -> None:
    if not 16 <= _integer(field) <= 255:
        raise PreconditionFailed("Invalid value for x-stream-filter-size-bytes")


def _anything(_field: Field, _compat: Compat) -> None:
    """Accept and ignore any value."""


# In RabbitMQ's order of validation.
QUEUE_ARGUMENTS: Final[dict[str, QueueArgument]] = {
    row.name: row
    for row in (
        QueueArgument("x-expires", _expires, "expires", "lower"),
        QueueArgument("x-message-ttl", _message_ttl, "message-ttl", "lower"),
        QueueArgument("x-dead-letter-exchange", _any_string, "dead-letter-exchange"),
        QueueArgument("x-dead-letter-routing-key", _any_string, "dead-letter-routing-key"),
        QueueArgument(
            "x-dead-letter-strategy",
            _one_of(("at-most-once", "at-least-once"), "invalid_dlx_strategy"),
            "dead-letter-strategy",
        ),
        QueueArgument("x-max-length", _not_negative, "max-length", "lower"),
        QueueArgument("x-max-length-bytes", _not_negative, "max-length-bytes", "lower"),
        QueueArgument("x-max-in-memory-length", _not_negative, "max-in-memory-length", "lower"),
        QueueArgument("x-max-in-memory-bytes", _not_negative, "max-in-memory-bytes", "lower"),
        QueueArgument("x-max-priority", _max_priority),
        QueueArgument(
            "x-overflow",
            _one_of(("drop-head", "reject-publish", "reject-publish-dlx"), "invalid_overflow"),
            "overflow",
        ),
        QueueArgument("x-queue-mode", _queue_mode, "queue-mode"),
        QueueArgument("x-queue-version", _queue_version, "queue-version"),
        QueueArgument("x-single-active-consumer", _boolean),
        QueueArgument("x-queue-type", _anything),
        QueueArgument("x-quorum-initial-group-size", _positive),
        QueueArgument("x-delivery-limit", _anything, "delivery-limit", "delivery_limit"),
        QueueArgument("x-consumer-timeout", _not_negative, "consumer-timeout", "lower"),
        QueueArgument("x-consumer-disconnected-timeout", _not_negative, "consumer-disconnected-timeout"),
        QueueArgument("x-delayed-retry-type", _anything, "delayed-retry-type"),
        QueueArgument("x-delayed-retry-min", _anything, "delayed-retry-min"),
        QueueArgument("x-delayed-retry-max", _anything, "delayed-retry-max"),
        QueueArgument("x-max-age", _max_age, "max-age"),
        QueueArgument("x-stream-max-segment-size-bytes", _segment_size, "stream-max-segment-size-bytes", "lower"),
        QueueArgument("x-stream-filter-size-bytes", _filter_size, "stream-filter-size-bytes"),
        QueueArgument("x-initial-cluster-size", _positive, "initial-cluster-size"),
        QueueArgument(
            "x-queue-leader-locator",
            _one_of(("client-local", "balanced", "random", "least-leaders"), "invalid_queue_locator_arg"),
            "queue-leader-locator",
        ),
        QueueArgument("x-queue-master-locator", _anything, "queue-master-locator"),
    )
}


# In which order they are checked.
_RANKS: Final = {name: rank for rank, name in enumerate(QUEUE_ARGUMENTS)}


def refuse_invalid_dead_letter_exchange(arguments: Table, place: str) -> None:
    """Refuse a dead-letter exchange that is not a string: checked before everything else about arguments."""
    field = arguments.get("x-dead-letter-exchange")
    if field is not None and field.tag != "S":
        raise PreconditionFailed(f"invalid type '{TYPE_NAMES[field.tag]}' for arg 'x-dead-letter-exchange' in {place}")


def refuse_invalid_type(arguments: Table, place: str) -> None:
    """Refuse a queue type that does not exist: it has to be known before the other arguments are looked at."""
    field = arguments.get("x-queue-type")
    if field is None:
        return
    if field.tag != "S" or not isinstance(field.value, bytes):
        tail = f"{{unacceptable_type,{TYPE_NAMES[field.tag]}}}"
        raise PreconditionFailed(f"invalid arg 'x-queue-type' for {place}: {tail}")
    word = field.value.decode("utf-8", "surrogateescape")
    if word not in QUEUE_TYPES:
        raise PreconditionFailed(f"invalid arg 'x-queue-type' for {place}: \"unsupported queue type '{word}'\"")


def refuse_invalid_values(arguments: Table, place: str, known: tuple[str, ...], compat: Compat) -> None:
    """Refuse the first argument with a value that RabbitMQ does not allow; `place` is like "queue 'q' in vhost '/'"."""
    given = {name for name, _ in arguments}
    for name in sorted(given.intersection(known), key=_RANKS.__getitem__):
        field = arguments.get(name)
        assert field is not None
        try:
            QUEUE_ARGUMENTS[name].check(field, compat)
        except _Invalid as refusal:
            raise PreconditionFailed(f"invalid arg '{name}' for {place}: {refusal}") from None
    if "x-dead-letter-routing-key" in given and "x-dead-letter-exchange" not in given:
        raise PreconditionFailed(f"invalid arg 'x-dead-letter-routing-key' for {place}: routing_key_but_no_dlx_defined")


def refuse_unknown_to_type(
    arguments: Table, place: str, known: tuple[str, ...], erlang_type: str, compat: Compat
) -> None:
    """Refuse an argument that only other queue types know, or that only a plugin gives a meaning."""
    lenient = (*compat.unknown_queue_arguments, *compat.misplaced_queue_arguments)
    for name in sorted(name for name, _ in arguments):
        if name not in QUEUE_ARGUMENTS:
            # Seldom: not for those who say nothing unknown.
            from leveret.core.model import absent

            absent.refuse_queue_argument(name)
        elif name not in known and name not in lenient:
            raise PreconditionFailed(f"invalid arg '{name}' for {place} of queue type {erlang_type}")


def refuse_inequivalent(place: str, names: tuple[str, ...], received: Table, current: Table) -> None:
    """Refuse a redeclaration whose arguments differ; the first difference in the order of `names` is named."""
    for name in names:
        new, old = received.get(name), current.get(name)
        if _same(new, old):
            continue
        if new is None or old is None:
            shown = f"received {_described(new)} but current is {_described(old)}"
        else:
            shown = f"received '{printed(new)}' but current is '{printed(old)}'"
        raise PreconditionFailed(f"inequivalent arg '{name}' for {place}: {shown}")


def with_age_in_ms(arguments: Table) -> Table:
    """The arguments with x-max-age in milliseconds, as newer versions compare and print it."""
    field = arguments.get("x-max-age")
    text = string_of(arguments, "x-max-age")
    span_us = None if text is None else age_us(text)
    if field is None or span_us is None:
        return arguments
    return arguments.with_entry("x-max-age", Field(field.tag, str(span_us // 1000).encode()))


def printed(field: Field) -> str:
    """A field's value as RabbitMQ prints it in these texts."""
    value = field.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, float):
        return erlang.float_text(value)
    return str(value)


def integer_of(table: Table, name: str) -> int | None:
    """The integer argument `name`, None when absent or of another type."""
    field = table.get(name)
    if field is None or field.tag not in INTEGER_TAGS or not isinstance(field.value, int):
        return None
    return field.value


def string_of(table: Table, name: str) -> str | None:
    """The string argument `name`, None when absent or of another type."""
    field = table.get(name)
    if field is None or not isinstance(field.value, bytes):
        return None
    return field.value.decode("utf-8", "surrogateescape")


def is_true(table: Table, name: str) -> bool:
    """Whether the boolean argument `name` is there and true."""
    field = table.get(name)
    return field is not None and field.tag == "t" and bool(field.value)


def _same(new: Field | None, old: Field | None) -> bool:
    if new is None or old is None:
        return new is old
    # All integer tags are one class; an integer is never a float or a boolean.
    return _family(new) == _family(old) and new.value == old.value


def _family(field: Field) -> str:
    return "integer" if field.tag in INTEGER_TAGS else field.tag


def _described(field: Field | None) -> str:
    return "none" if field is None else f"the value '{printed(field)}' of type '{TYPE_NAMES[field.tag]}'"
