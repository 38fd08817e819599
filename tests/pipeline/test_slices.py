"""A run that is too large for one task: its tables are those of the same run in one task."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leveret.pipeline import Warehouse, ingest, update
from leveret.pipeline.computing import work
from leveret.pipeline.computing.engines import ProcessEngine
from leveret.pipeline.warehouse import parts
from leveret.trace.jsonl import _PIECE_BYTES
from tests.pipeline import random_traces
from tests.pipeline.traces import header, write
from tests.pipeline.updates import rows

# Ids of a broker grow, and each test has a broker of its own.
_IDS = ("msg", "copy", "src_copy", "conn")


def large_run(seed: int, *, is_shared: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the events of many tests, each from a random trace; all of them share a broker if `is_shared`."""
    seq = 0
    for number, made in enumerate(random_traces.several(16, seed=seed)):
        for event in made.trace.events:
            seq += 1
            ids = {name: event[name] + number * 10_000 for name in _IDS if event.get(name) is not None}
            test = None if is_shared or event.get("test") is None else f"test_{number}_{event['test']}"
            yield {**event, **ids, "seq": seq, "test": test}


@pytest.fixture(params=[1, 2], ids=["one worker", "two workers"])
def traces(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / "traces"
    for worker in range(request.param):
        lines = list(large_run(seed=70 + worker))
        write(folder / f"r.gw{worker}.jsonl", [header("r", f"gw{worker}", commit="c"), *lines])
    return folder


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide runs of some hundred events."""
    monkeypatch.setattr(parts, "GROUP_ROWS", 200)
    monkeypatch.setattr("leveret.trace.jsonl._PIECE_BYTES", _PIECE_BYTES >> 9)
    monkeypatch.setattr(work, "EVENTS_A_TASK", 300)


def slices_of(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> int:
    """Bring the run up to date in slices, and return how many there were."""
    monkeypatch.setattr(work, "_EVENTS_OF_A_LARGE_RUN", 1000)
    carried_out: list[tuple[str, int]] = []
    carry_out = ProcessEngine.carry_out

    def counted(self: ProcessEngine, task: str, pieces: list[str]) -> Iterator[str]:
        carried_out.append((task, len(pieces)))
        return carry_out(self, task, pieces)

    monkeypatch.setattr(ProcessEngine, "carry_out", counted)
    update(warehouse, processes=1)
    return dict(carried_out)["update_slice"]


def test_a_run_in_slices_has_the_rows_of_the_whole_run(
    tmp_path: Path, traces: Path, small_groups: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, sliced = Warehouse(tmp_path / "whole"), Warehouse(tmp_path / "sliced")
    for warehouse in (whole, sliced):
        ingest(warehouse, [traces], processes=1)
    update(whole, processes=1)

    assert slices_of(sliced, monkeypatch) > 4

    expected = rows(whole)
    assert all(expected[name] for name in ("copies", "violations", "fault_effect", "run_lineage", "consumers"))
    assert rows(sliced) == expected


def test_a_run_without_a_place_to_cut_is_one_slice(
    tmp_path: Path, small_groups: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "r.jsonl", [header("r"), *large_run(seed=5, is_shared=True)])
    warehouse = Warehouse(tmp_path / "warehouse")
    ingest(warehouse, [tmp_path / "r.jsonl"], processes=1)

    assert slices_of(warehouse, monkeypatch) == 1
