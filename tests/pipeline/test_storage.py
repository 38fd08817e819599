"""Where a warehouse can be: folders, and buckets of an S3 server in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from leveret.pipeline import Warehouse, ingest, read_table, update
from tests.pipeline.traces import header, lives, write
from tests.systems import files_up_to


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write(tmp_path / "a.jsonl", [header("a"), *lives(5)])


def test_a_warehouse_in_a_bucket_has_the_rows_of_one_in_a_folder(s3: str, trace: Path, tmp_path: Path) -> None:
    places = [Warehouse(s3), Warehouse(tmp_path / "warehouse")]

    for each in places:
        ingest(each, trace, processes=2)
        update(each, processes=2)

    for table in ("events", "runs", "copies", "queue_stats", "coverage"):
        found, expected = (read_table(each, table).to_pylist() for each in places)
        assert found == expected


def test_a_second_process_finds_the_warehouse_by_its_url(s3: str, trace: Path) -> None:
    ingest(s3, trace)

    assert list(Warehouse(Warehouse(s3).url).state().runs) == ["a"]


def test_a_bucket_that_does_not_exist_is_named(s3: str, trace: Path) -> None:
    for act in (lambda: ingest("s3://warehuoses/a", trace), lambda: read_table("s3://warehuoses/a", "runs")):
        with pytest.raises(OSError, match="the bucket warehuoses does not exist: create it first"):
            act()


def test_a_commit_counts_once_though_the_first_answer_is_lost(s3: str, trace: Path) -> None:
    ingest("s3://lossy/a", trace)
    update("s3://lossy/a")

    assert len(read_table("s3://lossy/a", "copies")) == 5


def test_a_disk_that_is_full_is_an_error_and_the_next_update_mends_it(trace: Path, tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    ingest(warehouse, trace, processes=1)

    with (
        files_up_to(1000),
        pytest.raises(OSError, match=r"warehouse/\w+/\w+\.parquet cannot be written: .*File too large"),
    ):
        update(warehouse, processes=1)

    assert len(read_table(warehouse, "copies")) == 0
    assert update(warehouse, processes=1) == ["a"]
    assert len(read_table(warehouse, "copies")) == 5


def test_a_table_whose_folder_is_a_link_to_another_disk_is_read(trace: Path, tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    (tmp_path / "large disk").mkdir()
    (tmp_path / "warehouse").mkdir()
    (tmp_path / "warehouse" / "events").symlink_to(tmp_path / "large disk", target_is_directory=True)

    ingest(warehouse, trace)

    assert len(read_table(warehouse, "events")) == 22


def test_a_folder_is_a_path_or_a_file_url(trace: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a 100% [b] ü"
    ingest(folder, trace)

    assert list(Warehouse(str(folder)).state().runs) == ["a"]
    assert list(Warehouse(folder.as_uri()).state().runs) == ["a"]


@pytest.mark.parametrize(
    ("place", "advice"),
    [
        ("s3a://bucket/warehouse", "write s3:// instead"),
        ("hdfs://host:8020/warehouse", "mount it as a folder"),
        ("gs://bucket/warehouse", "mount it as a folder"),
        ("s3://", "not of the form s3://bucket/prefix"),
        ("s3:/bucket", "two slashes"),
        (Path("s3://bucket/warehouse"), "two slashes"),
        ("file://elsewhere/folder", "names the host 'elsewhere'"),
        ("/tmp/a%41b", "cannot use a folder with %41 in its path"),
    ],
)
def test_another_kind_of_url_is_refused_with_advice(place: str | Path, advice: str) -> None:
    with pytest.raises(ValueError, match=advice):
        Warehouse(place)
