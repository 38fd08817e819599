"""The commands about a whole warehouse: `sql`, `flaky`, `causes`, `branch`, `expire`. Each imports what it needs."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

from leveret.pipeline.progress import progress
from leveret.wording import count_text

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

    from leveret.pipeline.reading import Read
    from leveret.pipeline.warehouse.state import FileState
    from leveret.pipeline.warehouse.warehouse import Warehouse


def add_to(add_step: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the commands, each with the options that all steps of the pipeline have."""
    sql = add_step("sql", "query the tables with SQL (DuckDB)", _sql, computes=False)
    sql.add_argument("query", metavar="QUERY", help='such as "select * from runs"; "show tables" lists the tables')
    sql.add_argument(
        "--format", choices=tuple(_FORMATS), default="table", help="how to print the rows (default: table)"
    )
    sql.add_argument(
        "--as-of",
        type=_instant,
        metavar="TIME",
        help="read the tables as they were at this time (UTC unless it says otherwise), such as 2026-05-01T10:00",
    )
    add_step(
        "flaky", "list the tests that pass and fail in turn, and in what their runs differ", _flaky, computes=False
    )
    causes = add_step(
        "causes", "group the failed tests of a run or commit by what caused them", _causes, computes=False
    )
    causes.add_argument("--run", metavar="NAME", dest="name", help="the run or commit (default: the newest run)")
    branch = add_step("branch", "show what differs on a branch, without the noise of its base", _branch, computes=False)
    branch.add_argument("branch", metavar="BRANCH", help="a branch, as the runs of CI name it")
    branch.add_argument("--against", default="main", metavar="BRANCH", help="its base (default: main)")
    expire = add_step("expire", "let old runs expire, so that they vanish from all tables", _expire, computes=False)
    expire.add_argument(
        "--keep", metavar="PERIOD", help="keep runs that began in this period up to now, as in 90d or 12w"
    )
    often = expire.add_mutually_exclusive_group()
    often.add_argument("--always", action="store_true", help="also let runs expire at each update from now on")
    often.add_argument("--never", action="store_true", help="let runs expire no longer at updates")


def _sql(options: argparse.Namespace, warehouse: Warehouse) -> int:
    from leveret.pipeline.exports.sql import query

    if options.as_of is not None:
        warehouse = type(warehouse)(warehouse.url, as_of=options.as_of)
    _FORMATS[options.format](query(warehouse, options.query), sys.stdout)
    return 0


def _instant(text: str) -> datetime:
    from leveret.pipeline.kernel.subjects.runs import moment

    instant = moment(text)
    if instant is None:
        raise argparse.ArgumentTypeError(f"{text} is not a time; write it as 2026-05-01T10:00")
    return instant


def _current(warehouse: Warehouse) -> tuple[Read, pa.Table, Mapping[str, FileState]]:
    """Bring a warehouse up to date. Return its reader, its runs, and its trace files."""
    from leveret.pipeline.incremental import update
    from leveret.pipeline.report.subject import COLUMNS
    from leveret.pipeline.warehouse.tables import read_table

    state = warehouse.existing()
    update(warehouse, state=state, progress=progress)
    read: Read = partial(read_table, warehouse, state=state)
    return read, read("runs", columns=COLUMNS), state.files


def _flaky(options: argparse.Namespace, warehouse: Warehouse) -> int:
    from leveret.pipeline.questions import flaky
    from leveret.pipeline.report.subject import of_branch

    read, runs, files = _current(warehouse)
    return _print_lines(flaky(read, files, of_branch(runs, None)), "no test passes and fails in turn")


def _causes(options: argparse.Namespace, warehouse: Warehouse) -> int:
    from leveret.pipeline.questions import causes
    from leveret.pipeline.report.subject import choose

    read, runs, files = _current(warehouse)
    subject = choose(runs, options.name)
    return _print_lines(causes(read, files, subject.runs), f"no test failed in {subject}")


def _branch(options: argparse.Namespace, warehouse: Warehouse) -> int:
    from leveret.pipeline.kernel.subjects.changes import RUNS
    from leveret.pipeline.questions import branch
    from leveret.pipeline.report.subject import of_branch

    read, runs, _ = _current(warehouse)
    its, base = (of_branch(runs, name)[-RUNS:] for name in (options.branch, options.against))
    nothing = f"nothing differs on {options.branch} from {options.against}, apart from noise"
    _print_lines(lines := branch(read, its, base, f"on {options.against}"), nothing)
    return 1 if lines else 0


def _print_lines(lines: Iterable[str], otherwise: str) -> int:
    print("\n".join(lines) or otherwise)
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
