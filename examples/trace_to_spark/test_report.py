"""A test that turns the traces of two examples into a page.

docs/how-to/pipeline.md shows the commands that do the same.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import gettempdir

import pytest

pytest.importorskip("pyspark", reason="needs PySpark: pip install 'leveret[spark-local]'")

from examples.trace_to_spark.story import tell

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(400)]


def test_a_recorded_run_becomes_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    tell()

    said = capsys.readouterr().out
    assert "passed" in said
    assert "jobs.retry" in said
    page = Path(gettempdir(), "leveret-report.html").read_text(encoding="utf-8")
    # A failed job is rejected into the queue in which it waits for its retry, and comes back from there.
    assert all(f'"from": "{source}"' in page for source in ("jobs", "jobs.retry"))
    assert all(f'"label": "{reason}"' in page for reason in ("rejected", "expired"))
