"""Where a warehouse keeps its objects: a local folder, or a bucket of an S3 server.

A storage has objects, which are bytes under a path such as `events/00000012-5f1e9c3a.parquet`. An object appears whole
or not at all, and the warehouse never changes one. `create` decides which of several writers made an object; all
agreement between processes rests on it. Another process opens the same storage by its `url`.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    import pyarrow as pa

# A scheme has two letters or more: `C:` is a drive of Windows.
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(//?)")
_DRAFT: Final = ".draft"
# What the systems say that have no hard links: FAT, some network file systems, and mounted object stores.
_NO_LINKS: Final = {
    getattr(errno, name)
    for name in ("EPERM", "EACCES", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EMLINK", "EINVAL", "ENOTTY")
    if hasattr(errno, name)
}


class Stored(NamedTuple):
    """An object: its path within the storage, its size, and when it was written (seconds since 1970)."""

    path: str
    size_bytes: int
    modified_s: float


class Storage(Protocol):
    """Objects under paths. Paths are relative, with "/" between their parts.

    Failures are OSErrors. Instances can be pickled, and threads may share one.
    """

    @property
    def url(self) -> str:
        """What `open_storage` needs to open the same storage, also in another process."""

    def read(self, path: str) -> bytes:
        """Return an object. Raises FileNotFoundError if it does not exist."""

    def write(self, path: str, data: bytes | pa.Buffer) -> None:
        """Write a whole object, replacing an older one. A reader never sees a part of it."""

    def create(self, path: str, data: bytes) -> bool:
        """Write a whole object unless the path exists; return whether this call wrote it.

        If several processes create the same path, exactly one gets True, also if others of them die meanwhile.
        """

    def list(self, folder: str = "") -> Iterator[Stored]:
        """Return all objects below a folder at any depth. Names that begin with a dot are left out, as are drafts."""

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects. Absent ones are fine."""

    def source(self, path: str) -> str | pa.NativeFile | BinaryIO:
        """Return what `pyarrow.parquet.ParquetFile` reads an object from, without reading all of it.

        Raises FileNotFoundError if it does not exist, now or when it is read.
        """

    def sweep(self, older_than_s: float) -> None:
        """Remove what killed writers left behind, if it is older than this many seconds."""


def open_storage(place: str | Path) -> Storage:
    """Return the storage at a place: a folder, `file://` and a folder, or `s3://bucket/prefix`.

    A folder need not exist; a bucket must. Raises ValueError for any other kind of URL, and ModuleNotFoundError if the
    extra for it is not installed.
    """
    text = str(place)
    found = _SCHEME.match(text)
    scheme = found[1].lower() if found else ""
    if not found:
        return LocalStorage(Path(text))
    if isinstance(place, Path) or found[2] != "//":
        raise ValueError(f"{text}: a URL has two slashes after {scheme}:, and is a str; a Path loses one of them")
    if scheme == "file":
        return LocalStorage(_folder_of(text))
    if scheme == "s3":
        from leveret.pipeline.storage_s3 import S3Storage

        return S3Storage(text)
    raise ValueError(
        f"{text}: a warehouse is kept in a folder or at s3://bucket/prefix, and not at {scheme}://; {_advice(scheme)}"
    )


def _advice(scheme: str) -> str:
    if scheme in ("s3a", "s3n"):
        return "write s3:// instead, also on Spark, because leveret reads and writes the objects itself"
    return "mount it as a folder, or use an S3 server"


def _folder_of(url: str) -> Path:
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost"):
        raise ValueError(f"{url}: names the host {parts.netloc!r}; a folder of this machine is file:///folder")
    folder = unquote(parts.path)
    # file:///C:/folder
    return Path(folder[1:] if re.match(r"/[A-Za-z]:", folder) else folder)


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
        place = self._folder / path
        with self._draft(path, data) as draft:
            return _put_if_absent(draft, place)

    def list(self, folder: str = "") -> Iterator[Stored]:
        """Return all objects below a folder; see Storage."""
        for entry in _files(self._folder / folder, hidden=False):
            with suppress(FileNotFoundError):  # Deleted meanwhile.
                status = entry.stat()
                yield Stored(Path(entry.path).relative_to(self._folder).as_posix(), status.st_size, status.st_mtime)

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
        for entry in _files(self._folder, hidden=True):
            with suppress(FileNotFoundError):
                if entry.name.startswith(".") and entry.name.endswith(_DRAFT) and entry.stat().st_mtime <= newest:
                    os.unlink(entry.path)

    @contextmanager
    def _draft(self, path: str, data: bytes | pa.Buffer) -> Iterator[Path]:
        """Write the bytes to the disk under a name beside their path, and remove that name in the end."""
        place = self._folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = place.with_name(f".{token_hex(8)}{_DRAFT}")
        try:
            with open(draft, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            yield draft
        finally:
            draft.unlink(missing_ok=True)


def _put_if_absent(draft: Path, place: Path) -> bool:
    try:
        os.link(draft, place)
    except FileExistsError:
        # NFS may report that the name exists because the answer to its own first request was lost.
        return draft.samefile(place)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _put_under_lock(draft, place)
    return True


def _put_under_lock(draft: Path, place: Path) -> bool:
    """Put a draft in its place without hard links. The system frees the lock of a process that is killed."""
    if os.name == "nt":
        try:
            # Windows refuses to rename a file to a name that exists.
            draft.rename(place)
        except FileExistsError:
            return False
        return True
    import fcntl

    with open(place.with_name(".lock"), "ab") as lock:
        # Each call opens the file anew, so flock also keeps out other threads.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if place.exists():
            return False
        draft.rename(place)
        return True


def _files(folder: Path, *, hidden: bool) -> Iterator[os.DirEntry[str]]:
    """Return the files below a folder, in the order of their names."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.name.startswith(".") and not hidden:
            continue
        if entry.is_dir():
            yield from _files(Path(entry.path), hidden=hidden)
        else:
            yield entry
