"""Personal data leaves a message before it is written: fields are dropped, or hashed so that equal values stay equal.

A rule is a path from `body`, `headers` or `properties`, as in `body.lines[].name`; a name, with wildcards, of a field
or a header anywhere, as in `*email*`; or a regular expression between slashes, for texts anywhere. What a rule has
removed is removed wherever else it stands in the same message, as in the routing key or in Celery's `argsrepr`. If a
rule is about fields of bodies, a body that is no JSON is left out whole, since it cannot be searched.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Final, NamedTuple

from leveret.core.wire.properties import PROPERTY_NAMES, Properties
from leveret.core.wire.values import Field, Table, text_field
from leveret.errors import BrokerError
from leveret.recording.rec_file import RecordedMessage
from leveret.trace.redaction import Redaction
from leveret.trace.shapes import FORMAT_PATTERNS, Shape

_PARTS: Final = ("body", "headers", "properties")
_GONE: Final = object()
# Shorter values are not searched for elsewhere: they stand there for other reasons.
_SOUGHT_MIN: Final = 4
# Texts that Celery makes of the arguments in the body.
_OF_BODY: Final = ("argsrepr", "kwargsrepr")
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
        # How many bodies were left out because no field can be found in them.
        self.opaque_count = 0
        self._key: Final = secrets.token_bytes(32) if key is None else key.encode()
        self._patterns: Final = [(rule, rule.texts) for rule in self.rules if rule.texts is not None]
        # What was taken out of the current message, as text, and what stands in its place.
        self._removed: dict[str, str] = {}

    def cleaned(self, message: RecordedMessage) -> RecordedMessage:
        """Return a message without what the rules take out; the same one if there are no rules."""
        if not self.rules:
            return message
        self._removed = {}
        body = self._body(message.body)
        of_task = _OF_BODY if self._removed else ()
        given = {name: value for name in PROPERTY_NAMES if (value := getattr(message.properties, name)) is not None}
        headers = self._clean(given.pop("headers", Table.EMPTY), ("headers",))
        headers = Table(tuple([(name, text_field("") if name in of_task else it) for name, it in headers]))
        kept: dict[str, Any] = self._clean(given, ("properties",)) | ({"headers": headers} if headers.entries else {})
        sought = sorted((text for text in self._removed if len(text) >= _SOUGHT_MIN), key=len, reverse=True)
        key = message.routing_key
        if sought:
            pattern = re.compile("|".join(map(re.escape, sought)))
            swap = partial(pattern.sub, lambda found: self._removed[found[0]])
            body = _changed_json(body, lambda value: mapped(value, partial(self._swapped, swap), swap), swap)
            kept, key = mapped(kept, partial(self._swapped, swap), swap), swap(key)
        return message._replace(routing_key=key, properties=Properties(**kept), body=body)

    def _swapped(self, swap: Callable[[str], str], value: Any) -> Any:
        if isinstance(value, str):
            return swap(value)
        text = str(value)
        if len(text) < _SOUGHT_MIN or text not in self._removed:
            return value
        # A number stays one, so that what reads the field still takes it.
        return int(self._removed[text]) if self._removed[text].isdecimal() else 0

    def _body(self, body: bytes) -> bytes:
        whole = next((rule for rule in self.rules if rule.steps == ("body",)), None)
        if whole is not None:
            self.counts[whole.text] += 1
            return str(self._hashed(body.decode("utf-8", "replace"))).encode() if whole.is_hashed else b""
        return _changed_json(body, lambda value: self._clean(value, ("body",)), self._opaque)

    def _opaque(self, text: str) -> str:
        """Return a body that is no JSON: nothing of it if it may hold a field that a rule is about."""
        if any(rule.is_of_bodies for rule in self.rules):
            self.opaque_count += bool(text)
            return ""
        return str(self._patterned(text))

    def _clean(self, value: Any, path: tuple[str, ...]) -> Any:
        """Return a value without what the rules take out of it."""
        kept = self._kept(value, path)
        return type(value)() if kept is _GONE else kept

    def _kept(self, value: Any, path: tuple[str, ...]) -> Any:
        """Return a value without what the rules take out of it; _GONE if that is all of it."""
        rule = next((rule for rule in self.rules if rule.takes(path)), None)
        if rule is not None:
            self.counts[rule.text] += 1
            hashed = mapped(value, partial(self._note, is_hashed=rule.is_hashed))
            return hashed if rule.is_hashed else _GONE
        if isinstance(value, dict):
            inner = {name: self._kept(item, (*path, name)) for name, item in value.items()}
            return {name: item for name, item in inner.items() if item is not _GONE}
        if isinstance(value, Table):
            fields = [(name, self._kept(item, (*path, name))) for name, item in value]
            return Table(tuple([(name, item) for name, item in fields if item is not _GONE]))
        if isinstance(value, Field):
            if value.tag not in "AF":
                return mapped(value, self._patterned)
            return Field(value.tag, self._clean(value.value, path))
        if isinstance(value, list | tuple):
            return type(value)([it for item in value if (it := self._kept(item, (*path, "[]"))) is not _GONE])
        return self._patterned(value)

    def _note(self, value: Any, *, is_hashed: bool) -> Any:
        """Note that a value is taken out, and return its hash."""
        hashed = self._hashed(value)
        self._removed[str(value)] = str(hashed) if is_hashed else ""
        return hashed

    def _patterned(self, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        for rule, pattern in self._patterns:
            for found in pattern.finditer(value):
                self.counts[rule.text] += 1
                self._note(found[0], is_hashed=rule.is_hashed)
            value = pattern.sub(lambda found: self._removed.get(found[0], ""), value)
        return value

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


def _changed_json(body: bytes, change: Callable[[Any], Any], change_text: Callable[[str], str]) -> bytes:
    """Return a body with its value of JSON changed, or its text if it is no JSON; the same bytes if nothing changes."""
    try:
        value = json.loads(body, parse_float=Decimal)
    except (ValueError, RecursionError):
        return change_text(body.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    changed = change(value)
    if changed == value and str(changed) == str(value):
        return body
    return json.dumps(changed, default=float, ensure_ascii=False).encode("utf-8", "surrogatepass")


def mapped(value: Any, leaf: Callable[[Any], Any], name: Callable[[str], str] = str) -> Any:
    """Return a value with each text and number in it replaced, and each name."""
    if isinstance(value, dict):
        return {name(key): mapped(item, leaf, name) for key, item in value.items()}
    if isinstance(value, Table):
        return Table(tuple([(name(key), mapped(item, leaf, name)) for key, item in value]))
    if isinstance(value, Field):
        if value.tag == "D":
            return text_field(str(leaf(str(value.value))))
        inner = mapped(value.value, leaf, name)
        is_number = type(inner) is int and inner != value.value and value.tag != "T"
        return Field("l" if is_number else value.tag, inner)
    if isinstance(value, list | tuple):
        return type(value)([mapped(item, leaf, name) for item in value])
    if isinstance(value, bytes):
        return str(leaf(value.decode("utf-8", "surrogateescape"))).encode("utf-8", "surrogateescape")
    return value if value is None or isinstance(value, bool) else leaf(value)


def proposals(shape: Shape) -> Iterator[str]:
    """Yield the options that a first run proposes for messages of a shape, such as `--hash body.customer.email`."""
    secret = Redaction()
    for path, place, _ in shape.walk():
        name = path.rpartition(".")[2].removesuffix("[]").replace("\\", "")
        if place.types.keys() & {"object", "array"} or path.partition(".")[0] not in _PARTS or path in _PARTS:
            continue
        if secret.hides(name):
            yield f"--drop '{path}'"
        elif _PERSONAL_FORMATS & place.formats.keys() or _PERSONAL_NAME.search(name):
            yield f"--hash '{path}'"
