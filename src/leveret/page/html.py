"""The HTML file of a story: the assets, the story as JSON, and a policy that lets nothing else run or load.

The assets are files of their own. This module joins them, computes the hashes that the policy allows, and escapes.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from leveret.page.story import Story

_ORDER: Final = "order.txt"
_STYLE: Final = ".css"
# Characters that could end the script or be read as something else inside it.
_ESCAPES: Final = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026", 0x2028: "\\u2028", 0x2029: "\\u2029"}
# From this many events on, they are written as rows without the names of their columns.
_ROWS_FROM: Final = 300


class Assets(NamedTuple):
    """The style and the script of a page."""

    style: str
    script: str

    @property
    def policy(self) -> str:
        """The content security policy: this style and this script, and nothing else."""
        return (
            f"default-src 'none'; style-src '{_hash(self.style)}'; script-src '{_hash(self.script)}'; img-src data:; "
            "base-uri 'none'; form-action 'none'"
        )


@cache
def assets() -> Assets:
    """Return the joined assets."""
    folder = files("leveret.page").joinpath("assets")
    names = folder.joinpath(_ORDER).read_text(encoding="utf-8").split()
    texts = {name: folder.joinpath(name).read_text(encoding="utf-8") for name in names}
    style = "\n".join(text for name, text in texts.items() if name.endswith(_STYLE))
    script = "\n".join(text for name, text in texts.items() if not name.endswith(_STYLE))
    return Assets(style, script)


def page_of(story: Story) -> str:
    """Return the page of a story, a whole HTML file."""
    style, script = assets()
    title = html.escape(" ".join(filter(None, [story["test"].get("outcome"), story["test"].get("id")])) or "leveret")
    policy = html.escape(assets().policy, quote=False)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        '<noscript>This page needs JavaScript. "leveret trace show" prints the same as text.</noscript>\n'
        f'<script type="application/json" id="story">{json_of(story)}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def json_of(story: Story) -> str:
    """Return a story as JSON that is safe inside a script element."""
    shown: dict[str, Any] = story
    if len(story["events"]) >= _ROWS_FROM:
        shown = {**story, "events": _as_rows(story["events"])}
    text = json.dumps(shown, separators=(",", ":"), ensure_ascii=False)
    # A lone surrogate cannot be written as UTF-8. JSON can name it.
    return text.translate(_ESCAPES).encode("utf-8", "backslashreplace").decode("utf-8")


def _as_rows(told: list[dict[str, Any]]) -> dict[str, Any]:
    """Return events as rows of the values of their columns. Values that are missing at the end are left out."""
    # The more frequent a column, the earlier it comes, so that most rows end early.
    counts: dict[str, int] = {}
    for event in told:
        for name in event:
            counts[name] = counts.get(name, 0) + 1
    columns = sorted(counts, key=lambda name: -counts[name])
    rows = []
    for event in told:
        row = [event.get(name) for name in columns]
        while row and row[-1] is None:
            row.pop()
        rows.append(row)
    return {"columns": columns, "rows": rows}


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
