"""Retention: runs that began before a date expire. They vanish from all tables at once, and their files at a vacuum.

A file of an expired run that is ingested later has no effect, because the log keeps the date.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from leveret.pipeline.warehouse.log import EXPIRE, KEEP, Contents
from leveret.pipeline.warehouse.warehouse import Warehouse, opened

_PERIOD: Final = re.compile(r"([1-9][0-9]*)([dw])")
_DAYS: Final = {"d": 1, "w": 7}


def days_of(period: int | str) -> int:
    """Return the days of a period: a number of days, 90d or 12w. Raises ValueError if it is none."""
    match = _PERIOD.fullmatch(f"{period}d" if isinstance(period, int) else period)
    if match is None:
        raise ValueError(f"{period!r} is not a period; write a number of days or weeks, such as 90d or 12w")
    return int(match[1]) * _DAYS[match[2]]


def expire(warehouse: Warehouse | str | Path, keep: int | str, *, state: Contents | None = None) -> list[str]:
    """Let the runs expire that began more than so many days ago (UTC), and return their names.

    `keep` is a number of days, or a period such as "90d". A given state is brought up to date. Raises ValueError if the
    period is none, and NoWarehouseError if the warehouse does not exist.
    """
    keep_days = days_of(keep)
    warehouse = opened(warehouse)
    state = warehouse.existing() if state is None else state
    before = (datetime.now(UTC).date() - timedelta(days=keep_days)).isoformat()
    gone = [name for name, run in state.runs.items() if run.day < before]
    if gone:
        warehouse.commit({"kind": EXPIRE, "before": before}, state)
    return gone


def set_keep(warehouse: Warehouse | str | Path, days: int | None, *, state: Contents | None = None) -> None:
    """Have each update let the runs expire that began more than so many days ago; with None, no longer.

    A given state is brought up to date. Raises NoWarehouseError if the warehouse does not exist.
    """
    warehouse = opened(warehouse)
    state = warehouse.existing() if state is None else state
    if state.keep_days != days:
        warehouse.commit({"kind": KEEP, "days": days}, state)
