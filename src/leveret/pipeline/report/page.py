"""The page: its sections, the most urgent first."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Final

from leveret.pipeline.report import overview, sections
from leveret.pipeline.report.findings import Answers
from leveret.pipeline.report.markup import Html, element, joined
from leveret.pipeline.report.subject import Subject

# The page runs no script and loads nothing, even if a name contains markup.
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


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
    style = files("leveret.pipeline.report").joinpath("style.css").read_text(encoding="utf-8")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width,initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("title", f"leveret: {subject}"),
        element("style", Html(style)),
    )
    body = element(
        "main",
        overview.head(subject, answers, against),
        overview.run(subject, answers, cut, refused),
        sections.violations(answers),
        sections.flaky(answers),
        sections.compared(answers, subject, against),
        sections.queues(answers),
        sections.flow(answers),
        sections.slowest(answers),
        sections.coverage(answers),
        sections.words(),
        element("footer", "Written by leveret pipeline report from the tables of the traces."),
    )
    return "<!doctype html>\n" + element("html", head, element("body", joined(body)), lang="en") + "\n"
