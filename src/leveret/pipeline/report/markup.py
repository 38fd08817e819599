"""HTML and SVG as values: whatever is not `Html` already is text, and is escaped.

So a queue may be called `<script>`. Characters that neither HTML nor a reader can deal with are shown by their number.
"""

from __future__ import annotations

import re
from html import escape
from typing import Final

# Elements without content and end tag.
_VOID: Final = ("meta", "br", "link", "hr")
# Control characters, marks that turn the direction of what follows, halves of a pair.
_UNSEEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_LONGEST_NAME: Final = 90


class Html(str):
    """Markup, which is used as it is."""

    __slots__ = ()


Child = str | int | None


def element(name: str, /, *children: Child, **attributes: str | float | None) -> Html:
    """An element. Children that are no markup are escaped, those that are None left out, and so are such attributes.

    Attributes are written in Python's way: `class_` is class, and `stroke_width` is stroke-width.
    """
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(readable(_of_number(value)))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Html(f"<{name}{told}>")
    return Html(f"<{name}{told}>{joined(*children)}</{name}>")


def joined(*children: Child) -> Html:
    """These one after the other."""
    return Html("".join(_escaped(child) for child in children if child is not None))


def code(name: str | None, longest: int = _LONGEST_NAME) -> Html:
    """A name that somebody chose: set apart, and cut in its middle when it is very long."""
    if name is None:
        return element("span", "none", class_="none")
    if name == "":
        return element("span", '"" (empty)', class_="none")
    shown = shortened(name, longest)
    return element("code", shown, title=name if shown != name else None)


def shortened(name: str, longest: int) -> str:
    """The name, without its middle when it is longer than that."""
    if len(name) <= longest:
        return name
    end = longest // 2
    return f"{name[: longest - end - 1]}…{name[-end:]}"


def readable(text: str) -> str:
    """The text with characters that cannot be seen as their numbers."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escaped(child: str | int) -> str:
    return child if isinstance(child, Html) else escape(readable(str(child)))


def _of_number(value: str | float) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
