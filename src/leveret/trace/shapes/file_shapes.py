"""The shapes of the messages in one trace file: what their bodies, headers and properties are like, and no value.

A shape is written once in a file, as a row of the kind `shape`; the events of its messages name it by its hash. The
words of enumerations would be values of a message, so they are counted apart from messages and written when the file
ends. By then it is known which fields have a handful of words that come often.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

from leveret.trace.events import TracedMessage, printable
from leveret.trace.redaction import Redaction
from leveret.trace.rows import ATTRS_KEY, Row, body_hash, json_text
from leveret.trace.schema import SHAPE
from leveret.trace.shapes import (
    DEPTH_MAX,
    ITEMS_MAX,
    REPEATS_MIN,
    WORDS_MAX,
    NoJson,
    Shape,
    add_message,
    content_of,
    field_path,
    head_parts,
    key_pattern,
    may_list,
    message_name,
    safe_key,
    text_form,
)

# The path of a whole part of a message, such as `body.$`.
ROOT: Final = "$"
# A file has at most this many shapes. Messages of others have none.
_SHAPES_MAX: Final = 10_000
# The size at which the hashes by form are forgotten.
_FORMS_MAX: Final = 5_000

# The outline of a body has 0 for each digit. Larger bodies have none, and of each address only so many are known.
_DIGITS: Final = bytes.maketrans(b"123456789", b"000000000")
_OUTLINE_MAX: Final = 10_000
_OUTLINES_MAX: Final = 100
# In an outline: digits in the name of a field, or what a shape takes as it is.
_DIGITS_MATTER: Final = re.compile(rb'\\|"[^"]*0[^"]*"\s*:|"(?:actor_name|content_type|delivery_mode)"')
_SCALARS: Final = frozenset((int, float, bool, type(None)))

# The exchange, the routing key and the name of messages, without generated parts.
Kind = tuple[str, str, str]
# The place of a field: that of its parent, and its key. The items of an array have no key.
Place = tuple[Any, str | None]


@dataclass(frozen=True, slots=True)
class _Head:
    """What the shape of a message depends on besides its body, and the words there."""

    kind: Kind
    properties: Mapping[str, object]
    form: object
    words: list[tuple[Place, str]]
    # By the hash of the outline, because outlines would fill the memory.
    by_outline: dict[int, _Found]


class _Found(NamedTuple):
    """The kind of a message, the hash of its shape, and its words."""

    kind: Kind
    hash: str
    words: list[tuple[Place, str]]


class FileShapes:
    """The shapes in a file. The brokers of the file share it, so that each shape is written once."""

    def __init__(self) -> None:
        # The hash of the shape of messages, by their kind and form. Messages of one form have one shape.
        self._hashes: Final[dict[object, str]] = {}
        self._heads: Final[dict[object, _Head]] = {}
        self._written: Final[set[str]] = set()
        # What all messages of a kind have in common. It says which objects are maps.
        self._known: Final[dict[Kind, Shape]] = {}
        # How often each word came; None for a field that is no enumeration.
        self._words: Final[dict[tuple[str, Kind, Place], dict[str, int] | None]] = {}

    def hash_of(self, vhost: str, message: TracedMessage, redaction: Redaction | None, new: list[Row]) -> str:
        """Return the hash of the shape of a message; its row joins `new` if the file lacks it. Hot: once per message.

        The words of the message count if there is a redaction, which hides those of some fields.
        """
        head, body = self._head(message), message.body
        # Bodies often differ in their digits only. Types and formats are the same for all digits.
        outline = body.translate(_DIGITS) if len(body) <= _OUTLINE_MAX else b""
        found = head.by_outline.get(hash(outline)) or self._found(head, body, outline, new)
        if redaction is not None:
            for place, word in found.words:
                self._count(vhost, found.kind, place, word, redaction)
        return found.hash

    def _found(self, head: _Head, body: bytes, outline: bytes, new: list[Row]) -> _Found:
        kind, words = head.kind, head.words.copy()
        content = content_of(body, head.properties)
        if not kind[2] and b'"actor_name"' in body:
            kind = (*kind[:2], message_name(body, head.properties))
        form = (kind, head.form, _form(content, "body", (None, "body"), 0, words))
        hash_of_form = self._hashes.get(form)
        if hash_of_form is None:
            _forget(self._hashes)
            hash_of_form = self._hashes[form] = self._defined(kind, body, head.properties, new)
        found = _Found(kind, hash_of_form, words)
        if outline and len(head.by_outline) < _OUTLINES_MAX and not _DIGITS_MATTER.search(outline):
            head.by_outline[hash(outline)] = found
        return found

    def _head(self, message: TracedMessage) -> _Head:
        """Return what messages to one address with such properties have in common."""
        given = message.properties
        ids = [_form(text, "", (None, None), 0, []) for text in (given.message_id, given.correlation_id)]
        key = (message.exchange, message.routing_key, *ids, ATTRS_KEY(given))
        head = self._heads.get(key)
        if head is None:
            properties = given.to_python()
            name = message_name(b"", properties)
            kind = (key_pattern(printable(message.exchange)), key_pattern(printable(message.routing_key)), name)
            words: list[tuple[Place, str]] = []
            form = [_form(value, part, (None, part), 0, words) for part, value in head_parts(properties)]
            _forget(self._heads)
            head = self._heads[key] = _Head(kind, properties, tuple(form), words, {})
        return head

    def _defined(self, kind: Kind, body: bytes, properties: Mapping[str, object], new: list[Row]) -> str:
        shape, known = Shape(), self._known.setdefault(kind, Shape())
        add_message(shape, body, properties)
        known.merge(shape)
        fields = {
            place: types
            for part, of_part in shape.fields.items()
            for place, types in _fields(of_part, known.fields[part], part, "")
        }
        exchange, routing_key, name = kind
        row: Row = {"kind": SHAPE, "exchange": exchange, "routing_key": routing_key}
        row["attrs"] = json_text({"name": name, "fields": fields})
        found = body_hash(json_text(row).encode())
        if found not in self._written:
            if len(self._written) >= _SHAPES_MAX:
                return ""
            self._written.add(found)
            new.append({**row, "shape": found})
        return found

    def _count(self, vhost: str, kind: Kind, place: Place, word: str, redaction: Redaction) -> None:
        key = (vhost, kind, place)
        if key not in self._words:
            is_full = len(self._words) >= _SHAPES_MAX
            self._words[key] = None if is_full or redaction.hides(_field_of(place)) else {}
        counts = self._words[key]
        if counts is not None:
            counts[word] = counts.get(word, 0) + 1
            if len(counts) > WORDS_MAX:
                self._words[key] = None

    def words(self) -> Iterator[Row]:
        """Yield a row for each kind of message that has enumerations: their words, and how often each came."""
        listed: dict[tuple[str, Kind], dict[str, dict[str, int]]] = {}
        for (vhost, kind, place), counts in self._words.items():
            if counts and sum(counts.values()) - len(counts) >= REPEATS_MIN:
                part, path = _path_of(place)
                known = next((shape for at, shape, _ in self._known[kind].fields[part].walk() if at == path), None)
                if known is not None and known.words is not None:
                    listed.setdefault((vhost, kind), {})[f"{part}.{path or ROOT}"] = counts
        for (vhost, (exchange, routing_key, name)), words in listed.items():
            attrs = json_text({"name": name, "words": words})
            yield {"kind": SHAPE, "vhost": vhost, "exchange": exchange, "routing_key": routing_key, "attrs": attrs}


def _forget(cache: dict[Any, Any]) -> None:
    """Clear a cache that has become large: a test that makes up names without end must not fill the memory."""
    if len(cache) >= _FORMS_MAX:
        cache.clear()


def _form(value: Any, name: str, place: Place, depth: int, words: list[tuple[Place, str]]) -> object:
    """Return what a shape depends on, and collect the words that an enumeration may list. Hot: once for each field."""
    kind = type(value)
    if kind is dict and depth < DEPTH_MAX:
        depth += 1
        fields: list[object] = []
        for key, item in value.items():
            of_item = type(item)
            if of_item is str:
                fields += (key, text_form(key, item) or _form_of_word(key, item, (place, key), words))
            else:
                fields += (key, of_item if of_item in _SCALARS else _form(item, key, (place, key), depth, words))
        return tuple(fields)
    if kind is list and depth < DEPTH_MAX:
        items = [_form(item, name, (place, None), depth + 1, words) for item in value[:ITEMS_MAX]]
        return ("[]", *dict.fromkeys(items))
    if kind is str:
        return text_form(name, value) or _form_of_word(name, value, place, words)
    return value if kind is NoJson else kind


def _form_of_word(name: str, text: str, place: Place, words: list[tuple[Place, str]]) -> str:
    if may_list(name, text):
        words.append((place, text))
        return "word"
    return ""


def _fields(
    shape: Shape, known: Shape, part: str, path: str, *, is_absent: bool = False
) -> Iterator[tuple[str, list[str]]]:
    """Yield each place with its types, and "absent" if some of the objects there lack the field."""
    if known.is_map and shape.fields and not shape.is_map:
        shape.become_map()
    # A word would be a value.
    shape.words = None if shape.words is None else set()
    yield f"{part}.{path or ROOT}", [*shape.type_texts(), *(["absent"] if is_absent else [])]
    for name, child in sorted(shape.fields.items()):
        of_child = known.fields[name]
        is_partial = shape.is_optional(name) and not name.startswith("{")
        yield from _fields(child, of_child, part, field_path(path, name), is_absent=is_partial)
    if shape.items is not None and known.items is not None:
        yield from _fields(shape.items, known.items, part, f"{path}[]")


@lru_cache(4096)
def _path_of(place: Place) -> tuple[str, str]:
    """Return the part of a place, and its path there."""
    parent, key = place
    if parent is None:
        return cast("str", key), ""
    part, path = _path_of(parent)
    return part, f"{path}[]" if key is None else field_path(path, safe_key(key))


def _field_of(place: Place) -> str:
    parent, key = place
    return _field_of(parent) if key is None else key
