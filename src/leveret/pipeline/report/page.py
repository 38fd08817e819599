"""The page: templates that say how each section looks, and what they may call. `templates/page.html` has their order.

Jinja escapes each value, so a queue's name may be `<script>`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from leveret.page.formats.assets import Assets
from leveret.pipeline.kernel.grouping import Row
from leveret.pipeline.report import charts, words
from leveret.pipeline.report.findings import Answers
from leveret.pipeline.report.subject import Subject
from leveret.pipeline.wording import change_text, copies
from leveret.story.words import Names, details, told, why
from leveret.trace.events import Event
from leveret.trace.recorded_rows import raw_events

# What draws a graph on the page of a test, and what the report adds.
_ASSETS: Final = {
    "leveret.page": ("graph.css", "dom.js", "graph.js", "drawing.js"),
    "leveret.pipeline.report": ("style.css", "flow.js"),
}
_BETWEEN_TAGS: Final = re.compile(r">\s*\n\s*<")
# The longest name that needs no places to break it, and where those are: after "/", "::" and "_".
_LONGEST_UNBROKEN: Final = 20
_BREAKS: Final = re.compile(r"(?<=[/_])(?![/_])|(?<=::)")


def page(
    subject: Subject,
    against: Subject | None,
    answers: Answers,
    cut: Sequence[str],
    refused: Sequence[tuple[str, str]],
) -> str:
    """Return the HTML of the report.

    `cut` names files whose end is missing. `refused` names files that could not be used, and why.
    """
    assets = {
        name: files(package).joinpath("assets", name).read_text(encoding="utf-8")
        for package, names in _ASSETS.items()
        for name in names
    }
    return TEMPLATES.get_template("page.html").render(
        **answers,
        subject=subject,
        against=against,
        cut=cut,
        refused=refused,
        assets=Assets.joined(assets),
    )


def _dense(html: str) -> str:
    """Return HTML without the line breaks of templates between tags: they would be spaces on the page."""
    return _BETWEEN_TAGS.sub("><", html)


def _shortened(name: str, longest: int) -> str:
    """Return a name, with its middle cut out if it is longer than `longest`."""
    if len(name) <= longest:
        return name
    end = longest // 2
    return f"{name[: longest - end - 1]}…{name[-end:]}"


def _breakable(name: str) -> list[str]:
    """Return the pieces of a name between the places at which a line may end."""
    return [name] if len(name) <= _LONGEST_UNBROKEN else [piece for piece in _BREAKS.split(name) if piece]


class _Marked(Names):
    """The names in the report: those of queues and the like are marked up, and reasons have their words."""

    def __init__(self, code: Callable[[str], str]) -> None:
        self._code = code

    def quoted(self, name: str) -> str:
        """Return a name as code."""
        return self._code(name)

    def reason(self, fact: Event) -> str:
        """Return why it happened."""
        return why(fact.kind, fact.get("reason"))

    def slot(self, fact: Event, name: str) -> str:
        """Return markup for a slot. `target` is made of names, which are markup already."""
        text = super().slot(fact, name)
        return Markup(text) if name == "target" else escape(text)


def in_words(event: Row, code: Callable[[str], str]) -> Markup:
    """Describe an event in a sentence, with the fields that its words leave out. `code` marks up a name."""
    (fact,) = map(Event, raw_events([event]))
    fields = [field for field in details(fact) if field[0] != "reason"]
    if event["copy"] is not None:
        fields.insert(0, ["copy", str(event["copy"])])
    if event["size"] is not None:
        fields.append(["bytes", f"{event['size']:,}"])
    if event["src_copy"] is not None:
        fields.append(["letter of copy", str(event["src_copy"])])
    more = ", ".join(f"{label} {value}" for label, value in fields)
    sentence = Markup(told(fact, _Marked(code)))
    return sentence + f" ({more})" if more else sentence


TEMPLATES: Final = Environment(
    loader=PackageLoader("leveret.pipeline.report"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.globals |= {"rule_words": words.RULES, "unknown_queue": charts.UNKNOWN}
TEMPLATES.filters |= {
    "axis_of": charts.axis_of,
    "breakable": _breakable,
    "copies": copies,
    "counted": words.counted,
    "capitalized": lambda text: text[:1].upper() + text[1:],
    "change_text": lambda change, named: change_text(change, named, Markup),
    "dense": _dense,
    "graph_of": charts.graph_of,
    "in_words": in_words,
    "instant": words.instant,
    "number": words.number,
    "pieces": charts.pieces,
    "points": charts.points,
    "readable": words.readable,
    "reason_class": charts.reason_class,
    "reason_words": charts.reason_words,
    "rule_name": words.rule_name,
    "shares_of_messages": charts.shares_of_messages,
    "shares_of_tests": charts.shares_of_tests,
    "shortened": _shortened,
    "since_text": lambda cause, named: cause.since(named, Markup),
    "span": words.span,
    "why": why,
}
