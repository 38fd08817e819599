"""A storage in a folder, whose objects are files.

A file is written under another name first, and linked to its path or renamed, so that it is complete when it appears.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from leveret.pipeline.storage.objects import Stored

if TYPE_CHECKING:
    import pyarrow as pa

_DRAFT: Final = ".draft"
# What the systems say that have no hard links: FAT, some network file systems, and mounted object stores.
_NO_LINKS: Final = {
    getattr(errno, name)
    for name in ("EPERM", "EACCES", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EMLINK", "EINVAL", "ENOTTY")
    if hasattr(errno, name)
}


class LocalStorage:
    """The objects in a folder of this machine, or of a network file system."""

    __slots__ = ("_folder",)

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder.absolute()

    def __repr__(self) -> str:
        return f"open_storage({self.url!r})"

    @property
    def url(self) -> str:
        """The absolute path of the folder."""
        return str(self._folder)

    def read(self, path: str) -> bytes:
        """Return an object; see Storage."""
        return (self._folder / path).read_bytes()

    def write(self, path: str, data: bytes | pa.Buffer) -> None:
        """Write a whole object; see Storage."""
        with self._draft(path, data) as draft:
            draft.replace(self._folder / path)

    def create(self, path: str, data: bytes) -> bool:
        """Write a whole object unless it exists; see Storage."""
        target = self._folder / path
        with self._draft(path, data) as draft:
            return _put_if_absent(draft, target)

    def list(self, folder: str = "") -> Iterator[Stored]:
        """Return all objects below a folder; see Storage."""
        files = ((path.relative_to(self._folder), path) for path in self._files(folder))
        for relative, path in sorted(files, key=lambda pair: pair[0].parts):
            with suppress(FileNotFoundError):  # Deleted meanwhile.
                if not any(part.startswith(".") for part in relative.parts):
                    status = path.stat()
                    yield Stored(relative.as_posix(), status.st_size, status.st_mtime)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects; see Storage."""
        for path in paths:
            (self._folder / path).unlink(missing_ok=True)

    def source(self, path: str) -> str:
        """Return the path of the file; see Storage."""
        return str(self._folder / path)

    def sweep(self, older_than_s: float) -> None:
        """Remove the drafts of killed writers; see Storage."""
        newest = time.time() - older_than_s
        for path in self._files():
            with suppress(FileNotFoundError):
                if path.name.startswith(".") and path.name.endswith(_DRAFT) and path.stat().st_mtime <= newest:
                    path.unlink()

    def _files(self, folder: str = "") -> Iterator[Path]:
        """Return all files below a folder, drafts too. A folder in it may be a link to one on another disk."""
        walk = os.walk(self._folder / folder, onerror=_refuse_unless_absent, followlinks=True)
        return (Path(inner, name) for inner, _, names in walk for name in names)

    @contextmanager
    def _draft(self, path: str, data: bytes | pa.Buffer) -> Iterator[Path]:
        """Write the bytes to the disk under a name beside their path, and remove that name in the end."""
        target = self._folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{token_hex(8)}{_DRAFT}")
        try:
            with open(draft, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            yield draft
        except OSError as error:
            # A full disk is reported without a name.
            error.filename = error.filename or str(target)
            raise
        finally:
            draft.unlink(missing_ok=True)


def _refuse_unless_absent(error: OSError) -> None:
    """Raise what prevents a folder from being listed, unless it does not exist: it may hold what counts."""
    if not isinstance(error, FileNotFoundError):
        raise error


def _put_if_absent(draft: Path, target: Path) -> bool:
    try:
        os.link(draft, target)
    except FileExistsError:
        # NFS may report that the name exists because the answer to its own first request was lost.
        return draft.samefile(target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _put_under_lock(draft, target)
    return True


def _put_under_lock(draft: Path, target: Path) -> bool:
    """Put a draft in its place without hard links. The system frees the lock of a process that is killed."""
    if os.name == "nt":
        try:
            # Windows refuses to rename a file to a name that exists.
            draft.rename(target)
        except FileExistsError:
            return False
        return True
    import fcntl

    with open(target.with_name(".lock"), "ab") as lock:
        # Each call opens the file anew, so flock also keeps out other threads.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.exists():
            return False
        draft.rename(target)
        return True
