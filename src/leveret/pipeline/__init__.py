"""The data pipeline: tables from the traces of many runs, computed on Spark or in processes of this machine.

`ingest` and `update` keep a `Warehouse` up to date, and `read_table` reads it. Importing this package needs only the
standard library; what it names needs the extra `pipeline`, and Spark the extra `spark` or `spark-local`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leveret.pipeline.exports.frames import read_frame
    from leveret.pipeline.exports.sql import query
    from leveret.pipeline.incremental import ingest, update
    from leveret.pipeline.warehouse.keeping import compact, expire
    from leveret.pipeline.warehouse.tables import read_table
    from leveret.pipeline.warehouse.warehouse import Warehouse

__all__ = ["Warehouse", "compact", "expire", "ingest", "query", "read_frame", "read_table", "update"]

if not TYPE_CHECKING:
    _HOMES = {
        "Warehouse": "warehouse.warehouse",
        "expire": "warehouse.keeping",
        "query": "exports.sql",
        "read_frame": "exports.frames",
        "read_table": "warehouse.tables",
        "compact": "warehouse.keeping",
        "ingest": "incremental",
        "update": "incremental",
    }

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
