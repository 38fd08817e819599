"""A storage in a bucket of Amazon S3, or of another server that speaks its protocol.

Requests go through obstore. `create` is a put with `If-None-Match: *`, which S3 refuses if the object exists already.
Each put carries a token, because the first answer may get lost: obstore then asks again, and finds its own object.
Some older servers ignore the header, so that a commit would overwrite another; a check refuses these servers.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from operator import methodcaller
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from leveret.pipeline.storage.objects import Stored

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

INSTALL: Final = "pip install 'leveret[s3]'"

_TOKEN: Final = "leveret-token"
# An object that exists to show that the server does not overwrite it.
_CHECK: Final = ".put-if-absent"
_ATTEMPTS: Final = 5
# Reading so much takes hardly longer than asking for it.
_SMALL_BYTES: Final = 2 << 20
_LONGEST_RETRY: Final = timedelta(seconds=30)
# S3 deletes at most this many objects in a request.
_DELETED_AT_ONCE: Final = 1000


class S3Storage:
    """The objects under a prefix of a bucket.

    Endpoint, region and credentials come from the environment: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, AWS_REGION or
    AWS_DEFAULT_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or else the role of the machine
    or container. If a process has used one, processes that it forks cannot use any: start them by spawn or forkserver.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if not parts.netloc or parts.query or parts.fragment:
            raise ValueError(f"{url} is not of the form s3://bucket/prefix")
        prefix = "/".join(part for part in parts.path.split("/") if part)
        self.url: Final = f"s3://{parts.netloc}/{prefix}".rstrip("/")
        self._store: Final = _store(parts.netloc, prefix)
        self._is_checked = False

    def __repr__(self) -> str:
        return f"open_storage({self.url!r})"

    def __reduce__(self) -> tuple[type[S3Storage], tuple[str]]:
        return S3Storage, (self.url,)

    def read(self, path: str) -> bytes:
        """Return an object; see Storage."""
        return self._call(path, lambda store: bytes(store.get(path).bytes()))

    def write(self, path: str, data: bytes | pa.Buffer) -> None:
        """Write a whole object; see Storage."""
        self._call(path, lambda store: store.put(path, memoryview(data).cast("B")))

    def create(self, path: str, data: bytes) -> bool:
        """Write a whole object unless it exists; see Storage."""
        self._check_once()
        return self._create(path, data)

    def list(self, folder: str = "") -> Iterator[Stored]:
        """Return all objects below a folder; see Storage."""
        listing = self._call(folder, lambda store: list(store.list(folder or None)))
        for chunk in listing:
            for entry in chunk:
                path = entry["path"]
                if not path.startswith(".") and "/." not in path:
                    yield Stored(path, entry["size"], entry["last_modified"].timestamp())

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects; see Storage."""
        waiting = list(paths)
        for first in range(0, len(waiting), _DELETED_AT_ONCE):
            some = waiting[first : first + _DELETED_AT_ONCE]
            self._call(some[0], methodcaller("delete", some))

    def source(self, path: str) -> pa.NativeFile:
        """Return a file in memory if the object is small, and else one that reads the ranges it is asked for."""
        import pyarrow as pa

        def get(store: Any) -> tuple[int, bytes | None]:
            answer = store.get(path)
            size_bytes = answer.meta["size"]
            return size_bytes, bytes(answer.bytes()) if size_bytes <= _SMALL_BYTES else None

        size_bytes, content = self._call(path, get)
        if content is not None:
            return pa.BufferReader(content)
        return pa.PythonFile(_Ranges(self, path, size_bytes), mode="r")

    def read_range(self, path: str, start: int, size_bytes: int) -> bytes:
        """Return a part of an object, which must exist."""
        return self._call(path, lambda store: bytes(store.get_range(path, start=start, length=size_bytes)))

    def sweep(self, older_than_s: float) -> None:
        """Do nothing: a put that was cut off leaves no object; see Storage."""

    def _create(self, path: str, data: bytes) -> bool:
        from obstore.exceptions import AlreadyExistsError

        token = token_hex(8)

        def put(store: Any) -> bool:
            for _ in range(_ATTEMPTS):
                try:
                    store.put(path, data, mode="create", attributes={_TOKEN: token})
                except AlreadyExistsError:
                    try:
                        return bool(store.get(path).attributes.get(_TOKEN) == token)
                    except FileNotFoundError:
                        # S3 answers 409 to puts of the same object at the same time. The others failed too.
                        continue
                return True
            raise OSError(f"{self.url}/{path}: another process deletes what this one creates; try again")

        return self._call(path, put)

    def _check_once(self) -> None:
        """Raise OSError if the server would overwrite an object in spite of the condition."""
        if self._is_checked:
            return
        if self._create(_CHECK, b"") and self._create(_CHECK, b""):
            raise OSError(
                f"{self.url}: this server ignores `If-None-Match: *`, so two jobs could overwrite each other's "
                "commits; use one that supports conditional writes, such as Amazon S3, or a folder"
            )
        self._is_checked = True

    def _call(self, path: str, act: Callable[[Any], T]) -> T:
        """Make requests, and raise an OSError of one line if they fail."""
        from obstore.exceptions import BaseError

        try:
            return act(self._store)
        except (BaseError, OSError) as error:
            raise self._failure(path, error) from None

    def _failure(self, path: str, error: Exception) -> OSError:
        text = str(error)
        code, message = (re.search(rf"<{tag}>([^<]*)</{tag}>", text) for tag in ("Code", "Message"))
        if code and code[1] == "NoSuchBucket":
            return OSError(f"{self.url}: the bucket does not exist; create it first, or correct the name")
        if isinstance(error, FileNotFoundError):
            return FileNotFoundError(f"{self.url}/{path} does not exist")
        reason = f"{code[1]}: {message[1]}" if code and message else text.split("\n", 1)[0]
        if "/latest/api/token" in reason:
            # The address at which a machine of Amazon's gets the credentials of its role.
            reason = "no credentials found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        kind = PermissionError if isinstance(error, PermissionError) else OSError
        return kind(f"{self.url}/{path}: {reason}")


class _Ranges(io.RawIOBase):
    """An object as a file: each read is one request, because Parquet readers ask for the ranges they need."""

    def __init__(self, storage: S3Storage, path: str, size_bytes: int) -> None:
        self._storage: Final = storage
        self._path: Final = path
        self._size_bytes: Final = size_bytes
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position, and return it."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size_bytes}[whence]
        self._position = start + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes: as many as asked for, or all up to the end."""
        left = max(0, self._size_bytes - self._position)
        count = left if size < 0 else min(size, left)
        data = self._storage.read_range(self._path, self._position, count) if count else b""
        self._position += len(data)
        return data


def _store(bucket: str, prefix: str) -> Any:
    try:
        from obstore.exceptions import BaseError
        from obstore.store import S3Store
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"s3://{bucket} needs obstore, which is not installed: {INSTALL}") from error
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    settings: dict[str, Any] = {"endpoint": endpoint} if endpoint else {}
    if endpoint and endpoint.startswith("http://"):
        settings["client_options"] = {"allow_http": True}
    retries: Any = {"max_retries": _ATTEMPTS, "retry_timeout": _LONGEST_RETRY}
    try:
        return S3Store(bucket, prefix=prefix or None, retry_config=retries, **settings)
    except BaseError as error:
        reason = str(error).split("\n", 1)[0]
        raise ValueError(f"s3://{bucket}: {reason}; check the AWS_* variables of the environment") from None
