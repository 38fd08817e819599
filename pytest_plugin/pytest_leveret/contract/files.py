"""The files of a contract: they are read within bounds, and written so that no run loses what another has written."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

SIZE_MAX: Final = 16_000_000
# Pipes that a shell has opened, as in `leveret contract diff <(git show main:messages.lock) messages.lock`.
_OF_SHELL: Final = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
# How often to look whether another run still writes the same file, and how long to wait between.
_LOOKS: Final = 1000
_PAUSE_S: Final = 0.01


def text_of(path: Path) -> str:
    """Return the text of a file, with the line ends of Unix.

    Raises ValueError if it is no file of text or too large, OSError if it cannot be read.
    """
    # Another pipe may never open, and a device may never end.
    if not stat.S_ISREG(path.stat().st_mode) and not str(path).startswith(_OF_SHELL):
        raise ValueError("it is no regular file")
    with path.open("rb") as file:
        data = file.read(SIZE_MAX + 1)
    if len(data) > SIZE_MAX:
        raise ValueError(f"it is larger than {SIZE_MAX // 1_000_000} MB")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is no text in UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8") from None


@contextmanager
def kept_from_others(path: Path) -> Iterator[None]:
    """Keep other runs from writing a file, by a lock file beside it that goes with the block.

    The system frees the lock of a process that ends, however it ends. Raises OSError if another run keeps the lock.
    """
    name = path.with_name(f".{path.name}.lock")
    while True:
        with name.open("ab") as file:
            _take(file, path)
            # The run before may have deleted the file that this one had opened.
            if not _is_at(file, name):
                continue
            try:
                yield
            finally:
                # Windows does not delete what is open.
                with suppress(OSError):
                    name.unlink()
            return


def replace_text(path: Path, text: str) -> None:
    """Write a file in one step: a process that is killed leaves the old text or the new one. Keeps its permissions."""
    draft = path.with_name(f".{path.name}.new")
    try:
        with draft.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            shutil.copymode(path, draft)
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise


def _take(file: IO[bytes], path: Path) -> None:
    for _ in range(_LOOKS):
        if _is_taken(file):
            return
        threading.Event().wait(_PAUSE_S)
    raise TimeoutError(errno.ETIMEDOUT, f"another run has been writing it for {_LOOKS * _PAUSE_S:.0f} s", str(path))


def _is_taken(file: IO[bytes]) -> bool:
    """Try to lock a file for this process, and return whether that was possible."""
    # Windows says so by a PermissionError.
    with suppress(BlockingIOError, PermissionError):
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _is_at(file: IO[bytes], name: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), name.stat())
    except FileNotFoundError:
        return False
