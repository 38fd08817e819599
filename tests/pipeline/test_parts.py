"""Reading the files of a table: the rows that are asked for, from every row group and from no other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leveret.pipeline.reading import Where, chosen
from leveret.pipeline.warehouse.parts import DataFile, read_rows

TEXT = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema({"run": TEXT, "kind": TEXT, "msg": pa.int64()})
ROWS: list[dict[str, Any]] = [
    {"run": f"run{number // 4}", "kind": ("published", "dropped", None)[number % 3], "msg": number % 5 or None}
    for number in range(16)
]


Read = Callable[..., pa.Table]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Return a reader of a file with four row groups, one for each run."""
    (tmp_path / "events").mkdir()
    pq.write_table(pa.Table.from_pylist(ROWS, SCHEMA), tmp_path / "events" / "a.parquet", row_group_size=4)
    file = DataFile("a.parquet", 1, len(ROWS), "run0", "run3")
    return lambda schema, **options: read_rows(str(tmp_path), "events", [file], schema, **options)


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
def test_rows_are_those_of_the_runs_that_have_the_values(read: Read, runs: list[str] | None, where: Where) -> None:
    found = read(SCHEMA, runs=runs, where=where)

    assert found.schema == SCHEMA
    assert found.to_pylist() == [
        row
        for row in ROWS
        if (runs is None or row["run"] in runs) and all(row[name] in values for name, values in where.items())
    ]


def test_only_the_columns_that_are_asked_for_are_read(read: Read) -> None:
    found = read(SCHEMA, columns=["msg"], runs=["run3"], where={"msg": [2, 3]})

    assert found.to_pylist() == [{"msg": 2}, {"msg": 3}]


@pytest.mark.parametrize("where", [None, {"shape": [None]}], ids=["all", "chosen"])
def test_a_column_that_an_older_leveret_did_not_write_is_null(read: Read, where: Where | None) -> None:
    schema = SCHEMA.append(pa.field("shape", TEXT)).append(pa.field("depth", pa.int64()))

    found = read(schema, runs=["run1"], where=where)

    assert found.schema == schema
    assert found.to_pylist() == [{**row, "shape": None, "depth": None} for row in ROWS if row["run"] == "run1"]


def test_rows_of_plain_strings_are_chosen_as_those_of_codes() -> None:
    plain = pa.Table.from_pylist(ROWS, pa.schema({"run": pa.string(), "kind": pa.string(), "msg": pa.int64()}))

    found = chosen(plain, {"kind": ["dropped", None]})

    assert found.to_pylist() == [row for row in ROWS if row["kind"] in ("dropped", None)]


def test_a_file_whose_range_has_none_of_the_runs_is_not_opened(tmp_path: Path) -> None:
    absent = DataFile("absent.parquet", 1, 1, "run3", "run7")

    found = read_rows(str(tmp_path), "events", [absent], SCHEMA, runs=["run2", "run8"])

    assert found.to_pylist() == []
