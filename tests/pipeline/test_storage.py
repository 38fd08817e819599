"""Storages: folders, and buckets of an S3 server in a process of its own."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leveret.pipeline.storage import Storage, open_storage
from tests.pipeline.races import create_side_by_side, refuse_links
from tests.systems import files_up_to, needs_fork


@pytest.fixture(params=["folder", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "folder":
        return open_storage(tmp_path / "a folder")
    return open_storage(request.getfixturevalue("s3"))


def test_what_is_written_can_be_read_and_replaced(storage: Storage) -> None:
    storage.write("events/a.parquet", b"first")
    storage.write("events/a.parquet", pa.py_buffer(b"second"))

    assert storage.read("events/a.parquet") == b"second"


def test_an_absent_object_is_a_file_not_found(storage: Storage) -> None:
    with pytest.raises(FileNotFoundError, match=r"events/a\.parquet"):
        storage.read("events/a.parquet")


def test_the_first_to_create_an_object_wins(storage: Storage) -> None:
    assert storage.create("log/1", b"first")
    assert not storage.create("log/1", b"second")
    assert storage.read("log/1") == b"first"


def test_a_listing_has_the_objects_below_a_folder_at_any_depth(storage: Storage) -> None:
    for path in ("log/1", "log/2", "logs", "events/r 1/b", "events/.draft", ".hidden/a"):
        storage.write(path, b"12345")

    assert [found.path for found in storage.list()] == ["events/r 1/b", "log/1", "log/2", "logs"]
    assert [(found.path, found.size_bytes) for found in storage.list("log")] == [("log/1", 5), ("log/2", 5)]
    assert list(storage.list("absent")) == []


def test_deleting_an_absent_object_is_fine(storage: Storage) -> None:
    storage.write("a", b"")
    storage.write("b", b"")

    storage.delete(["a", "absent"])

    assert [found.path for found in storage.list()] == ["b"]


@pytest.mark.parametrize("rows", [300, 300_000])
def test_a_parquet_file_is_read_without_reading_all_of_it(storage: Storage, rows: int) -> None:
    # Chance does not compress, so the large one has more bytes than are read at once.
    written = pa.table({"a": np.random.default_rng(7).random(rows)})
    buffer = pa.BufferOutputStream()
    pq.write_table(written, buffer, row_group_size=rows // 3)
    storage.write("events/a.parquet", buffer.getvalue())

    with pq.ParquetFile(storage.source("events/a.parquet")) as file:
        found = file.read_row_group(1)

    assert found.equals(written.slice(rows // 3, rows // 3))


def test_a_storage_opens_in_another_process_by_its_url_or_pickled(storage: Storage) -> None:
    storage.write("a", b"1")

    assert open_storage(storage.url).read("a") == b"1"
    assert pickle.loads(pickle.dumps(storage)).read("a") == b"1"


def test_of_two_processes_that_create_an_object_exactly_one_wins(storage: Storage) -> None:
    answers = create_side_by_side(storage.url, rounds=100)

    assert [sorted(answer) for answer in answers] == [[False, True]] * 100


def test_one_process_wins_also_where_there_are_no_hard_links(tmp_path: Path) -> None:
    answers = create_side_by_side(str(tmp_path), rounds=100, has_links=False)

    assert [sorted(answer) for answer in answers] == [[False, True]] * 100


@needs_fork
def test_a_killed_process_keeps_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locker = "import fcntl, os; fcntl.flock(open('.lock', 'ab'), fcntl.LOCK_EX); os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", locker], cwd=tmp_path, check=False).returncode == -9
    monkeypatch.setattr(os, "link", refuse_links)

    assert open_storage(tmp_path).create("a", b"")


def test_the_draft_of_a_killed_writer_is_swept_away_when_it_is_old(tmp_path: Path) -> None:
    young, old = tmp_path / ".1.draft", tmp_path / "log" / ".2.draft"
    old.parent.mkdir()
    for draft in (young, old):
        draft.write_bytes(b"cut o")
    os.utime(old, (1, 1))

    open_storage(tmp_path).sweep(older_than_s=3600)

    assert [draft.exists() for draft in (young, old)] == [True, False]


def test_a_folder_that_is_a_link_to_another_disk_is_listed(tmp_path: Path) -> None:
    storage = open_storage(tmp_path / "warehouse")
    storage.write("log/1", b"")
    (tmp_path / "large disk").mkdir()
    (tmp_path / "warehouse" / "events").symlink_to(tmp_path / "large disk", target_is_directory=True)
    storage.write("events/a.parquet", b"")

    assert [found.path for found in storage.list()] == ["events/a.parquet", "log/1"]


def test_a_folder_that_cannot_be_listed_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"")

    with pytest.raises(NotADirectoryError):
        list(open_storage(tmp_path).list("log"))


def test_an_object_that_does_not_fit_on_the_disk_is_named(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)

    with files_up_to(1000), pytest.raises(OSError, match=r"File too large: '.*events/a\.parquet'"):
        storage.write("events/a.parquet", b"1" * 2000)

    assert list(storage.list()) == []


def test_an_object_is_created_though_the_answer_is_lost(s3: str) -> None:
    storage = open_storage("s3://lossy/a")

    assert storage.create("log/1", b"first")
    assert not storage.create("log/1", b"second")
    assert storage.read("log/1") == b"first"


def test_a_server_that_overwrites_objects_is_refused(s3: str) -> None:
    storage = open_storage("s3://careless/a")

    with pytest.raises(OSError, match="ignores `If-None-Match"):
        storage.create("log/1", b"")


def test_a_bucket_that_does_not_exist_is_named(s3: str) -> None:
    storage = open_storage("s3://warehuoses/a")

    for act in (lambda: storage.read("a"), lambda: storage.create("a", b""), lambda: list(storage.list())):
        with pytest.raises(OSError, match="s3://warehuoses/a: the bucket does not exist") as raised:
            act()
        assert not isinstance(raised.value, FileNotFoundError)


def test_a_folder_is_a_path_or_a_file_url(tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    open_storage(folder).write("a", b"1")

    assert open_storage(str(folder)).read("a") == b"1"
    assert open_storage(folder.as_uri()).read("a") == b"1"


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
    ],
)
def test_another_kind_of_url_is_refused_with_advice(place: str | Path, advice: str) -> None:
    with pytest.raises(ValueError, match=advice):
        open_storage(place)
