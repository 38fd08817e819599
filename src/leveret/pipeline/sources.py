"""Trace files: finding them in folders, and inspecting them before they are read.

An inspection reads the beginning of a file. It finds its run and worker, and why the file cannot be used if so.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leveret.errors import NoTracesError, UnreadableTraceError
from leveret.trace.jsonl import TraceLines, as_text
from leveret.trace.rows import body_hash

if TYPE_CHECKING:
    from leveret.pipeline.warehouse.state import FileState

SUFFIXES: Final = (".jsonl", ".jsonl.gz")

# The approximate size of an event, by the suffix of the file.
_BYTES_AN_EVENT: Final = {".jsonl": 190, ".gz": 15}


@dataclass(frozen=True, slots=True)
class InspectedFile:
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


def path_text(path: str) -> str:
    """Return a path as tables can hold it: bytes of its name that are not UTF-8 are escaped."""
    return path.encode(errors="backslashreplace").decode()


def guessed_events(path: str, size_bytes: int) -> float:
    """Estimate the number of events in a file, from its name and size."""
    sizes = [size for end, size in _BYTES_AN_EVENT.items() if path.endswith(end)]
    return size_bytes / (sizes[0] if sizes else _BYTES_AN_EVENT[".jsonl"])


def inspect(path: Path) -> InspectedFile:
    """Inspect the beginning of a file. A problem of its content goes into the result; nothing is raised.

    Whether a usable file is cut is left to its reader.
    """
    status = path.stat()
    content = TraceLines(path)
    header: dict[str, object] = {}
    try:
        str(path).encode()
        if not stat.S_ISREG(status.st_mode):
            problem: str | None = "it is not a regular file"
        elif path.name.startswith((".", "_")):
            problem = "its name begins with '.' or '_', as of files that are still being written; rename it"
        else:
            header, problem = content.header()
            if problem is None and not (
                _is_utf8(header.get("run")) and header["run"] and _is_utf8(header.get("worker"))
            ):
                header, problem = {}, "its header lacks the run or the worker"
    except UnicodeEncodeError:
        problem = "its name is not UTF-8; rename it"
    except UnreadableTraceError as error:
        problem = str(error)
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
    is_truncated = problem is not None and (content.is_cut or not status.st_size)
    return InspectedFile(str(path), status.st_size, status.st_mtime_ns, header, is_truncated, problem)


def pages_of(tests: Iterable[Mapping[str, Any]], files: Mapping[str, FileState]) -> Iterator[Path | None]:
    """Yield the page of each of these rows of `tests`, or None if it has none that still exists.

    A trace names a page by its path from the trace file, and by the hash of its content: a later run may have written
    another page to the same path.
    """
    folders = {(file.run, file.worker): Path(path).parent for path, file in files.items() if file.problem is None}
    for test in tests:
        # Shards of a worker have a number after its name.
        trace_folder = folders.get((test["run"], test["worker"].partition("#")[0]))
        is_its = trace_folder is not None and test["page"] is not None and _is_page(trace_folder / test["page"], test)
        yield trace_folder / test["page"] if trace_folder is not None and is_its else None


def _is_page(page: Path, test: Mapping[str, Any]) -> bool:
    # A path that cannot be read has no page.
    with suppress(OSError, ValueError):
        return page.suffix == ".html" and page.is_file() and body_hash(page.read_bytes()) == test["page_hash"]
    return False


def _is_utf8(value: object) -> bool:
    return isinstance(value, str) and as_text(value) == value


def _inside(folder: Path) -> Iterator[Path]:
    for inner, _, names in os.walk(folder):
        for name in names:
            path = Path(inner, name)
            is_hidden = any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
            if name.endswith(SUFFIXES) and not is_hidden and path.is_file():
                yield path


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
