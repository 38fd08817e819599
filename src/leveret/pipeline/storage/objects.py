"""What a warehouse needs of a place: objects under paths, which are listed, read, written, deleted and created once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


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
