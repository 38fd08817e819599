"""Whether messages are as a document says.

The schemas of a document are compiled once, by jsonschema-rs. Formats are checked no stricter than libraries write
them: a date-time may lack its time zone. A finding names the field, what it is, what was expected, and the place in the
document that expects it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache
from typing import Any, Final, cast

import jsonschema_rs

from leveret.trace.redaction import Redaction, plain
from leveret.trace.shapes import FORMAT_PATTERNS, field_path, key_pattern, message_name
from leveret.wording import count_text, listed
from pytest_leveret.contract.comparing import named_field
from pytest_leveret.contract.documents.files import Place
from pytest_leveret.contract.documents.reading import DRAFTS, ChannelSpec, Document, MessageSpec, Schema

_SHOWN_MAX: Final = 60
_FINDINGS_MAX: Final = 5
# These keywords at the top of a message show that it is another one of its channel.
_OTHER_KIND: Final = ("type", "const", "enum")
_SECRETS: Final = Redaction()


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _format(name: str, pattern: str) -> Callable[[str], bool]:
    compiled, has_date = re.compile(pattern), name.startswith("date")
    return lambda text: compiled.fullmatch(text) is not None and (not has_date or _is_date(text[:10]))


FORMATS: Final = {name: _format(name, accepted or shown or "") for name, (shown, accepted) in FORMAT_PATTERNS.items()}


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One thing in which a message is not as a document says."""

    # The part of the message, and the path of the field in it.
    part: str
    path: str
    # What it is, and what it has to be; empty if that is clear.
    given: str
    expected: str
    place: Place
    # The keyword that is not met, and how deep in the message.
    keyword: str
    depth: int

    def __str__(self) -> str:
        return f"{named_field(self.part, self.path)} {self.given}" + (
            f"; expected {self.expected}" if self.expected else ""
        )


class Checker:
    """Checks messages against one document."""

    def __init__(self, document: Document) -> None:
        """Compile the schemas. Raises ValueError with the place of one that is none."""
        self._document: Final = document
        self._registries: Final[dict[str, jsonschema_rs.Registry]] = {}
        self._validators: Final[dict[tuple[Place, str, bool], jsonschema_rs.Validator]] = {}
        self._by_exchange: Final[dict[tuple[str, str], list[ChannelSpec]]] = {}
        self._by_queue: Final[dict[str, list[ChannelSpec]]] = {}
        for channel in document.channels:
            if channel.queue is not None:
                self._by_queue.setdefault(channel.queue, []).append(channel)
            for message in channel.messages:
                for schema in message.schemas.values():
                    self._validator(schema)

    def channels_of(self, exchange: str, routing_key: str) -> list[ChannelSpec]:
        """Return the channels that a message is published to: those of its very key, or else those of patterns."""
        known = self._by_exchange.get((exchange, routing_key))
        if known is None:
            fitting = [
                each for each in self._document.channels if each.queue is None and each.takes(exchange, routing_key)
            ]
            exact = [each for each in fitting if not each.is_pattern]
            known = self._by_exchange[exchange, routing_key] = exact or fitting
        return known

    def channels_from(self, queue: str) -> list[ChannelSpec]:
        """Return the channels that are this queue. One with a generated name has marks in an exported lock."""
        return self._by_queue.get(queue) or self._by_queue.get(key_pattern(queue), [])

    def findings(self, channels: Iterable[ChannelSpec], body: bytes, properties: Mapping[str, Any]) -> list[Mismatch]:
        """Return in what a message is not as any message of channels; nothing if it is as one of them."""
        messages = [message for channel in channels for message in channel.messages]
        named = _named(messages, body, properties)
        best: list[Mismatch] | None = None
        for message in named or messages:
            findings = [*self._message_findings(message, body, properties)]
            if not findings:
                return []
            if best is None or _distance(findings) < _distance(best):
                best = findings
        return (best or [])[:_FINDINGS_MAX]

    def _message_findings(self, spec: MessageSpec, body: bytes, properties: Mapping[str, Any]) -> Iterator[Mismatch]:
        """Yield what is not as one message says. Hot: once for each message."""
        given = properties.get("content_type")
        if spec.has_content_type and isinstance(given, str) and _media_type(given) != _media_type(spec.content_type):
            place = spec.place / "contentType"
            yield Mismatch("properties", "content_type", f"is {given!r}", spec.content_type, place, "contentType", 1)
            return
        for part, schema in spec.schemas.items():
            if part == "body":
                if str(properties.get("content_encoding") or "utf-8").lower() not in _ENCODINGS:
                    continue
                value = _content(body, given, spec.content_type)
                if value is _UNREADABLE:
                    if _is_json(spec.content_type) or _is_json(given):
                        expected = _media_type(spec.content_type) or "JSON"
                        yield Mismatch("body", "", "is no JSON", expected, spec.place, "contentType", 0)
                    continue
            else:
                value = plain(_part(part, schema, properties), float)
            validator = self._validator(schema)
            if not validator.is_valid(value):
                for error in validator.iter_errors(value):
                    for finding in _findings_of(part, schema, error):
                        is_body = part == "body" and not finding.path and finding.keyword == "type"
                        yield (
                            replace(finding, given=_what_body_is(body, given) or finding.given) if is_body else finding
                        )

    def _validator(self, schema: Schema) -> jsonschema_rs.Validator:
        key = (schema.node.place, schema.dialect, schema.is_any)
        if key not in self._validators:
            self._validators[key] = self._compiled(schema)
        return self._validators[key]

    def _compiled(self, schema: Schema) -> jsonschema_rs.Validator:
        place, node = schema.node.place, schema.node
        if schema.dialect.rstrip("#") not in DRAFTS:
            raise ValueError(
                f"{place.path}{place.pointer} has the $schema {schema.dialect!r}; expected one of {', '.join(DRAFTS)}"
            )
        try:
            draft = jsonschema_rs.validator_cls_for({"$schema": schema.dialect})
            if schema.dialect not in self._registries:
                files = [
                    (path.as_uri(), {"$schema": schema.dialect, **_object(data)}) for path, data in node.files.data()
                ]
                self._registries[schema.dialect] = jsonschema_rs.Registry(files)
            uri = f"{place.path.as_uri()}{place.reference}"
            root: dict[str, Any] = {"$ref": uri}
            if schema.is_any:
                root = {"anyOf": [{"$ref": f"{uri}/oneOf/{index}"} for index in range(len(node.value["oneOf"]))]}
            return draft(
                {"$schema": schema.dialect, **root},
                registry=self._registries[schema.dialect],
                validate_formats=True,
                formats=FORMATS,
            )
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            reason = _why_no_schema(schema) or str(error).partition("\n")[0]
            raise ValueError(f"{place.path}{place.pointer} is no JSON Schema: {reason}") from None


def _named(messages: list[MessageSpec], body: bytes, properties: Mapping[str, Any]) -> list[MessageSpec]:
    """Return those of several messages that have the type or the task which a message names."""
    if all(not each.type and not each.key for each in messages):
        return []
    names = {properties.get("type"), message_name(body, properties)} - {None, ""}
    return [each for each in messages if each.type in names or each.key.get("name") in names]


def _why_no_schema(schema: Schema) -> str | None:
    """Return what is wrong with a schema itself; None if that is in one that it refers to."""
    try:
        jsonschema_rs.meta.validate({"$schema": schema.dialect, **_object(schema.node.value)})
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        if not isinstance(error, jsonschema_rs.ValidationError):
            return str(error)
        return f"`{_path(error.instance_path)}`: {error.message}"
    return None


def _object(data: object) -> Mapping[str, Any]:
    return data if isinstance(data, Mapping) else {}


def _distance(findings: list[Mismatch]) -> int:
    """Return how far a message is from what was expected: least from the one that its sender had in mind."""
    return sum(100 if each.keyword in _OTHER_KIND and each.depth <= 1 else 1 for each in findings)


@lru_cache(256)
def _media_type(content_type: object) -> str:
    return str(content_type or "").partition(";")[0].strip().lower()


@lru_cache(256)
def _is_json(content_type: object) -> bool:
    media_type = _media_type(content_type)
    return media_type == "application/json" or media_type.endswith("+json")


_UNREADABLE: Final = object()
# Those of the property `content_encoding` that leave the bytes of a body as they are; kombu writes "binary".
_ENCODINGS: Final = ("utf-8", "utf8", "us-ascii", "ascii", "identity", "binary", "latin-1", "iso-8859-1")


def _content(body: bytes, given: object, expected: str) -> object:
    """Return what a body holds. A body that does not say what it is may be JSON, a text, or bytes."""
    media_type = _media_type(given) or (_media_type(expected) if not _is_json(expected) else "")
    if media_type.startswith("text/"):
        return body.decode("utf-8", "replace")
    if media_type and not _is_json(media_type):
        # A document that has no other content type than JSON describes bytes as a text.
        return _UNREADABLE if expected and not _is_json(expected) else body.decode("latin-1")
    if not body:
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        if media_type:
            return _UNREADABLE
    # FastStream and others send texts and bytes without a content type.
    return body.decode("utf-8", "replace")


def _what_body_is(body: bytes, content_type: object) -> str:
    """Return why a body has another type than expected; empty if its value says it."""
    if not body:
        return "is empty"
    if content_type and not _is_json(content_type):
        return f"has the content type {_media_type(content_type)}, which is no JSON"
    return ""


def _part(part: str, schema: Schema, properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the headers or the properties of a message. Documents have properties of AMQP among the headers."""
    own = {name: value for name, value in properties.items() if name != "headers"}
    if part == "properties":
        return own
    names = schema.node["properties"].value or {}
    return {**{name: value for name, value in own.items() if name in names}, **(properties.get("headers") or {})}


def _findings_of(part: str, schema: Schema, error: jsonschema_rs.ValidationError) -> Iterator[Mismatch]:
    """Yield the findings that one error of the library stands for."""
    name, facts = error.kind.name, error.kind.as_dict()
    path, depth = _path(error.instance_path), len(error.instance_path)
    steps = tuple(map(str, error.schema_path))
    # The alternatives of such a schema are in a root that is in no file.
    place = schema.node.place / "oneOf" if steps == ("anyOf",) else Place(schema.node.place.path, steps)
    branches = cast("list[list[jsonschema_rs.ValidationError]]", facts.get("context", []))
    if branches and all(branches):
        yield from _branch_findings(part, schema, error, branches, place)
        return
    if name in ("required", "dependentRequired"):
        below = field_path(path, str(facts["property"]))
        yield Mismatch(part, below, "is missing", "", place, name, depth + 1)
    elif "unexpected" in facts or name == "falseSchema":
        fields = facts.get("unexpected") or (error.instance if isinstance(error.instance, Mapping) else None)
        for below in [field_path(path, str(each)) for each in fields] if fields is not None else [path]:
            yield Mismatch(part, below, "is not allowed", "", place, "unexpected", depth + 1)
    else:
        words = _EXPECTED.get(name)
        expected = f"what `{name}` says" if words is None else words(facts)
        yield Mismatch(part, path, f"is {_shown(error.instance, path)}", expected, place, name, depth)


def _branch_findings(
    part: str,
    schema: Schema,
    error: jsonschema_rs.ValidationError,
    branches: list[list[jsonschema_rs.ValidationError]],
    place: Place,
) -> Iterator[Mismatch]:
    """Yield the findings of the alternative that is closest, or of all in one if none is."""
    several = [[finding for each in branch for finding in _findings_of(part, schema, each)] for branch in branches]
    path, depth = _path(error.instance_path), len(error.instance_path)
    within = [branch for branch in several if not any(each.keyword == "type" and each.path == path for each in branch)]
    if not within:
        types = dict.fromkeys(name for branch in branches for each in branch for name in _types(each))
        given = f"is {_shown(error.instance, path)}"
        yield Mismatch(part, path, given, listed([*types], "or"), place, "type", depth)
        return
    # What distinguishes the alternatives is at their top.
    marks = [
        {each.path: each for each in branch if each.keyword in _OTHER_KIND and each.depth <= depth + 1}
        for branch in within
    ]
    if len(within) > 1 and (common := [name for name in marks[0] if all(name in each for each in marks)]):
        expected = listed([*dict.fromkeys(each[common[0]].expected for each in marks)], "or")
        yield replace(marks[0][common[0]], expected=expected, place=place)
        return
    yield from within[min(range(len(within)), key=lambda index: (len(marks[index]), len(within[index])))]


def _types(error: jsonschema_rs.ValidationError) -> Iterable[str]:
    return cast("Iterable[str]", error.kind.as_dict()["types"]) if error.kind.name == "type" else ()


_EXPECTED: Final[dict[str, Callable[[Mapping[str, Any]], str]]] = {
    "type": lambda facts: listed(facts["types"], "or"),
    "enum": lambda facts: listed([*map(_json, facts["options"])], "or"),
    "const": lambda facts: _json(facts["expected_value"]),
    "format": lambda facts: f"the format {facts['format']}",
    "pattern": lambda facts: f"a text that has {facts['pattern']}",
    "minimum": lambda facts: f"at least {facts['limit']}",
    "maximum": lambda facts: f"at most {facts['limit']}",
    "exclusiveMinimum": lambda facts: f"more than {facts['limit']}",
    "exclusiveMaximum": lambda facts: f"less than {facts['limit']}",
    "multipleOf": lambda facts: f"a multiple of {facts['multiple_of']}",
    "minLength": lambda facts: f"at least {count_text(facts['limit'], 'character')}",
    "maxLength": lambda facts: f"at most {count_text(facts['limit'], 'character')}",
    "minItems": lambda facts: f"at least {count_text(facts['limit'], 'item')}",
    "maxItems": lambda facts: f"at most {count_text(facts['limit'], 'item')}",
    "minProperties": lambda facts: f"at least {count_text(facts['limit'], 'field')}",
    "maxProperties": lambda facts: f"at most {count_text(facts['limit'], 'field')}",
    "uniqueItems": lambda facts: "each item once",
    "oneOf": lambda facts: "a value that fits exactly one of several schemas",
    "not": lambda facts: f"no value that fits {_json(facts['schema'])}",
}


def _json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN_MAX else f"{text[: _SHOWN_MAX - 3]}..."


def _shown(value: object, path: str) -> str:
    """Return a value as a failure shows it: not what may be a secret, and not what is long."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list):
        return f"an array of {count_text(len(value), 'item')}"
    if value is not None and _SECRETS.hides(re.sub(r"\[\d+\]$", "", path).rpartition(".")[2]):
        return "a text" if isinstance(value, str) else "a number"
    return _json(value)


def _path(steps: Iterable[str | int]) -> str:
    path = ""
    for step in steps:
        path = f"{path}[{step}]" if isinstance(step, int) else field_path(path, step)
    return path
