"""The shape of messages: the fields of their bodies, headers and properties, with types, formats and enumerations.

A shape is what many messages have in common. Shapes of parts merge into the shape of the whole, in any order, so
processes and runs can each compute their part. A shape holds no value of a message, except those of enumerations: a
handful of distinct words that come often, in a field whose name says that it has one of a few values. Its size is
bounded by `DEPTH_MAX` and `KEYS_MAX`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, cast

from leveret.trace.events import printable, task_of
from leveret.trace.redaction import Redaction, words_of
from leveret.wording import MADE_UP, without_generated_end

# Below this many levels, only the types of values count.
DEPTH_MAX: Final = 6
# An object with more keys is a map: all its values have one shape.
KEYS_MAX: Final = 40
# Of an array, this many items count.
ITEMS_MAX: Final = 100
# How many distinct values an enumeration has at most, and how often one of them must have come again.
WORDS_MAX: Final = 8
REPEATS_MIN: Final = 5
# Keys that are data have this one in their place.
ANY_KEY: Final = "{key}"
# A larger body is not read.
BODY_MAX: Final = 1_000_000

_TYPES: Final[dict[type, str]] = {
    **dict.fromkeys((list, tuple), "array"),
    **dict.fromkeys((float, Decimal), "number"),
    dict: "object",
    str: "string",
    bool: "boolean",
    int: "integer",
    type(None): "null",
    bytes: "bytes",
    datetime: "timestamp",
}
_TIME: Final = r"\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:[Zz]|[+-]\d\d:?(?:\d\d)?))?"
# The formats of texts: the pattern by which one is recognised, if any; and what documents accept, if that is more.
FORMAT_PATTERNS: Final[dict[str, tuple[str | None, str | None]]] = {
    "uuid": (r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|[0-9a-fA-F]{32}", None),
    "date-time": (rf"\d{{4}}-\d\d-\d\d[T ]{_TIME.replace('Zz', 'Z')}", rf"\d{{4}}-\d\d-\d\d[Tt ]{_TIME}"),
    "date": (r"\d{4}-\d\d-\d\d", None),
    "time": (r"\d\d:\d\d(?::\d\d(?:\.\d+)?)?", _TIME),
    "decimal": (r"[+-]?\d+(?:\.\d+)?", None),
    "uri": (r"[A-Za-z][A-Za-z0-9+.-]*://\S+", r"[A-Za-z][A-Za-z0-9+.-]*:\S*"),
    "email": (r"[^@\s]+@[^@\s]+\.[^@\s.]+", r"[^@\s]+@[^@\s]+"),
    "duration": (None, r"[+-]?P(?=.)[\dYMWD.,]*(?:T[\dHMS.,]+)?"),
}
_RECOGNISED: Final = {name: shown for name, (shown, _) in FORMAT_PATTERNS.items() if shown is not None}
_fullmatch: Final = re.compile("|".join(f"({pattern})" for pattern in _RECOGNISED.values())).fullmatch
FORMATS: Final = tuple(_RECOGNISED)
_FORMAT_LENGTH_MAX: Final = 200

# Properties whose values are a vocabulary: a format of its own each.
_MEDIA_TYPE: Final = re.compile(r"[a-z]+/[\w.+-]{1,60}(?:; ?charset=[\w-]+)?")
DELIVERY_MODES: Final = {1: "transient", 2: "persistent"}
# What an enumeration may hold: words of letters, joined as identifiers are. A number, a date, or what was generated has
# digits; a secret has digits or is long.
_PART: Final = r"(?:[a-z]+|[A-Z]+|[A-Z]?[a-z]*(?:[A-Z][a-z]{2,})+)"
_WORD: Final = re.compile(rf"(?=.{{2,40}}$)(?!.*[A-Za-z]{{21}}){_PART}(?:[_./:+-]{_PART})*")
# The last word of the names of fields that have one of a few values. Elsewhere a word may be that of a person.
_ENUMERATED: Final = frozenset(
    {
        *("action", "carrier", "category", "cause", "channel", "color", "colour", "condition", "country"),
        *("currency", "decision", "direction", "encoding", "env", "environment", "event", "format", "frequency"),
        *("grade", "health", "interval", "kind", "lang", "language", "level", "locale", "method", "mode", "op"),
        *("operation", "outcome", "payment", "period", "permission", "phase", "plan", "platform", "policy"),
        *("priority", "protocol", "provider", "reason", "region", "result", "role", "scheme", "scope", "severity"),
        *("side", "size", "stage", "state", "status", "step", "strategy", "task", "tier", "topic", "transition"),
        *("trigger", "type", "unit", "variant", "verdict", "visibility"),
    }
)
_SECRETS: Final = Redaction()
_KEY: Final = re.compile(r"[^\W\d][\w$@:/-]{0,63}(?:\.[\w$@:/-]{1,63}){0,8}|[$@_][\w-]{0,63}")
_EMAIL: Final = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+")
_LONG_ID: Final = re.compile(r"(?=[A-Za-z_-]*\d)(?=[\d_-]*[A-Za-z])[\w-]{16,}")
_UUID: Final = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
_LAST_STEP: Final = re.compile(r"(?:^|\.)(?:\\.|[^\\.\[])+$")
# Headers that the broker adds.
OF_BROKER: Final = re.compile(r"x-death|x-(?:first|last)-death-.*|x-delivery-count|x-stream-offset|x-acquired-count")
# The beginning of the name of a client that is the test, and the numbers in others: of a process, a host or a replica.
_TEST: Final = re.compile(r"tests?(?![a-z])", re.IGNORECASE)
_NUMBER: Final = re.compile(r"(?<![A-Za-z\d])\d+")


@dataclass(slots=True)
class Shape:
    """What some values have in common that came at one place of messages."""

    # How many values there were.
    count: int = 0
    # How many of each type: those of JSON, and "bytes", "text", "timestamp" or "empty" of what is no JSON.
    types: dict[str, int] = field(default_factory=dict)
    # How many texts of each format; "" is none.
    formats: dict[str, int] = field(default_factory=dict)
    # The distinct texts while they may be an enumeration; None once they cannot be one.
    words: set[str] | None = field(default_factory=set)
    fields: dict[str, Shape] = field(default_factory=dict)
    items: Shape | None = None
    # Whether it is an object whose keys are data.
    is_map: bool = False
    # Whether the object is known to come without this field, although the counts do not say so.
    may_lack: bool = False

    @property
    def enumeration(self) -> tuple[str, ...]:
        """The values of an enumeration, in order; none unless enough was seen."""
        if not self.words or self.types.get("string", 0) - len(self.words) < REPEATS_MIN:
            return ()
        return tuple(sorted(self.words))

    @property
    def is_word(self) -> bool:
        """Whether all texts could be those of an enumeration, but too few came to list them."""
        return "string" in self.types and self.words is not None and not self.enumeration

    @property
    def forms(self) -> tuple[str, ...]:
        """The formats that the texts have, in order; none if one of them has no format."""
        return () if "" in self.formats else tuple(sorted(self.formats))

    def is_optional(self, name: str) -> bool:
        """Return whether an object may come without this field."""
        child = self.fields[name]
        return child.may_lack or name.startswith("{") or child.count < self.types.get("object", 0)

    def add(self, value: Any, name: str = "", depth: int = 0) -> None:
        """Add a value, which came in the field `name`. Hot: once for each field of each message."""
        self.count += 1
        type_name = _TYPES.get(type(value)) or _type_of(value)
        types = self.types
        types[type_name] = types.get(type_name, 0) + 1
        if type_name == "string":
            self._add_text(value, name)
        elif type_name == "object" and depth < DEPTH_MAX:
            for key, item in value.items():
                self._field(str(key)).add(item, str(key), depth + 1)
        elif type_name == "array" and depth < DEPTH_MAX and value:
            if self.items is None:
                self.items = Shape()
            for item in value[:ITEMS_MAX]:
                self.items.add(item, name, depth + 1)

    def _add_text(self, text: str, name: str) -> None:
        form = _format_of(name, text) if len(text) <= _FORMAT_LENGTH_MAX else ""
        self.formats[form] = self.formats.get(form, 0) + 1
        if self.words is not None and text not in self.words:
            if not form and len(self.words) < WORDS_MAX and may_list(name, text):
                self.words.add(text)
            else:
                self.words = None

    def part(self, name: str) -> Shape:
        """Return the shape of a field whose name is no data, which may be new."""
        child = self.fields.get(name)
        if child is None:
            child = self.fields[name] = Shape()
        return child

    def _field(self, key: str) -> Shape:
        name = ANY_KEY if self.is_map else safe_key(key)
        if name not in self.fields and len(self.fields) >= KEYS_MAX:
            self.become_map()
            name = ANY_KEY
        return self.part(name)

    def become_map(self) -> None:
        """Give all fields one shape, because their names are data."""
        merged = Shape()
        for child in self.fields.values():
            merged.merge(child)
        self.is_map, self.fields = True, {ANY_KEY: merged}

    def merge(self, other: Shape) -> None:
        """Add all values of another shape. The order of merges does not matter."""
        self.count += other.count
        for mine, theirs in ((self.types, other.types), (self.formats, other.formats)):
            for name, count in theirs.items():
                mine[name] = mine.get(name, 0) + count
        words = None if self.words is None or other.words is None else self.words | other.words
        self.words = None if words is None or len(words) > WORDS_MAX else words
        self.may_lack = self.may_lack or other.may_lack
        if other.items is not None:
            self.items = self.items or Shape()
            self.items.merge(other.items)
        if other.is_map and not self.is_map:
            self.become_map()
        for name, child in other.fields.items():
            name = ANY_KEY if self.is_map else name
            self.part(name).merge(child)
        if len(self.fields) > KEYS_MAX:
            self.become_map()

    def walk(self, path: str = "", *, is_optional: bool = False) -> Iterator[tuple[str, Shape, bool]]:
        """Yield each place below and with this one, in order: its path, its shape, and whether it is optional."""
        yield path, self, is_optional
        for name in sorted(self.fields):
            yield from self.fields[name].walk(field_path(path, name), is_optional=self.is_optional(name))
        if self.items is not None:
            yield from self.items.walk(f"{path}[]")

    def type_texts(self) -> list[str]:
        """Return the types as the text of a field has them: a format in place of "string", "map", an enumeration."""
        return [text for name in self.types for text in self._texts_of(name)]

    def _texts_of(self, type_name: str) -> tuple[str, ...]:
        if type_name == "object" and self.is_map:
            return ("map",)
        if type_name != "string":
            return (type_name,)
        if self.enumeration:
            return (f"enum({', '.join(self.enumeration)})",)
        return ("word",) if self.is_word else self.forms or ("string",)


def field_path(path: str, name: str) -> str:
    """Return the path of a field of the object at a path: `lines[].sku`."""
    step = re.sub(r"([\\.\[])", r"\\\1", name)
    return f"{path}.{step}" if path else step


def parent_path(path: str) -> str:
    """Return the path of the object that has the field at a path."""
    return _LAST_STEP.sub("", path)


def add_message(shape: Shape, body: bytes, properties: Mapping[str, object]) -> None:
    """Add one message to the shape of messages: an object with the fields `body`, `headers` and `properties`.

    `properties` are those of AMQP by name, with `headers` among them. Hot: once for each message.
    """
    shape.count += 1
    shape.types["object"] = shape.types.get("object", 0) + 1
    for part, value in head_parts(properties):
        shape.part(part).add(value)
    content, of_body = content_of(body, properties), shape.part("body")
    if isinstance(content, NoJson):
        of_body.count += 1
        of_body.types[content.type] = of_body.types.get(content.type, 0) + 1
    else:
        of_body.add(content)


def head_parts(properties: Mapping[str, object]) -> list[tuple[str, object]]:
    """Return the headers and the other properties of a message, by their names, as a shape has them."""
    given = {name: value for name, value in properties.items() if name != "headers"}
    if "delivery_mode" in given:
        given["delivery_mode"] = DELIVERY_MODES.get(cast("int", given["delivery_mode"]), "transient")
    return [("headers", properties.get("headers") or {}), ("properties", given)]


def content_of(body: bytes, properties: Mapping[str, object]) -> object:
    """Return the value that a body has in JSON, with a field for each argument of a task; else a `NoJson`."""
    value = _json_of(body, properties.get("content_type"))
    headers = cast("Mapping[str, object]", properties.get("headers") or {})
    return value if isinstance(value, NoJson) else _task_body(value, headers)


def message_name(body: bytes, properties: Mapping[str, object]) -> str:
    """Return how the publisher names this kind of message: its task, its actor, or the property `type`; or nothing."""
    headers = cast("Mapping[str, object]", properties.get("headers") or {})
    name = task_of(headers) or properties.get("type")
    if name is None and b'"actor_name"' in body:
        value = _json_of(body, properties.get("content_type"))
        name = value.get("actor_name") if isinstance(value, dict) else None
    return name if isinstance(name, str) and key_pattern(name) == name and _KEY.fullmatch(name) else ""


def client_pattern(name: str | None) -> str | None:
    """Return the name of a client with marks in place of generated parts; None if the client is the test itself."""
    pattern = _NUMBER.sub("{number}", key_pattern(printable(name or "a client")))
    return None if _TEST.match(pattern) else pattern


@lru_cache(4096)
def key_pattern(key: str) -> str:
    """Return a routing key, or the name of a queue, with marks such as `{uuid}` in place of generated parts."""
    cut = without_generated_end(key)
    if cut != key:
        return cut
    return ".".join(_word_pattern(word) for word in _EMAIL.sub("{email}", key).split("."))


def _word_pattern(word: str) -> str:
    if word.isdecimal():
        return "{number}"
    word = MADE_UP.sub(lambda match: _mark_of(match[0]), word)
    return "{id}" if "{" not in word and _LONG_ID.fullmatch(word) else word


def _mark_of(text: str) -> str:
    if _UUID.fullmatch(text):
        return "{uuid}"
    if ":" in text:
        return "{date-time}"
    return "{number}" if text.isdecimal() else "{hex}"


@dataclass(frozen=True, slots=True)
class NoJson:
    """A body that is no JSON: its type is "text", "bytes" or "empty"."""

    type: str


def _no_json(body: bytes) -> NoJson:
    try:
        body.decode()
    except UnicodeDecodeError:
        return NoJson("bytes")
    return NoJson("text" if body else "empty")


def _json_of(body: bytes, content_type: object) -> object:
    is_json = "json" in str(content_type or "").lower()
    if len(body) <= BODY_MAX and (is_json or body.lstrip()[:1] in (b"{", b"[")):
        with suppress(ValueError, RecursionError):
            return json.loads(body)
    return _no_json(body)


def task_arguments(value: object, headers: Container[str]) -> tuple[object, object] | None:
    """Return the arguments of a task by position and by name; None if this is not the body of a task."""
    if isinstance(value, list) and len(value) == 3 and "task" in headers:
        return value[0], value[1]
    if isinstance(value, dict) and isinstance(value.get("args"), list) and "kwargs" in value:
        return value["args"], value["kwargs"]
    return None


def _task_body(value: object, headers: Container[str]) -> object:
    """Return the body of a task with a field for each of its arguments, which have a place and no name."""
    arguments = task_arguments(value, headers)
    if arguments is None:
        return value
    args, kwargs = arguments
    named = {f"arg{at}": item for at, item in enumerate(args)} if isinstance(args, list) else args
    return {**(value if isinstance(value, dict) else {}), "args": named, "kwargs": kwargs}


def _type_of(value: object) -> str:
    if isinstance(value, Mapping):
        return "object"
    return next((name for kind, name in _TYPES.items() if isinstance(value, kind)), "bytes")


@lru_cache(4096)
def _format_of(name: str, text: str) -> str:
    form = text_form(name, text)
    if isinstance(form, str):
        is_known = _MEDIA_TYPE.fullmatch(text) if name == "content_type" else text in DELIVERY_MODES.values()
        return text if is_known else _format_of("", text)
    return FORMATS[form - 1] if form else ""


def text_form(name: str, text: str) -> str | int | None:
    """Return what the format of a text in the field `name` depends on; None if it has no format. Hot."""
    if name == "content_type" or name == "delivery_mode":
        return text
    match = _fullmatch(text) if len(text) <= _FORMAT_LENGTH_MAX else None
    return None if match is None else match.lastindex


def may_list(name: str, text: str) -> bool:
    """Return whether a text in this field may be a value of an enumeration."""
    return _is_enumerated(name) and _WORD.fullmatch(text) is not None


@lru_cache(4096)
def _is_enumerated(name: str) -> bool:
    words = words_of(name)
    if len(words) > 1 and words[-1] == "code" and words[-2] in _ENUMERATED:
        words.pop()
    return bool(words) and words[-1] in _ENUMERATED and not _SECRETS.hides(name)


@lru_cache(4096)
def safe_key(key: str) -> str:
    """Return the name of a field, or a mark such as `{uuid}` if it is data."""
    if not _KEY.fullmatch(key) or _EMAIL.search(key):
        return "{number}" if key.isdecimal() else "{uuid}" if _UUID.fullmatch(key) else ANY_KEY
    return key_pattern(key) if key_pattern(key) != key else key
