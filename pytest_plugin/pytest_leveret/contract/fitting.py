"""Whether a message shows nothing that a shape does not have already: the fast way, for most messages of most runs.

A shape becomes the source of a function once, and each message is one call. It may refuse a message that adds nothing,
and it accepts none that does: what it refuses is compared in full.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from leveret.trace.shapes import DEPTH_MAX, ITEMS_MAX, Shape, format_pattern

_DECODE: Final = json.JSONDecoder().decode
MessageFits = Callable[[bytes, Mapping[str, Any]], bool]
_KINDS: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "type(None)"}


def message_fits(shape: Shape) -> MessageFits:
    """Return a function of the body and the properties of a message: whether they add nothing to a shape."""
    body, headers, properties = (_Writer(shape.fields.get(part, Shape())).function() for part in _PARTS)
    # The arguments of tasks have names in a shape, and none in the body.
    has_tasks = any("task" in part.fields or "args" in part.fields for part in shape.fields.values())

    def fits(content: bytes, values: Mapping[str, Any]) -> bool:
        values = dict(values)
        # The mode has a word in a shape, and no number.
        mode = values.pop("delivery_mode", None)
        if mode is not None:
            values["delivery_mode"] = "persistent" if mode == 2 else "transient"
        if has_tasks or not headers(values.pop("headers", None) or {}) or not properties(values):
            return False
        try:
            return body(_DECODE(content.decode()))
        except (ValueError, RecursionError):
            return False

    return fits


_PARTS: Final = ("body", "headers", "properties")


class _Writer:
    """Writes the source of a function that compares one value with a shape."""

    def __init__(self, shape: Shape) -> None:
        self._lines: Final[list[str]] = []
        # The functions and tables that the source names.
        self._names: Final[dict[str, Any]] = {}
        self._count = 0
        self._write(shape, "value", 2, 0)

    def function(self) -> Callable[[Any], bool]:
        """Return the function."""
        head = ["def fits(value):", "    try:"]
        end = ["        return True", "    except KeyError:", "        return False"]
        exec("\n".join([*head, *self._lines, *end]), self._names)
        function: Callable[[Any], bool] = self._names["fits"]
        return function

    def _line(self, indent: int, text: str) -> None:
        self._lines.append("    " * indent + text)

    def _name(self, value: object) -> str:
        name = f"known_{len(self._names)}"
        self._names[name] = value
        return name

    def _variable(self) -> str:
        self._count += 1
        return f"value_{self._count}"

    def _write(self, shape: Shape, value: str, indent: int, depth: int) -> None:
        """Write lines that return False if a value adds something."""
        kinds = [_KINDS[name] for name in shape.types if name in _KINDS and name != "string"]
        kinds += ["int"] if "number" in shape.types and "integer" not in shape.types else []
        word = "if"
        if "string" in shape.types:
            self._write_text(shape, value, indent)
            word = "elif"
        if "object" in shape.types and not shape.is_map and depth < DEPTH_MAX:
            self._line(indent, f"{word} type({value}) is dict:")
            self._write_object(shape, value, indent + 1, depth)
            word = "elif"
        if "array" in shape.types and depth < DEPTH_MAX:
            self._line(indent, f"{word} type({value}) is list:")
            self._write_items(shape, value, indent + 1, depth)
            word = "elif"
        others = " and ".join(f"type({value}) is not {kind}" for kind in kinds) or "True"
        self._line(indent, f"{word} {others}:")
        self._line(indent + 1, "return False")

    def _write_text(self, shape: Shape, value: str, indent: int) -> None:
        self._line(indent, f"if type({value}) is str:")
        patterns = [format_pattern(form) for form in shape.forms]
        if shape.words is None and not shape.forms:
            self._line(indent + 1, "pass")
            return
        if len(patterns) == 1 and patterns[0] is not None:
            condition = f"{self._name(patterns[0].fullmatch)}({value}) is None"
        else:
            condition = f"{value} not in {self._name(frozenset(shape.enumeration or shape.forms))}"
        self._line(indent + 1, f"if {condition}:")
        self._line(indent + 2, "return False")

    def _write_object(self, shape: Shape, value: str, indent: int, depth: int) -> None:
        required = [name for name in shape.fields if not shape.is_optional(name)]
        optional = [name for name in shape.fields if shape.is_optional(name)]
        count = " + ".join([str(len(required)), *(f"({name!r} in {value})" for name in optional)])
        self._line(indent, f"if len({value}) != {count}:")
        self._line(indent + 1, "return False")
        for name in required:
            item = self._variable()
            self._line(indent, f"{item} = {value}[{name!r}]")
            self._write(shape.fields[name], item, indent, depth + 1)
        for name in optional:
            item = self._variable()
            self._line(indent, f"if {name!r} in {value}:")
            self._line(indent + 1, f"{item} = {value}[{name!r}]")
            self._write(shape.fields[name], item, indent + 1, depth + 1)

    def _write_items(self, shape: Shape, value: str, indent: int, depth: int) -> None:
        self._line(indent, f"if len({value}) > {ITEMS_MAX if shape.items else 0}:")
        self._line(indent + 1, "return False")
        if shape.items is not None:
            item = self._variable()
            self._line(indent, f"for {item} in {value}:")
            self._write(shape.items, item, indent + 1, depth + 1)
