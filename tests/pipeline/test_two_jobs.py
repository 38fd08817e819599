"""Two processes that ingest into one warehouse at the same time, in a folder and on an S3 server: nothing is lost, and
nothing counts twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from leveret.pipeline import compact, ingest, update
from leveret.pipeline.warehouse.tables import read_table
from leveret.pipeline.warehouse.warehouse import Warehouse
from tests.pipeline.races import run
from tests.pipeline.traces import header, lives, write

ROUNDS = 3


@pytest.fixture(params=["folder", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    found: str = str(tmp_path / "warehouse") if request.param == "folder" else request.getfixturevalue("s3")
    return found


def work(barrier: Any, number: int, url: str, folder: str) -> None:
    """Ingest files of one's own and files that both have, in turn with updates, one of which compacts."""
    warehouse = Warehouse(url)
    for each in range(ROUNDS):
        barrier.wait()
        own, shared = Path(folder, f"own-{number}-{each}.jsonl"), Path(folder, f"shared-{each}.jsonl")
        ingest(warehouse, [own, shared], processes=1)
        update(warehouse, processes=1)


def test_two_jobs_lose_nothing_and_count_nothing_twice(url: str, tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    names = [
        *(f"own-{job}-{each}" for job in (0, 1) for each in range(ROUNDS)),
        *(f"shared-{n}" for n in range(ROUNDS)),
    ]
    for name in names:
        write(traces / f"{name}.jsonl", [header(name), *lives(5)])

    run(work, 2, url, str(traces))

    warehouse = Warehouse(url)
    assert update(warehouse, processes=1) == []
    assert Counter(read_table(warehouse, "copies")["run"].to_pylist()) == dict.fromkeys(names, 5)
    assert Counter(read_table(warehouse, "events")["run"].to_pylist()) == dict.fromkeys(names, 22)
    assert {run.events for run in warehouse.state().runs.values()} == {22}
    assert compact(warehouse, processes=1) > 0
    assert Counter(read_table(warehouse, "copies")["run"].to_pylist()) == dict.fromkeys(names, 5)
