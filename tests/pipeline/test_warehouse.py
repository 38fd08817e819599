"""The log of a warehouse: which parts count after which commits."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from leveret.errors import ConflictError
from leveret.pipeline.warehouse.log import VERSION, Contents
from leveret.pipeline.warehouse.warehouse import COMMITS, Warehouse


def stored(part: str, run: str, events: int = 0, problem: str | None = None) -> dict[str, Any]:
    file = {"size_bytes": 1, "modified_ns": 1, "worker": "main", "day": None, "is_truncated": False}
    return {"file": {**file, "run": run, "problem": problem}, "events": events, "segment": [part, 0, 1]}


def ingest(part: str, **runs: int) -> dict[str, Any]:
    return {
        "kind": "ingest",
        "files": {f"/{part}/{run}.jsonl": stored(part, run, events) for run, events in runs.items()},
    }


def update(part: str, **revisions: int) -> dict[str, Any]:
    return {"kind": "update", "parts": {part: {"tables": {"runs": 1}, "runs": revisions, "added": {}}}}


def after(*commits: dict[str, Any]) -> Contents:
    state = Contents()
    for number, commit in enumerate(commits, start=1):
        state.apply(number, {"v": VERSION, "at": "2026-05-01T10:00:00+00:00", **commit})
    return state


def test_a_run_is_stale_until_its_tables_cover_all_its_parts() -> None:
    assert after(ingest("a", r1=5)).stale(["runs"]) == ["r1"]
    assert after(ingest("a", r1=5), update("b", r1=1)).stale(["runs"]) == []
    assert after(ingest("a", r1=5, r2=5), update("b", r1=1, r2=1), ingest("c", r1=5)).stale(["runs"]) == ["r1"]


def test_an_answer_to_less_than_is_known_by_now_leaves_the_run_stale() -> None:
    state = after(ingest("a", r1=5), ingest("b", r1=5), update("c", r1=1))

    assert state.stale(["runs"]) == ["r1"]
    assert state.runs["r1"].answer == "c"


def test_a_table_that_is_new_makes_every_run_stale() -> None:
    assert after(ingest("a", r1=5), update("b", r1=1)).stale(["runs", "another"]) == ["r1"]


def test_older_rows_of_a_run_no_longer_count() -> None:
    state = after(ingest("a", r1=5, r2=5), update("b", r1=1, r2=1), ingest("c", r1=5), update("d", r1=3))

    assert {part: state.live_runs(part) for part in state.answers} == {"b": ["r2"], "d": ["r1"]}


def test_a_part_is_dropped_once_all_its_runs_have_newer_answers() -> None:
    state = after(ingest("a", r1=5), update("b", r1=1), update("c", r1=1))

    assert list(state.answers) == ["c"]


def test_merged_parts_are_one_and_nothing_becomes_stale() -> None:
    moved = {run: {"segments": [["m", 0, 1]], "events": 5} for run in ("r1", "r2")}
    merged = {"tables": {"runs": 2}, "runs": ["r1", "r2"], "added": {}}
    merge = {"kind": "compact", "segments": ["a", "c"], "runs": moved, "parts": {"n": merged}}

    state = after(ingest("a", r1=5), update("b", r1=1), ingest("c", r2=5), update("d", r2=3), merge)

    assert (list(state.event_parts()), list(state.answers), state.stale(["runs"])) == (["m"], ["n"], [])


def test_a_refused_file_that_comes_again_whole_is_no_longer_counted() -> None:
    refused = {"kind": "ingest", "files": {"/x.jsonl": stored("a", "", problem="it is empty")}}
    mended = {"kind": "ingest", "files": {"/x.jsonl": stored("b", "r1", 5)}}

    state = after(refused, update("u", **{"": 1}), mended)

    assert sorted(state.stale(["runs"])) == ["", "r1"]


def test_the_slower_of_two_writers_gets_a_conflict_error(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    warehouse.commit(ingest("a", r1=5), Contents(), is_exclusive=True)

    with pytest.raises(ConflictError, match="was changed by another process"):
        warehouse.commit(ingest("b", r1=5), Contents(), is_exclusive=True)

    assert list(warehouse.state().event_parts()) == ["a"]


def test_commits_of_many_threads_are_all_there(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)

    def commit(number: int) -> None:
        warehouse.commit(ingest(f"p{number}", **{f"r{number}": 1}), Contents())

    threads = [threading.Thread(target=commit, args=[number]) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert warehouse.state().number == 20
    assert sorted(warehouse.state().runs) == sorted(f"r{n}" for n in range(20))


def test_a_snapshot_equals_the_commits_it_replaces(tmp_path: Path) -> None:
    warehouse, state = Warehouse(tmp_path), Contents()
    for number in range(103):
        warehouse.commit(ingest(f"p{number}", **{f"r{number % 7}": 1}), state)

    warehouse.vacuum(older_than_s=0)

    assert sorted(path.name for path in (tmp_path / COMMITS).iterdir()) == [
        *("00000100.json", "00000100.state.json.gz", "00000101.json", "00000102.json", "00000103.json")
    ]
    assert warehouse.state() == state


def test_a_commit_to_a_state_whose_successors_are_in_a_snapshot_comes_after_them(tmp_path: Path) -> None:
    warehouse, state, old = Warehouse(tmp_path), Contents(), Contents()
    for number in range(40):
        warehouse.commit(ingest(f"p{number}", **{f"r{number}": 1}), state)
    warehouse.vacuum(older_than_s=0)

    with pytest.raises(ConflictError):
        warehouse.commit(ingest("late", late=1), old, is_exclusive=True)
    warehouse.commit(ingest("late", late=1), old)

    assert old.number == 41
    assert len(warehouse.state().runs) == 41


def test_the_log_gets_shorter_by_itself_once_commits_are_old(tmp_path: Path) -> None:
    warehouse, state = Warehouse(tmp_path), Contents()
    for number in range(20):
        warehouse.commit(ingest(f"p{number}", r=1), state)
    for path in (tmp_path / COMMITS).iterdir():
        os.utime(path, (1, 1))

    for number in range(20):
        warehouse.commit(ingest(f"q{number}", r=1), state)

    names = sorted(path.name for path in (tmp_path / COMMITS).iterdir())
    assert names == [f"{number:08d}.json" for number in range(21, 40)] + ["00000040.json", "00000040.state.json.gz"]
    assert warehouse.state() == state


def test_vacuum_removes_only_old_unreferenced_files(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    warehouse.commit(ingest("00000001-aa", r1=5), Contents())
    (tmp_path / "events").mkdir()
    for part in ("00000001-aa", "00000002-bb"):
        (tmp_path / "events" / f"{part}.parquet").write_text("rows")

    assert warehouse.vacuum() == (0, 0)
    assert warehouse.vacuum(older_than_s=0) == (1, 4)
    assert [path.name for path in (tmp_path / "events").iterdir()] == ["00000001-aa.parquet"]


@pytest.mark.parametrize("commit", [{"kind": "update", "batch": "00000001-aa"}, {"v": VERSION, "kind": "merge"}, {}])
def test_a_commit_of_another_version_is_refused(commit: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"commit 1 \(\w+\) was written by another version of leveret"):
        Contents().apply(1, commit)
