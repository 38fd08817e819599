"""How trace files are read: good ones, cut ones, and files that are no traces."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from leveret.errors import NoTracesError
from leveret.pipeline.incremental import ingest, update
from leveret.pipeline.kernel.schema import EVENTS, RUNS
from leveret.pipeline.sources import find, inspect
from leveret.pipeline.warehouse.tables import read_table
from leveret.pipeline.warehouse.warehouse import Warehouse
from tests.pipeline.traces import header, lives, text, write

WHOLE = lives(40)
# Events with values of other types, and lines that are no events.
ODD = b"""{"seq":1,"kind":"qos","conn":1.5,"chan":2}
{"seq":2,"kind":"qos","conn":2147483648,"count":-2147483648}
{"seq":3,"kind":"qos","redelivered":"true","multiple":false}
{"seq":4,"kind":"qos","queue":5,"reason":{"a": [1, true]}}
{"seq":5,"kind":"qos","colour":"red","more":{"a": 1},"none":null}
{"seq":"6","kind":"qos"}
{"seq":7}
null
[1]
{"seq":8,"kind":"qos","seq":9}
{"seq":10,"kind":"qos","queue":"a\\nb"} trailing
\x20
{"seq":11, "kind" : "qos" }
{"seq":12,"kind":7,"queue":null}
{"seq":13,"kind":"qos","queue":"\\ud83d\\udc30"}
"""


Row = dict[str, Any]


@dataclass
class Read:
    """The rows of all scenarios: files of one folder, ingested at once."""

    folder: Path
    warehouse: Warehouse
    rows: dict[str, list[Row]]
    runs: dict[tuple[str, str], Row]


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Read:
    # Some of these letters are patterns or quoted elsewhere.
    folder = tmp_path_factory.mktemp("a b%41ü+[1] {x}")
    write(folder / "plain.jsonl", [header("plain", commit="abc", seed=7), *WHOLE])
    write(folder / "packed.jsonl.gz", [header("packed"), *WHOLE])
    write(folder / "deeper" / "two.jsonl", [header("two", "gw0"), *WHOLE])
    write(folder / "deeper" / "two-b.jsonl", [header("two", "gw1"), *WHOLE[:5]])
    write(folder / "pieces-1.jsonl", [header("pieces"), *WHOLE[:50]])
    write(folder / "pieces-2.jsonl", [header("pieces"), *WHOLE[50:]])
    write(folder / "again.jsonl", [header("again"), *WHOLE])
    (folder / "again-cut.jsonl").write_text(text([header("again"), *WHOLE[:50]])[:-4])
    (folder / "cut.jsonl").write_text(text([header("cut"), *WHOLE])[:-20])
    many = text([header("cut-packed"), *lives(400)]).encode()
    (folder / "cut.jsonl.gz").write_bytes(gzip.compress(many)[:-3000])
    (folder / "gap.jsonl").write_text(text([header("gap"), *WHOLE[:30]]) + '{"seq":31,"ki\n' + text(WHOLE[31:]))
    write(folder / "started.jsonl", [header("started")])
    write(folder / "later.jsonl", [header("later"), {**WHOLE[0], "colour": "red", "more": {"a": 1}}, *WHOLE[1:]])
    (folder / "odd.jsonl").write_bytes(text([header("odd")]).encode() + ODD)
    write(folder / "newer.jsonl", [header("newer") | {"v": 2}, *WHOLE])
    write(folder / "foreign.jsonl", [{"level": "info", "message": "hello"}])
    (folder / "empty.jsonl").touch()
    (folder / "head.jsonl").write_text('{"leveret":"trace","v":1,"ru')
    (folder / "notes.txt").write_text("of no interest")
    (folder / ".unfinished.jsonl").write_text("of no interest either")
    warehouse = Warehouse(folder.parent / "warehouse")
    ingest(warehouse, [folder], processes=1)
    update(warehouse, processes=1)
    rows: dict[str, list[Row]] = {}
    for row in read_table(warehouse, "events").to_pylist():
        rows.setdefault(row["run"], []).append(row)
    runs = {(row["run"], row["worker"]): row for row in read_table(warehouse, "runs").to_pylist()}
    return Read(folder, warehouse, rows, runs)


def told(rows: list[Row]) -> list[dict[str, Any]]:
    """Return rows in the form of lines: without nulls and without the columns of the header."""
    left_out = ("day", "run", "worker", "started")
    plain = [{name: value for name, value in row.items() if value is not None and name not in left_out} for row in rows]
    return sorted(plain, key=lambda line: line["seq"])


def test_the_columns_are_those_of_the_schema(read: Read) -> None:
    assert read_table(read.warehouse, "events").schema == EVENTS
    assert read_table(read.warehouse, "runs").schema == RUNS


@pytest.mark.parametrize("run", ["plain", "packed"])
def test_every_event_is_read_as_it_was_written(read: Read, run: str) -> None:
    assert told(read.rows[run]) == WHOLE


def test_run_worker_and_day_are_read_from_the_header(read: Read) -> None:
    row = read.runs["plain", "main"]

    assert (row["commit"], row["seed"], row["day"].isoformat(), row["events"]) == ("abc", 7, "2026-05-01", 162)
    assert not row["truncated"]
    assert {event["day"].isoformat() for event in read.rows["plain"]} == {"2026-05-01"}


def test_each_worker_of_a_run_has_its_own_events(read: Read) -> None:
    assert Counter(event["worker"] for event in read.rows["two"]) == {"gw0": len(WHOLE), "gw1": 5}
    assert read.runs["two", "gw1"]["events"] == 5


def test_pieces_make_one_run(read: Read) -> None:
    row = read.runs["pieces", "main"]

    assert told(read.rows["pieces"]) == WHOLE
    assert (row["files"], row["events"], row["truncated"]) == (2, len(WHOLE), False)


def test_a_repeated_event_counts_once_and_another_file_may_complete_a_cut_one(read: Read) -> None:
    row = read.runs["again", "main"]

    assert told(read.rows["again"]) == WHOLE
    assert (row["files"], row["events"], row["truncated"]) == (2, len(WHOLE), False)


def test_a_cut_file_keeps_its_whole_lines(read: Read) -> None:
    assert told(read.rows["cut"]) == WHOLE[:-1]
    assert read.runs["cut", "main"]["truncated"]


def test_a_cut_compressed_file_keeps_its_whole_lines(read: Read) -> None:
    import zlib

    content = zlib.decompressobj(31).decompress((read.folder / "cut.jsonl.gz").read_bytes())
    whole = [json.loads(line) for line in content.split(b"\n")[1:-1]]

    assert told(read.rows["cut-packed"]) == whole
    assert read.runs["cut-packed", "main"]["truncated"]


def test_a_damaged_line_costs_that_line(read: Read) -> None:
    assert told(read.rows["gap"]) == WHOLE[:30] + WHOLE[31:]
    assert read.runs["gap", "main"]["truncated"]


def test_a_header_without_events_makes_a_run_known(read: Read) -> None:
    row = read.runs["started", "main"]

    assert (row["files"], row["events"], row["truncated"]) == (1, 0, False)


def test_fields_added_by_a_later_version_are_kept(read: Read) -> None:
    first = min(read.rows["later"], key=lambda row: row["seq"])

    assert json.loads(first["_extra"]) == {"colour": "red", "more": '{"a":1}'}
    assert {row["_extra"] for row in read.rows["later"] if row["seq"] > 1} == {None}


def test_refused_files_are_counted_and_nothing_of_them_is_read(read: Read) -> None:
    assert (read.runs["newer", "main"]["refused"], read.runs["newer", "main"]["files"]) == (1, 0)
    assert read.runs["", ""]["refused"] == 3
    assert {"newer", ""}.isdisjoint(read.rows)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("newer.jsonl", "it has version 2 of the trace format, but this leveret reads version 1"),
        ("foreign.jsonl", "its first line is not the header of a leveret trace"),
        ("empty.jsonl", "it is empty"),
        ("head.jsonl", "its first line is cut off"),
    ],
)
def test_a_refusal_has_its_reason(read: Read, name: str, reason: str) -> None:
    problem = inspect(read.folder / name).problem

    assert problem is not None
    assert problem.startswith(reason)


def test_a_header_that_is_nested_too_deeply_is_that_of_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "deep.jsonl"
    path.write_text('{"leveret":"trace","v":1,"x":' + "[" * 100_000 + "]" * 100_000 + "}\n")

    assert inspect(path).problem == "its first line is not the header of a leveret trace"


def test_a_place_without_traces_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoTracesError, match=f"{tmp_path} holds no trace: no file in it ends in .jsonl"):
        find([tmp_path])
    with pytest.raises(NoTracesError, match="nowhere does not exist"):
        find([tmp_path / "nowhere"])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (text([header("a") | {"v": True}]).encode(), "it has version True of the trace format"),
        (text([header("a")]).encode("utf-16"), "its first line is not the header of a leveret trace"),
    ],
    ids=["version", "utf-16"],
)
def test_what_is_only_like_a_header_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "odd.jsonl").write_bytes(content)

    problem = inspect(tmp_path / "odd.jsonl").problem

    assert problem is not None
    assert problem.startswith(reason)
