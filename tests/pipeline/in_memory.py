"""Tables in memory, and a reader of them: what the report and the diff need, without Spark and a warehouse."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from leveret.errors import unknown
from leveret.pipeline.kernel.subjects.across import ACROSS
from leveret.pipeline.kernel.subjects.runs import RunFacts, began_of
from leveret.pipeline.kernel.tables import tables_of
from leveret.pipeline.reading import Read, Where, chosen
from leveret.pipeline.sources import InspectedFile, find
from leveret.trace import schema as trace_schema
from tests.pipeline.kernel_campaign import events_of
from tests.pipeline.plain import Trace
from tests.pipeline.traces import read_trace

_TYPES: Final = {"long": pa.int64(), "int": pa.int32(), "string": pa.string(), "boolean": pa.bool_()}
_RUNS: Final = pa.schema(
    {
        "day": pa.date32(),
        **{name: _TYPES[kind] for name, kind in trace_schema.HEADER.items()},
        "events": pa.int64(),
        "files": pa.int32(),
        "truncated": pa.bool_(),
        "refused": pa.int32(),
    }
)


def runs_of(rows: Iterable[dict[str, Any]]) -> pa.Table:
    """Return rows of `runs`, each of one file that can be used."""
    return pa.Table.from_pylist([{"files": 1, "truncated": False, "refused": 0, **row} for row in rows], _RUNS)


def reader_of_files(*places: str | Path) -> tuple[Read, dict[str, InspectedFile]]:
    """Return a reader of the tables of these trace files, one for each run, and the files by path."""
    read = [read_trace(path) for path in find([str(place) for place in places])]
    used = [each for each in read if each.file.problem is None]
    rows = [
        {
            **{name: each.file.header.get(name) for name in trace_schema.HEADER},
            "day": each.file.day,
            "events": len(each.events),
            "truncated": each.file.is_truncated,
        }
        for each in used
    ]
    parts = [
        (each.events, each.file.header.get("commit"), began_of(runs_of([row])), each.file.is_truncated)
        for each, row in zip(used, rows, strict=True)
    ]
    return _reader(parts, runs_of(rows)), {each.file.path: each.file for each in read}


def reader_of_traces(traces: Iterable[Trace]) -> Read:
    """Return a reader of the tables of these traces, one for each run."""
    traces = list(traces)
    runs = [{**each.file, "commit": each.commit, "events": len(each.events)} for each in traces]
    return _reader([(events_of([each]), each.commit, None, each.truncated) for each in traces], runs_of(runs))


def _reader(parts: Iterable[tuple[pa.Table, Any, int | None, bool]], runs: pa.Table) -> Read:
    every = []
    # Many runs of a history have the same events, so their tables differ only in what names the run.
    computed: dict[tuple[bytes, bool], dict[str, pa.Table]] = {}
    for events, commit, began, is_truncated in parts:
        key = (_content(events.drop_columns(["day", "run"])), is_truncated)
        if key not in computed:
            workers = events["worker"].unique().to_pylist() if is_truncated else []
            run = events["run"].unique().to_pylist()
            computed[key] = tables_of(events, dict.fromkeys(run, RunFacts(commit, began, frozenset(workers))))
        own = {name: events[name][:1].to_pylist() for name in ("day", "run")} | {"commit": [commit], "began": [began]}
        every.append({"events": events, **{name: _named(rows, own) for name, rows in computed[key].items()}})
    return reader_of_tables({"runs": runs, **{name: pa.concat_tables([of[name] for of in every]) for name in every[0]}})


def _content(table: pa.Table) -> bytes:
    with pa.BufferOutputStream() as sink:
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table.combine_chunks())
        return bytes(sink.getvalue())


def _named(rows: pa.Table, own: Mapping[str, Sequence[Any]]) -> pa.Table:
    """Return the rows of a run as those of another, which has these values in the columns that name a run."""
    if not rows.num_rows:
        return rows
    for name, values in own.items():
        if name in rows.column_names:
            field = rows.schema.field(name)
            column = pa.array(list(values) * rows.num_rows, field.type)
            rows = rows.set_column(rows.schema.get_field_index(name), field, column)
    return rows


def reader_of_tables(tables: Mapping[str, pa.Table]) -> Read:
    """Return a reader of these tables, which have a column `run`. It computes the tables across runs from them."""

    def read(
        name: str,
        *,
        runs: Collection[str] | None = None,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
    ) -> pa.Table:
        if name in ACROSS:
            rows = ACROSS[name].build(read(ACROSS[name].reads, runs=runs, columns=ACROSS[name].needs))
        elif name in tables:
            rows = tables[name] if runs is None else chosen(tables[name], {"run": runs})
        else:
            raise KeyError(unknown("table", name, [*tables, *ACROSS]))
        rows = chosen(rows, where or {})
        return rows if columns is None else rows.select(list(columns))

    return read
