"""The encoder of rows: it turns the columns of a DataFrame into the frames of a publish.

The columns are those that reading a queue yields (`body`, `exchange`, `routing_key`, the properties, `headers`), so you
can write what you have read. `value` may replace `body`. If a column is null or missing, the option of that name
applies.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types

from leveret.core.wire.constants import CLASS_BASIC, FRAME_BODY, FRAME_HEADER, FRAME_METHOD, FRAME_OVERHEAD
from leveret.core.wire.frames import wrap
from leveret.core.wire.properties import PROPERTY_NAMES
from leveret.core.wire.values import Table, encode_short_string
from leveret.errors import OptionError, unknown
from leveret.spark.amqp.columns import COLUMN_TYPES
from leveret.spark.amqp.options import WriteOptions

if TYPE_CHECKING:
    from pyarrow import RecordBatch

CHANNEL: Final = 1
_PUBLISH: Final = b"\x00\x3c\x00\x28\x00\x00"
_HEADER: Final = Struct(">HHQH")
_TIMESTAMP: Final = Struct(">Q")
_PERSISTENT: Final = 2

# Columns of a message that was read which say where it came from. Writing ignores them.
_IGNORED: Final = ("redelivered", "delivery_tag", "queue", "ordinal")
_BODY: Final = (types.BinaryType, types.StringType)
_WHOLE: Final = (types.ByteType, types.ShortType, types.IntegerType, types.LongType)
# The types that a column may have: usually that in which it is read, and some others.
_COLUMN_TYPES: Final[dict[str, tuple[type[types.DataType], ...]]] = {
    **{name: (type(kind),) for name, kind in COLUMN_TYPES.items() if name not in _IGNORED},
    "body": _BODY,
    "value": _BODY,
    "mandatory": (types.BooleanType,),
    "headers": (types.StringType, types.MapType),
    "delivery_mode": _WHOLE,
    "priority": _WHOLE,
}


def check_columns(schema: types.StructType, options: WriteOptions) -> None:
    """Check the columns of a DataFrame before it is written. Raises OptionError if a column is missing or wrong."""
    names = schema.fieldNames()
    for field in schema.fields:
        if field.name in _IGNORED:
            continue
        kinds = _COLUMN_TYPES.get(field.name)
        if kinds is None:
            raise OptionError(
                f"{unknown('column', field.name, _COLUMN_TYPES)}; put other values into the body, "
                "for example with to_json(struct(...))"
            )
        if not isinstance(field.dataType, kinds):
            wanted = " or ".join(kind.typeName() for kind in kinds)
            raise OptionError(
                f"column {field.name!r} has type {field.dataType.simpleString()}; it must be {wanted}: cast it"
            )
    if ("body" in names) == ("value" in names):
        raise OptionError(
            f"the DataFrame has {'both' if 'body' in names else 'neither'} of the columns body and value; it needs "
            f"exactly one for the body of the messages: {'drop' if 'body' in names else 'rename'} a column"
        )
    if options.exchange is None and options.routing_key is None and not {"exchange", "routing_key"} & set(names):
        raise OptionError(
            "no destination is given: set the option queue, or exchange and routingKey, or add the columns exchange "
            "and routing_key"
        )
    if (options.on_return == "column") != ("mandatory" in names):
        raise OptionError(
            f"onReturn={options.on_return} does not go with {'a' if 'mandatory' in names else 'no'} column mandatory; "
            "use onReturn=column together with a boolean column mandatory, or neither"
        )


class ContentEncoder:
    """The encoder of one task: it turns rows into publishes."""

    def __init__(self, options: WriteOptions, frame_max: int, id_prefix: str) -> None:
        self._options = options
        self._body_max = frame_max - FRAME_OVERHEAD
        self._id_prefix = id_prefix
        self._count = 0

    def encode(self, batch: RecordBatch) -> Iterator[bytes]:
        """Yield the frames of each row's publish. Raises OptionError if a message cannot hold a value."""
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names if name not in _IGNORED}
        bodies = columns.pop("body", None) or columns.pop("value", [])
        routes = self._routes(columns, len(bodies))
        # Every message gets these properties.
        for name in ("message_id", "delivery_mode") if self._options.persistent else ("message_id",):
            columns.setdefault(name, [None] * len(bodies))
        properties = [(flag, name, columns[name], _ENCODERS[name]) for flag, name in _FLAGS if name in columns]
        for row, body in enumerate(bodies):
            content = body.encode() if isinstance(body, str) else (body or b"")
            yield routes[row] + self._header(row, properties, len(content)) + self._body(content)

    def _routes(self, columns: dict[str, list[Any]], count: int) -> list[bytes]:
        options = self._options
        nowhere = [None] * count
        exchanges, routing_keys = columns.get("exchange", nowhere), columns.get("routing_key", nowhere)
        mandatory = columns.get("mandatory") or [options.on_return == "fail"] * count
        own = options.exchange or "", options.routing_key or ""
        return [
            _method_frame(
                own[0] if exchange is None else exchange, own[1] if routing_key is None else routing_key, bool(wanted)
            )
            for exchange, routing_key, wanted in zip(exchanges, routing_keys, mandatory, strict=True)
        ]

    def _header(self, row: int, properties: Sequence[tuple[int, str, list[Any], Any]], size: int) -> bytes:
        flags = 0
        parts = [b""]
        for flag, name, values, encode in properties:
            value = values[row]
            if value is None:
                if name == "message_id":
                    value = f"{self._id_prefix}/{self._count}"
                elif name == "delivery_mode" and self._options.persistent:
                    value = _PERSISTENT
                else:
                    continue
            flags |= flag
            try:
                parts.append(encode(value))
            except (ValueError, TypeError) as error:
                raise OptionError(
                    f"column {name!r} holds {value!r}, which a message cannot have ({error}); correct the value or "
                    "make it null"
                ) from error
        self._count += 1
        parts[0] = _HEADER.pack(CLASS_BASIC, 0, size, flags)
        return wrap(FRAME_HEADER, CHANNEL, b"".join(parts))

    def _body(self, body: bytes) -> bytes:
        if len(body) <= self._body_max:
            return wrap(FRAME_BODY, CHANNEL, body) if body else b""
        return b"".join(
            [wrap(FRAME_BODY, CHANNEL, body[at : at + self._body_max]) for at in range(0, len(body), self._body_max)]
        )


@lru_cache(maxsize=4096)
def _method_frame(exchange: str, routing_key: str, mandatory: bool) -> bytes:
    try:
        route = encode_short_string(exchange) + encode_short_string(routing_key)
    except ValueError as error:
        raise OptionError(
            f"exchange {exchange!r} or routing key {routing_key!r} is too long ({error}); each may have 255 bytes"
        ) from error
    return wrap(FRAME_METHOD, CHANNEL, _PUBLISH + route + (b"\x01" if mandatory else b"\x00"))


def _byte(value: int) -> bytes:
    if not 0 <= value <= 255:
        raise ValueError("it must be from 0 to 255")
    return b"%c" % value


def _time(value: datetime) -> bytes:
    return _TIMESTAMP.pack(int((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()))


def _headers(value: str | Sequence[tuple[str, Any]] | Mapping[str, Any]) -> bytes:
    headers = json.loads(value) if isinstance(value, str) else dict(value)
    if not isinstance(headers, dict):
        raise ValueError("headers must be a JSON object")
    return Table.from_python(headers).encode()


_ENCODERS: Final[dict[str, Callable[[Any], bytes]]] = {
    **dict.fromkeys(PROPERTY_NAMES, encode_short_string),
    "headers": _headers,
    "delivery_mode": _byte,
    "priority": _byte,
    "timestamp": _time,
}
# The flag of each property, in the order of the wire.
_FLAGS: Final = tuple((0x8000 >> position, name) for position, name in enumerate(PROPERTY_NAMES))
