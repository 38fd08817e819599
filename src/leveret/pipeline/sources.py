"""Trace files: finding them in folders, and inspecting them before they are read.

An inspection reads the beginning of a file. It finds its run and worker, and why the file cannot be used if so.
"""

from __future__ import annotations

import gzip
import json
import os
import stat
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from leveret.errors import NoTracesError
from leveret.trace.jsonl import HEADER_START, as_text
from leveret.trace.schema import VERSION

SUFFIXES: Final = (".jsonl", ".jsonl.gz")

# A header has a few hundred bytes. A file whose first line is longer than this is not a trace.
_LONGEST_HEADER: Final = 1 << 20
# The approximate size of an event, by the suffix of the file.
_BYTES_AN_EVENT: Final = {".jsonl": 190, ".gz": 15}


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A trace file as it was when it was inspected."""

    path: str
    size_bytes: int
    modified_ns: int
    # The first line.
    header: dict[str, object] = field(default_factory=dict)
    is_truncated: bool = False
    # Why the file is refused; None if it can be used.
    problem: str | None = None

    @property
    def run(self) -> str:
        """The run that the header names, or "" if it names none."""
        return _text(self.header.get("run"))

    @property
    def worker(self) -> str:
        """The worker that the header names, or "" if it names none."""
        return _text(self.header.get("worker"))

    @property
    def day(self) -> date | None:
        """The UTC date on which the run began, or None if the header does not say."""
        try:
            started = datetime.fromisoformat(_text(self.header.get("started")))
            return (started if started.tzinfo else started.replace(tzinfo=UTC)).astimezone(UTC).date()
        except (OverflowError, ValueError):
            return None


def find(places: Iterable[str | Path]) -> list[Path]:
    """Return the trace files in these folders, at any depth, and these files; each once, sorted by name in a folder.

    In a folder, names are skipped that begin with "." or "_", because such files are
    still being written. Raises NoTracesError if a place does not exist or a folder has no trace.
    """
    paths: dict[Path, None] = {}
    for place in map(Path, places):
        path = place.absolute()
        if path.is_dir():
            inside = sorted(_inside(path))
            if not inside:
                raise NoTracesError(
                    f"{place} holds no trace: no file in it ends in {', '.join(SUFFIXES)}; record one with "
                    "pytest --leveret-trace-dir=DIR"
                )
            paths.update(dict.fromkeys(inside))
        elif path.exists():
            paths[path] = None
        else:
            raise NoTracesError(f"{place} does not exist; name a folder of traces, or a trace file")
    return list(paths)


def is_trace(path: Path, folder: Path) -> bool:
    """Return whether a file in this folder, at any depth, is a trace, judged by its name."""
    parts = path.relative_to(folder).parts
    return path.name.endswith(SUFFIXES) and not any(part.startswith((".", "_")) for part in parts)


def guessed_events(path: str, size_bytes: int) -> float:
    """Estimate the number of events in a file, from its name and size."""
    sizes = [size for end, size in _BYTES_AN_EVENT.items() if path.endswith(end)]
    return size_bytes / (sizes[0] if sizes else _BYTES_AN_EVENT[".jsonl"])


def inspect(path: Path) -> TraceFile:
    """Inspect the beginning of a file. A problem of its content goes into the result; nothing is raised.

    Whether a usable file is cut is left to its reader.
    """
    status = path.stat()
    try:
        str(path).encode()
        if stat.S_ISREG(status.st_mode):
            header, is_truncated, problem = _inspect_first_line(path, status.st_size)
        else:
            header, is_truncated, problem = {}, False, "it is not a regular file"
    except UnicodeEncodeError:
        header, is_truncated, problem = {}, False, "its name is not UTF-8; rename it"
    except OSError as error:
        header, is_truncated, problem = {}, False, f"cannot be read: {error.strerror or error}"
    return TraceFile(str(path), status.st_size, status.st_mtime_ns, header, is_truncated, problem)


# Header, whether it is cut, and the problem.
_Inspection = tuple[dict[str, object], bool, str | None]


def _inspect_first_line(path: Path, size_bytes: int) -> _Inspection:
    if path.name.startswith((".", "_")):
        return {}, False, "its name begins with '.' or '_', and Spark skips such files; rename it"
    if size_bytes == 0:
        return {}, True, "it is empty"
    is_compressed = path.name.endswith(".gz")
    try:
        with gzip.open(path) if is_compressed else open(path, "rb") as file:
            first = file.readline(_LONGEST_HEADER)
    except (EOFError, zlib.error):
        return {}, True, "its first line is cut off"
    except gzip.BadGzipFile:
        return {}, False, "it ends in .gz but is not compressed with gzip; rename it or compress it"
    header = _header(first)
    if header is None:
        is_cut = not first.endswith(b"\n") and len(first) < _LONGEST_HEADER
        return (
            {},
            is_cut,
            "its first line is cut off" if is_cut else "its first line is not the header of a leveret trace",
        )
    if header.get("v") != VERSION:
        return header, False, _other_version(header.get("v"))
    if not (_is_utf8(header.get("run")) and header["run"] and _is_utf8(header.get("worker"))):
        return {}, False, "its header lacks the run or the worker"
    return header, False, None


def _is_utf8(value: object) -> bool:
    return isinstance(value, str) and as_text(value) == value


def _header(line: bytes) -> dict[str, object] | None:
    # Editors and shells of Windows begin a file with this mark.
    line = line.removeprefix(BOM_UTF8)
    if not line.startswith(HEADER_START.encode()):
        return None
    try:
        header = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return header if isinstance(header, dict) and header.get("leveret") == "trace" else None


def _other_version(version: object) -> str:
    return (
        f"it has version {version} of the trace format, but this leveret reads version {VERSION}; use the "
        f"leveret that wrote it, or a newer one"
    )


def _inside(folder: Path) -> Iterator[Path]:
    for inner, _, names in os.walk(folder):
        for name in names:
            path = Path(inner, name)
            if is_trace(path, folder) and path.is_file():
                yield path


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
