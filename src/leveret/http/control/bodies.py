"""The body of a request, checked against the schema of its endpoint before anything happens.

Only what the schemas of this API use is checked here: the types of values, the words of an enumeration, and names that
are missing or unknown. What a value means is checked by the method of leveret that takes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from leveret.errors import expected
from leveret.http.control.shapes import Json, Schema
from leveret.http.messages import json_of

_KINDS: Final[dict[str, tuple[type | tuple[type, ...], str]]] = {
    "string": (str, "a text"),
    "integer": (int, "a whole number"),
    "number": ((int, float), "a number"),
    "boolean": (bool, "true or false"),
    "object": (dict, "an object"),
    "array": (list, "a list"),
    "null": (type(None), "null"),
}


class WrongBody(ValueError):
    """A body that is not as its endpoint's schema says."""


def parsed(octets: bytes, schema: Schema | None) -> Json:
    """Return the body of a request. An empty one is an empty object. Raises WrongBody if it does not fit the schema."""
    try:
        value = json_of(octets) if octets.strip() else {}
    except UnicodeDecodeError as error:
        place = f"byte {error.start} is 0x{octets[error.start]:02x}"
        raise WrongBody(
            f"the body is not UTF-8: {place}; encode the JSON as UTF-8, and send bytes as body_base64"
        ) from None
    except UnicodeEncodeError:
        raise WrongBody("the body has a lone surrogate, which UTF-8 cannot encode; leave it out") from None
    except (ValueError, RecursionError) as error:
        raise WrongBody(f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise WrongBody(f"the body must be a JSON object, not {json.dumps(value)[:60]}")
    if schema is None:
        if value:
            raise WrongBody(f"this takes no body; leave {', '.join(map(repr, value))} out")
        return value
    _check_record(value, schema)
    return value


def _check_record(value: Json, schema: Schema, place: str = "") -> None:
    """Raise WrongBody unless an object fits. `place` is where it stands in the body, such as "properties."."""
    properties: Mapping[str, Schema] = schema["properties"]
    for name in value:
        if name not in properties:
            raise WrongBody(f"unknown name {place + name!r}{expected(name, properties)}")
    for name in schema["required"]:
        if name not in value:
            raise WrongBody(f"{place + name!r} is missing; it must be {_described(properties[name])}")
    for name, given in value.items():
        if isinstance(given, dict) and "properties" in properties[name]:
            _check_record(given, properties[name], f"{place}{name}.")
        elif not _fits(given, properties[name]):
            raise WrongBody(f"{place}{name}={json.dumps(given)} must be {_described(properties[name])}")


def _fits(value: Any, schema: Schema) -> bool:
    if "oneOf" in schema:
        return any(_fits(value, option) for option in schema["oneOf"])
    if "enum" in schema:
        return value in schema["enum"]
    if "type" not in schema:
        return True
    kinds, _ = _KINDS[schema["type"]]
    # In Python a truth value is a number.
    is_kind = isinstance(value, kinds) and not (isinstance(value, bool) and schema["type"] != "boolean")
    if is_kind and "properties" in schema:
        try:
            _check_record(value, schema)
        except WrongBody:
            return False
    if not is_kind or not isinstance(value, int | float):
        return is_kind
    return bool(value >= schema.get("minimum", value))


def _described(schema: Schema) -> str:
    if "oneOf" in schema:
        return " or ".join(_described(option) for option in schema["oneOf"])
    if "enum" in schema:
        return f"one of {', '.join(schema['enum'])}"
    if "type" not in schema:
        return "any value"
    text = _KINDS[schema["type"]][1]
    if "properties" in schema:
        text += f" with {', '.join(map(repr, schema['properties']))}"
    return f"{text}, {schema['minimum']} or more" if "minimum" in schema else text
