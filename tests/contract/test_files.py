"""The file of a lock: what is read of a file from outside, what is advised, and how runs write it at once."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from pytest_leveret.contract.files import kept_from_others
from pytest_leveret.contract.lock import Lock, LockedMessage, LockError, MessageKey, read, update

from leveret.cli import main

TEXT = 'version = 2\n\n[[message]]\nexchange = ""\nrouting_key = "a"\npublishers = ["shop"]\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "messages.lock"
    path.write_text(TEXT)
    return path


def adding(file: Path, key: str) -> Lock:
    """Return the lock of a file with one more message."""
    lock = read(file)
    lock.messages[MessageKey("/", "", key, "")] = LockedMessage({"shop"})
    return lock


ADDING = """
import sys
from pathlib import Path
from pytest_leveret.contract.lock import update
from tests.contract.test_files import adding

path, start = Path(sys.argv[1]), int(sys.argv[2])
for number in range(start, start + 20):
    update(path, lambda: adding(path, f"key{number}"))
"""


def test_runs_that_write_at_once_lose_nothing(file: Path) -> None:
    runs = [subprocess.Popen([sys.executable, "-c", ADDING, str(file), start]) for start in ("100", "200")]

    assert [run.wait() for run in runs] == [0, 0]

    assert len(read(file).messages) == 41
    assert [each.name for each in file.parent.iterdir()] == ["messages.lock"]


KILLED = """
import os, signal, sys
from pathlib import Path
from pytest_leveret.contract.lock import update
from tests.contract.test_files import adding

path, step = Path(sys.argv[1]), int(sys.argv[2])
count = 0

def hook(event, arguments):
    # Whatever the process does with a file.
    global count
    if event in ("open", "os.rename", "os.remove", "fcntl.flock", "os.chmod") and str(path.parent) in repr(arguments):
        count += 1
        if count == step:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(hook)
update(path, lambda: adding(path, "b"))
print(count)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a signal of POSIX")
def test_a_process_that_is_killed_leaves_the_old_lock_or_the_new_one_and_holds_no_run_up(file: Path) -> None:
    old, new = read(file).text(), adding(file, "b").text()
    ends: set[str] = set()

    for step in range(1, 30):
        file.write_text(old)
        run = subprocess.run([sys.executable, "-c", KILLED, str(file), str(step)], check=False)
        left = file.read_text()
        ends.add(left)
        update(file, lambda: adding(file, "c"))
        assert len(read(file).messages) == (3 if left == new else 2)
        if run.returncode == 0:
            break

    assert step > 4
    assert ends == {old, new}


def test_a_lock_keeps_its_permissions_and_a_link_to_it(file: Path, tmp_path: Path) -> None:
    file.chmod(0o640)
    link = tmp_path / "linked.lock"
    link.symlink_to(file)

    update(link, lambda: adding(file, "b"))

    assert link.is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert len(read(file).messages) == 2


def test_a_lock_that_stays_as_it_is_is_not_written(file: Path) -> None:
    file.write_bytes(read(file).text().replace("\n", "\r\n").encode())
    before = file.read_bytes()

    update(file, lambda: read(file))

    assert file.read_bytes() == before


def test_a_file_that_another_process_has_left_locked_is_free(file: Path) -> None:
    with kept_from_others(file):
        pass
    file.with_name(".messages.lock.lock").touch()

    update(file, lambda: adding(file, "b"))

    assert len(read(file).messages) == 2


@pytest.mark.parametrize(
    ("text", "reason", "advice"),
    [
        (
            "<<<<<<< ours\n" + TEXT + "=======\n>>>>>>> theirs\n",
            "line 1 is a mark of a conflict",
            "git checkout --ours {file}",
        ),
        (TEXT + "<<<<<<< HEAD\n", "line 7 is a mark of a conflict", "--leveret-contract=write"),
        ("", "it is empty", "git restore {file}"),
        (" \n", "it is empty", "delete it and write it anew with `pytest --leveret-contract=write`"),
        ("version = 99\n", "version = 99, and this leveret reads version 2", "install the leveret that has written it"),
        ("version = 1\n", "version = 1, and this leveret reads version 2", "--leveret-contract=rewrite"),
        ("nonsense\n", "Expected '='", "git restore {file}"),
    ],
)
def test_a_file_that_is_no_lock_gets_the_advice_that_helps(file: Path, text: str, reason: str, advice: str) -> None:
    file.write_text(text)

    with pytest.raises(LockError) as refused:
        read(file)

    assert reason in str(refused.value)
    assert advice.format(file=file) in str(refused.value)
    keeps = "rewrite" not in str(refused.value)
    assert keeps == (("conflict" in reason) or ("empty" in reason) or "99" in reason)


def test_a_byte_order_mark_is_no_part_of_the_text(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf" + TEXT.encode())

    assert read(file).text() == read(file).folded().text()
    assert len(read(file).messages) == 1


HOSTILE = {
    "arrays in one another": TEXT + "x = " + "[" * 5000 + "]" * 5000,
    "tables in one another": TEXT + "x = " + "{a = " * 5000,
    "a key of many parts": TEXT + "a." * 200_000 + "b = 1",
    "a table of many parts": TEXT + "[" + "a." * 100_000 + "b]",
    "fields in one another": TEXT
    + "[message.body]\n'$' = 'object'\n"
    + "\n".join(f"'{'.'.join('a' * depth)}' = 'object'" for depth in range(1, 300)),
    "a field of many types": TEXT + "[message.body]\n'$' = 'object" + " | (x" * 300_000 + "'",
    "too large": TEXT + "#" * 16_000_000,
    "an exchange that is a number": TEXT.replace('exchange = ""', "exchange = 5"),
    "headers that are none": TEXT + "headers_sent = 5\n",
    "no text": b"\xff\xfe" + TEXT.encode("utf-16-le"),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_lock_from_outside_is_refused_in_one_line(
    file: Path, capsys: pytest.CaptureFixture[str], text: str | bytes
) -> None:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())

    assert main(["contract", "check", str(file)]) == 2

    error = capsys.readouterr().err
    assert "messages.lock is no lock: " in error
    assert error.count("\n") == 1
    assert len(error) < 1000


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="files of POSIX")
@pytest.mark.parametrize("name", ["pipe.lock", "endless.lock"])
def test_what_is_no_regular_file_is_not_opened(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    os.mkfifo(tmp_path / "pipe.lock")
    (tmp_path / "endless.lock").symlink_to("/dev/zero")

    assert main(["contract", "check", str(tmp_path / name)]) == 2

    assert f"{name} is no lock: it is no regular file" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="pipes of a shell")
def test_a_lock_may_come_from_a_pipe_of_the_shell(capsys: pytest.CaptureFixture[str]) -> None:
    reader, writer = os.pipe()
    os.write(writer, TEXT.encode())
    os.close(writer)

    assert main(["contract", "check", f"/dev/fd/{reader}"]) == 0

    os.close(reader)
    assert "'a', which shop sends" in capsys.readouterr().out


def test_a_folder_that_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(FileNotFoundError) as refused:
        update(tmp_path / "no" / "messages.lock", Lock)

    assert refused.value.filename == str(tmp_path / "no" / "messages.lock")
    assert refused.value.strerror == "its folder does not exist; create it, or correct the path"
