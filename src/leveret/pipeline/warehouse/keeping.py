"""What keeps a warehouse small: runs that began before a date expire, and small files are merged.

A file of an expired run that is ingested later has no effect, because the warehouse keeps the date.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from leveret.errors import ConflictError
from leveret.pipeline.warehouse.state import Contents, expired
from leveret.pipeline.warehouse.warehouse import EXPIRED_BEFORE, FILES, KEEP_DAYS, RUNS, Warehouse, opened

_PERIOD: Final = re.compile(r"([1-9][0-9]*)([dw])")
_DAYS: Final = {"d": 1, "w": 7}
# With so many small files in a table, an update merges them.
_MANY_SMALL_FILES: Final = 50


def days_of(period: int | str) -> int:
    """Return the days of a period: a number of days, 90d or 12w. Raises ValueError if it is none."""
    match = _PERIOD.fullmatch(f"{period}d" if isinstance(period, int) else period)
    if match is None:
        raise ValueError(f"{period!r} is not a period; write a number of days or weeks, such as 90d or 12w")
    return int(match[1]) * _DAYS[match[2]]


def expire(warehouse: Warehouse | str | Path, keep: int | str, *, state: Contents | None = None) -> list[str]:
    """Let the runs expire that began more than so many days ago (UTC), and return their names.

    `keep` is a number of days, or a period such as "90d". A given state is brought up to date. Raises ValueError if the
    period is none, NoWarehouseError if the warehouse does not exist, and ConflictError if another process changes these
    runs meanwhile.
    """
    keep_days = days_of(keep)
    warehouse = opened(warehouse)
    state = warehouse.existing() if state is None else state
    before = (datetime.now(UTC).date() - timedelta(days=keep_days)).isoformat()
    gone = expired(state.runs, before)
    if gone or state.leftovers:
        # From here on no reader of leveret's sees them.
        warehouse.keep(state, EXPIRED_BEFORE, max(before, state.expired_before))
        warehouse.refresh(state)
        # If this is killed, the rows in `runs` and `files` are still there, and the next call does it again.
        for name in sorted(state.tables, key=lambda name: name in (RUNS, FILES)):
            warehouse.replace(state, name, warehouse.columns(state, name), state.leftovers, ())
        warehouse.refresh(state)
    return gone


def set_keep(warehouse: Warehouse | str | Path, days: int | None, *, state: Contents | None = None) -> None:
    """Have each update let the runs expire that began more than so many days ago; with None, no longer.

    A given state is brought up to date. Raises NoWarehouseError if the warehouse does not exist.
    """
    warehouse = opened(warehouse)
    state = warehouse.existing() if state is None else state
    if state.keep_days != days:
        warehouse.keep(state, KEEP_DAYS, "" if days is None else str(days))
        warehouse.refresh(state)


def compact(warehouse: Warehouse | str | Path, *, processes: int | None = None, state: Contents | None = None) -> int:
    """Merge the small files of all tables, and return how many there were. An update does this if there are many.

    Raises ConflictError if another process changed the warehouse meanwhile; nothing is lost, and you can run it again.
    """
    warehouse = opened(warehouse)
    return warehouse.merge(warehouse.existing() if state is None else state, processes=processes)


def tidy(warehouse: Warehouse, state: Contents) -> None:
    """Merge small files if there are many, and remove files that no longer count."""
    # If another process commits meanwhile, a later update merges them.
    with suppress(ConflictError):
        if warehouse.merge(state, least=_MANY_SMALL_FILES):
            warehouse.vacuum()
            warehouse.refresh(state)
