"""Try every finder on every entry of the catalogue: `python -m tests.catalogue [WORD ...]`.

It prints a line for each entry, and in the end the table of docs/explanation/finders.md. Words choose the entries that
have one of them in their description. A twin on which a finder reports something is named. Most of the time of a run is
waiting, so several run at once.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from tests.catalogue.entries import ENTRIES, Entry
from tests.catalogue.finders import ALONE, FINDERS, Tried

FOUND, SILENT, NOT_TRIED = "found", "-", ""
_AT_ONCE = 4


class Row(NamedTuple):
    """What the finders say of an entry."""

    what: str
    plain: str
    cells: list[str]
    # The finders that accuse its twin.
    accusers: list[str]

    @property
    def is_missed(self) -> bool:
        """Whether the test passes and no finder finds the bug."""
        return self.plain == "passes" and FOUND not in self.cells


def row_of(entry: Entry) -> Row:
    """Try every finder on a bug and on its twin."""
    bug = Tried(entry.bug, entry.twin)
    cells = [NOT_TRIED if found is None else FOUND if found else SILENT for found in map(bug.found, FINDERS)]
    accusers: list[str] = []
    if entry.twin is not None:
        twin = Tried(entry.twin, entry.twin)
        # The others compare with the twin itself.
        accusers = [name for name in ALONE if twin.found(name)] + (["its own test"] if twin.fails else [])
    row = Row(entry.what, "fails" if bug.fails else "passes", cells, accusers)
    print(" | ".join([row.what, row.plain, *cells]), f"(twin: {', '.join(accusers) or 'silent'})", flush=True)
    return row


def main(words: list[str]) -> int:
    """Print the table, and return how many twins were accused."""
    chosen = [entry for entry in ENTRIES if not words or any(word in entry.what for word in words)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        rows = [*pool.map(row_of, chosen)]
    head = ["bug", "plain test", *FINDERS]
    lines = [head, ["---"] * len(head), *([row.what, row.plain, *row.cells] for row in rows)]
    print("", *(f"| {' | '.join(line)} |" for line in lines), sep="\n")
    missed = [row.what for row in rows if row.is_missed]
    accused = [f"{row.what}: {', '.join(row.accusers)}" for row in rows if row.accusers]
    print(f"\n{len(rows)} bugs; found by none: {', '.join(missed) or 'none'}")
    print(f"twins accused: {'; '.join(accused) or 'none'}")
    return len(accused)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
