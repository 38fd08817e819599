"""Links from a report to the pages of failed tests, which the pytest plugin wrote during the run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from leveret.pipeline.kernel.grouping import Row
from leveret.pipeline.warehouse.log import FileState
from leveret.trace.rows import body_hash


def add_links(tests: Iterable[Row], files: Mapping[str, FileState], folder: Path) -> None:
    """Set `link` of each test whose page still exists: the way to it from a folder.

    A trace names a page by its path from the trace file, and by the hash of its content: a later run may have written
    another page to the same path.
    """
    folders = {(file.run, file.worker): Path(path).parent for path, file in files.items() if file.problem is None}
    for test in tests:
        trace_folder = folders.get((test["run"], test["worker"]))
        if trace_folder is not None and test["page"] is not None:
            test["link"] = _link(trace_folder / test["page"], test["page_hash"], folder)


def _link(page: Path, page_hash: str | None, folder: Path) -> str | None:
    # A path that cannot be read has no page, and one on another drive has no way to it.
    with suppress(OSError, ValueError):
        if page.suffix == ".html" and page.is_file() and body_hash(page.read_bytes()) == page_hash:
            return quote(os.path.relpath(page, folder.absolute()).replace(os.sep, "/"))
    return None
