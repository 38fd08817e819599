"""`format("leveret")`: the events of trace files as a DataFrame."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader, EqualTo, Filter, In, IsNotNull, Not

from leveret.pipeline import Warehouse, ingest, read_frame, read_table, update
from leveret.spark.traces import SCHEMA, TraceDataSource
from tests.pipeline.traces import header, lives, text, write

WHOLE = lives(40)


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of traces: of each kind that can be used."""
    # Some of these letters are patterns or quoted elsewhere.
    folder = tmp_path_factory.mktemp("a b%41ü+[1] {x}")
    write(folder / "plain.jsonl", [header("plain"), *WHOLE])
    write(folder / "deeper" / "packed.jsonl.gz", [header("packed", "gw0"), *WHOLE])
    write(folder / "deeper" / "packed-b.jsonl.gz", [header("packed", "gw1"), *WHOLE[:5]])
    write(folder / "pieces-1.jsonl", [header("pieces"), *WHOLE[:50]])
    write(folder / "pieces-2.jsonl", [header("pieces"), *WHOLE[50:]])
    write(folder / "again.jsonl", [header("again"), *WHOLE])
    (folder / "again-cut.jsonl").write_text(text([header("again"), *WHOLE[:50]])[:-4])
    write(folder / "shard-1.jsonl", [header("shards", "gw0"), *WHOLE])
    write(folder / "shard-2.jsonl", [header("shards", "gw0", started="2026-05-01T23:40:00Z"), *lives(3)])
    write(folder / "begun-1.jsonl", [header("begun")])
    write(folder / "begun-2.jsonl", [header("begun")])
    write(folder / "later.jsonl", [header("later", started=None), {**WHOLE[0], "colour": "red"}, *WHOLE[1:]])
    return folder


def read(session: SparkSession, *places: Path) -> DataFrame:
    return session.read.format("leveret").load([str(place) for place in places])


def reader_of(folder: Path) -> DataSourceReader:
    return TraceDataSource({"path": str(folder)}).reader(SCHEMA)


def files_of(reader: DataSourceReader) -> list[str]:
    """Return the names of the files that the tasks of a reader open."""
    return sorted(Path(path).name for task in reader.partitions() for unit in task.value for path in unit)


def test_the_rows_are_those_of_the_table_events(session: SparkSession, traces: Path, tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    ingest(warehouse, traces, processes=1)

    found = read(session, traces)

    assert found.schema == read_frame(session, warehouse, "events").schema
    expected = read_table(warehouse, "events").to_pylist()
    assert {row["worker"] for row in expected} == {"main", "gw0", "gw1", "gw0#2"}
    assert sorted(repr(row.asDict()) for row in found.collect()) == sorted(map(repr, expected))


def test_several_files_are_read_together(session: SparkSession, traces: Path) -> None:
    found = read(session, traces / "plain.jsonl", traces / "deeper" / "packed-b.jsonl.gz")

    assert {(row.run, row["count"]) for row in found.groupBy("run").count().collect()} == {
        ("plain", len(WHOLE)),
        ("packed", 5),
    }


def test_a_schema_chooses_columns(session: SparkSession, traces: Path) -> None:
    reader = session.read.format("leveret").schema("queue string, seq bigint")

    found = reader.load(str(traces / "plain.jsonl"))

    assert found.columns == ["queue", "seq"]
    assert [tuple(row) for row in found.collect()] == [(event.get("queue"), event["seq"]) for event in WHOLE]


def test_spark_pushes_runs_and_kinds_into_the_reader(
    session: SparkSession, traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    acked = read(session, traces).where("run in ('plain', 'packed') and kind = 'acked' and queue = 'orders'")

    acked.explain("formatted")

    plan = capsys.readouterr().out
    (pushed,) = re.findall(r"PushedFilters: \[(.*)\]", plan)
    assert all(part in pushed for part in ("In(run, [packed,plain])", "EqualTo(kind,acked)"))
    (left,) = re.findall(r"Condition : (.*)", plan)
    assert "queue" in left
    assert not any(name in left for name in ("run", "kind"))
    expected = Counter(event["kind"] for event in (*WHOLE, *WHOLE, *WHOLE[:5]))["acked"]
    assert acked.count() == expected


def test_files_of_other_runs_are_not_opened(traces: Path) -> None:
    reader = reader_of(traces)

    left = list(reader.pushFilters([IsNotNull(("run",)), In(("run",), ("plain", "packed", "missing"))]))

    assert left == []
    assert files_of(reader) == ["packed-b.jsonl.gz", "packed.jsonl.gz", "plain.jsonl"]


def test_events_of_other_kinds_do_not_leave_the_reader(traces: Path) -> None:
    reader = reader_of(traces / "plain.jsonl")
    others: list[Filter] = [Not(EqualTo(("kind",), "acked")), EqualTo(("queue",), "orders"), IsNotNull(("queue",))]

    left = list(reader.pushFilters([EqualTo(("kind",), "published"), *others]))

    assert left == others
    kinds = [batch["kind"].to_pylist() for task in reader.partitions() for batch in reader.read(task)]
    assert kinds == [["published"] * 40]


def test_filters_that_exclude_each_other_choose_nothing(session: SparkSession, traces: Path) -> None:
    reader = reader_of(traces)
    list(reader.pushFilters([EqualTo(("run",), "plain"), In(("run",), ("packed", "pieces"))]))

    assert files_of(reader) == []
    assert read(session, traces).where("run = 'none'").count() == 0


def test_a_query_joins_events_with_a_table(session: SparkSession, traces: Path, tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    ingest(warehouse, traces / "plain.jsonl", processes=1)
    update(warehouse, processes=1)
    read(session, traces).createOrReplaceTempView("events")
    read_frame(session, warehouse, "tests").createOrReplaceTempView("tests")

    (row,) = session.sql(
        "select run, test, outcome, count(*) as acks from events join tests using (run, worker, test) "
        "where kind = 'acked' group by all"
    ).collect()

    assert (row.run, row.test, row.outcome) == ("plain", "test_it", "passed")
    assert row.acks == Counter(event["kind"] for event in WHOLE)["acked"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "it is empty"),
        ("{}\n", "its first line is not the header of a leveret trace"),
        (text([header("newer") | {"v": 2}]), "it has version 2 of the trace format, but this leveret reads version 1"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(session: SparkSession, tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text(content)
    write(tmp_path / "plain.jsonl", [header("plain"), *WHOLE])

    with pytest.raises(Exception, match=r"leveret\.errors\.UnreadableTraceError") as raised:
        read(session, tmp_path).count()

    asked = f"{path} cannot be read as a trace, so move it elsewhere or name the others: {problem}"
    assert asked in str(raised.value)


def test_a_missing_folder_is_named_when_it_is_loaded(session: SparkSession, tmp_path: Path) -> None:
    for place, problem in ((tmp_path / "none", "does not exist; name a folder"), (tmp_path, "holds no trace:")):
        with pytest.raises(Exception, match=r"leveret\.errors\.NoTracesError") as raised:
            read(session, place)

        assert f"{place} {problem}" in str(raised.value)


@pytest.mark.parametrize(
    ("options", "schema", "problem"),
    [
        ({}, "", "format leveret needs a path: name a folder of traces"),
        ({"path": "traces", "runs": "a"}, "", "unknown option 'runs'; expected one of path"),
        ({"path": "."}, "colour string", "unknown column 'colour'"),
        ({"path": "."}, "seq string", "column 'seq' has type bigint, not string"),
    ],
)
def test_a_wrong_option_or_column_is_refused(
    session: SparkSession, options: dict[str, str], schema: str, problem: str
) -> None:
    reader = session.read.format("leveret").options(**options)

    with pytest.raises(Exception, match=r"leveret\.errors\.OptionError") as raised:
        (reader.schema(schema) if schema else reader).load().count()

    assert problem in str(raised.value)
