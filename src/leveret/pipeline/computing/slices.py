"""Tasks for a run that is too large for one task: it is divided into slices, whose tables are merged.

`divide` finds where it may be cut: between two row groups that share no message, copy, connection or test of a worker.
`update_slice` computes the tables of a slice, with all control events of the run beside it. `merge` makes the tables of
the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from leveret.pipeline.computing.tasks import READ, SCHEMAS, TABLE_NAMES, rows_of_runs
from leveret.pipeline.kernel import merge as merging
from leveret.pipeline.kernel import schema
from leveret.pipeline.kernel.subjects.runs import commit_of, truncated_of
from leveret.pipeline.kernel.tables import tables_of
from leveret.pipeline.warehouse.log import Segment
from leveret.pipeline.warehouse.parts import PartWriter, read_events, read_groups, read_part
from leveret.pipeline.warehouse.warehouse import Warehouse
from leveret.trace.events import CONTROL

_IDS: Final = (("msg",), ("conn",), ("copy", "src_copy"))


def divide(piece: dict[str, Any]) -> dict[str, Any]:
    """Store the control events of the run, and return their part and the slices, each a list of segments."""
    warehouse = Warehouse(piece["url"])
    writer = PartWriter(warehouse.storage, warehouse.new_part(piece["number"]))
    control = writer.table("control", schema.CONTROL)
    chunks = []
    for part, first, groups in piece["segments"]:
        for group in range(first, first + groups):
            segment = Segment(part, group, 1)
            for _, rows in read_events(warehouse.storage, [(piece["run"], segment)], READ):
                is_control = pc.and_(pc.is_null(rows["msg"]), pc.is_in(rows["kind"], pa.array(sorted(CONTROL))))
                control.add(rows.filter(is_control).select(schema.CONTROL.names).cast(schema.CONTROL))
                chunks.append(_Chunk.of(segment, rows))
    writer.close()
    return {"run": piece["run"], "control": writer.part, "slices": list(_slices(chunks, piece["events"]))}


def update_slice(piece: dict[str, Any]) -> dict[str, Any]:
    """Compute the tables of a slice, and return its part."""
    warehouse = Warehouse(piece["url"])
    writer = PartWriter(warehouse.storage, warehouse.new_part(piece["number"]))
    runs = rows_of_runs(warehouse, piece["run"], piece["wanted"])
    segments = [(piece["run"], Segment(*segment)) for segment in piece["segments"]]
    control = _as_events(read_part(warehouse.storage, "control", piece["control"], schema.CONTROL))
    events = pa.concat_tables([*(rows for _, rows in read_events(warehouse.storage, segments, READ)), control])
    for name, rows in tables_of(events, commit=commit_of(runs), truncated=truncated_of(runs)).items():
        if len(rows):
            writer.table(name, rows.schema).add(rows)
    counts = dict.fromkeys(TABLE_NAMES, 0) | writer.close()
    return {"run": piece["run"], "part": writer.part, "tables": counts}


def merge(piece: dict[str, Any]) -> dict[str, Any]:
    """Merge the tables of the slices of a run, and return the part as `tasks.update` does."""
    warehouse = Warehouse(piece["url"])
    storage = warehouse.storage
    writer = PartWriter(storage, warehouse.new_part(piece["number"]))
    runs = rows_of_runs(warehouse, piece["run"], piece["wanted"])
    writer.table("runs", schema.RUNS).add(runs)

    def read(name: str, part: str, counts: Mapping[str, int], columns: pa.Schema) -> pa.Table:
        return read_part(storage, name, part, columns) if counts[name] else columns.empty_table()

    for name in merging.APART:
        for part, counts in piece["slices"].items():
            for rows in read_groups(storage, name, part, SCHEMAS[name]) if counts[name] else ():
                writer.table(name, SCHEMAS[name]).add(rows)
    slices = [
        {name: read(name, part, counts, SCHEMAS[name]) for name in merging.SMALL}
        for part, counts in piece["slices"].items()
    ]
    of_copies = pa.schema([schema.COPIES.field(name) for name in merging.OF_COPIES])
    copies = pa.concat_tables([read("copies", part, counts, of_copies) for part, counts in piece["slices"].items()])
    for name, rows in merging.merged(slices, copies, commit_of(runs)).items():
        if len(rows):
            writer.table(name, rows.schema).add(rows)
    written = dict.fromkeys(TABLE_NAMES, 0) | writer.close()
    return {"part": writer.part, "tables": written, "runs": {piece["run"]: piece["wanted"]["revision"]}}


@dataclass(slots=True)
class _OfWorker:
    """What the events of a worker are about: its tests, and the lowest and highest of each kind of id."""

    tests: set[str | None] = field(default_factory=set)
    low: list[int | None] = field(default_factory=lambda: [None] * len(_IDS))
    high: list[int | None] = field(default_factory=lambda: [None] * len(_IDS))

    def add(self, other: _OfWorker) -> None:
        self.tests |= other.tests
        for number in range(len(_IDS)):
            self.low[number] = _least(self.low[number], other.low[number], min)
            self.high[number] = _least(self.high[number], other.high[number], max)

    def is_before(self, other: _OfWorker) -> bool:
        """Return whether the other events share no test with these, and their ids are all higher."""
        pairs = zip(self.high, other.low, strict=True)
        return self.tests.isdisjoint(other.tests) and all(
            high is None or low is None or high < low for high, low in pairs
        )


def _least(one: int | None, other: int | None, choose: Any) -> int | None:
    known = [value for value in (one, other) if value is not None]
    return choose(known) if known else None


@dataclass(slots=True)
class _Chunk:
    """A row group, or the part of it that belongs to the run."""

    segment: Segment
    events: int
    workers: dict[str, _OfWorker]

    @classmethod
    def of(cls, segment: Segment, rows: pa.Table) -> _Chunk:
        workers = {}
        for worker in pc.unique(rows["worker"]).to_pylist():
            mine = rows.filter(pc.equal(rows["worker"], worker))
            # Outside of tests, only what is about a copy matters.
            is_about = pc.or_(pc.is_valid(mine["test"]), pc.is_valid(mine["copy"]))
            about = _OfWorker(set(pc.unique(mine.filter(is_about)["test"]).to_pylist()))
            for number, columns in enumerate(_IDS):
                ranges = [pc.min_max(mine[name]).as_py() for name in columns]
                for each in ranges:
                    about.low[number] = _least(about.low[number], each["min"], min)
                    about.high[number] = _least(about.high[number], each["max"], max)
            workers[worker] = about
        return cls(segment, len(rows), workers)


def _slices(chunks: list[_Chunk], most: int) -> Iterator[list[Segment]]:
    """Yield slices of about this many events, and of more where the run cannot be cut."""
    after = list(_sums(reversed(chunks)))[::-1]
    before: dict[str, _OfWorker] = {}
    slice_of: list[Segment] = []
    events = 0
    for number, chunk in enumerate(chunks):
        if slice_of and events + chunk.events > most and _may_cut(before, after[number]):
            yield slice_of
            slice_of, events = [], 0
        slice_of.append(chunk.segment)
        events += chunk.events
        _add(before, chunk)
    if slice_of:
        yield slice_of


def _sums(chunks: Iterable[_Chunk]) -> Iterator[dict[str, _OfWorker]]:
    """Yield what each chunk and those before it are about."""
    total: dict[str, _OfWorker] = {}
    for chunk in chunks:
        _add(total, chunk)
        yield {worker: _OfWorker(set(about.tests), [*about.low], [*about.high]) for worker, about in total.items()}


def _add(total: dict[str, _OfWorker], chunk: _Chunk) -> None:
    for worker, about in chunk.workers.items():
        total.setdefault(worker, _OfWorker()).add(about)


def _may_cut(before: dict[str, _OfWorker], after: dict[str, _OfWorker]) -> bool:
    return all(before[worker].is_before(after[worker]) for worker in before.keys() & after.keys())


def _as_events(control: pa.Table) -> pa.Table:
    columns = {name: control[name] for name in control.column_names}
    columns |= {field.name: pa.nulls(len(control), field.type) for field in READ if field.name not in columns}
    return pa.table([columns[field.name].cast(field.type) for field in READ], READ)
