"""The body of a message as a page shows it: JSON, text or hexadecimal digits, and its beginning in a few characters.

JSON is redacted by the names of its keys, as headers are. What is no JSON is shown as it is.

Also messages of frameworks read for what they are: Celery, taskiq, dramatiq, FastStream, nameko and kombu's mailboxes.
A framework is recognised by the headers, properties and bodies that its releases write, and by nothing a user chooses.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from leveret.trace.events import preview, task_of

if TYPE_CHECKING:
    from leveret.trace.redaction import Redaction

# The most characters of a body in a page, and how many bytes are shown as hexadecimal digits.
SHOWN_MAX: Final = 16_000
_HEX_BYTES: Final = 1_024
_LABEL_LENGTH: Final = 40
# JavaScript reads larger numbers inexactly, so such a body is shown as text.
_EXACT_MAX: Final = 2**53
_BEGINS_JSON: Final = (b"{", b"[")

Pairs = list[list[str]]

_CELERY: Final = (
    "id",
    "root_id",
    "parent_id",
    "argsrepr",
    "kwargsrepr",
    "retries",
    "eta",
    "expires",
    "group",
    "origin",
)
_DRAMATIQ: Final = ("actor_name", "queue_name", "args", "kwargs", "options", "message_id")
_FASTSTREAM: Final = "faststream"
_EVENTS_OF_CELERY: Final = ("celeryev", "celery.ev")
_MAILBOX: Final = (".pidbox", ".reply.celery.pidbox")


class Body:
    """The body of one message, as far as it is known."""

    def __init__(self, octets: bytes | None, size: int, digest: str, redaction: Redaction) -> None:
        self._octets = octets
        # An object or an array, if it is JSON.
        self.json: Any = None
        self.shown: dict[str, Any] = {"size": size, "hash": digest}
        if octets is None:
            return
        if octets[:1] in _BEGINS_JSON or octets.lstrip()[:1] in _BEGINS_JSON:
            self._read_json(octets, redaction)
        if self.json is not None:
            self.shown["json"] = self.json
        else:
            self._show_text(octets)
        cut(self.shown, SHOWN_MAX)

    def _read_json(self, octets: bytes, redaction: Redaction) -> None:
        try:
            value = json.loads(octets, parse_int=_exact, parse_float=_finite, parse_constant=_refused)
        except (ValueError, RecursionError):
            return
        self.json = redaction.shown({"": value})[""]

    def _show_text(self, octets: bytes) -> None:
        try:
            text = octets.decode()
        except UnicodeDecodeError:
            self.shown["hex"] = octets[:_HEX_BYTES].hex()
            if len(octets) > _HEX_BYTES:
                self.shown["cut"] = len(octets)
            return
        self.shown["text"] = text

    @property
    def label(self) -> str:
        """The beginning of the body in a few characters; empty if it is unknown."""
        if self._octets is None:
            return ""
        if self.json is None:
            return preview(self._octets, _LABEL_LENGTH)
        text = json.dumps(self.json, ensure_ascii=False)
        return text if len(text) <= _LABEL_LENGTH else f"{text[:_LABEL_LENGTH]}..."


def cut(shown: dict[str, Any], limit: int) -> bool:
    """Cut a body that a page shows to `limit` characters, and return whether it was longer."""
    if "json" in shown:
        text = json.dumps(shown["json"], ensure_ascii=False)
        if len(text) <= limit:
            return False
        del shown["json"]
        shown |= {"text": text[:limit], "cut": len(text)}
        return True
    for name in ("text", "hex"):
        value = shown.get(name)
        if value is not None and len(value) > limit:
            shown[name] = value[:limit]
            shown.setdefault("cut", len(value))
            return True
    return False


def _exact(text: str) -> int:
    number = int(text)
    if abs(number) > _EXACT_MAX:
        raise ValueError(text)
    return number


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(text)
    return number


def _refused(text: str) -> object:
    raise ValueError(text)


class Framework(NamedTuple):
    """What a framework says in one message: its name, the message in short, and the facts in order."""

    name: str
    label: str
    summary: Pairs


def framework_of(
    exchange: str, headers: Mapping[str, Any], properties: Mapping[str, Any], body: object
) -> Framework | None:
    """Return the framework that published a message, or None. `body` is its JSON, or None."""
    task = task_of(headers)
    if "task" in headers and "id" in headers:
        return Framework("Celery", str(task), [["task", str(task)], *_known(headers, _CELERY)])
    if "task_name" in headers:
        labels = {name: value for name, value in headers.items() if name != "task_name"}
        return Framework("taskiq", str(task), [["task", str(task)], *_known(labels, tuple(labels))])
    fields = body if isinstance(body, Mapping) else {}
    if "actor_name" in fields and "queue_name" in fields and "message_id" in fields:
        return Framework("dramatiq", str(fields["actor_name"]), _known(fields, _DRAMATIQ))
    if "nameko.call_id_stack" in headers:
        stack = headers["nameko.call_id_stack"]
        calls = stack if isinstance(stack, list) else [stack]
        return Framework("nameko", str(calls[-1] if calls else ""), [["calls", " > ".join(map(str, calls))]])
    if exchange in _EVENTS_OF_CELERY and "type" in fields:
        return Framework("Celery", str(fields["type"]), _known(fields, ("type", "hostname", "uuid", "name")))
    if exchange.endswith(_MAILBOX) and "method" in fields:
        return Framework("kombu", str(fields["method"]), _known(fields, ("method", "arguments", "destination")))
    if str(properties.get("app_id", "")).startswith(_FASTSTREAM):
        summary = _known(properties, ("app_id", "correlation_id", "reply_to", "content_type", "message_id"))
        return Framework("FastStream", "", summary)
    return None


def _known(values: Mapping[str, Any], names: tuple[str, ...]) -> Pairs:
    return [[name, str(values[name])] for name in names if values.get(name) not in (None, "", [], {})]
