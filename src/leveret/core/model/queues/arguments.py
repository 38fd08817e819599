"""The queue arguments: one row each, in the order in which RabbitMQ validates them.

A row has everything about its argument: the valid values, the queue types that know it, the policy key with the same
effect and its valid values, and which value applies if several are set. Texts are those seen on RabbitMQ 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Literal, NamedTuple, TypeGuard

from leveret.core.compat import Compat
from leveret.core.model.errors import InternalRefusal, PreconditionFailed
from leveret.core.wire import erlang
from leveret.core.wire.values import TYPE_NAMES, Field, Table

INTEGER_TAGS: Final = frozenset("bBsuIil")
TEN_YEARS_MS: Final = 315_360_000_000
_DIGITS: Final = frozenset("0123456789")
_DAY_S: Final = 86_400
_UNIT_S: Final = {"Y": 365 * _DAY_S, "M": 30 * _DAY_S, "D": _DAY_S, "h": 3600, "m": 60, "s": 1}


class Invalid(Exception):
    """A value that RabbitMQ refuses; the message is the end of RabbitMQ's text."""


Check = Callable[[Field, Compat], None]
OperatorMerge = Literal["lower", "higher", "limit", "operator"]


class PolicyKey(NamedTuple):
    """One key of a policy's definition."""

    name: str
    is_valid: Callable[[object], bool]
    # RabbitMQ's name for it, as in "{value} is not a valid {title}".
    title: str
    # Which value applies if a user policy and an operator policy both have the key; None if an operator policy may not
    # have it.
    operator_merge: OperatorMerge | None = None
    # A policy with this key does not apply to queues of these types at all (rabbit_*_queue, capabilities).
    unsupported_by: tuple[str, ...] = ()


class QueueArgument(NamedTuple):
    """One argument of queue.declare."""

    name: str
    check: Check
    # The queue types that know it.
    types: tuple[str, ...]
    # The policy key with the same effect, None if there is none.
    policy_key: PolicyKey | None = None
    # Which value applies if the argument and the key are both set: the lower number, the shorter age, the stricter
    # delivery limit, or that of the argument or the policy. A queue type may override it (`QueueType.overflow_by`).
    winner: str = "argument"


def integer_in(field: Field) -> int:
    """Return the integer in a field. Raises Invalid for another type."""
    if field.tag not in INTEGER_TAGS or not isinstance(field.value, int):
        raise Invalid(f'"expected integer, got {TYPE_NAMES[field.tag]}"')
    return field.value


def _integer(least: int, most: int | None = None, excess: str = "value_too_large") -> Check:
    """Return the check of an integer from 0 or 1 up to the most, with RabbitMQ's word for one above it."""

    def check(field: Field, compat: Compat) -> None:
        value = integer_in(field)
        if value < 0:
            raise Invalid(f"{{value_negative,{value}}}")
        if value < least:
            raise Invalid("{value_zero,0}")
        if most is not None and value > most:
            raise Invalid(f"{{{excess},{value}}}")

    return check


not_negative: Final = _integer(0)
_positive: Final = _integer(1)


def _string(field: Field) -> str:
    if field.tag != "S" or not isinstance(field.value, bytes):
        raise Invalid(f"{{unacceptable_type,{TYPE_NAMES[field.tag]}}}")
    return field.value.decode("utf-8", "surrogateescape")


def _one_of(words: tuple[str, ...], refusal: str) -> Check:
    def check(field: Field, compat: Compat) -> None:
        if _string(field) not in words:
            raise Invalid(refusal)

    return check


def _any_string(field: Field, compat: Compat) -> None:
    _string(field)


def _boolean(field: Field, compat: Compat) -> None:
    if field.tag != "t":
        raise Invalid(f"{{unacceptable_type,{TYPE_NAMES[field.tag]}}}")


def _queue_version(field: Field, compat: Compat) -> None:
    value = integer_in(field)
    if value not in compat.queue_versions:
        raise Invalid(f"\"unsupported queue version '{value}'\"")


def _queue_mode(field: Field, compat: Compat) -> None:
    if not compat.checks_queue_mode:
        return
    if _string(field) not in ("default", "lazy"):
        raise Invalid(f"\"unsupported queue mode '{printed(field, compat)}'\"")


def _max_age(field: Field, compat: Compat) -> None:
    text = _string(field)
    if age_us(text) is not None:
        return
    if compat.bad_stream_offset_is_hard and text[:1] not in _DIGITS:
        raise InternalRefusal().at(0)
    raise Invalid("invalid_max_age")


def _segment_size(field: Field, compat: Compat) -> None:
    not_negative(field, compat)
    if integer_in(field) > 3_000_000_000:
        raise PreconditionFailed("Exceeded max value for x-stream-max-segment-size-bytes")


def _filter_size(field: Field, compat: Compat) -> None:
    if not 16 <= integer_in(field) <= 255:
        raise PreconditionFailed("Invalid value for x-stream-filter-size-bytes")


def refuse_unchecked_filter_size(arguments: Table, compat: Compat) -> None:
    """Refuse a stream's size of filters where it is not checked with the other arguments: any number in its range."""
    name = "x-stream-filter-size-bytes"
    field = arguments.get(name)
    if field is None or name not in compat.unchecked_queue_arguments:
        return
    if field.tag == "t" or not isinstance(field.value, (int, float)) or not 16 <= field.value <= 255:
        raise PreconditionFailed(f"Invalid value for  {name}")


def _anything(_field: Field, _compat: Compat) -> None:
    """Accept and ignore any value."""


def integer_from(lowest: int, highest: int | None = None) -> Callable[[object], bool]:
    """Return a check of whether the value of a policy key is an integer in this range."""

    def is_valid(value: object) -> bool:
        if not is_integer(value):
            return False
        return value >= lowest and (highest is None or value <= highest)

    return is_valid


def is_string(value: object) -> bool:
    """Return whether the value of a policy key is a string."""
    return isinstance(value, str)


def is_integer(value: object) -> TypeGuard[int]:
    """Return whether the value of a policy key is an integer, and not a boolean."""
    return isinstance(value, int) and not isinstance(value, bool)


def _is_one_of(*words: object) -> Callable[[object], bool]:
    return lambda value: not isinstance(value, bool) and value in words


def _is_age(value: object) -> bool:
    return isinstance(value, str) and age_us(value) is not None


_STRATEGIES: Final = ("at-most-once", "at-least-once")
_OVERFLOWS: Final = ("drop-head", "reject-publish", "reject-publish-dlx")
_LOCATORS: Final = ("client-local", "balanced", "random", "least-leaders")
_RETRY_TYPES: Final = ("all", "failed", "returned", "disabled")

# The types that know an argument.
_CLASSIC: Final = ("classic",)
_QUORUM: Final = ("quorum",)
_STREAM: Final = ("stream",)
_CLASSIC_QUORUM: Final = ("classic", "quorum")
_ALL: Final = ("classic", "quorum", "stream")


def _with_key(
    name: str,
    check: Check,
    types: tuple[str, ...],
    is_valid: Callable[[object], bool],
    title: str,
    *,
    operator: OperatorMerge | None = None,
    winner: str = "argument",
    is_key_ignored: bool = False,
) -> QueueArgument:
    """Return the row of an argument and of its policy key, which has the same name without "x-".

    Other types of queues ignore the key, or else no policy with it applies to them.
    """
    others = () if is_key_ignored else tuple(each for each in _ALL if each not in types)
    return QueueArgument(name, check, types, PolicyKey(name[2:], is_valid, title, operator, others), winner)


# The lower number applies, wherever it is set.
_limit: Final = partial(_with_key, operator="lower", winner="lower")
# Queues of other types ignore the key.
_ignored: Final = partial(_with_key, is_key_ignored=True)


def _choice(
    name: str,
    words: tuple[str, ...],
    refusal: str,
    types: tuple[str, ...],
    title: str,
    operator: OperatorMerge | None = None,
) -> QueueArgument:
    return _with_key(name, _one_of(words, refusal), types, _is_one_of(*words), title, operator=operator)


# In RabbitMQ's order of validation.
_ROWS: Final = (
    _limit("x-expires", _integer(1, TEN_YEARS_MS), _CLASSIC_QUORUM, integer_from(1), "queue expiry"),
    _limit("x-message-ttl", _integer(0, TEN_YEARS_MS), _CLASSIC_QUORUM, integer_from(0), "message TTL"),
    _with_key("x-dead-letter-exchange", _any_string, _CLASSIC_QUORUM, is_string, "dead letter exchange name"),
    _with_key("x-dead-letter-routing-key", _any_string, _CLASSIC_QUORUM, is_string, "dead letter routing key"),
    _choice("x-dead-letter-strategy", _STRATEGIES, "invalid_dlx_strategy", _QUORUM, "dead letter strategy"),
    _limit("x-max-length", not_negative, _CLASSIC_QUORUM, integer_from(0), "maximum length"),
    _limit("x-max-length-bytes", not_negative, _ALL, integer_from(0), "maximum length in bytes"),
    _limit("x-max-in-memory-length", not_negative, _QUORUM, integer_from(0), "maximum memory in bytes"),
    _limit("x-max-in-memory-bytes", not_negative, _QUORUM, integer_from(0), "maximum memory in bytes"),
    QueueArgument("x-max-priority", _integer(0, 255, "max_value_exceeded"), _CLASSIC),
    _choice("x-overflow", _OVERFLOWS, "invalid_overflow", _CLASSIC_QUORUM, "overflow value", "operator"),
    _with_key("x-queue-mode", _queue_mode, _CLASSIC, _is_one_of("default", "lazy"), "queue-mode value"),
    _ignored("x-queue-version", _queue_version, _CLASSIC, _is_one_of(1, 2), "queue-version value", operator="operator"),
    QueueArgument("x-single-active-consumer", _boolean, _CLASSIC_QUORUM),
    QueueArgument("x-queue-type", _anything, _ALL),
    QueueArgument("x-quorum-initial-group-size", _positive, _QUORUM),
    _with_key(
        "x-delivery-limit", _anything, _QUORUM, is_integer, "delivery limit", operator="limit", winner="delivery_limit"
    ),
    _ignored("x-consumer-timeout", not_negative, _QUORUM, integer_from(0), "consumer timeout", winner="lower"),
    _ignored(
        "x-consumer-disconnected-timeout", not_negative, _QUORUM, integer_from(0), "consumer disconnected timeout"
    ),
    _ignored(
        "x-delayed-retry-type",
        _anything,
        _QUORUM,
        _is_one_of(*_RETRY_TYPES),
        f"delayed retry type. Must be one of: {', '.join(_RETRY_TYPES)}",
        operator="operator",
    ),
    _ignored(
        "x-delayed-retry-min",
        _anything,
        _QUORUM,
        integer_from(1),
        "delayed retry minimum delay. Must be a positive integer",
        operator="higher",
    ),
    _ignored(
        "x-delayed-retry-max",
        _anything,
        _QUORUM,
        integer_from(1),
        "delayed retry maximum delay. Must be a positive integer",
        operator="lower",
    ),
    _with_key("x-max-age", _max_age, _STREAM, _is_age, "max age", winner="shorter"),
    _with_key(
        "x-stream-max-segment-size-bytes",
        _segment_size,
        _STREAM,
        integer_from(0, 3_000_000_000),
        "segment size",
        winner="lower",
    ),
    _ignored(
        "x-stream-filter-size-bytes", _filter_size, _STREAM, integer_from(16, 255), "filter size. Valid range is 16-255"
    ),
    _with_key("x-initial-cluster-size", _positive, _STREAM, integer_from(0), "cluster size"),
    # A policy with such a key is refused with a text of its own (see `policy_keys`).
    QueueArgument("x-queue-master-locator", _anything, _CLASSIC),
    _choice("x-queue-leader-locator", _LOCATORS, "invalid_queue_locator_arg", _ALL, "queue leader locator value"),
)
QUEUE_ARGUMENTS: Final[dict[str, QueueArgument]] = {row.name: row for row in _ROWS}


# The rank of each argument in the order of validation.
_RANKS: Final = {name: rank for rank, name in enumerate(QUEUE_ARGUMENTS)}


def refuse_unless_string(arguments: Table, name: str, title: str) -> None:
    """Refuse an argument that names an exchange and is not a string. RabbitMQ checks this before all others."""
    field = arguments.get(name)
    if field is not None and field.tag != "S":
        raise PreconditionFailed(f"invalid type '{TYPE_NAMES[field.tag]}' for arg '{name}' in {title}")


def refuse_invalid_values(arguments: Table, title: str, names: tuple[str, ...], compat: Compat) -> None:
    """Refuse the first argument whose value RabbitMQ does not allow; `title` is like "queue 'q' in vhost '/'"."""
    given = {name for name, _ in arguments}
    for name in sorted(given.intersection(names), key=_RANKS.__getitem__):
        field = arguments.get(name)
        assert field is not None
        check_value(name, field, QUEUE_ARGUMENTS[name].check, title, compat)
    if "x-dead-letter-routing-key" in given and "x-dead-letter-exchange" not in given:
        raise PreconditionFailed(f"invalid arg 'x-dead-letter-routing-key' for {title}: routing_key_but_no_dlx_defined")


def check_value(name: str, field: Field, check: Check, title: str, compat: Compat) -> None:
    """Refuse a value of an argument, of a queue or of a consumer, that its check finds invalid."""
    try:
        check(field, compat)
    except Invalid as refusal:
        raise PreconditionFailed(f"invalid arg '{name}' for {title}: {refusal}") from None


def refuse_unknown_to_type(
    arguments: Table, title: str, names: tuple[str, ...], erlang_type: str, compat: Compat
) -> None:
    """Refuse an argument that only other queue types know, or that only an unsupported plugin interprets."""
    lenient = (*compat.unknown_queue_arguments, *compat.unchecked_queue_arguments)
    for name in sorted(name for name, _ in arguments):
        if name not in QUEUE_ARGUMENTS:
            # Rare: imported only for a declaration with an unknown argument.
            from leveret.core.model import unsupported

            unsupported.refuse("queue argument", name, unsupported.QUEUE_ARGUMENTS)
        elif name not in names and name not in lenient:
            raise PreconditionFailed(f"invalid arg '{name}' for {title} of queue type {erlang_type}")


def refuse_inequivalent(
    title: str, names: tuple[str, ...], received: Table, current: Table, kind: str, declared: str, compat: Compat
) -> None:
    """Refuse a redeclaration with different arguments; the text names the first difference in the order of `names`."""
    for name in names:
        new, old = received.get(name), current.get(name)
        if _same(new, old):
            continue
        if new is None or old is None:
            shown = f"received {_described(new, compat)} but current is {_described(old, compat)}"
        else:
            shown = f"received {_quoted(new, compat)} but current is {_quoted(old, compat)}"
        refusal = PreconditionFailed(f"inequivalent arg '{name}' for {title}: {shown}")
        raise refusal.about("inequivalent", kind=kind, name=declared)


def age_us(text: str) -> int | None:
    """Return an age such as 7D or 90s in microseconds, None for an invalid one.

    An age is a positive integer and one of Y M D h m s, in x-max-age, the policy key max-age and x-stream-offset.
    """
    digits, unit = text[:-1], text[-1:]
    if unit not in _UNIT_S or not (digits.isascii() and digits.isdigit()) or int(digits) == 0:
        return None
    return int(digits) * _UNIT_S[unit] * 1_000_000


def with_age_in_ms(arguments: Table) -> Table:
    """Return the arguments with x-max-age in milliseconds, as newer versions compare and print it."""
    field = arguments.get("x-max-age")
    text = string_of(arguments, "x-max-age")
    span_us = None if text is None else age_us(text)
    if field is None or span_us is None:
        return arguments
    return arguments.with_entry("x-max-age", Field(field.tag, str(span_us // 1000).encode()))


def integer_of(table: Table, name: str) -> int | None:
    """Return the integer argument `name`, None if it is missing or of another type."""
    field = table.get(name)
    if field is None or field.tag not in INTEGER_TAGS or not isinstance(field.value, int):
        return None
    return field.value


def string_of(table: Table, name: str) -> str | None:
    """Return the string argument `name`, None if it is missing or of another type."""
    field = table.get(name)
    if field is None or not isinstance(field.value, bytes):
        return None
    return field.value.decode("utf-8", "surrogateescape")


def is_true(table: Table, name: str) -> bool:
    """Return whether the boolean argument `name` is set and true."""
    field = table.get(name)
    return field is not None and field.tag == "t" and bool(field.value)


def _same(new: Field | None, old: Field | None) -> bool:
    if new is None or old is None:
        return new is old
    # The wire types do not count. An integer never equals a float or a boolean.
    return type(new.value) is type(old.value) and new.value == old.value


def _described(field: Field | None, compat: Compat) -> str:
    return "none" if field is None else f"the value '{printed(field, compat)}' of type '{TYPE_NAMES[field.tag]}'"


def _quoted(field: Field, compat: Compat) -> str:
    """Return the value of one of two arguments that differ."""
    if field.tag == "D":
        # RabbitMQ takes the pair for a type and a value, and crashes (rabbit_misc:val).
        raise InternalRefusal()
    return "none" if field.value is None else f"'{printed(field, compat)}'"


def printed(field: Field, compat: Compat) -> str:
    """Return the value of a field for a text."""
    if not isinstance(field.value, bytes):
        return erlang.term(field.value)
    text = field.value.decode("utf-8", "surrogateescape")
    return erlang.shown(text) if compat.shows_octets_as_latin1 else text
