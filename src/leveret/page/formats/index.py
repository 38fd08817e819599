"""The index of a run: one HTML file that lists its pages, and the summary of a CI job."""

from __future__ import annotations

import html
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from leveret.page.formats.assets import Assets
from leveret.wording import shown_controls

INDEX: Final = "index.html"
# The most tests in a summary, and the most characters: GitHub refuses more than a megabyte for a step.
_TESTS_MAX: Final = 20
_SUMMARY_MAX: Final = 200_000
_STYLE: Final = """
:root{color-scheme:light dark;font:14px/1.45 system-ui,sans-serif;--bad:light-dark(#b42318,#ff8a7d);
--good:light-dark(#19703a,#5fd082);--muted:light-dark(#566170,#9aa6b5);--rule:light-dark(#dfe3e8,#2b313b);
background:light-dark(#fff,#14171c);color:light-dark(#1b2430,#e3e8ef)}
body{max-width:80rem;margin:1.5rem auto;padding:0 1rem}h1{font-size:20px}h2{font-size:15px;margin:1.5rem 0 .3rem}
small,.error{color:var(--muted);font-weight:400}a{color:light-dark(#1d5fd1,#7fb0ff);font-weight:600}
table{border-collapse:collapse;width:100%}td,th{padding:6px 10px 6px 0;border-top:1px solid var(--rule);
vertical-align:top;text-align:left}th{color:var(--muted);font-weight:400;border:0}td:nth-child(2){overflow-wrap:anywhere}
td:first-child,th:first-child{width:5rem;font-weight:600}td:last-child,th:last-child{text-align:right;width:6rem;
white-space:nowrap}p{margin:2px 0}.cause{font-weight:550}.failed{color:var(--bad)}.passed{color:var(--good)}
"""
# A page links the pages beside it as `index.html#before=NAME` and `#after=NAME`, because it is written before they are.
_SCRIPT: Final = """
const [, where, name] = location.hash.match(/^#(before|after)=(.+)$/) ?? [];
const pages = [...document.querySelectorAll("td a")];
const at = pages.findIndex((page) => page.getAttribute("href") === name);
const page = at < 0 ? undefined : pages[at + (where === "before" ? -1 : 1)];
if (page) location.replace(page.href);
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One page of a run: its file, its test, how that ended, its error in a line, and its diagram if one was made."""

    path: str
    test: str
    outcome: str
    error: str = ""
    diagram: str = ""
    # What went wrong, a sentence a cause, and how long the test took.
    causes: Sequence[str] = ()
    seconds: float = 0.0


def index_of(entries: Iterable[Entry], left_out: int = 0) -> str:
    """Return the index of these pages, which stand beside it, by file. `left_out` counts tests without a page."""
    files: dict[str, list[Entry]] = {}
    for entry in entries:
        files.setdefault(entry.test.partition("::")[0], []).append(entry)
    tables = "\n".join(_table(file, group) for file, group in files.items())
    every = [entry for group in files.values() for entry in group]
    more = f"<p>{left_out} more tests have no page, because the limit was reached.</p>\n" if left_out else ""
    heading = f"<h1>Tests of this run <small>{_counts(every)}</small></h1>"
    return Assets(_STYLE, _SCRIPT).page("leveret: tests of a run", f"<main>\n{heading}\n{tables}\n{more}</main>")


def _counts(entries: Sequence[Entry]) -> str:
    counts = Counter(entry.outcome for entry in entries)
    return ", ".join(f"{count} {outcome}" for outcome, count in counts.items())


def _table(file: str, entries: Sequence[Entry]) -> str:
    rows = "\n".join(map(_row, entries))
    return (
        f"<h2>{_safe(file)} <small>{_counts(entries)}</small></h2>\n<table>\n<thead><tr><th>Outcome</th>"
        f"<th>Test and cause</th><th>Duration</th></tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>"
    )


def _row(entry: Entry) -> str:
    link = html.escape(quote(os.path.basename(entry.path)))
    causes = "".join(f'<p class="cause">{_safe(cause)}</p>' for cause in entry.causes)
    error = f'<p class="error">{_safe(entry.error)}</p>' if entry.error else ""
    tone = "passed" if entry.outcome == "passed" else "failed"
    name = entry.test.partition("::")[2] or entry.test
    return (
        f'<tr><td class="{tone}">{_safe(entry.outcome)}</td>'
        f'<td><a href="{link}">{_safe(name)}</a>{causes}{error}</td><td>{entry.seconds:.2f} s</td></tr>'
    )


def _safe(text: str) -> str:
    return html.escape(shown_controls(text))


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
    causes = "".join(f"\n    {cause}\n" for cause in entry.causes)
    error = f"\n{_indented(entry.error)}\n" if entry.error else ""
    diagram = f"\n```mermaid\n{entry.diagram}```\n" if entry.diagram else ""
    name = html.escape(entry.test).replace("`", "'")
    return f"<details><summary><code>{name}</code> {entry.outcome}</summary>\n{causes}{error}{diagram}\n</details>\n\n"


def _indented(text: str) -> str:
    """Return a text as a block of code, in which Markdown reads nothing."""
    return "\n".join(f"    {line}" for line in text.splitlines())
