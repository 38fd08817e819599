"""The long version of the planted bugs: `python -m tests.explore.crash_campaign [NAME ...]`.

It explores each bug with the kinds of a lost connection alone and with those of a death too, and its mended twin with
all default kinds. It prints what each search took, and fails if a bug is not found or a twin is reported.
"""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from time import perf_counter

import leveret
from leveret.exploration import DEFAULT
from tests.explore.crashes.catalogue import PLANTED
from tests.explore.crashes.planted import KILLED, LOST


def search(bug, service, kinds) -> tuple[str | None, str]:
    """Explore one service. Return the kind that fails it, if any, and a cell of the table."""
    began = perf_counter()
    kind = None
    try:
        exploration = leveret.explore(bug.scenario(service), faults=kinds, limit=60)
    except leveret.ExplorationFailedError as failure:
        exploration = failure.exploration
        kind = exploration.failed_runs[0].schedule.placements[0].kind
    return kind, f"{kind or 'passes'} | {exploration.run_count} | {perf_counter() - began:.1f}"


def main(names: list[str]) -> int:
    """Print the table, and return how many answers are wrong."""
    logging.disable()
    head = " | ".join(
        f"{column} | schedules | seconds" for column in ("lost", "lost and killed", "the twin, all kinds")
    )
    print(f"bug | {head}")
    searches = [("bug", LOST), ("bug", (*LOST, *KILLED)), ("twin", DEFAULT)]
    found, missed, reported = [], [], []
    for bug in PLANTED:
        if names and bug.__name__ not in names:
            continue
        with contextlib.redirect_stderr(io.StringIO()):
            answers = [search(bug, getattr(bug, service), kinds) for service, kinds in searches]
        print(" | ".join([bug.__name__, *(cell for _, cell in answers)]), flush=True)
        (found if answers[1][0] else missed).append(bug.__name__)
        if answers[2][0]:
            reported.append(bug.__name__)
    print(f"{len(found)} found, {len(missed)} missed: {', '.join(missed) or '-'}; twins reported: {reported or 'none'}")
    return len(missed) + len(reported)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
