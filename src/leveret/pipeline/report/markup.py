"""HTML and SVG as values: everything that is not `Html` is text, and is escaped.

So a queue's name may be `<script>`. Characters that HTML does not allow or that a reader cannot see are shown as their
numbers.
"""

from __future__ import annotations

import re
from html import escape
from typing import Final

# Elements without content and without an end tag.
_VOID: Final = ("meta", "br", "link", "hr")
# Control characters, marks that change the direction of text, and surrogates.
_UNSEEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_LONGEST_NAME: Final = 90
# The longest name that needs no places to break it, and where those are: after "/", "::" and "_".
_LONGEST_UNBROKEN: Final = 20
_BREAKS: Final = re.compile(r"(?<=[/_])(?![/_])|(?<=::)")


class Html(str):
    """Markup, which is not escaped."""

    __slots__ = ()


Child = str | int | None


def element(name: str, /, *children: Child, **attributes: str | float | None) -> Html:
    """Return an element. Children that are not `Html` are escaped. Children and attributes that are None are left out.

    Attributes have Python names: `class_` is class, and `stroke_width` is stroke-width.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(readable(_of_number(value)))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{joined(*children)}</{name}>")


def joined(*children: Child) -> Html:
    """Return the children one after the other, without those that are None."""
    return Html("".join(_escaped(child) for child in children if child is not None))


def code(name: str | None, longest: int = _LONGEST_NAME) -> Html:
    """Return a user's name for something as code, with its middle cut out if it is longer than `longest`."""
    if name is None:
        return element("span", "none", class_="none")
    if name == "":
        return element("span", '"" (empty)', class_="none")
    shown = shortened(name, longest)
    return element("code", _breakable(shown), title=name if shown != name else None)


def shortened(name: str, longest: int) -> str:
    """Return a name, with its middle cut out if it is longer than `longest`."""
    if len(name) <= longest:
        return name
    end = longest // 2
    return f"{name[: longest - end - 1]}…{name[-end:]}"


def _breakable(name: str) -> Child:
    """Return a name with places at which a line may end: a test is easier to find if no word of it is broken."""
    if len(name) <= _LONGEST_UNBROKEN:
        return name
    return Html("<wbr>".join(_escaped(piece) for piece in _BREAKS.split(name) if piece))


def readable(text: str) -> str:
    """Return a text with unseen characters replaced by their numbers."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escaped(child: str | int) -> str:
    return child if isinstance(child, Html) else escape(readable(str(child)))


def _of_number(value: str | float) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
