"""Reading a part of a table: the rows that are asked for, from every row group and from no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from leveret.pipeline.reading import Where, chosen
from leveret.pipeline.storage import Storage, open_storage
from leveret.pipeline.warehouse.parts import TableWriter, read_part

TEXT = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema({"run": TEXT, "kind": TEXT, "msg": pa.int64()})
ROWS: list[dict[str, Any]] = [
    {"run": f"run{number // 4}", "kind": ("published", "dropped", None)[number % 3], "msg": number % 5 or None}
    for number in range(16)
]


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """Return a storage with a part of four row groups, one for each run."""
    writer = TableWriter(SCHEMA)
    for begin in range(0, 16, 4):
        writer.add(pa.Table.from_pylist(ROWS[begin : begin + 4], SCHEMA))
        writer.flush()
    found = open_storage(tmp_path)
    found.write("events/part.parquet", writer.close())
    return found


@pytest.mark.parametrize("runs", [None, ["run1", "run2"], []])
@pytest.mark.parametrize(
    "where",
    [
        {},
        {"kind": ["dropped"]},
        {"msg": {1, 2}},
        {"kind": ["published", None], "msg": [3, None]},
        {"kind": ["unheard of"]},
        {"msg": []},
    ],
)
def test_rows_are_those_of_the_runs_that_have_the_values(
    storage: Storage, runs: list[str] | None, where: Where
) -> None:
    found = read_part(storage, "events/part.parquet", SCHEMA, runs=runs, where=where)

    assert found.schema == SCHEMA
    assert found.to_pylist() == [
        row
        for row in ROWS
        if (runs is None or row["run"] in runs) and all(row[name] in values for name, values in where.items())
    ]


def test_only_the_columns_that_are_asked_for_are_read(storage: Storage) -> None:
    found = read_part(storage, "events/part.parquet", SCHEMA, columns=["msg"], runs=["run3"], where={"msg": [2, 3]})

    assert found.to_pylist() == [{"msg": 2}, {"msg": 3}]


@pytest.mark.parametrize("where", [None, {"shape": [None]}], ids=["all", "chosen"])
def test_a_column_that_an_older_leveret_did_not_write_is_null(storage: Storage, where: Where | None) -> None:
    schema = SCHEMA.append(pa.field("shape", TEXT)).append(pa.field("depth", pa.int64()))

    found = read_part(storage, "events/part.parquet", schema, runs=["run1"], where=where)

    assert found.schema == schema
    assert found.to_pylist() == [{**row, "shape": None, "depth": None} for row in ROWS if row["run"] == "run1"]


def test_rows_of_plain_strings_are_chosen_as_those_of_codes() -> None:
    plain = pa.Table.from_pylist(ROWS, pa.schema({"run": pa.string(), "kind": pa.string(), "msg": pa.int64()}))

    found = chosen(plain, {"kind": ["dropped", None]})

    assert found.to_pylist() == [row for row in ROWS if row["kind"] in ("dropped", None)]
