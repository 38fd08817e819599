"""Trace files: found in folders, and looked at before Spark reads them.

Looking says whose file it is, whether it is cut, and why it cannot be used if so. Of a plain file that takes its first
line and its last octet; a compressed one is read through, since nothing else tells that its end is missing.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from leveret.errors import NoTracesError
from leveret.trace.schema import VERSION

Progress = Callable[[str], None]

SUFFIXES: Final = (".jsonl", ".jsonl.gz", ".parquet")

# How the first line begins, and no other.
HEADER_START: Final = '{"leveret"'

# A header is a few hundred octets; a file without any line end is no trace.
_LONGEST_HEADER: Final = 1 << 20
_CHUNK: Final = 1 << 20
# What an event takes, about, by the end of the file's name.
_BYTES_AN_EVENT: Final = {".jsonl": 190, ".gz": 15, ".parquet": 10}
_NEEDED_COLUMNS: Final = ("day", "run", "worker", "seq", "kind")


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A trace file as it was when somebody looked at it."""

    path: str
    size_bytes: int
    modified_ns: int
    # The first line of a JSON Lines file; a Parquet file has none and names runs in its columns.
    header: dict[str, object] = field(default_factory=dict)
    is_truncated: bool = False
    # Why it is refused as a whole, if it is.
    problem: str | None = None

    @property
    def is_parquet(self) -> bool:
        """Whether it holds a table of events, not lines."""
        return self.path.endswith(".parquet")

    @property
    def run(self) -> str:
        """The run its header names; "" when it says of none."""
        return _text(self.header.get("run"))

    @property
    def worker(self) -> str:
        """The worker of pytest-xdist its header names; "" when it says of none."""
        return _text(self.header.get("worker"))

    @property
    def day(self) -> date | None:
        """The UTC date on which the run began."""
        try:
            started = datetime.fromisoformat(_text(self.header.get("started")))
        except ValueError:
            return None
        return (started if started.tzinfo else started.replace(tzinfo=UTC)).astimezone(UTC).date()


def find(places: Iterable[str | Path]) -> list[Path]:
    """The trace files in these folders, at any depth, and these files; each once, in order of name.

    In a folder, names that begin with "." or "_" are passed over: they are what somebody still writes.
    Raises NoTracesError for a place that does not exist and for a folder without any trace.
    """
    found: dict[Path, None] = {}
    for place in map(Path, places):
        path = place.absolute()
        if path.is_dir():
            inside = sorted(_inside(path))
            if not inside:
                raise NoTracesError(f"{place} holds no trace: no file that ends in {', '.join(SUFFIXES)}")
            found.update(dict.fromkeys(inside))
        elif path.exists():
            found[path] = None
        else:
            raise NoTracesError(f"{place} does not exist")
    return list(found)


def is_trace(path: Path, folder: Path) -> bool:
    """Whether a file with this name, at any depth of this folder, is taken for a trace."""
    parts = path.relative_to(folder).parts
    return path.name.endswith(SUFFIXES) and not any(part.startswith((".", "_")) for part in parts)


def guessed_events(path: str, size_bytes: int) -> float:
    """About how many events a file of that size holds."""
    sizes = [size for end, size in _BYTES_AN_EVENT.items() if path.endswith(end)]
    return size_bytes / (sizes[0] if sizes else _BYTES_AN_EVENT[".jsonl"])


def inspect_all(paths: Sequence[Path], progress: Progress = lambda text: None) -> list[TraceFile]:
    """`inspect` each, several at once: what takes time is decompression, which lets other threads run."""
    with ThreadPoolExecutor() as pool:
        files = []
        for number, file in enumerate(pool.map(inspect, paths), start=1):
            files.append(file)
            if number % 500 == 0:
                progress(f"looked at {number} of {len(paths)} files")
    return files


def inspect(path: Path) -> TraceFile:
    """What can be said of this file without reading its events. Never raises for what it holds."""
    status = path.stat()
    look = _look_at_parquet if path.name.endswith(".parquet") else _look_at_lines
    try:
        header, is_truncated, problem = look(path, status.st_size)
    except OSError as error:
        header, is_truncated, problem = {}, False, f"cannot be read: {error.strerror or error}"
    return TraceFile(str(path), status.st_size, status.st_mtime_ns, header, is_truncated, problem)


_Look = tuple[dict[str, object], bool, str | None]


def _look_at_lines(path: Path, size_bytes: int) -> _Look:
    if path.name.startswith((".", "_")):
        return {}, False, "Spark passes over names that begin with '.' or '_'; rename it"
    if size_bytes == 0:
        return {}, True, "it is empty"
    is_compressed = path.name.endswith(".gz")
    try:
        with gzip.open(path) if is_compressed else open(path, "rb") as file:
            first = file.readline(_LONGEST_HEADER)
    except (EOFError, zlib.error):
        return {}, True, "its first line is cut"
    except gzip.BadGzipFile:
        return {}, False, "it is not compressed by gzip, as its name says"
    header = _header(first)
    if header is None:
        is_cut = not first.endswith(b"\n") and len(first) < _LONGEST_HEADER
        return {}, is_cut, "its first line is cut" if is_cut else "its first line is no header of a leveret trace"
    if header.get("v") != VERSION:
        return header, False, _other_version(header.get("v"))
    if not (_text(header.get("run")) and isinstance(header.get("worker"), str)):
        return {}, False, "its header names no run and worker"
    return header, _is_cut_gzip(path) if is_compressed else _is_cut(path), None


def _look_at_parquet(path: Path, size_bytes: int) -> _Look:
    import pyarrow.parquet
    from pyarrow import ArrowInvalid

    if size_bytes == 0:
        return {}, True, "it is empty"
    try:
        names = pyarrow.parquet.read_schema(path).names
    except ArrowInvalid:
        return {}, False, "it is no Parquet file, or its end is missing"
    missing = [name for name in _NEEDED_COLUMNS if name not in names]
    return {}, False, f"it holds no events: no column {', '.join(missing)}" if missing else None


def _header(line: bytes) -> dict[str, object] | None:
    if not line.startswith(HEADER_START.encode()):
        return None
    try:
        header = json.loads(line)
    except ValueError:
        return None
    return header if isinstance(header, dict) and header.get("leveret") == "trace" else None


def _other_version(version: object) -> str:
    return (
        f"it has version {version} of the trace format, and this leveret reads version {VERSION}; use the "
        f"leveret that wrote it, or a newer one"
    )


def _is_cut(path: Path) -> bool:
    with open(path, "rb") as file:
        file.seek(-1, 2)
        return file.read(1) != b"\n"


def _is_cut_gzip(path: Path) -> bool:
    last = b"\n"
    try:
        with gzip.open(path) as file:
            while chunk := file.read(_CHUNK):
                last = chunk[-1:]
    except (EOFError, OSError, zlib.error):
        return True
    return last != b"\n"


def _inside(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if is_trace(path, folder) and path.is_file():
            yield path


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
