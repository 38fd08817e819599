"""The life of a message in words: what each event of a trace means to a reader of the report."""

from __future__ import annotations

from collections.abc import Callable

from markupsafe import Markup, escape

from leveret.pipeline.kernel.grouping import Row
from leveret.story.facts import Fact, RowFact
from leveret.story.words import Names, details, told, why


class _Marked(Names):
    """The names in the report: those of queues and the like are marked up, and reasons have their words."""

    def __init__(self, code: Callable[[str], str]) -> None:
        self._code = code

    def quoted(self, name: str) -> str:
        """Return a name as code."""
        return self._code(name)

    def reason(self, fact: Fact) -> str:
        """Return why it happened."""
        return why(fact.kind, fact.get("reason"))

    def slot(self, name: str, fact: Fact) -> str:
        """Return markup for a slot. `target` is made of names, which are markup already."""
        text = super().slot(name, fact)
        return Markup(text) if name == "target" else escape(text)


def in_words(event: Row, code: Callable[[str], str]) -> Markup:
    """Describe an event in a sentence, with the fields that its words leave out. `code` marks up a name."""
    fact = RowFact(event, {})
    fields = [(label, value) for label, value in details(fact) if label != "reason"]
    if event["copy"] is not None:
        fields.insert(0, ("copy", str(event["copy"])))
    if event["size"] is not None:
        fields.append(("bytes", f"{event['size']:,}"))
    if event["src_copy"] is not None:
        fields.append(("letter of copy", str(event["src_copy"])))
    more = ", ".join(f"{label} {value}" for label, value in fields)
    sentence = Markup(told(fact, _Marked(code)))
    return sentence + f" ({more})" if more else sentence
