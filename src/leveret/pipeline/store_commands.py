"""The commands about a whole warehouse: `sql` and `expire`. Each imports what it needs when it runs."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TextIO

from leveret.wording import count_text

if TYPE_CHECKING:
    import pyarrow as pa

    from leveret.pipeline.warehouse.warehouse import Warehouse


def add_to(add_step: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the commands, each with the options that all steps of the pipeline have."""
    sql = add_step("sql", "query the tables with SQL (DuckDB)", _sql, computes=False)
    sql.add_argument("query", metavar="QUERY", help='such as "select * from runs"; "show tables" lists the tables')
    sql.add_argument(
        "--format", choices=tuple(_FORMATS), default="table", help="how to print the rows (default: table)"
    )
    expire = add_step("expire", "let old runs expire, so that they vanish from all tables", _expire, computes=False)
    expire.add_argument(
        "--keep", metavar="PERIOD", help="keep runs that began in this period up to now, as in 90d or 12w"
    )
    often = expire.add_mutually_exclusive_group()
    often.add_argument("--always", action="store_true", help="also let runs expire at each update from now on")
    often.add_argument("--never", action="store_true", help="let runs expire no longer at updates")


def _sql(options: argparse.Namespace, warehouse: Warehouse) -> int:
    from leveret.pipeline.exports.sql import query

    _FORMATS[options.format](query(warehouse, options.query), sys.stdout)
    return 0


def _expire(options: argparse.Namespace, warehouse: Warehouse) -> int:
    from leveret.pipeline.warehouse.keeping import days_of, expire, set_keep

    state = warehouse.existing()
    if options.never:
        if options.keep:
            raise ValueError("--keep and --never contradict each other; leave one of them out")
        set_keep(warehouse, None, state=state)
        print("updates let no run expire")
        return 0
    days = days_of(options.keep) if options.keep else state.keep_days
    if days is None:
        raise ValueError(
            "expire needs --keep PERIOD, because this warehouse has no period of its own (--always sets it)"
        )
    if options.always:
        set_keep(warehouse, days, state=state)
        print(f"each update keeps the runs of the last {days} days")
    gone = expire(warehouse, days, state=state)
    print(f"{count_text(len(gone), 'run')} expired" + ("; `vacuum` removes their files a day later" if gone else ""))
    return 0


def _print_table(rows: pa.Table, out: TextIO) -> None:
    import pyarrow as pa

    is_number = [pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in rows.schema.types]
    lines = [rows.column_names, *([_shown(value) for value in row] for row in _values(rows))]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    for line in lines:
        cells = (
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, is_number, strict=True)
        )
        print("  ".join(cells).rstrip(), file=out)
    print(f"({count_text(len(rows), 'row')})", file=out)


def _print_csv(rows: pa.Table, out: TextIO) -> None:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(rows.column_names)
    writer.writerows([_text(value) for value in row] for row in _values(rows))


def _print_json(rows: pa.Table, out: TextIO) -> None:
    """Print a list with an object on each line."""
    names = rows.column_names
    lines = [json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, default=str) for row in _values(rows)]
    print("[" + ",\n".join(lines) + "]", file=out)


_FORMATS = {"table": _print_table, "csv": _print_csv, "json": _print_json}


def _values(rows: pa.Table) -> Iterable[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in rows.columns), strict=True)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, list | dict | tuple) else str(value)


def _shown(value: Any) -> str:
    """Return a value as one line that does not control the terminal."""
    text = _text(value)
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )
