"""The commands `leveret pipeline sql` and `expire`."""

from __future__ import annotations

import csv
import io
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from leveret.cli import main
from tests.pipeline.traces import header, lives, write

NOW = datetime.now(UTC)


def filled(folder: Path) -> str:
    """Return a warehouse with a run of today, and one that is a hundred days old."""
    for run, days in (("old", 100), ("new", 0)):
        started = (NOW - timedelta(days=days)).isoformat()
        write(folder / "traces" / f"{run}.jsonl", [header(run, started=started), *lives(2)])
    place = str(folder / "warehouse")
    assert main(["pipeline", "update", str(folder / "traces"), "-w", place]) == 0
    return place


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A warehouse for the tests that only read it."""
    return filled(tmp_path_factory.mktemp("stored"))


@pytest.fixture
def warehouse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    place = filled(tmp_path)
    capsys.readouterr()
    return place


def test_rows_are_printed_as_a_table(stored: str, capsys: pytest.CaptureFixture[str]) -> None:
    query = "select run, count(*) as copies, null as nothing from copies group by run order by run"

    assert main(["pipeline", "sql", query, "-w", stored]) == 0

    assert capsys.readouterr().out.splitlines() == [
        "run  copies  nothing",
        "---  ------  -------",
        "new       2",
        "old       2",
        "(2 rows)",
    ]


def test_tables_are_queried_as_they_were_at_a_time(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    then = datetime.now(UTC).isoformat()
    traces = Path(warehouse).parent / "traces"
    write(traces / "later.jsonl", [header("later"), *lives(1)])
    assert main(["pipeline", "update", str(traces), "-w", warehouse]) == 0
    capsys.readouterr()

    query = ["pipeline", "sql", "select distinct run from runs order by run", "--format", "csv", "-w", warehouse]
    assert main([*query, "--as-of", then]) == 0
    assert capsys.readouterr().out.split() == ["run", "new", "old"]
    assert main(query) == 0
    assert capsys.readouterr().out.split() == ["run", "later", "new", "old"]


def test_a_time_before_the_warehouse_has_an_error_of_one_line(stored: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["pipeline", "sql", "select * from runs", "-w", stored, "--as-of", "2001-01-01"])

    assert (code, capsys.readouterr().err.count("\n")) == (2, 1)


def test_a_time_that_is_none_is_refused(stored: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["pipeline", "sql", "select * from runs", "-w", stored, "--as-of", "yesterday"])

    assert "yesterday is not a time; write it as 2026-05-01T10:00" in capsys.readouterr().err


def test_a_value_cannot_control_the_terminal(stored: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["pipeline", "sql", r"select e'a\x1b[31m\nb' as text", "-w", stored])

    assert r"a\x1b[31m\nb" in capsys.readouterr().out.splitlines()


def test_rows_are_printed_as_csv(stored: str, capsys: pytest.CaptureFixture[str]) -> None:
    query = "select run, day, [1, 2] as list, true as yes, null as nothing from runs where run = 'new'"

    assert main(["pipeline", "sql", query, "-w", stored, "--format", "csv"]) == 0

    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert rows == [{"run": "new", "day": NOW.date().isoformat(), "list": "[1, 2]", "yes": "true", "nothing": ""}]


def test_rows_are_printed_as_json(stored: str, capsys: pytest.CaptureFixture[str]) -> None:
    query = "select run, {'a': [1]} as nested, null as nothing from runs order by run"

    assert main(["pipeline", "sql", query, "-w", stored, "--format", "json"]) == 0

    assert json.loads(capsys.readouterr().out) == [
        {"run": "new", "nested": {"a": [1]}, "nothing": None},
        {"run": "old", "nested": {"a": [1]}, "nothing": None},
    ]


@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_no_rows_are_printed_too(stored: str, capsys: pytest.CaptureFixture[str], form: str) -> None:
    assert main(["pipeline", "sql", "select * from runs where false", "-w", stored, "--format", form]) == 0
    assert capsys.readouterr().out


def test_a_wrong_query_is_an_error_of_one_line(stored: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "sql", "select * from copeis", "-w", stored]) == 2

    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert 'Did you mean "copies"' in error


def test_expired_runs_are_gone_and_named_if_their_traces_come_again(
    warehouse: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "expire", "--keep", "90d", "-w", warehouse]) == 0
    assert capsys.readouterr().out == "1 run expired; `vacuum` removes their files a day later\n"
    copy = tmp_path / "copy.jsonl"
    (tmp_path / "traces" / "old.jsonl").rename(copy)

    assert main(["pipeline", "update", str(copy), "-w", warehouse]) == 0

    out = capsys.readouterr().out
    assert "expired old: it began on " in out
    assert "1 files ingested, 0 refused, 0 unchanged" in out
    main(["pipeline", "sql", "select run from runs", "-w", warehouse, "--format", "csv"])
    assert capsys.readouterr().out == "run\nnew\n"


def test_updates_let_runs_expire_from_always_until_never(
    warehouse: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "expire", "--keep", "20w", "--always", "-w", warehouse]) == 0
    assert capsys.readouterr().out == "each update keeps the runs of the last 140 days\n0 runs expired\n"
    assert main(["pipeline", "expire", "-w", warehouse]) == 0
    assert capsys.readouterr().out == "0 runs expired\n"

    assert main(["pipeline", "expire", "--never", "-w", warehouse]) == 0

    capsys.readouterr()
    assert main(["pipeline", "expire", "-w", warehouse]) == 2
    assert "expire needs --keep PERIOD" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "reason"),
    [(["--keep", "90"], "'90' is not a period"), (["--keep", "9d", "--never"], "--keep and --never contradict")],
)
def test_wrong_options_are_named(
    stored: str, capsys: pytest.CaptureFixture[str], options: list[str], reason: str
) -> None:
    assert main(["pipeline", "expire", "-w", stored, *options]) == 2
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize("step", [["sql", "select 1"], ["expire", "--keep", "9d"]])
def test_a_place_without_a_warehouse_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], step: list[str]
) -> None:
    assert main(["pipeline", *step, "-w", str(tmp_path / "absent")]) == 2
    assert "is not a warehouse" in capsys.readouterr().err


def test_a_warehouse_at_an_unknown_kind_of_place_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "sql", "select 1", "-w", "s3a://bucket/warehouse"]) == 2
    assert "write s3:// instead" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("modules", "arguments", "advice"),
    [
        (
            ["duckdb"],
            ["sql", "select 1", "-w", "{}"],
            "SQL needs DuckDB, which is not installed: pip install 'leveret[sql]'",
        ),
    ],
)
def test_a_missing_extra_is_named(
    stored: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    modules: list[str],
    arguments: list[str],
    advice: str,
) -> None:
    for name in modules:
        monkeypatch.setitem(sys.modules, name, None)

    assert main(["pipeline", *(each.format(stored) for each in arguments)]) == 2

    assert advice in capsys.readouterr().err
