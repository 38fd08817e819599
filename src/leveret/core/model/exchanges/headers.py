"""The headers exchange: a binding's arguments are conditions on the message's headers; the routing key is ignored.

RabbitMQ compares a header with an argument after dropping the wire types of both, except inside arrays and tables.
`comparable` does the same. Timestamps are an exception: 4.x converts a header's to milliseconds and leaves the
binding's in seconds (rabbit mc_amqpl, routing_headers; seen on 4.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import copysign
from typing import Final, NamedTuple

from leveret.core.compat import Compat
from leveret.core.model.binding import Binding, BindingKey, Destination
from leveret.core.model.errors import PreconditionFailed
from leveret.core.model.exchanges.exchange import Exchange
from leveret.core.model.message import Message
from leveret.core.wire.erlang import term
from leveret.core.wire.values import TYPE_NAMES, Field, Table

X_MATCH: Final = "x-match"
MATCHES: Final = (b"all", b"any", b"all-with-x", b"any-with-x")

# Equal exactly when RabbitMQ finds the values equal. Booleans become strings, which no other value is.
Comparable = str | int | bytes | tuple[object, ...] | float | None


class Conditions(NamedTuple):
    """The conditions of one binding on the headers."""

    destination: Destination
    # Whether one fulfilled condition is enough.
    is_any: bool
    # Names that must be present with any value (void arguments), and names with the required value.
    present: tuple[str, ...]
    equal: tuple[tuple[str, Comparable], ...]

    def match(self, headers: dict[str, Comparable]) -> bool:
        """Return whether a message with these headers fulfils the conditions."""
        present = (name in headers for name in self.present)
        equal = (name in headers and headers[name] == value for name, value in self.equal)
        return (any if self.is_any else all)(chain(present, equal))


class HeadersExchange(Exchange):
    """An exchange that routes by header values."""

    __slots__ = ("_conditions",)

    type_name = "headers"
    routes_by_key_alone = False

    _conditions: dict[BindingKey, Conditions]

    def check_binding(self, destination: Destination, routing_key: str, arguments: Table, compat: Compat) -> None:
        """Refuse an x-match that is not one of the four words."""
        field = arguments.get(X_MATCH)
        if field is None:
            return
        if field.tag != "S" or not isinstance(field.value, bytes):
            raise PreconditionFailed(
                f"Invalid x-match field type {TYPE_NAMES[field.tag]} (value {term(field.value)}); expected longstr"
            )
        if field.value not in MATCHES:
            raise PreconditionFailed(
                f"Invalid x-match field value {term(field.value)}; expected all, any, all-with-x, or any-with-x"
            )

    def _prepare(self) -> None:
        self._conditions = {}

    def _add(self, binding: Binding) -> None:
        self._conditions[binding.key] = conditions_of(binding, self.compat)

    def _remove(self, binding: Binding) -> None:
        del self._conditions[binding.key]

    def route(self, message: Message) -> Sequence[Destination]:
        """Return the destinations whose conditions the headers fulfil."""
        seen = message.headers if self.compat.routes_by_x_death else message.routing_headers
        headers = comparable_headers(seen, self.compat)
        return [conditions.destination for conditions in self._conditions.values() if conditions.match(headers)]


def conditions_of(binding: Binding, compat: Compat) -> Conditions:
    """Return the conditions in a binding's arguments. If a name occurs twice, both pairs count."""
    field = binding.arguments.get(X_MATCH)
    word = b"all" if field is None else field.value
    has_x_conditions = word in (b"all-with-x", b"any-with-x")
    asked = [
        (name, field)
        for name, field in binding.arguments
        if name != X_MATCH and (has_x_conditions or not name.startswith("x-"))
    ]
    return Conditions(
        destination=binding.destination,
        is_any=word in (b"any", b"any-with-x"),
        present=tuple(name for name, field in asked if field.tag == "V"),
        equal=tuple((name, comparable(field, compat)) for name, field in asked if field.tag != "V"),
    )


def comparable_headers(headers: Table | None, compat: Compat) -> dict[str, Comparable]:
    """Return the comparable values of a message's headers by name."""
    if headers is None:
        return {}
    if not compat.headers_compare_timestamps_in_ms:
        return {name: comparable(field, compat) for name, field in headers}
    return {
        name: field.value * 1000 if field.tag == "T" and isinstance(field.value, int) else comparable(field, compat)
        for name, field in headers
    }


def comparable(field: Field, compat: Compat) -> Comparable:
    """Return a value without its wire type; values inside arrays and tables keep theirs."""
    value = field.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if not compat.zero_equals_negative_zero:
            return ("float", value, copysign(1, value))
        return value if compat.integer_equals_float_in_headers else ("float", value)
    # To RabbitMQ an empty table and an empty array are the same empty list (seen on 4.3).
    items = value.entries if isinstance(value, Table) else value
    if items and field.tag in ("A", "F") and not compat.zero_equals_negative_zero:
        return field.tag, Table((("", field),)).encode()
    return items
