"""Replays to services with the clients that people use."""

from __future__ import annotations

from pathlib import Path

import pytest

from .frameworks import SERVICES, outcomes_of, record

COUNT = 20


@pytest.mark.parametrize("client", SERVICES)
def test_replays_to_a_service_have_one_digest(client: str, tmp_path: Path) -> None:
    path = tmp_path / "orders.rec"
    record(path, COUNT, for_celery=client == "Celery")

    runs = [outcomes_of(path, SERVICES[client])[0] for _ in range(3)]

    assert [run.differences(runs[0]) for run in runs] == [[], [], []]
    assert len({outcomes.digest for outcomes in runs}) == 1
    assert "ended orders: rejected to dead" in runs[0].of(5)
    assert "ended orders: acked" in runs[0].of(8)
    assert "sent 'invoices': 18 times" in runs[0].of(0)
