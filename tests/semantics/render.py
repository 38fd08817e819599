"""Write what a server sent as lines of a transcript, with a few named normalisations.

Normalised are: names that the server generates (numbered in order of appearance), the run's token in vhost and user
names, instants near now, node names, and long bodies (length and hash). Everything else stays as it arrived, with the
wire tags of headers.
"""

from __future__ import annotations

import hashlib
import re
import time

from .codec import Field

_GENERATED = (
    ("amq.gen", re.compile(r"amq\.gen-[A-Za-z0-9_-]{22}")),
    ("amq.ctag", re.compile(r"amq\.ctag-[A-Za-z0-9_-]{22}")),
    ("amq.rabbitmq.reply-to", re.compile(r"amq\.rabbitmq\.reply-to\.[A-Za-z0-9+/_=-]{20,}\.[A-Za-z0-9+/_=-]+")),
)
_NODE = re.compile(r"(?:rabbit|oracle\d+|leveret)@[A-Za-z0-9.-]+")
_LONG_BODY = 64
_LONG_TEXT = 1024
_DAY_SECONDS = 86_400


class Names:
    """The normaliser of one run: it remembers the generated names it has seen."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._seen: dict[str, dict[str, str]] = {kind: {} for kind, _ in _GENERATED}

    def clean(self, line: str) -> str:
        """Return the line with stable names."""
        for kind, pattern in _GENERATED:
            seen = self._seen[kind]
            line = pattern.sub(lambda hit: seen.setdefault(hit[0], f"<{kind} {len(seen) + 1}>"), line)  # noqa: B023
        return _NODE.sub("<node>", line).replace(self._token, "scenario")


def text(octets: bytes) -> str:
    """Return quoted text, or quoted bytes if they are not UTF-8."""
    if len(octets) > _LONG_TEXT:
        return body(octets)
    try:
        return repr(octets.decode())
    except UnicodeDecodeError:
        return repr(octets)


def field(value: Field) -> str:
    """Return a table value as its wire tag and its contents."""
    tag, inner = value
    match inner:
        case None:
            return tag
        case bytes():
            return f"{tag} {text(inner)}"
        case tuple() if tag == "F":
            return f"F {table(inner)}"
        case tuple() if tag == "A":
            return f"A [{', '.join(map(field, inner))}]"
        case int() if tag in "Tl" and _is_near_now(inner):
            return f"{tag} <now>"
    return f"{tag} {inner}"


def _is_near_now(number: int) -> bool:
    now = time.time()
    return abs(number - now) < _DAY_SECONDS or abs(number / 1000 - now) < _DAY_SECONDS


def table(entries: tuple[tuple[bytes, Field], ...]) -> str:
    """Return a table in wire order."""
    return "{" + ", ".join(f"{text(name)[1:-1]}: {field(value)}" for name, value in entries) + "}"


def value(inner: object) -> str:
    """Return a method field or a property."""
    match inner:
        case bytes():
            return text(inner)
        case bool():
            return str(inner).lower()
        case tuple():
            return table(inner)
    return str(inner)


def fields(pairs: dict[str, object]) -> str:
    """Return fields by name, in wire order."""
    return " ".join(f"{name}={_named(name, inner)}" for name, inner in pairs.items())


def _named(name: str, inner: object) -> str:
    is_now = name == "timestamp" and isinstance(inner, int) and _is_near_now(inner)
    return "<now>" if is_now else value(inner)


def body(octets: bytes) -> str:
    """Return a short body as text, a long one as its length and hash."""
    if len(octets) <= _LONG_BODY:
        return text(octets)
    return f"<{len(octets)} octets, sha1 {hashlib.sha1(octets).hexdigest()[:12]}>"
