"""Two processes that ingest into one warehouse at the same time, in a folder and on an S3 server: nothing is lost, and
nothing counts twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leveret.pipeline import compact, ingest, update
from leveret.pipeline.warehouse.tables import read_table
from leveret.pipeline.warehouse.warehouse import Warehouse
from tests.pipeline.races import run
from tests.pipeline.traces import header, lives, write

ROUNDS = 3


NAMES = [
    *(f"own-{job}-{each}" for job in (0, 1) for each in range(ROUNDS)),
    *(f"shared-{each}" for each in range(ROUNDS)),
]


def work(barrier: Any, number: int, urls: list[str], folder: str) -> None:
    """Ingest files of one's own and files that both have, in turn with updates, one of which compacts."""
    for url in urls:
        warehouse = Warehouse(url)
        for each in range(ROUNDS):
            barrier.wait()
            own, shared = Path(folder, f"own-{number}-{each}.jsonl"), Path(folder, f"shared-{each}.jsonl")
            ingest(warehouse, [own, shared], processes=1)
            update(warehouse, processes=1)


@pytest.fixture(scope="module")
def urls(s3_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Return the warehouses that the same two processes have filled: to start them takes longer than their work."""
    folder = tmp_path_factory.mktemp("two-jobs")
    for name in NAMES:
        write(folder / "traces" / f"{name}.jsonl", [header(name), *lives(5)])
    urls = {"folder": str(folder / "warehouse"), "s3": "s3://warehouses/two-jobs/ü 100% b"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in s3_environment.items():
            patch.setenv(name, value)
        run(work, 2, list(urls.values()), str(folder / "traces"))
        yield urls


@pytest.mark.parametrize("storage", ["folder", "s3"])
def test_two_jobs_lose_nothing_and_count_nothing_twice(urls: dict[str, str], storage: str) -> None:
    warehouse = Warehouse(urls[storage])

    assert update(warehouse, processes=1) == []
    assert Counter(read_table(warehouse, "copies")["run"].to_pylist()) == dict.fromkeys(NAMES, 5)
    assert Counter(read_table(warehouse, "events")["run"].to_pylist()) == dict.fromkeys(NAMES, 22)
    assert {run.events for run in warehouse.state().runs.values()} == {22}
    assert compact(warehouse, processes=1) > 0
    assert Counter(read_table(warehouse, "copies")["run"].to_pylist()) == dict.fromkeys(NAMES, 5)
