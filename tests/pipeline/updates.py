"""Updates of a warehouse in this process, and all its rows as text."""

from __future__ import annotations

from pathlib import Path

from leveret.pipeline import incremental
from leveret.pipeline.computing.tasks import TABLE_NAMES
from leveret.pipeline.kernel.subjects.across import ACROSS
from leveret.pipeline.warehouse.tables import read_table
from leveret.pipeline.warehouse.warehouse import Warehouse
from tests.pipeline.kernel_campaign import texts

NAMES = ("events", *TABLE_NAMES, *ACROSS)


def bring_up_to_date(folder: Path, warehouse: Warehouse) -> list[str]:
    incremental.ingest(warehouse, [folder], processes=1)
    return incremental.update(warehouse, processes=1)


def rows(warehouse: Warehouse) -> dict[str, list[str]]:
    """Return all tables, each row as text."""
    return {name: texts(read_table(warehouse, name).to_pylist(maps_as_pydicts="strict")) for name in NAMES}


def at_once(folder: Path, place: Path) -> dict[str, list[str]]:
    warehouse = Warehouse(place)
    bring_up_to_date(folder, warehouse)
    return rows(warehouse)
