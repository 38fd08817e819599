"""Cut runs: those of which something is missing, so that their numbers are too small.

A run that was killed has a test without an end, even if all lines of its trace are whole. A trace file that was cut or
damaged says so in the table `runs`. A run that was killed between two tests leaves no sign.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leveret.pipeline.reading import Read


def cut_workers(read: Read, runs: Collection[str]) -> frozenset[tuple[str, str]]:
    """Return the runs and workers of which a part is missing: of a trace file, or the end of a test."""
    columns = ("run", "worker")
    files = read("runs", runs=runs, columns=columns, where={"truncated": [True]})
    tests = read("tests", runs=runs, columns=columns, where={"outcome": [None]})
    return frozenset((row["run"], row["worker"]) for rows in (files, tests) for row in rows.to_pylist())


def cut_among(read: Read, runs: Collection[str]) -> frozenset[str]:
    """Return which of these runs were cut."""
    return frozenset(run for run, _ in cut_workers(read, runs))
