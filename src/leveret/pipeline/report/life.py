"""The life of a message in words: what each event of a trace means to a reader of the report."""

from __future__ import annotations

from typing import Any

from leveret.pipeline.report.markup import Html, code, joined
from leveret.story.facts import Fact, RowFact
from leveret.story.words import Names, details, told, why

Event = dict[str, Any]


class _Marked(Names):
    """The names in the report: those of queues and the like are marked up, and reasons have their words."""

    def quoted(self, name: str) -> str:
        """Return a name as code."""
        return code(name)

    def reason(self, fact: Fact) -> str:
        """Return why it happened."""
        return why(fact.kind, fact.get("reason"))

    def slot(self, name: str, fact: Fact) -> str:
        """Return markup for a slot. `target` is made of names, which are markup already."""
        found = super().slot(name, fact)
        return found if name == "target" else joined(found)


def in_words(event: Event) -> Html:
    """Describe an event in a sentence, with the fields that its words leave out."""
    fact = RowFact(event, {})
    known = [(label, value) for label, value in details(fact) if label != "reason"]
    if event.get("copy") is not None:
        known.insert(0, ("copy", str(event["copy"])))
    if event.get("size") is not None:
        known.append(("bytes", f"{event['size']:,}"))
    if event.get("src_copy") is not None:
        known.append(("letter of copy", str(event["src_copy"])))
    more = ", ".join(f"{label} {value}" for label, value in known)
    return joined(Html(told(fact, _Marked())), f" ({more})" if more else None)
