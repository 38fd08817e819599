"""Updates of a warehouse: in whatever order traces arrive, and wherever it is killed, it ends up equal to one batch."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from leveret.errors import NoWarehouseError
from leveret.pipeline import incremental
from leveret.pipeline.schema import Table
from leveret.pipeline.warehouse import Warehouse
from tests.pipeline.small_tables import SMALL_TABLES, kinds
from tests.pipeline.traces import header, lives, text, write

WHOLE = lives(12)
NAMES = ("events", "runs", *SMALL_TABLES)


class Killed(BaseException):
    """An exception that no code expects."""


class Killer:
    """An audit hook that ends the work at a file operation in a folder, as if the process had been killed there."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.left = -1

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.folder is None or event not in ("open", "os.mkdir", "os.link", "os.rename", "os.remove"):
            return
        if str(arguments[0]).startswith(str(self.folder)):
            self.step()

    def step(self) -> None:
        if self.left == 0:
            self.folder = None
            raise Killed
        self.left -= 1

    def run(self, folder: Path, operations: int, work: Callable[[], object]) -> bool:
        """Do the work, killed before its file operation number `operations`; return whether it finished first."""
        self.folder, self.left = folder, operations
        try:
            work()
        except Killed:
            return False
        finally:
            self.folder = None
        return True


@pytest.fixture(scope="module")
def killer() -> Killer:
    # An audit hook stays until the process ends; it does nothing while it has no folder.
    killer = Killer()
    sys.addaudithook(killer)
    return killer


def bring_up_to_date(spark: SparkSession, folder: Path, warehouse: Warehouse) -> list[str]:
    incremental.ingest(spark, [folder], warehouse)
    return incremental.update(spark, warehouse, tables=SMALL_TABLES)


def rows(spark: SparkSession, warehouse: Warehouse) -> dict[str, list[str]]:
    """Return all tables, without the number of files that described a run: it may differ."""
    return {name: sorted(map(str, plain(spark, warehouse, name).collect())) for name in NAMES}


def plain(spark: SparkSession, warehouse: Warehouse, name: str) -> DataFrame:
    return incremental.read_table(spark, warehouse, name, tables=SMALL_TABLES)


def at_once(spark: SparkSession, folder: Path, place: Path) -> dict[str, list[str]]:
    warehouse = Warehouse(place)
    bring_up_to_date(spark, folder, warehouse)
    return rows(spark, warehouse)


def comings(folder: Path) -> Iterator[None]:
    """Write traces in rounds: late, in pieces and out of order, growing, cut, twice, foreign and then repaired."""
    write(folder / "b-2.jsonl", [header("b"), *WHOLE[20:]])
    (folder / "grows.jsonl").write_text(text([header("grows"), *WHOLE[:30]])[:-9])
    (folder / "mended.jsonl").write_text("{")
    yield
    write(folder / "a.jsonl.gz", [header("a", "gw1"), *WHOLE[:9]])
    write(folder / "b-1.jsonl", [header("b"), *WHOLE[:20]])
    (folder / "grows.jsonl").write_text(text([header("grows"), *WHOLE]))
    yield
    write(folder / "a-0.jsonl", [header("a", "gw0"), *WHOLE])
    write(folder / "mended.jsonl", [header("mended"), *WHOLE])
    yield


@pytest.fixture(scope="module")
def one_batch(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """All tables, after all traces have arrived and are ingested at once."""
    folder = tmp_path_factory.mktemp("batch")
    for _ in comings(made(folder / "traces")):
        pass
    return at_once(spark, folder / "traces", folder / "warehouse")


def test_a_history_of_updates_equals_one_batch(
    spark: SparkSession, tmp_path: Path, one_batch: dict[str, list[str]]
) -> None:
    warehouse = Warehouse(tmp_path / "history")
    answered = [bring_up_to_date(spark, tmp_path / "traces", warehouse) for _ in comings(made(tmp_path / "traces"))]

    assert [sorted(runs) for runs in answered] == [["", "b", "grows"], ["a", "b", "grows"], ["", "a", "mended"]]
    assert rows(spark, warehouse) == one_batch


def test_a_second_update_does_nothing(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "traces" / "a.jsonl", [header("a"), *WHOLE])
    warehouse = Warehouse(tmp_path / "warehouse")
    bring_up_to_date(spark, tmp_path / "traces", warehouse)
    before = sorted(tmp_path.rglob("*"))

    assert incremental.ingest(spark, [tmp_path / "traces"], warehouse).unchanged == 1
    assert incremental.update(spark, warehouse, tables=SMALL_TABLES) == []

    assert sorted(tmp_path.rglob("*")) == before


def test_one_more_run_reads_and_writes_its_own_events_alone(spark: SparkSession, tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    for number in range(3):
        write(tmp_path / "traces" / f"r{number}.jsonl", [header(f"r{number}"), *WHOLE])
        bring_up_to_date(spark, tmp_path / "traces", warehouse)

    state = warehouse.state()

    assert len({run.segments[0] for run in state.runs.values()}) == 3
    assert [answer.runs for answer in state.answers.values()] == [["r0"], ["r1"], ["r2"]]


@pytest.mark.parametrize("operations", [2, 7, 12])
def test_killed_at_a_file_operation_it_is_run_again(
    spark: SparkSession, tmp_path: Path, killer: Killer, one_batch: dict[str, list[str]], operations: int
) -> None:
    folder, warehouse = made(tmp_path / "traces"), Warehouse(tmp_path / "warehouse")
    survived = [
        killer.run(warehouse.folder, operations, lambda: bring_up_to_date(spark, folder, warehouse))
        for _ in comings(folder)
    ]

    bring_up_to_date(spark, folder, warehouse)

    assert not all(survived)
    assert rows(spark, warehouse) == one_batch


def test_killed_between_two_tables_it_is_run_again(spark: SparkSession, tmp_path: Path) -> None:
    def dies(*sources: DataFrame) -> DataFrame:
        raise Killed

    write(tmp_path / "traces" / "a.jsonl", [header("a"), *WHOLE])
    warehouse = Warehouse(tmp_path / "warehouse")
    incremental.ingest(spark, [tmp_path / "traces"], warehouse)
    deadly = SMALL_TABLES["kinds"]
    tables: dict[str, Table] = {**SMALL_TABLES, "deadly": dataclasses.replace(deadly, name="deadly", build=dies)}

    with pytest.raises(Killed):
        incremental.update(spark, warehouse, tables=tables)

    assert plain(spark, warehouse, "kinds").count() == 0
    assert incremental.update(spark, warehouse, tables=SMALL_TABLES) == ["a"]
    warehouse.vacuum(older_than_s=0)
    assert rows(spark, warehouse) == at_once(spark, tmp_path / "traces", tmp_path / "batch")


def test_a_table_that_reads_a_missing_table_is_named(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "traces" / "a.jsonl", [header("a"), *WHOLE])
    warehouse = Warehouse(tmp_path / "warehouse")
    incremental.ingest(spark, [tmp_path / "traces"], warehouse)
    orphan = dataclasses.replace(SMALL_TABLES["kinds"], name="orphan", reads=("events", "kids"))

    with pytest.raises(KeyError, match="table 'orphan' reads kids, which is not among the tables"):
        incremental.update(spark, warehouse, tables={**SMALL_TABLES, "orphan": orphan})


def test_a_table_with_another_type_than_declared_is_named(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "traces" / "a.jsonl", [header("a"), *WHOLE])
    warehouse = Warehouse(tmp_path / "warehouse")
    incremental.ingest(spark, [tmp_path / "traces"], warehouse)

    def in_words(events: DataFrame, runs: DataFrame) -> DataFrame:
        return kinds(events, runs).withColumn("n", F.col("n").cast("string"))

    wordy = dataclasses.replace(SMALL_TABLES["kinds"], name="wordy", build=in_words)
    with pytest.raises(
        ValueError, match="table 'wordy' declares column 'n' as bigint, but it was built as string: cast it"
    ):
        incremental.update(spark, warehouse, tables={"wordy": wordy})
    with pytest.raises(KeyError, match="unknown table 'kindes'; did you mean 'kinds'"):
        plain(spark, warehouse, "kindes")
    with pytest.raises(NoWarehouseError, match="nowhere is not a warehouse"):
        plain(spark, Warehouse(tmp_path / "nowhere"), "kinds")


def test_a_damaged_line_counts_as_a_cut(spark: SparkSession, tmp_path: Path) -> None:
    lines = text([header("a"), *WHOLE]).splitlines(keepends=True)
    lines.insert(9, '{"kind":"enq\n')
    (tmp_path / "a.jsonl").write_text("".join(lines))
    warehouse = Warehouse(tmp_path / "warehouse")

    done = incremental.ingest(spark, [tmp_path / "a.jsonl"], warehouse)

    assert [file.path for file in done.truncated] == [str(tmp_path / "a.jsonl")]
    assert warehouse.state().files[str(tmp_path / "a.jsonl")].is_truncated


def test_compaction_keeps_batches_with_unknown_tables(spark: SparkSession, tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    both = {**SMALL_TABLES, "own": dataclasses.replace(SMALL_TABLES["kinds"], name="own")}
    for name in ("a", "b"):
        write(tmp_path / f"{name}.jsonl", [header(name), *WHOLE])
        incremental.ingest(spark, [tmp_path / f"{name}.jsonl"], warehouse)
        incremental.update(spark, warehouse, tables=both)
    before = incremental.read_table(spark, warehouse, "own", tables=both).count()

    incremental.compact(spark, warehouse, tables=SMALL_TABLES)

    assert incremental.read_table(spark, warehouse, "own", tables=both).count() == before > 0


def test_merged_batches_hold_the_same_rows(spark: SparkSession, tmp_path: Path, killer: Killer) -> None:
    folder, warehouse = made(tmp_path / "traces"), Warehouse(tmp_path / "warehouse")
    for _ in comings(folder):
        bring_up_to_date(spark, folder, warehouse)
    before = rows(spark, warehouse)

    killed = [killer.run(warehouse.folder, n, lambda: compact(spark, warehouse)) for n in (2, 4)]
    merged = compact(spark, warehouse)
    warehouse.vacuum(older_than_s=0)

    assert killed == [False, False]
    assert (merged > 1, len(warehouse.state().segments()), len(warehouse.state().answers)) == (True, 1, 1)
    assert rows(spark, warehouse) == before
    assert bring_up_to_date(spark, folder, warehouse) == []


def test_a_stream_over_a_folder_equals_one_batch(spark: SparkSession, tmp_path: Path) -> None:
    folder, warehouse = made(tmp_path / "traces"), Warehouse(tmp_path / "warehouse")
    write(folder / "mended.jsonl", [{"level": "info"}])
    write(folder / "b-2.jsonl", [header("b"), *WHOLE[20:]])
    write(folder / "deep" / "a.jsonl.gz", [header("a", "gw1"), *WHOLE[:9]])
    stream(spark, folder, warehouse, tmp_path / "checkpoint", files_per_batch=1)
    write(folder / "b-1.jsonl", [header("b"), *WHOLE[:20]])
    shutil.copy(folder / "b-1.jsonl", folder / "b-again.jsonl")
    stream(spark, folder, warehouse, tmp_path / "checkpoint", files_per_batch=9)

    assert rows(spark, warehouse) == at_once(spark, folder, tmp_path / "batch")


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def compact(spark: SparkSession, warehouse: Warehouse) -> int:
    return incremental.compact(spark, warehouse, tables=SMALL_TABLES)


def stream(spark: SparkSession, folder: Path, warehouse: Warehouse, checkpoint: Path, *, files_per_batch: int) -> None:
    incremental.stream(spark, folder, warehouse, checkpoint, tables=SMALL_TABLES, files_per_batch=files_per_batch)
