"""The long version of the planted bugs: `python -m tests.explore.crash_campaign [NAME ...]`.

It explores each bug and its twin with the kinds of a lost connection alone, and with all kinds, and prints what each
search took. Without names it takes all bugs.
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


def search(bug, service, kinds) -> str:
    """Explore one service and return a cell of the table: found or not, after how many schedules and seconds."""
    began = perf_counter()
    try:
        exploration = leveret.explore(bug.scenario(service), faults=kinds, limit=60, on="*")
        word = "not found"
    except leveret.ExplorationFailedError as failure:
        exploration, word = failure.exploration, "found"
    except ValueError:
        return "no step"
    return f"{word} {exploration.run_count} in {perf_counter() - began:.1f} s"


def main(names: list[str]) -> None:
    """Print the table."""
    logging.disable()
    print("bug | lost | lost and killed | the twin, all kinds")
    for bug in PLANTED:
        if names and bug.__name__ not in names:
            continue
        with contextlib.redirect_stderr(io.StringIO()):
            cells = [search(bug, bug.bug, LOST), search(bug, bug.bug, (*LOST, *KILLED)), search(bug, bug.twin, DEFAULT)]
        print(" | ".join([bug.__name__, *cells]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
