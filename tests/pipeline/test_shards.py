"""Shards: CI jobs whose runs have one name. Each is there, and what comes twice counts once."""

from __future__ import annotations

import subprocess
import sys
from itertools import permutations
from pathlib import Path
from typing import Any, Final

import pytest

from leveret.cli import main
from leveret.pipeline import Warehouse, ingest, read_table, update
from tests.pipeline.traces import Line, header, lives, write
from tests.pipeline.updates import at_once, rows

FIRST: Final = "2026-05-01T10:00:00.000001+00:00"
SECOND: Final = "2026-05-01T10:00:00.000002+00:00"
TEST: Final = """
def test_{name}(leveret):
    leveret.declare_queue("{name}")
    leveret.publish("", "{name}", b"7")
"""


def shard(folder: Path, name: str, started: str, events: list[Line]) -> Path:
    return write(folder / f"{name}.jsonl.gz", [header("pipeline-4711", "gw0", started=started), *events])


def found_tests(warehouse: Warehouse) -> list[tuple[str, str]]:
    found = read_table(warehouse, "tests").to_pylist()
    return sorted((row["worker"], row["test"]) for row in found)


@pytest.mark.parametrize("order", list(permutations("abc")))
def test_files_of_one_worker_that_began_at_other_times_are_workers_of_their_own(
    tmp_path: Path, order: tuple[str, ...]
) -> None:
    files = {
        "a": shard(tmp_path, "a", FIRST, lives(3, test="test_a")),
        "b": shard(tmp_path, "b", SECOND, lives(5, test="test_b")),
        # A piece of the second one comes again.
        "c": shard(tmp_path, "c", SECOND, lives(5, test="test_b")[:9]),
    }
    warehouse = Warehouse(tmp_path / "warehouse")
    for name in order:
        ingest(warehouse, files[name], processes=1)
        update(warehouse, processes=1)

    assert found_tests(warehouse) == [("gw0", "test_a"), ("gw0#2", "test_b")]
    runs = read_table(warehouse, "runs").to_pylist()
    assert sorted((row["worker"], row["events"], row["files"], row["conflicts"]) for row in runs) == [
        ("gw0", len(lives(3)), 1, 0),
        ("gw0#2", len(lives(5)), 2, 0),
    ]
    assert rows(warehouse) == at_once(tmp_path, tmp_path / "batch")


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_a_conflict_is_counted_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], order: str) -> None:
    other = [{**event, "queue": "others"} if event["kind"] == "acked" else event for event in lives(4)]
    files = {"a": shard(tmp_path, "a", FIRST, lives(4)), "b": shard(tmp_path, "b", FIRST, other)}
    place = str(tmp_path / "warehouse")
    for name in order:
        assert main(["pipeline", "update", str(files[name]), "-w", place]) == 0

    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("conflict")]
    assert said == [
        f"conflict {files[order[-1]]}: another file says other things of 3 events of worker gw0 of run pipeline-4711, "
        "and one of both counts; give each job a run of its own"
    ]
    assert read_table(place, "runs")["conflicts"].to_pylist() == [3]
    assert rows(Warehouse(place)) == at_once(tmp_path, tmp_path / "batch")


def test_shards_of_real_jobs_are_all_in_the_tables(tmp_path: Path) -> None:
    jobs: list[subprocess.Popen[bytes]] = []
    for name in ("orders", "billing"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / f"test_{name}.py").write_text(TEST.format(name=name))
        options: list[Any] = ["-n", "1", "--testrunuid=pipeline-4711", f"--leveret-trace-dir={folder / 'traces'}"]
        jobs.append(subprocess.Popen([sys.executable, "-m", "pytest", "-q", *options, folder], cwd=folder))
    assert [job.wait() for job in jobs] == [0, 0]
    warehouse = Warehouse(tmp_path / "warehouse")

    ingest(warehouse, tmp_path, processes=1)
    update(warehouse, processes=1)

    assert {test.rpartition("::")[2] for _, test in found_tests(warehouse)} == {"test_orders", "test_billing"}
    assert {row["run"] for row in read_table(warehouse, "runs").to_pylist()} == {"pipeline-4711"}
