"""The index of a run: one HTML file that lists its pages, and the summary of a CI job."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

INDEX: Final = "index.html"
# The most tests in a summary, and the most characters: GitHub refuses more than a megabyte for a step.
_TESTS_MAX: Final = 20
_SUMMARY_MAX: Final = 200_000
_STYLE: Final = (
    "body{font-family:system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;line-height:1.5}"
    ":root{color-scheme:light dark}li{overflow-wrap:anywhere}span{opacity:.75}"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One page of a run: its file, its test, how that ended, its error in a line, and its diagram if one was made."""

    path: str
    test: str
    outcome: str
    error: str = ""
    diagram: str = ""


def index_of(entries: Iterable[Entry], left_out: int = 0) -> str:
    """Return the index of these pages, which stand beside it. `left_out` counts tests without a page."""
    items = "\n".join(
        f'<li><a href="{html.escape(quote(os.path.basename(entry.path)))}">{html.escape(entry.test)}</a> '
        f"{html.escape(entry.outcome)}<br><span>{html.escape(entry.error)}</span></li>"
        for entry in entries
    )
    more = f"<p>{left_out} more tests have no page, because the limit was reached.</p>\n" if left_out else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>leveret: tests of a run</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>Tests of this run</h1>\n<ul>\n{items}\n</ul>\n{more}</main>\n</body>\n</html>\n"
    )


def summary_of(entries: Iterable[Entry], left_out: int = 0) -> str:
    """Return the summary of a CI job in Markdown, with the diagram of each test."""
    failed = [entry for entry in entries if entry.outcome != "passed"]
    text = "## leveret: failed tests\n\n"
    shown = 0
    for entry in failed[:_TESTS_MAX]:
        part = _part(entry)
        if len(text) + len(part) > _SUMMARY_MAX:
            break
        text += part
        shown += 1
    hidden = len(failed) - shown + left_out
    return text + (f"... and {hidden} more failed tests\n" if hidden else "")


def _part(entry: Entry) -> str:
    error = f"\n{_indented(entry.error)}\n" if entry.error else ""
    diagram = f"\n```mermaid\n{entry.diagram}```\n" if entry.diagram else ""
    name = html.escape(entry.test).replace("`", "'")
    return f"<details><summary><code>{name}</code> {entry.outcome}</summary>\n{error}{diagram}\n</details>\n\n"


def _indented(text: str) -> str:
    """Return a text as a block of code, in which Markdown reads nothing."""
    return "\n".join(f"    {line}" for line in text.splitlines())
