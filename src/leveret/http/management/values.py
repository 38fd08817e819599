"""AMQP's tables and properties as JSON, and back (rabbit_mgmt_format, rabbit_misc:to_amqp_table)."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from leveret.core.wire.properties import PROPERTY_NAMES, Properties
from leveret.core.wire.values import Field, Table, text_field
from leveret.http.management.calls import bad_request

Described = dict[str, object]


def described(table: Table) -> Described:
    """Return a table as JSON. Of duplicates the first counts."""
    values: Described = {}
    for name, field in table:
        values.setdefault(name, plain(field))
    return values


def plain(field: Field) -> object:
    """Return the value of a field as JSON: bytes as text, a timestamp as its seconds."""
    tag, value = field
    if isinstance(value, Table):
        return described(value)
    if isinstance(value, bytes):
        return text_of(value)
    if isinstance(value, tuple):
        return [plain(each) for each in value if isinstance(each, Field)] if tag == "A" else list(value)
    return "undefined" if value is None else value


def text_of(octets: bytes) -> str:
    """Return bytes as text, if they are UTF-8."""
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return f"Not UTF-8, base64 is: {base64.b64encode(octets).decode()}"


def table_of(value: object) -> Table:
    """Return a JSON object as a table, with the types that RabbitMQ gives its values. Raises Refusal."""
    if value is None or value == []:
        return Table.EMPTY
    if not isinstance(value, Mapping):
        raise bad_request("arguments must be a JSON object")
    return Table(tuple([(str(name), field_of(each)) for name, each in value.items()]))


def field_of(value: object) -> Field:
    """Return a JSON value as a field. Every integer is 64 bits long. Raises Refusal for null."""
    if value is None:
        raise bad_request("null_not_allowed")
    if isinstance(value, bool):
        return Field("t", value)
    if isinstance(value, int):
        return Field("l", value)
    if isinstance(value, float):
        return Field("d", value)
    if isinstance(value, list):
        return Field("A", tuple([field_of(each) for each in value]))
    if isinstance(value, Mapping):
        return Field("F", table_of(value) if value else Table.EMPTY)
    return text_field(str(value))


def flag_of(values: Mapping[str, object], name: str) -> bool:
    """Return a boolean of a body, False if it is missing. Raises Refusal for anything else."""
    value = values.get(name, False)
    if value in ("true", "false"):
        return value == "true"
    if not isinstance(value, bool):
        raise bad_request(["not_boolean", value])
    return value


def described_properties(properties: Properties) -> object:
    """Return a message's properties as JSON; none at all are an empty list, as RabbitMQ writes them."""
    values: Described = {}
    for name in PROPERTY_NAMES:
        value = getattr(properties, name)
        if value is not None:
            values[name] = described(value) if isinstance(value, Table) else value
    return values or []
