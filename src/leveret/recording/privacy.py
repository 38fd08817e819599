"""Personal data leaves a message before it is written: fields are dropped, or hashed so that equal values stay equal.

A rule is a path from `body`, `headers` or `properties`, as in `body.lines[].name`; a name, with wildcards, of a field
or a header anywhere, as in `*email*`; or a regular expression between slashes, for texts and numbers anywhere. A text
that is JSON or base64 itself is searched like the rest. What a rule has removed is removed wherever else it stands in
the same message (see `Removed`). A body that cannot be searched for what a rule is about is left out whole.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Final, NamedTuple, cast

from leveret.core.wire.constants import SHORT_STRING_MAX_SIZE
from leveret.core.wire.properties import PROPERTY_NAMES, Properties
from leveret.core.wire.values import Field, Table, text_field
from leveret.errors import BrokerError
from leveret.recording.rec_file import RecordedMessage
from leveret.recording.removed import Removed, number_text
from leveret.trace.redaction import Redaction
from leveret.trace.shapes import FORMAT_PATTERNS, Shape, head_parts, safe_key

_PARTS: Final = ("body", "headers", "properties")
_GONE: Final = object()
# Properties of one byte. Only a rule that names them is about them.
_BYTES: Final = ("delivery_mode", "priority")
# Base64 in a text, in its two alphabets. Four characters take at least six.
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]{6,}={0,2}")
_BASE64_OF_URLS: Final = re.compile(r"[A-Za-z0-9_-]{6,}={0,2}")
# Texts that Celery makes of the arguments in the body.
_OF_BODY: Final = ("argsrepr", "kwargsrepr")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_EMAIL: Final = re.compile(FORMAT_PATTERNS["email"][0] or "")
_UUID: Final = re.compile(FORMAT_PATTERNS["uuid"][0] or "")
# What a run without rules proposes to hash: texts of these formats, and fields of these names.
_PERSONAL_FORMATS: Final = frozenset({"email"})
_PERSONAL_NAME: Final = re.compile(
    r"e?mail|phone|mobile|(first|last|sur|full|user|given|family|customer)_?name|^name$|street|address|zip|postcode|city"
    r"|birth|iban|bic|card|account|ssn|passport|^ip$|ip_?addr",
    re.I,
)


class FieldRule(NamedTuple):
    """A rule: what it is about, and whether that is hashed or dropped."""

    text: str
    is_hashed: bool
    # One of these three: the steps of a path after its part, a pattern of names, or of texts.
    steps: tuple[str, ...] | None = None
    name: str | None = None
    texts: re.Pattern[str] | None = None

    def takes(self, path: tuple[str, ...]) -> bool:
        """Return whether the rule is about the field at a path."""
        if self.steps is not None:
            return path == self.steps
        return self.name is not None and len(path) > 1 and fnmatchcase(path[-1].lower(), self.name)

    @property
    def is_of_bodies(self) -> bool:
        """Whether it is about fields that a body may have."""
        return self.name is not None or (self.steps is not None and self.steps[0] == "body")


def rule_of(text: str, *, is_hashed: bool) -> FieldRule:
    """Return the rule of `--drop` or `--hash`. Raises BrokerError for a text that is none."""
    option = "--hash" if is_hashed else "--drop"
    if len(text) > 2 and text[0] == text[-1] == "/":
        try:
            return FieldRule(text, is_hashed, texts=re.compile(text[1:-1]))
        except re.error as error:
            raise BrokerError(f"{option} {text}: no regular expression, {error}") from None
    steps = tuple(step for part in text.split(".") for step in re.split(r"(?=\[\])", part) if step)
    if not steps or steps[0] == "[]":
        raise BrokerError(f"{option} {text!r} names no field; give body.customer.email, headers.user or '*email*'")
    if steps[0] in _PARTS:
        if steps[0] == "properties" and not set(steps[1:2]) <= {*PROPERTY_NAMES}:
            raise BrokerError(f"{option} {text}: no property; a message has {', '.join(PROPERTY_NAMES)}")
        return FieldRule(text, is_hashed, steps=steps)
    if len(steps) > 1:
        raise BrokerError(f"{option} {text}: a path begins with body, headers or properties, as in body.{text}")
    return FieldRule(text, is_hashed, name=text.lower())


class Privacy:
    """The rules of one recording, and how often each has found something."""

    def __init__(self, rules: Iterable[FieldRule], key: str | None = None) -> None:
        """Without a `key`, a new one is made, and hashed values are equal in this recording only."""
        self.rules: Final = tuple(rules)
        self.counts: Final[Counter[str]] = Counter()
        # How many bodies were left out because they cannot be searched, and how many were kept nevertheless.
        self.opaque_count = 0
        self.unsearched_count = 0
        self._key: Final = secrets.token_bytes(32) if key is None else key.encode()
        self._patterns: Final = [(rule, rule.texts) for rule in self.rules if rule.texts is not None]
        self._is_of_bodies: Final = any(rule.is_of_bodies for rule in self.rules)
        # What was taken out of the current message.
        self._removed = Removed()

    def cleaned(self, message: RecordedMessage) -> RecordedMessage:
        """Return a message without what the rules take out; the same one if there are no rules."""
        if not self.rules:
            return message
        self._removed = Removed()
        body = self._body(message.body)
        of_task = _OF_BODY if self._removed else ()
        given = message.properties.present()
        headers = self._clean(given.pop("headers", Table.EMPTY), ("headers",))
        headers = Table(tuple([(name, text_field("") if name in of_task else it) for name, it in headers]))
        given = self._clean(given, ("properties",)) | ({"headers": headers} if headers.entries else {})
        kept = {name: value % 256 if name in _BYTES else self._swapped(value) for name, value in given.items()}
        kept = {name: _short(value) if isinstance(value, str) else value for name, value in kept.items()}
        key = _short(self._swapped(self._clean(message.routing_key, ("routing_key",))))
        return message._replace(routing_key=key, properties=Properties(**kept), body=self._without_removed(body))

    def _body(self, body: bytes) -> bytes:
        """Return a body without what the rules take out; nothing of it if it cannot be searched for that."""
        whole = next((rule for rule in self.rules if rule.steps == ("body",)), None)
        if whole is not None:
            self.counts[whole.text] += 1
            return str(self._hashed(body.decode("utf-8", "replace"))).encode() if whole.is_hashed else b""
        clean = partial(self._clean, path=("body",))
        changed = _changed_body(body, lambda text: _changed_json(text, clean))
        if changed is None and not self._is_of_bodies and _is_readable(body):
            changed = _changed_body(body, clean)
        if changed is not None:
            return changed
        if not self._is_of_bodies and not self._patterns:
            self.unsearched_count += not _is_readable(body)
            return body
        self.opaque_count += bool(body)
        return b""

    def _without_removed(self, body: bytes) -> bytes:
        """Return a body without what was taken out of the message elsewhere."""
        changed = _changed_body(body, lambda text: _changed_json(text, self._swapped))
        if changed is not None:
            return changed
        return str(self._swapped_leaf(body.decode("utf-8", "surrogateescape"))).encode("utf-8", "surrogateescape")

    def _swapped(self, value: Any) -> Any:
        """Return a value with what was taken out of the message replaced in its texts, numbers and names."""
        return mapped(value, self._swapped_leaf, lambda name: _short(self._swapped_leaf(name)))

    def _swapped_leaf(self, value: Any) -> Any:
        if isinstance(value, str):
            return _changed_text(value, self._swapped, self._removed.swapped)
        return self._removed.swapped_number(value)

    def _clean(self, value: Any, path: tuple[str, ...]) -> Any:
        """Return a value without what the rules take out of it."""
        kept = self._kept(value, path)
        return type(value)() if kept is _GONE else kept

    def _kept(self, value: Any, path: tuple[str, ...]) -> Any:
        """Return a value without what the rules take out of it; _GONE if that is all of it."""
        rule = next((rule for rule in self.rules if rule.takes(path)), None)
        if rule is not None:
            self.counts[rule.text] += 1
            hashed = self._noted(value, is_hashed=rule.is_hashed)
            return hashed if rule.is_hashed else _GONE
        if isinstance(value, dict):
            inner = {name: self._kept(item, (*path, name)) for name, item in value.items()}
            return {name: item for name, item in inner.items() if item is not _GONE}
        if isinstance(value, Table):
            fields = [(self._patterned(name, ()), self._kept(item, (*path, name))) for name, item in value]
            return Table(tuple([(name, item) for name, item in fields if item is not _GONE]))
        if isinstance(value, Field):
            if value.tag not in "AF":
                return mapped(value, partial(self._patterned, path=path))
            return Field(value.tag, self._clean(value.value, path))
        if isinstance(value, list | tuple):
            return type(value)([it for item in value if (it := self._kept(item, (*path, "[]"))) is not _GONE])
        return value if path[-1] in _BYTES and path[0] == "properties" else self._patterned(value, path)

    def _noted(self, value: Any, *, is_hashed: bool) -> Any:
        """Note that all of a value is taken out, and return it hashed. A name in it is too if it is data."""
        note = partial(self._note, is_hashed=is_hashed)
        return mapped(value, note, lambda name: name if safe_key(name) == name else str(note(name)))

    def _note(self, value: Any, *, is_hashed: bool) -> Any:
        """Note that a text or a number is taken out, and return its hash."""
        hashed = self._hashed(value)
        self._removed.add(value, str(hashed) if is_hashed else "")
        if isinstance(value, str):
            _changed_json(value, partial(self._noted, is_hashed=is_hashed))
        return hashed

    def _patterned(self, value: Any, path: tuple[str, ...]) -> Any:
        """Return a text or a number at a path without what patterns find in it, and other rules in JSON in it."""
        if isinstance(value, str):
            return _changed_text(value, lambda inner: self._clean(inner, path), self._patterned_text)
        if value is None or isinstance(value, bool):
            return value
        text = number_text(value)
        rule = next((rule for rule, pattern in self._patterns if pattern.search(text)), None)
        if rule is None:
            return value
        self.counts[rule.text] += 1
        hashed = self._note(value, is_hashed=rule.is_hashed)
        # A number stays one, so that what reads the field still takes it.
        return hashed if rule.is_hashed else 0

    def _patterned_text(self, text: str) -> str:
        for rule, pattern in self._patterns:
            text = pattern.sub(partial(self._replaced, rule), text)
        return text

    def _replaced(self, rule: FieldRule, found: re.Match[str]) -> str:
        if not found[0]:
            return ""
        self.counts[rule.text] += 1
        hashed = self._note(found[0], is_hashed=rule.is_hashed)
        return str(hashed) if rule.is_hashed else ""

    def _hashed(self, value: Any) -> Any:
        """Return the hash of a text or a number: one of an email address is an address, one of a number has its length.

        So what reads the field still takes it.
        """
        text = str(value)
        mac = hmac.new(self._key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
        if not isinstance(value, str):
            digits = min(len(text.strip("-")), 18)
            return int(mac, 16) % (9 * 10 ** (digits - 1)) + 10 ** (digits - 1)
        if _EMAIL.fullmatch(text):
            return f"{mac[:16]}@hashed.invalid"
        if _UUID.fullmatch(text):
            return "-".join((mac[:8], mac[8:12], mac[12:16], mac[16:20], mac[20:32])) if "-" in text else mac[:32]
        return mac[:16]


def _short(text: str) -> str:
    """Return as much of a text as a short string of AMQP holds: a hash may be longer than what it replaces."""
    return text.encode("utf-8", "surrogateescape")[:SHORT_STRING_MAX_SIZE].decode("utf-8", "surrogateescape")


def _is_readable(body: bytes) -> bool:
    """Return whether a body that is no JSON is a text, and not the base64 of what is none."""
    try:
        text = body.decode().strip()
        if _BASE64.fullmatch(text) and len(text) > 24 and len(text) % 4 == 0:
            base64.b64decode(text).decode()
    except UnicodeDecodeError:
        return False
    return "\0" not in text


def _changed_body(body: bytes, change: Callable[[str], str | None]) -> bytes | None:
    """Return a body with its text changed, in the encoding of JSON; None if it is no text, or `change` gives None."""
    encoding = json.detect_encoding(body)
    with suppress(UnicodeDecodeError):
        text = body.decode(encoding, "surrogatepass")
        changed = change(text)
        if changed is not None:
            return body if changed == text else changed.encode(encoding, "surrogatepass")
    return None


def _changed_text(text: str, change: Callable[[Any], Any], change_text: Callable[[str], str]) -> str:
    """Return a text with a value of JSON in it changed, or else its base64 and then the text itself."""
    if text.lstrip()[:1] in ("{", "[", '"'):
        changed = _changed_json(text, change)
        if changed is not None:
            return changed
    recoded = partial(_recoded, partial(_changed_text, change=change, change_text=change_text))
    return change_text(_BASE64_OF_URLS.sub(recoded, _BASE64.sub(recoded, text)))


def _recoded(change: Callable[[str], str], found: re.Match[str]) -> str:
    """Return base64 with the text in it changed; the same one if that holds no text."""
    given = found[0].rstrip("=")
    is_of_urls = found.re is _BASE64_OF_URLS
    try:
        text = base64.b64decode(given + "=" * (-len(given) % 4), b"-_" if is_of_urls else None).decode()
    except ValueError:
        return found[0]
    changed = change(text)
    if changed == text:
        return found[0]
    encoded = base64.b64encode(changed.encode("utf-8", "surrogatepass"), b"-_" if is_of_urls else None).decode()
    return encoded.rstrip("=") if given == found[0] and len(given) % 4 else encoded


def _changed_json(text: str, change: Callable[[Any], Any]) -> str | None:
    """Return a text of JSON with its value changed, the same text if nothing changes, and None if it cannot be read.

    An object is a `Table`, because a name may come twice.
    """
    try:
        value = json.loads(text, object_pairs_hook=lambda pairs: Table(tuple(pairs)), parse_float=Decimal)
    except (ValueError, RecursionError, ArithmeticError):
        return None
    # A value may be nested deeper than Python calls.
    with suppress(RecursionError):
        changed = _json_text(change(value))
        return text if changed == _json_text(value) else changed
    return None


def _json_text(value: Any) -> str:
    if isinstance(value, Table):
        return "{" + ", ".join([f"{_json_text(name)}: {_json_text(item)}" for name, item in value]) + "}"
    if isinstance(value, list):
        return "[" + ", ".join([_json_text(item) for item in value]) + "]"
    # Half of a pair of surrogates cannot be written as it is.
    is_escaped = isinstance(value, str) and _SURROGATE.search(value) is not None
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=is_escaped)


def mapped(value: Any, leaf: Callable[[Any], Any], name: Callable[[str], str] = str) -> Any:
    """Return a value with each text and number in it replaced, and each name of a table."""
    if isinstance(value, Table):
        return Table(tuple([(name(key), mapped(item, leaf, name)) for key, item in value]))
    if isinstance(value, Field):
        if value.tag == "D" and isinstance(value.value, tuple):
            scale, unscaled = cast("tuple[int, int]", value.value)
            number = Decimal(unscaled).scaleb(-scale)
            changed = leaf(number)
            return value if changed == number else Field("l", changed)
        inner = mapped(value.value, leaf, name)
        is_number = type(inner) is int and inner != value.value and value.tag != "T"
        return Field("l" if is_number else value.tag, inner)
    if isinstance(value, list | tuple):
        return type(value)([mapped(item, leaf, name) for item in value])
    if isinstance(value, bytes):
        return str(leaf(value.decode("utf-8", "surrogateescape"))).encode("utf-8", "surrogateescape")
    return value if value is None or isinstance(value, bool) else leaf(value)


def add_message(shape: Shape, message: RecordedMessage) -> None:
    """Add a message to a shape by the paths that rules have: JSON in a text is part of what it stands in."""
    for part, value in head_parts(message.properties.to_python()):
        shape.part(part).add(_opened(value))
    with suppress(ValueError, RecursionError):
        shape.part("body").add(_opened(json.loads(message.body)))


def _opened(value: Any) -> Any:
    """Return a value with the value of each text that is an object or an array of JSON in place of the text."""
    if isinstance(value, dict):
        return {name: _opened(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_opened(item) for item in value]
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        with suppress(ValueError, RecursionError):
            return _opened(json.loads(value))
    return value


def proposals(shape: Shape) -> Iterator[str]:
    """Yield the options that a first run proposes for messages of a shape, such as `--hash body.customer.email`."""
    secret = Redaction()
    options: dict[str, None] = {}
    for path, place, _ in shape.walk():
        name = re.split(r"(?<!\\)\.", path)[-1].replace("[]", "")
        if (
            place.types.keys() <= {"object", "array", "null"}
            or re.split(r"[.\[]", path)[0] not in _PARTS
            or path in _PARTS
        ):
            continue
        if secret.hides(name):
            options[f"--drop '{_rule_text(path)}'"] = None
        elif _PERSONAL_FORMATS & place.formats.keys() or _PERSONAL_NAME.search(name):
            options[f"--hash '{_rule_text(path)}'"] = None
    yield from options


def _rule_text(path: str) -> str:
    """Return the rule for a path of a shape: a name anywhere if names above are data, or have dots or brackets."""
    steps = re.split(r"(?<!\\)\.", path)
    while len(steps) > 2 and steps[-1].startswith("{"):
        # The names are data, so the rule is about all of the object that has them.
        steps.pop()
    if not any("{" in step or "\\" in step for step in steps):
        return ".".join(steps)
    return re.sub(r"\\.", "?", steps[-1]).replace("[]", "")
