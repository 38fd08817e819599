"""Where the current rows of a table are: in which files, and those of which runs in each.

A file may also hold older rows of runs that were computed again, and rows of runs that have expired.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from leveret.pipeline.warehouse.log import State, parts_of
from leveret.pipeline.warehouse.warehouse import Warehouse


class CurrentFile(NamedTuple):
    """A file of a table, the runs whose rows are current there, and whether these are all rows of the file."""

    path: str
    runs: list[str]
    is_whole: bool


def current_files(
    warehouse: Warehouse, state: State, table: str, runs: Iterable[str] | None = None
) -> list[CurrentFile]:
    """Return the files that hold the current rows of a stored table for these runs, or for all.

    They are parts, and files that Spark has written for a user's own tables and rules.
    """
    names = state.runs if runs is None else runs
    live: dict[str, list[str]] = {}
    if table == "events":
        for name in names:
            for part in parts_of(segment for segment in state.runs[name].segments if segment.groups):
                live.setdefault(part, []).append(name)
        return [CurrentFile(f"events/{part}.parquet", of_part, False) for part, of_part in live.items()]
    for name in names:
        if (answer := state.runs[name].answer) is not None:
            live.setdefault(answer, []).append(name)
    files: list[CurrentFile] = []
    folders: dict[str, list[str]] = {}
    for part, of_part in live.items():
        answered = state.answers[part]
        if answered.tables.get(table):
            files.append(CurrentFile(f"{table}/{part}.parquet", of_part, len(of_part) == len(answered.runs)))
        if table in answered.added:
            folders.setdefault(answered.added[table], []).extend(of_part)
    for folder, of_folder in folders.items():
        paths = (stored.path for stored in warehouse.storage.list(folder))
        files += [CurrentFile(path, of_folder, False) for path in paths if path.endswith(".parquet")]
    return files
