"""The body of a message as a page shows it: JSON, text or hexadecimal digits, and its beginning in a few characters.

JSON is redacted by the names of its keys, as headers are. What is no JSON is shown as it is.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from leveret.trace.events import preview

if TYPE_CHECKING:
    from leveret.trace.redaction import Redaction

# The most characters of a body in a page, and how many bytes are shown as hexadecimal digits.
SHOWN_MAX: Final = 16_000
_HEX_BYTES: Final = 1_024
_LABEL_LENGTH: Final = 40
# JavaScript reads larger numbers inexactly, so such a body is shown as text.
_EXACT_MAX: Final = 2**53
_TEXT_OF: Final = json.JSONEncoder(ensure_ascii=False).encode
_BEGINS_JSON: Final = (b"{", b"[")


class Body:
    """The body of one message, as far as it is known."""

    def __init__(self, octets: bytes | None, size: int, digest: str, redaction: Redaction) -> None:
        """`octets` is None if they are unknown, or left out."""
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
        text = _TEXT_OF(self.json)
        return text if len(text) <= _LABEL_LENGTH else f"{text[:_LABEL_LENGTH]}..."


def cut(shown: dict[str, Any], limit: int) -> bool:
    """Cut a body that a page shows to `limit` characters, and return whether it was longer."""
    if "json" in shown:
        text = _TEXT_OF(shown["json"])
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
