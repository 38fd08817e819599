"""The filter of a stream's consumer: x-stream-filter and x-stream-match-unfiltered.

A publisher sets a message's value with the header x-stream-filter-value. RabbitMQ filters whole chunks and may deliver
more than the consumer asked for; leveret filters exactly. A missing value and an empty one are the same (seen on 4.3).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from leveret.core.model.errors import InternalRefusal
from leveret.core.model.message import Message
from leveret.core.model.queues.arguments import is_true
from leveret.core.wire.values import Field, Table, Value

_HEADER: Final = "x-stream-filter-value"
_UNFILTERED: Final = b""


class StreamFilter(NamedTuple):
    """The values that one consumer wants."""

    values: frozenset[bytes]

    @classmethod
    def of(cls, arguments: Table) -> StreamFilter | None:
        """Return a consumer's filter, None if it wants everything.

        Raises InternalRefusal for an array without strings.
        """
        field = arguments.get("x-stream-filter")
        if field is None or field.tag not in "SA":
            # RabbitMQ ignores a filter of another type.
            return None
        values = [field.value] if field.tag == "S" else _strings_in(field)
        if is_true(arguments, "x-stream-match-unfiltered"):
            values.append(_UNFILTERED)
        return cls(frozenset(value for value in values if isinstance(value, bytes)))

    def takes(self, message: Message) -> bool:
        """Return whether the consumer wants this message."""
        return _value_of(message) in self.values


def refuse_invalid_value(message: Message) -> None:
    """Refuse a message whose filter value is not a string: RabbitMQ crashes on it."""
    field = _value_field(message)
    if field is not None and field.tag != "S":
        raise InternalRefusal().at(0)


def _value_of(message: Message) -> bytes:
    field = _value_field(message)
    return field.value if field is not None and isinstance(field.value, bytes) else _UNFILTERED


def _value_field(message: Message) -> Field | None:
    return None if message.headers is None else message.headers.get(_HEADER)


def _strings_in(field: Field) -> list[Value]:
    items = field.value if isinstance(field.value, tuple) else ()
    strings = [item.value for item in items if isinstance(item, Field) and item.tag == "S"]
    if not strings:
        raise InternalRefusal()
    return strings
