"""From tests to a report with two commands, as a build would run them."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs PySpark: pip install 'leveret[spark-local]'")

from examples.trace_to_spark.story import record
from leveret.cli import main

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(400)]


def test_a_recorded_run_becomes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traces, page = tmp_path / "traces", tmp_path / "report.html"

    said = record(traces)
    code = main(["pipeline", "report", str(traces), "--output", str(page)])

    assert "passed" in said
    assert code == 0, capsys.readouterr().err
    text = page.read_text(encoding="utf-8")
    # A job that fails is rejected into the queue in which it waits, and comes back from there.
    assert "jobs to jobs.retry: rejected" in text
    assert "jobs.retry to jobs: expired" in text
