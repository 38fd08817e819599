"""Shapes of messages as JSON Schemas, and schemas as shapes.

A schema says of a shape what a lock says: types, formats, enumerations, and which fields always come. A shape says of a
schema what can be compared: of alternatives, all types that any of them allows. What neither a lock nor a comparison
knows, such as limits and patterns, is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from leveret.trace.shapes import ANY_KEY, DELIVERY_MODES, DEPTH_MAX, FORMATS, REPEATS_MIN, WORDS_MAX, Shape
from pytest_leveret.contract.documents.files import DocumentNode
from pytest_leveret.contract.lock import ANY

# What JSON does not have. A header may hold bytes and instants; a body that is no JSON is a text or bytes.
_SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    "bytes": {"type": "string", "format": "binary"},
    "text": {"type": "string"},
    "empty": {},
    "timestamp": {"type": "string", "format": "date-time"},
    ANY: {},
}
# The values of the property `delivery_mode`, by the words that a shape has for them.
MODES: Final = {word: number for number, word in DELIVERY_MODES.items()}
_ARGUMENT: Final = re.compile(r"arg\d+")


def schema_of(shape: Shape) -> dict[str, Any]:
    """Return the JSON Schema of a shape. Other fields may come too, as in a lock."""
    alternatives = [
        each for name in sorted(shape.types, key=lambda name: (name == "null", name)) for each in _schemas(shape, name)
    ]
    if "number" in shape.types and "integer" in shape.types:
        alternatives.remove({"type": "integer"})
    if {} in alternatives or not alternatives:
        return {}
    if len(alternatives) == 1:
        return alternatives[0]
    if all([*each] == ["type"] for each in alternatives):
        return {"type": [each["type"] for each in alternatives]}
    return {"anyOf": alternatives}


def body_schema(body: Shape, headers: Shape) -> dict[str, Any]:
    """Return the JSON Schema of a body. The arguments of a task have names in a shape, and places in a message."""
    schema = schema_of(body)
    arguments = body.fields.get("args")
    if arguments is None or "kwargs" not in body.fields or not all(map(_ARGUMENT.fullmatch, arguments.fields)):
        return schema
    names = sorted(arguments.fields, key=lambda name: int(name.removeprefix("arg")))
    required = [name for name in names if not arguments.is_optional(name)]
    places = _tuple([schema_of(arguments.fields[name]) for name in names], len(required))
    if "task" in headers.fields and len(body.fields) == 2:
        # Celery sends a list of the arguments, the keyword arguments, and what it has for chains.
        return _tuple([places, schema_of(body.fields["kwargs"]), {}], 3)
    return {**schema, "properties": {**schema["properties"], "args": places}}


def _tuple(schemas: list[dict[str, Any]], required: int) -> dict[str, Any]:
    return {"type": "array", **({"items": schemas} if schemas else {}), **({"minItems": required} if required else {})}


def task_shape(node: DocumentNode) -> Shape:
    """Return the shape that `body_schema` has made into a schema of a task, or that of any other schema."""
    if isinstance(node["items"].value, list):
        arguments, keywords, *_ = node["items"].each()
        return Shape(1, {"object": 1}, fields={"args": _arguments_shape(arguments), "kwargs": shape_of(keywords)})
    shape = shape_of(node)
    if {"args", "kwargs"} <= shape.fields.keys() and "array" in shape.fields["args"].types:
        shape.fields["args"] = _arguments_shape(node["properties"]["args"])
    return shape


def _arguments_shape(node: DocumentNode) -> Shape:
    shape = Shape(1, {"object": 1})
    for index, each in enumerate(node["items"].each()):
        field = shape.fields[f"arg{index}"] = shape_of(each)
        field.may_lack = index >= (node["minItems"].value or 0)
    return shape


def _schemas(shape: Shape, name: str) -> list[dict[str, Any]]:
    if name in _SCHEMAS:
        return [_SCHEMAS[name]]
    if name == "string":
        return _text_schemas(shape)
    if name == "array":
        return [{"type": "array", **({"items": schema_of(shape.items)} if shape.items is not None else {})}]
    return [_object_schema(shape)] if name == "object" else [{"type": name}]


def _text_schemas(shape: Shape) -> list[dict[str, Any]]:
    if shape.enumeration:
        return [{"type": "string", "enum": [*shape.enumeration]}]
    if not shape.forms or shape.is_word:
        return [{"type": "string"}]
    if MODES.keys() >= {*shape.forms}:
        return [{"type": "integer", "enum": sorted(MODES[form] for form in shape.forms)}]
    if not {*FORMATS} & {*shape.forms}:
        return [{"type": "string", "enum": [*shape.forms]}]
    return [{"type": "string", "format": form} for form in shape.forms]


def _object_schema(shape: Shape) -> dict[str, Any]:
    if shape.is_map:
        values = shape.fields.get(ANY_KEY)
        return {"type": "object", **({"additionalProperties": schema_of(values)} if values is not None else {})}
    # A key in braces stands for keys that are data.
    names = [name for name in sorted(shape.fields) if not name.startswith("{")]
    required = [name for name in names if not shape.is_optional(name)]
    schema: dict[str, Any] = {"type": "object"}
    if names:
        schema["properties"] = {name: schema_of(shape.fields[name]) for name in names}
    if required:
        schema["required"] = required
    return schema


def shape_of(node: DocumentNode, depth: int = 0) -> Shape:
    """Return the shape of the values that a schema allows."""
    shape = Shape(count=1)
    schema = node.value
    node.files.shapes_left -= 1
    if depth > DEPTH_MAX or node.files.shapes_left < 0 or not isinstance(schema, Mapping):
        return Shape(count=1, types={ANY: 1})
    several = [*node["anyOf"].each(), *node["oneOf"].each()]
    if several:
        for each in several:
            _join(shape, shape_of(each, depth))
        if set(schema).isdisjoint(("type", "properties", "allOf")):
            return shape
    for each in node["allOf"].each():
        _meet(shape, shape_of(each, depth))
    _meet(shape, _own_shape(node, depth))
    if not shape.types:
        shape.types[ANY] = 1
    return shape


def _own_shape(node: DocumentNode, depth: int) -> Shape:
    schema, shape = node.value, Shape(count=1)
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list):
        for value in values:
            shape.add(value)
        shape.count, shape.words, shape.formats = 1, set(), {}
        _list_words(shape, [value for value in values if isinstance(value, str)])
        return shape
    given = schema.get("type", "object" if "properties" in schema else None)
    for name in given if isinstance(given, list) else [given] if given else []:
        shape.types[str(name)] = 1
    if "string" in shape.types:
        form = schema.get("format", "")
        shape.words, shape.formats = None, {form if form in FORMATS else "": 1}
    for each in node["items"].each() if isinstance(schema.get("items"), list) else [node["items"]]:
        if "array" in shape.types and isinstance(each.value, Mapping):
            shape.items = shape.items or Shape(count=1)
            _join(shape.items, shape_of(each, depth + 1))
    if "object" in shape.types:
        required = schema.get("required", [])
        for name, each in node["properties"].items():
            shape.fields[name] = shape_of(each, depth + 1)
            shape.fields[name].may_lack = name not in required
        if not shape.fields and isinstance(schema.get("additionalProperties"), Mapping):
            shape.is_map, shape.fields = True, {ANY_KEY: shape_of(node["additionalProperties"], depth + 1)}
    return shape


def _list_words(shape: Shape, texts: list[str]) -> None:
    """Note texts as an enumeration, as far as a lock can have it."""
    if not texts:
        return
    is_listed = len(texts) <= WORDS_MAX
    shape.words = set(texts) if is_listed else None
    shape.types["string"], shape.formats = len(texts) + REPEATS_MIN, {"": 1}


def _join(shape: Shape, other: Shape) -> None:
    """Add an alternative: its values may come as well, so a field that it lacks may be missing."""
    had_object = "object" in shape.types
    if had_object and "object" in other.types:
        for name in {*shape.fields} ^ {*other.fields}:
            (shape.fields.get(name) or other.fields[name]).may_lack = True
    words = None if ("string" in other.types and other.words is None) else shape.words
    shape.merge(other)
    shape.count, shape.words = 1, words if words is None else shape.words
    _count_objects(shape)


def _meet(shape: Shape, other: Shape) -> None:
    """Add what else holds of the same values: their fields are those of both."""
    if not shape.types or ANY in shape.types:
        shape.types.clear()
        shape.types.update(other.types)
    shape.formats = other.formats or shape.formats
    shape.words = other.words if "string" in other.types else shape.words
    shape.items = other.items or shape.items
    shape.is_map = shape.is_map or other.is_map
    for name, field in other.fields.items():
        known = shape.fields.get(name)
        field.may_lack = field.may_lack and (known is None or known.may_lack)
        shape.fields[name] = field
    _count_objects(shape)


def _count_objects(shape: Shape) -> None:
    """Let `may_lack` alone say which fields are optional."""
    if "object" in shape.types:
        shape.types["object"] = 1
    for field in shape.fields.values():
        field.count = max(field.count, 1)
