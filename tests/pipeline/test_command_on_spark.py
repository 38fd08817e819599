"""The commands that use Spark, as a user types them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from leveret.cli import main
from tests.pipeline.traces import header, lives, write

WHOLE = lives(6)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_spark_computes_if_it_is_asked_to(
    spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for run in ("good", "more"):
        write(folder / "traces" / f"{run}.jsonl", [header(run), *WHOLE])
    assert main(["pipeline", "update", "traces", "-w", "warehouse"]) == 0
    capsys.readouterr()

    assert main(["pipeline", "update", "-w", "warehouse", "--all", "--engine", "spark"]) == 0

    printed = capsys.readouterr()
    assert (printed.out, printed.err) == (
        "2 runs brought up to date\n",
        "leveret: starting Spark\nleveret: computing tables\n",
    )


def test_the_doctor_starts_spark(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spark", "doctor"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"ok     Spark {spark.version} started and answered")
