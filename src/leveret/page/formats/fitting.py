"""The fitting of a story into a page: the same facts in fewer characters, and fewer facts if they are still too many.

Long lists become columns and rows. What follows from the events is left out. If the story is still larger than the
limit, bodies get shorter first, then the details of events go, then the oldest events. `cut` in the story says so.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from leveret.page.bodies import cut

if TYPE_CHECKING:
    from leveret.page.story import Story

# The most characters of a story in a page: with the viewer, a page stays below two megabytes.
STORY_MAX: Final = 1_850_000
# How far bodies are cut, step by step.
_BODY_STEPS: Final = (4_000, 1_000, 250, 60)
# From this many on, events and messages are written as rows without the names of their columns.
_ROWS_FROM: Final = 50
# Characters that could end the script or be read as something else inside it.
_ESCAPES: Final = {
    ord("<"): "\\u003c",
    ord(">"): "\\u003e",
    ord("&"): "\\u0026",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


def json_of(story: Story, limit: int = STORY_MAX) -> str:
    """Return a story as JSON that is safe inside a script element, of at most `limit` characters if it can be."""
    lean = _lean(story)
    text = _written(lean)
    for shown_max in _BODY_STEPS:
        if len(text) <= limit:
            return text
        if _cut_bodies(lean, shown_max):
            text = _written(lean)
    if len(text) > limit:
        lean["events"] = [_without(event, "detail") for event in lean["events"]]
        text = _written(lean)
    while len(text) > limit and lean["events"]:
        _cut_events(lean, max(1, round(len(lean["events"]) * (1 - limit / len(text) * 0.95))))
        text = _written(lean)
    return text


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
    brokers = [{**broker, "faults": [dict(fault) for fault in broker["faults"]]} for broker in story["brokers"]]
    return {**story, "events": events, "messages": messages, "brokers": brokers, "cut": dict(story["cut"])}


def _lean_event(event: dict[str, Any]) -> dict[str, Any]:
    lean = _without(event, "i")
    if lean.get("wall") == lean.get("t"):
        lean.pop("wall", None)
    return lean


def _without(item: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key != name}


def _cut_bodies(lean: Story, shown_max: int) -> bool:
    """Cut the bodies of messages to this many characters, and return whether one was longer."""
    count = sum(cut(message["body"], shown_max) for message in lean["messages"] if "body" in message)
    lean["cut"]["bodies"] = max(count, lean["cut"]["bodies"])
    return count > 0


def _cut_events(lean: Story, count: int) -> None:
    """Leave out the oldest events, and the messages that no other event names."""
    lean["events"] = [_moved(event, count) for event in lean["events"][count:]]
    named = {event.get("message") for event in lean["events"]}
    lean["messages"] = [message for message in lean["messages"] if message["number"] in named]
    lean["cut"]["events"] += count
    for broker in lean["brokers"]:
        for fault in broker["faults"]:
            fault["events"] = [index - count for index in fault["events"] if index >= count]


def _moved(event: dict[str, Any], count: int) -> dict[str, Any]:
    """Return an event whose causes and effects are named by their new places."""
    moved = dict(event)
    if "causes" in moved:
        moved["causes"] = [index - count for index in moved["causes"] if index >= count]
    if "caused_by" in moved:
        moved["caused_by"] -= count
        if moved["caused_by"] < 0:
            del moved["caused_by"]
    return moved


def _written(lean: Story) -> str:
    shown = {**lean, "events": _folded(lean["events"]), "messages": _folded(lean["messages"])}
    text = json.dumps(shown, separators=(",", ":"), ensure_ascii=False)
    # A lone surrogate cannot be written as UTF-8. JSON can name it.
    return text.translate(_ESCAPES).encode("utf-8", "backslashreplace").decode("utf-8")


def _folded(items: list[dict[str, Any]]) -> list[dict[str, Any]] | dict[str, Any]:
    """Return many items as rows of the values of their columns. Values that are missing at the end are left out."""
    if len(items) < _ROWS_FROM:
        return items
    # The more frequent a column, the earlier it comes, so that most rows end early.
    counts: dict[str, int] = {}
    for item in items:
        for name in item:
            counts[name] = counts.get(name, 0) + 1
    columns = sorted(counts, key=lambda name: -counts[name])
    rows = []
    for item in items:
        row = [item.get(name) for name in columns]
        while row and row[-1] is None:
            row.pop()
        rows.append(row)
    return {"columns": columns, "rows": rows}
