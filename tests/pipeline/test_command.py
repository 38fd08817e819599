"""The commands, as somebody types them."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from leveret.cli import main
from leveret.pipeline.gold import TABLES
from leveret.pipeline.incremental import read_table
from leveret.pipeline.warehouse import Warehouse
from tests.pipeline.traces import header, lives, text, write

WHOLE = lives(6)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_from_a_folder_with_bad_files_to_all_tables(
    spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder / "traces" / "good.jsonl.gz", [header("good"), *WHOLE])
    (folder / "traces" / "cut.jsonl").write_text(text([header("cut"), *WHOLE])[:-9])
    write(folder / "traces" / "foreign.jsonl", [{"level": "info"}])
    (folder / "traces" / "empty.jsonl").touch()
    write(folder / "traces" / "newer.jsonl", [header("newer") | {"v": 2}])

    code = main(["pipeline", "update", "traces", "--warehouse", "warehouse"])

    said = capsys.readouterr()
    assert (code, said.out.splitlines()) == (
        0,
        [
            f"refused {folder}/traces/empty.jsonl: it is empty",
            f"refused {folder}/traces/foreign.jsonl: its first line is no header of a leveret trace",
            f"refused {folder}/traces/newer.jsonl: it has version 2 of the trace format, and this leveret reads "
            "version 1; use the leveret that wrote it, or a newer one",
            f"cut {folder}/traces/cut.jsonl: its whole lines are used",
            "2 files taken in, 3 refused, 0 as before",
            "4 runs brought up to date",
        ],
    )
    assert f"({len([name for name in TABLES if not TABLES[name].across_runs])} of" in said.err
    warehouse = Warehouse("warehouse")
    runs = {row.run: row for row in read_table(spark, warehouse, "runs").collect()}
    assert {name: (row.events, row.truncated, row.refused) for name, row in runs.items()} == {
        "good": (len(WHOLE), False, 0),
        "cut": (len(WHOLE) - 1, True, 0),
        "newer": (0, False, 1),
        "": (0, False, 2),
    }
    assert {row.run for row in read_table(spark, warehouse, "queue_stats").collect()} == {"good", "cut"}

    assert main(["pipeline", "update", "-w", "warehouse"]) == 0
    assert capsys.readouterr().out == "all runs were up to date\n"


def test_two_runs_are_compared(spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "traces" / "a.jsonl", [header("a"), *WHOLE])
    write(folder / "traces" / "b.jsonl", [header("b", commit="abc"), *lives(7)])
    main(["pipeline", "ingest", "traces", "-w", "warehouse"])
    capsys.readouterr()

    assert main(["pipeline", "diff", "a", "abc", "-w", "warehouse"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert "queue orders, acked: 4 | 5" in said
    assert said[-1] == f"{len(said) - 1} differences between a and abc"

    assert main(["pipeline", "diff", "a", "zzz", "-w", "warehouse"]) == 2
    assert capsys.readouterr().err.endswith("warehouse knows no run and no commit 'zzz'\n")


def test_two_traces_of_one_workload_are_compared(
    spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder / "ours.jsonl", [header("ours"), *WHOLE])
    write(folder / "theirs.jsonl", [header("theirs"), *WHOLE])
    write(folder / "late.jsonl", [header("late"), *lives(5)])

    assert main(["pipeline", "parity", "ours.jsonl", "theirs.jsonl"]) == 0
    assert capsys.readouterr().out == "0 differences between ours.jsonl and theirs.jsonl\n"

    assert main(["pipeline", "parity", "ours.jsonl", "late.jsonl"]) == 1
    delivered, published, count = capsys.readouterr().out.splitlines()
    assert delivered.startswith("delivered orders 6, missing: {")
    assert published.startswith("published 6, missing: {")
    assert count == "2 differences between ours.jsonl and late.jsonl"


def test_the_house_is_kept(spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "traces" / "a.jsonl", [header("a"), *WHOLE])
    main(["pipeline", "ingest", "traces", "-w", "warehouse"])
    write(folder / "b.jsonl", [header("b"), *WHOLE])
    main(["pipeline", "ingest", "traces", "b.jsonl", "-w", "warehouse"])
    assert capsys.readouterr().out.splitlines()[-1] == "1 files taken in, 0 refused, 1 as before"

    codes = [
        main(["pipeline", "compact", "-w", "warehouse"]),
        main(["pipeline", "vacuum", "-w", "warehouse", "--older-than", "0"]),
        main(["pipeline", "compact", "-w", "warehouse"]),
    ]

    merged, removed, nothing = capsys.readouterr().out.splitlines()
    assert codes == [0, 0, 0]
    assert (merged, nothing) == ("2 batches merged into one", "there was nothing to merge")
    assert removed.startswith("4 unused batches removed, ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ingest", "nowhere", "-w", "w"], "nowhere does not exist"),
        (
            ["ingest", ".", "-w", "w"],
            ". holds no trace: no file that ends in .jsonl, .jsonl.gz, .parquet",
        ),
        (["update", "-w", "w"], "w is no warehouse; `leveret pipeline ingest` makes one"),
        (["compact", "-w", "w"], "w is no warehouse; `leveret pipeline ingest` makes one"),
    ],
)
def test_what_is_not_there_is_said_before_anything_is_started(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["pipeline", *arguments]) == 2
    assert capsys.readouterr().err == f"leveret: {said}\n"


def test_when_no_file_can_be_used_the_exit_code_says_so(
    spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "empty.jsonl").touch()

    assert main(["pipeline", "ingest", "empty.jsonl", "-w", "w"]) == 2
    assert capsys.readouterr().out.splitlines()[0] == f"refused {folder}/empty.jsonl: it is empty"


def test_the_doctor_starts_spark(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spark", "doctor"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"ok     Spark {spark.version} started and answered")


def test_leveret_can_be_imported_from_its_bundle(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spark", "bundle", "leveret.zip"]) == 0
    assert main(["spark", "bundle", "again.zip"]) == 0
    program = "import leveret.pipeline.command, leveret.spark; print(leveret.__file__)"
    command = [sys.executable, "-S", "-c", program]

    ran = subprocess.run(
        command, env={"PYTHONPATH": str(folder / "leveret.zip")}, capture_output=True, text=True, timeout=60
    )

    assert ran.stdout == f"{folder}/leveret.zip/leveret/__init__.py\n", ran.stderr
    assert (folder / "leveret.zip").read_bytes() == (folder / "again.zip").read_bytes()
    assert "leveret/py.typed" in zipfile.ZipFile(folder / "leveret.zip").namelist()
