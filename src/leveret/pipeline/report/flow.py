"""Where dead letters go, as a graph: a node for the queues of a name, and an edge for each reason.

`assets/flow.js` draws it, with the code that draws the topology of a test.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from leveret.pipeline.kernel.grouping import Row
from leveret.pipeline.report.words import number, readable
from leveret.pipeline.wording import REASONS

MOST_NODES: Final = 18
# The queue of copies whose origin the trace does not say.
UNKNOWN: Final = "(unknown)"

_THINNEST: Final = 1.5
_THICKEST: Final = 6.0


def graph_of(flows: Sequence[Row], redelivered: Sequence[Row]) -> dict[str, list[dict[str, Any]]]:
    """Return the nodes and edges of these flows, as JSON takes them. Each node says how often its queue redelivered."""
    names = _busiest(flows)
    notes = {row["queue"]: f"↻ {number(row['n'])} redelivered" for row in redelivered}
    most = max((row["n"] for row in flows), default=1)
    edges = [
        {
            "from": row["from_queue"] or UNKNOWN,
            "to": row["to_queue"],
            "kind": reason_class(row["reason"]),
            "label": readable(reason_words(row["reason"])),
            "count": row["n"],
            "width": _THINNEST + (_THICKEST - _THINNEST) * math.log1p(row["n"]) / math.log1p(most),
        }
        for row in flows
    ]
    return {
        "nodes": [{"id": name, "kind": "queue", "label": readable(name), "note": notes.get(name)} for name in names],
        "edges": [edge for edge in edges if edge["from"] in names and edge["to"] in names],
    }


def reason_words(reason: str | None) -> str:
    """Return a reason for dead-lettering in words."""
    return REASONS.get(reason or "", reason or "reason unknown")


def reason_class(reason: str | None) -> str:
    """Return the CSS class that gives a reason its colour."""
    return f"reason-{reason}" if reason in REASONS else "reason-unknown"


def _busiest(flows: Sequence[Row]) -> list[str]:
    """Return the queues between which most dead letters went, at most `MOST_NODES`."""
    between: Counter[tuple[str, str]] = Counter()
    for row in flows:
        between[row["from_queue"] or UNKNOWN, row["to_queue"]] += row["n"]
    names: dict[str, None] = {}
    for ends, _ in between.most_common():
        if len({*names, *ends}) <= MOST_NODES:
            names |= dict.fromkeys(ends)
    return list(names)
