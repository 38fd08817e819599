"""A story as a sequence diagram in Mermaid's language, for a pull request or the summary of a CI job."""

from __future__ import annotations

import re
from typing import Any, Final

from leveret.page.story import Story
from leveret.trace import events
from leveret.wording import count_text, span_text

# The most arrows in a diagram: GitHub shows larger ones badly, and none above 50,000 characters.
ARROWS_MAX: Final = 100
_TEXT_MAX: Final = 100
# Characters that Mermaid, or Markdown around it, would take as its own.
_SPECIAL: Final = re.compile(r"[^\w .,'/()=!?*+@-]")
_NOTES: Final = ("log", "output")
_NEW: Final = "->>"
_LOST: Final = "-x"
_ACK: Final = "-->>"
_ANSWERS: Final = frozenset({*events.ANSWERS, *events.SETTLING, *events.RETURNS})


def mermaid_of(story: Story, *, limit: int = ARROWS_MAX) -> str:
    """Return a story as a sequence diagram: its last `limit` events, without set-up."""
    told = [event for event in story["events"] if not event.get("setup") and event["kind"] not in _NOTES]
    shown = told[-limit:]
    used = {event[end] for event in shown for end in ("from", "to") if end in event}
    lanes = [lane for lane in story["lanes"] if lane["id"] in used]
    names = {lane["id"]: f"L{index}" for index, lane in enumerate(lanes)}
    lines = ["sequenceDiagram"]
    for lane in lanes:
        kind = "actor" if lane["kind"] == "test" else "participant"
        broker = f" ({lane['broker']})" if len(story["brokers"]) > 1 else ""
        lines.append(f"    {kind} {names[lane['id']]} as {_safe(lane['label'] + broker)}")
    if not lanes:
        return "\n".join([*lines, "    participant L0 as no events"]) + "\n"
    if len(told) > len(shown):
        over = _over(list(names.values()))
        lines.append(f"    Note over {over}: {count_text(len(told) - len(shown), 'earlier event')} left out")
    for event in shown:
        lines += [f"    {line}" for line in _event_lines(event, names)]
    return "\n".join(lines) + "\n"


def _event_lines(event: dict[str, Any], names: dict[str, str]) -> list[str]:
    everyone = list(names.values())
    lines = [f"Note over {_over(everyone)}: {span_text(event['leap'])} later"] if "leap" in event else []
    text, start, end = _safe(event["text"]), event.get("from"), event.get("to")
    if event.get("across") or (start is None and end is None):
        return [*lines, f"Note over {_over(everyone)}: {text}"]
    if start is None or end is None or start == end:
        return [*lines, f"Note over {names[str(start or end)]}: {text}"]
    arrow = _ACK if event["kind"] in _ANSWERS else _LOST if event.get("tone") == "bad" else _NEW
    return [*lines, f"{names[start]}{arrow}{names[end]}: {text}"]


def _over(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]},{names[-1]}"


def _safe(text: str) -> str:
    """Return a text in which Mermaid sees nothing but characters."""
    short = text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}..."
    return _SPECIAL.sub(lambda found: " " if found[0].isspace() else f"#{ord(found[0])};", short)
