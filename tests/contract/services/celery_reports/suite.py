"""The tests of the service celery_reports."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import reports
from pytest_leveret.celery import running_worker


@pytest.fixture(autouse=True)
def broker(leveret_session) -> Iterator[object]:
    reports.sent.clear()
    with running_worker(reports.app):
        yield leveret_session


@pytest.mark.parametrize("rows", [None, [1, 2, 3]])
def test_a_report_is_computed_and_sent(leveret_session, rows: list[int] | None) -> None:
    reports.compute.delay("2024-05", to="ada@example.com", rows=rows)

    leveret_session.assert_acked("sending", timeout=10)
    leveret_session.wait_idle(timeout=10)
    assert reports.sent == [("ada@example.com", "2024-05")]


def test_a_report_is_sent_again(leveret_session) -> None:
    reports.send.delay("late@example.com", {"month": "2024-06", "total": 0, "format": "csv"})

    leveret_session.wait_idle(timeout=10)
    assert reports.sent == [("late@example.com", "2024-06")]
