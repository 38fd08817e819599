"""Where a warehouse keeps its objects: a local folder, or a bucket of an S3 server.

A storage has objects, which are bytes under a path such as `events/00000012-5f1e9c3a.parquet`. An object appears whole
or not at all, and the warehouse never changes one. `create` decides which of several writers made an object; all
agreement between processes rests on it. Another process opens the same storage by its `url`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from leveret.pipeline.storage.folder import LocalStorage
from leveret.pipeline.storage.objects import Storage, Stored

__all__ = ["Storage", "Stored", "open_storage"]

# A scheme has two letters or more: `C:` is a drive of Windows.
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(//?)")


def open_storage(place: str | Path) -> Storage:
    """Return the storage at a place: a folder, `file://` and a folder, or `s3://bucket/prefix`.

    A folder need not exist; a bucket must. Raises ValueError for any other kind of URL, and ModuleNotFoundError if the
    extra for it is not installed.
    """
    text = str(place)
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match else ""
    if not match:
        return LocalStorage(Path(text))
    if isinstance(place, Path) or match[2] != "//":
        raise ValueError(f"{text}: a URL has two slashes after {scheme}:, and is a str; a Path loses one of them")
    if scheme == "file":
        return LocalStorage(_folder_of(text))
    if scheme == "s3":
        from leveret.pipeline.storage.s3 import S3Storage

        return S3Storage(text)
    advice = "mount it as a folder, or use an S3 server"
    if scheme in ("s3a", "s3n"):
        advice = "write s3:// instead, also on Spark, because leveret reads and writes the objects itself"
    raise ValueError(
        f"{text}: a warehouse is kept in a folder or at s3://bucket/prefix, and not at {scheme}://; {advice}"
    )


def _folder_of(url: str) -> Path:
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost"):
        raise ValueError(f"{url}: names the host {parts.netloc!r}; a folder of this machine is file:///folder")
    folder = unquote(parts.path)
    # file:///C:/folder
    return Path(folder[1:] if re.match(r"/[A-Za-z]:", folder) else folder)
