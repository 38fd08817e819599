"""The commands, as a user types them."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import zipfile
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest

from leveret.cli import main
from leveret.errors import NoSuchRunError
from leveret.pipeline import expire, ingest, read_table, update
from leveret.pipeline.command import guarded
from leveret.pipeline.warehouse.warehouse import Warehouse
from tests.pipeline.traces import header, lives, text, write
from tests.systems import files_up_to

WHOLE = lives(6)
NO_WAREHOUSE = "{folder}/w is not a warehouse; `leveret pipeline update TRACES -w {folder}/w` makes one"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@dataclass
class Updated:
    """One call of `update`, shared by the tests, because it computes every table."""

    folder: Path
    code: int
    out: list[str]
    err: str

    @property
    def warehouse(self) -> str:
        return str(self.folder / "warehouse")


@pytest.fixture(scope="module")
def updated(tmp_path_factory: pytest.TempPathFactory) -> Updated:
    folder = tmp_path_factory.mktemp("update")
    traces = folder / "traces"
    write(traces / "good.jsonl.gz", [header("good"), *WHOLE])
    write(traces / "more.jsonl", [header("more", commit="abc"), *lives(7)])
    (traces / "cut.jsonl").write_text(text([header("cut"), *WHOLE])[:-9])
    write(traces / "foreign.jsonl", [{"level": "info"}])
    (traces / "empty.jsonl").touch()
    write(traces / "newer.jsonl", [header("newer") | {"v": 2}])
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = main(["pipeline", "update", str(traces), "--warehouse", str(folder / "warehouse")])
    return Updated(folder, code, out.getvalue().splitlines(), err.getvalue())


def test_bad_files_are_named_and_the_others_are_read(updated: Updated) -> None:
    traces = updated.folder / "traces"
    assert (updated.code, updated.out) == (
        0,
        [
            f"refused {traces}/empty.jsonl: it is empty",
            f"refused {traces}/foreign.jsonl: its first line is not the header of a leveret trace",
            f"refused {traces}/newer.jsonl: it has version 2 of the trace format, but this leveret reads "
            "version 1; use the leveret that wrote it, or a newer one",
            f"cut {traces}/cut.jsonl: only its complete lines are used",
            "3 files ingested, 3 refused, 0 unchanged",
            "4 runs brought up to date",
        ],
    )
    warehouse = Warehouse(updated.warehouse)
    runs = {row["run"]: row for row in read_table(warehouse, "runs").to_pylist()}
    assert {name: (row["events"], row["truncated"], row["refused"]) for name, row in runs.items()} == {
        "good": (len(WHOLE), False, 0),
        "more": (len(lives(7)), False, 0),
        "cut": (len(WHOLE) - 1, True, 0),
        "newer": (0, False, 1),
        "": (0, False, 2),
    }
    assert set(read_table(warehouse, "queue_stats")["run"].to_pylist()) == {"good", "more", "cut"}


def test_nothing_starts_if_there_is_nothing_to_do(updated: Updated, capsys: pytest.CaptureFixture[str]) -> None:
    places = [str(updated.folder / "traces"), "-w", updated.warehouse, "--engine", "spark"]

    assert main(["pipeline", "ingest", *places]) == 0
    assert main(["pipeline", "update", *places]) == 0

    assert capsys.readouterr().err == ""


def test_up_to_date_tables_are_not_rebuilt(updated: Updated, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "update", "-w", updated.warehouse]) == 0
    assert capsys.readouterr().out == "all runs were up to date\n"


def test_two_runs_are_compared(updated: Updated, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "diff", "good", "abc", "-w", updated.warehouse]) == 1
    said = capsys.readouterr().out.splitlines()
    assert "queue orders, acknowledged: 4 | 5" in said
    assert said[-1] == f"{len(said) - 3} differences between good and abc"

    assert main(["pipeline", "diff", "good", "zzz", "-w", updated.warehouse]) == 2
    said = capsys.readouterr().err
    assert (
        "'zzz' matches no run and no commit; give a name or at least its first 4 characters; the newest runs are "
        in said
    )


def test_rules_of_ones_own_are_imported_for_a_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "our_rules_of_a_test.py").write_text("raise ValueError('our rules were imported')")

    assert main(["pipeline", "update", "-w", "warehouse", "--rules", "our_rules_of_a_test"]) == 2
    named = "--rules our_rules_of_a_test cannot be imported: ValueError: our rules were imported"
    assert capsys.readouterr().err == f"leveret: {named}\n"
    assert main(["pipeline", "update", "-w", "warehouse", "--rules", "nowhere_at_all"]) == 2
    assert "--rules nowhere_at_all: No module named 'nowhere_at_all'" in capsys.readouterr().err


def test_the_house_is_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "traces" / "a.jsonl", [header("a"), *WHOLE])
    main(["pipeline", "ingest", "traces", "-w", "warehouse"])
    write(folder / "b.jsonl", [header("b"), *WHOLE])
    main(["pipeline", "ingest", "traces", "b.jsonl", "-w", "warehouse"])
    assert capsys.readouterr().out.splitlines()[-1] == "1 files ingested, 0 refused, 1 unchanged"

    codes = [
        main(["pipeline", "compact", "-w", "warehouse"]),
        main(["pipeline", "vacuum", "-w", "warehouse", "--older-than", "0"]),
        main(["pipeline", "compact", "-w", "warehouse"]),
    ]

    merged, removed, nothing = capsys.readouterr().out.splitlines()
    assert codes == [0, 0, 0]
    # Two of events, and two of trace files.
    assert (merged, nothing) == ("4 parts merged", "nothing to merge")
    assert removed.startswith("4 unused files removed, ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ingest", "nowhere", "-w", "w"], "nowhere does not exist; name a folder of traces, or a trace file"),
        (
            ["ingest", ".", "-w", "w"],
            ". holds no trace: no file in it ends in .jsonl, .jsonl.gz; record one with pytest --leveret-trace-dir=DIR",
        ),
        (
            ["update", "-w", "w"],
            "{folder}/w is not a warehouse; `leveret pipeline update TRACES -w {folder}/w` makes one",
        ),
        (
            ["compact", "-w", "w"],
            "{folder}/w is not a warehouse; `leveret pipeline update TRACES -w {folder}/w` makes one",
        ),
    ],
)
def test_missing_inputs_are_reported(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["pipeline", *arguments]) == 2
    assert capsys.readouterr().err == f"leveret: {said.format(folder=folder)}\n"


def test_the_exit_code_is_2_if_no_file_is_usable(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "empty.jsonl").touch()

    assert main(["pipeline", "ingest", "empty.jsonl", "-w", "w"]) == 2
    assert capsys.readouterr().out.splitlines()[0] == f"refused {folder}/empty.jsonl: it is empty"


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


def test_a_report_on_traces_is_about_their_run_and_makes_its_folder(
    updated: Updated, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = str(updated.folder / "traces" / "good.jsonl.gz")

    assert main(["pipeline", "report", good, "-w", updated.warehouse, "-o", "new/page.html"]) == 0

    assert capsys.readouterr().out.splitlines()[-1].startswith("new/page.html: run good, ")
    assert (folder / "new" / "page.html").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such pipes and names")
def test_bad_files_do_not_keep_a_report_from_the_others(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traces = folder / "mixed"
    traces.mkdir()
    write(traces / "good.jsonl", [header("good"), *lives(1)])
    facts = {"epoch_ns": 10**30, "started": "0001-01-01T00:00:00+14:00"}
    write(traces / "far.jsonl", [header("far") | facts, *lives(1)])
    write(traces / "half.jsonl", [header("\ud800"), *lives(1)])
    os.mkfifo(traces / "pipe.jsonl")
    name = os.fsdecode(b"\xff.jsonl")
    write(traces / name, [header("other"), *lives(1)])

    places = [str(traces), str(traces / "pipe.jsonl")]
    assert main(["pipeline", "report", *places, "-o", "page.html", "--run", "good"]) == 0

    printed = capsys.readouterr().out
    assert f"refused {traces}/pipe.jsonl: it is not a regular file" in printed
    assert f"refused {traces}/\\udcff.jsonl: its name is not UTF-8; rename it" in printed
    assert f"refused {traces}/half.jsonl: its header lacks the run or the worker" in printed
    assert "2 files ingested, 3 refused" in printed


def test_files_refused_before_are_counted_among_those_that_are_named(
    updated: Updated, capsys: pytest.CaptureFixture[str]
) -> None:
    traces = updated.folder / "traces"

    main(["pipeline", "ingest", str(traces / "good.jsonl.gz"), "-w", updated.warehouse])
    main(["pipeline", "ingest", str(traces / "good.jsonl.gz"), str(traces / "empty.jsonl"), "-w", updated.warehouse])

    assert capsys.readouterr().out.splitlines() == [
        "0 files ingested, 0 refused, 1 unchanged",
        "0 files ingested, 0 refused, 2 unchanged, of which 1 were refused before",
    ]


def test_a_warehouse_among_the_traces_is_no_trace(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "a.jsonl", [header("a"), *WHOLE])
    for _ in range(2):
        main(["pipeline", "update", ".", "-w", "warehouse"])
        main(["pipeline", "update", ".", "-w", "."])

    ingested = [line for line in capsys.readouterr().out.splitlines() if "ingested" in line]
    assert (
        ingested == ["1 files ingested, 0 refused, 0 unchanged"] * 2 + ["0 files ingested, 0 refused, 1 unchanged"] * 2
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["update", "-w", "file"], "file is a file; a warehouse is a folder, or s3://BUCKET/PREFIX"),
        (["report", "-w", "w", "-o", "."], "--output . is a folder; name a file in it, such as ./report.html"),
        (
            ["update", "-w", "damaged"],
            "{folder}/damaged/files cannot be read: Kernel error: Json error: Truncated record whilst reading string",
        ),
    ],
)
def test_a_wrong_place_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    (folder / "file").touch()
    (folder / "damaged" / "files" / "_delta_log").mkdir(parents=True)
    (folder / "damaged" / "files" / "_delta_log" / f"{0:020}.json").write_text('{"kind')

    assert main(["pipeline", *arguments]) == 2
    assert capsys.readouterr().err == f"leveret: {said.format(folder=folder)}\n"


def test_a_report_that_does_not_fit_on_the_disk_is_named(
    updated: Updated, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with files_up_to(1000):
        assert main(["pipeline", "report", "-w", updated.warehouse]) == 2

    assert capsys.readouterr().err.endswith(f"File too large: '{folder}/report.html'\n")
    assert list(folder.iterdir()) == []


def test_a_report_on_a_cut_trace_uses_its_whole_lines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "cut.jsonl").write_text(text([header("cut"), *WHOLE])[:-9])

    assert main(["pipeline", "report", "cut.jsonl"]) == 0

    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"cut {folder}/cut.jsonl: only its complete lines are used"
    assert "cut.jsonl" in (folder / "report.html").read_text(encoding="utf-8")


def test_a_report_removes_what_killed_reports_left_behind_a_day_ago(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    write(folder / "a.jsonl", [header("a"), *WHOLE])
    for name in ("leveret-report-old", "leveret-report-young", "another-old"):
        (folder / name / "events").mkdir(parents=True)
    for name in ("leveret-report-old", "another-old"):
        os.utime(folder / name, (1, 1))

    assert main(["pipeline", "report", "a.jsonl"]) == 0

    left = sorted(path.name for path in folder.iterdir() if path.is_dir())
    assert left == ["another-old", "leveret-report-young"]


def test_places_and_runs_may_be_named_alone(folder: Path) -> None:
    write(folder / "a.jsonl", [header("a"), *WHOLE])

    ingest("warehouse", "a.jsonl")
    update("warehouse")

    assert read_table("warehouse", "tests", runs="a")["test"].to_pylist() == ["test_it"]
    with pytest.raises(NoSuchRunError, match="unknown run 'b'"):
        read_table("warehouse", "tests", runs=["b"])
    with pytest.raises(ValueError, match="-1 is not a period"):
        expire("warehouse", -1)
    assert expire("warehouse", "1d") == ["a"]


def test_a_run_of_the_future_is_named_and_not_the_newest(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "traces" / "far.jsonl", [header("far", started="9999-12-31T23:59:59+00:00"), *WHOLE])
    write(folder / "traces" / "now.jsonl", [header("now"), *WHOLE])

    assert main(["pipeline", "report", "traces"]) == 0

    said = capsys.readouterr().out.splitlines()
    assert said[0] == (
        f"clock {folder}/traces/far.jsonl: its run began on 9999-12-31, which is still to come; set the clock of that "
        "machine. It is not taken for the newest run"
    )
    assert said[-1].startswith("report.html: run now, ")


def test_a_master_that_does_not_answer_is_named_at_once(
    folder: Path, capsys: pytest.CaptureFixture[str], unused_tcp_port: int
) -> None:
    write(folder / "a.jsonl", [header("a"), *WHOLE])
    master = f"spark://127.0.0.1:{unused_tcp_port}"

    assert main(["pipeline", "update", "a.jsonl", "-w", "w", "--master", master]) == 2

    assert capsys.readouterr().err.splitlines()[-1] == (
        f"leveret: no Spark master answers at {master}: start it, or correct --master (spark://HOST:7077)"
    )


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            "calling o45.collect\n: org.apache.spark.SparkException: [PYTHON_VERSION_MISMATCH] Python is 3.9\n at x",
            "3.9",
        ),
        ("calling o45.collect\n at x\nCaused by: java.io.IOException: lost\n at y", "lost"),
    ],
)
def test_an_error_of_spark_is_one_line_and_no_difference(
    capsys: pytest.CaptureFixture[str], said: str, reason: str
) -> None:
    from pyspark.errors import PySparkException

    def fail(options: argparse.Namespace) -> int:
        raise PySparkException(said)

    assert guarded(fail)(argparse.Namespace()) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("leveret: Spark failed: ")
    assert f"{reason}; `leveret spark doctor`" in line
