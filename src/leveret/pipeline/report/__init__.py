"""The report: one HTML file on what the messages of a run, or of a commit's runs, did.

The page needs no network. Everything in it comes from the tables of a warehouse. `findings` reads them, `page` fills
the templates, and the other modules have the words and the numbers of charts and graphs that the templates call for.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from leveret.errors import NoSuchRunError
from leveret.pipeline.kernel.grouping import Row
from leveret.pipeline.reading import Read
from leveret.pipeline.report.findings import find
from leveret.pipeline.report.page import page
from leveret.pipeline.report.subject import COLUMNS, before, choose
from leveret.pipeline.sources import pages_of
from leveret.pipeline.warehouse.state import FileState
from leveret.trace.events import printable

__all__ = ["NoSuchRunError", "report"]


def report(
    read: Read,
    files: Mapping[str, FileState],
    name: str | None = None,
    *,
    against: str | None = None,
    folder: Path | None = None,
) -> str:
    """Return the HTML page on a run or commit, compared with another one.

    `name` defaults to the newest run, and `against` to the newest whole one before it. `files` are the trace files that
    were ingested, by path; the page names those that are cut or refused. `folder` is where the page will be: it then
    links the pages of failed tests. The tables must be up to date. Raises NoSuchRunError if a name matches no run and
    no commit, or several.
    """
    runs = read("runs", columns=COLUMNS)
    subject = choose(runs, name)
    other = before(read, runs, subject) if against is None else choose(runs, against)
    answers = find(read, subject, other)
    if folder is not None:
        _add_links(answers["failed"], files, folder)
    about = [
        (printable(path), file) for path, file in files.items() if file.run in subject.runs or file.problem is not None
    ]
    cut = [path for path, file in about if file.is_truncated and file.problem is None]
    refused = [(path, file.problem) for path, file in about if file.problem is not None]
    return page(subject, other, answers, cut, refused)


def _add_links(tests: Iterable[Row], files: Mapping[str, FileState], folder: Path) -> None:
    """Set `link` of each test whose page still exists: the way to it from a folder."""
    for test, its_page in zip(tests, pages_of(tests, files), strict=True):
        # A page on another drive has no way to it.
        with suppress(ValueError):
            if its_page is not None:
                test["link"] = quote(os.path.relpath(its_page, folder.absolute()).replace(os.sep, "/"))
