"""The HTML file of a story: the assets, the story as JSON, and a policy that lets nothing else run or load.

The story has the same facts in fewer characters. Long lists become columns, what follows from the events is left out,
and the rest is compressed. If the bodies of messages are still too long, they get shorter, and `cut` in the story says
so.

A file is complete or does not exist.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
from os import PathLike
from typing import Any, Final

from leveret.page.bodies import cut
from leveret.page.formats.assets import assets
from leveret.page.formats.outline import outline_of
from leveret.page.story import Story
from leveret.story.whole_files import write
from leveret.wording import shown_controls

# The most events, messages and queues that a browser without scripts shows.
_SHOWN_MAX: Final = 200
# The most characters of a compressed story: with the viewer, a page stays below two megabytes.
PACKED_MAX: Final = 1_800_000
# How hard the story is compressed: the highest level takes five times as long, for three hundredths less.
_LEVEL: Final = 6
# How far bodies are cut, step by step.
_BODY_STEPS: Final = (4_000, 1_000, 250, 60)
# From this many on, events and messages are written as columns.
_COLUMNS_FROM: Final = 50


def page_of(story: Story, outline: str | None = None) -> str:
    """Return the page of a story, a whole HTML file.

    `outline` is what a browser without scripts shows; by default, the story as text.
    """
    text = outline_of(story, _SHOWN_MAX) if outline is None else outline
    title = html.escape(" ".join(filter(None, [story["test"].get("outcome"), story["test"].get("id")])) or "leveret")
    return assets().page(
        title,
        f"<noscript><pre>{html.escape(shown_controls(text))}</pre></noscript>\n"
        f'<script type="text/plain" id="story">{packed_of(story)}</script>',
    )


def save(story: Story, path: str | PathLike[str]) -> str:
    """Write the page of a story to a file, and return its absolute path.

    The directory is created if it does not exist. Raises OSError if the file cannot be written.
    """
    return write(page_of(story), path)


def packed_of(story: Story, limit: int = PACKED_MAX) -> str:
    """Return a story as compressed JSON in base64, of at most `limit` characters if shorter bodies can make it so."""
    lean = _lean(story)
    packed = _packed(lean)
    for shown_max in _BODY_STEPS:
        if len(packed) <= limit:
            break
        if _cut_bodies(lean, shown_max):
            packed = _packed(lean)
    return packed


def _packed(lean: Story) -> str:
    return base64.b64encode(gzip.compress(_written(lean), _LEVEL, mtime=0)).decode()


def _lean(story: Story) -> Story:
    """Return a story without what follows from its events, which a page finds by itself."""
    events = [_lean_event(event) for event in story["events"]]
    messages = []
    for message in story["messages"]:
        shown = _without(message, "events")
        if "copies" in shown:
            shown["copies"] = [_without(copy, "events") for copy in shown["copies"]]
        if "body" in shown:
            shown["body"] = dict(shown["body"])
        messages.append(shown)
    return {**story, "events": events, "messages": messages, "cut": dict(story["cut"])}


def _lean_event(event: dict[str, Any]) -> dict[str, Any]:
    lean = _without(event, "i")
    if lean.get("wall") == lean.get("t"):
        lean.pop("wall", None)
    return lean


def _without(item: dict[str, Any], name: str) -> dict[str, Any]:
    # Hot: once per event of a page. A copy is made faster than a dictionary of each key and value.
    lean = dict(item)
    lean.pop(name, None)
    return lean


def _cut_bodies(lean: Story, shown_max: int) -> bool:
    """Cut the bodies of messages to this many characters, and return whether one was longer."""
    count = sum(cut(message["body"], shown_max) for message in lean["messages"] if "body" in message)
    lean["cut"]["bodies"] = max(count, lean["cut"]["bodies"])
    return count > 0


def _written(lean: Story) -> bytes:
    shown = {**lean, "events": _folded(lean["events"]), "messages": _folded(lean["messages"])}
    text = json.dumps(shown, separators=(",", ":"), ensure_ascii=False)
    # A lone surrogate cannot be written as UTF-8. JSON can name it.
    return text.encode("utf-8", "backslashreplace")


def _folded(items: list[dict[str, Any]]) -> list[dict[str, Any]] | dict[str, Any]:
    """Return many items as columns, which compress better; a null stands for a value that an item does not have."""
    if len(items) < _COLUMNS_FROM:
        return items
    names = dict.fromkeys(name for item in items for name in item)
    return {"count": len(items), "columns": {name: [item.get(name) for item in items] for name in names}}
