"""Snapshots of a state: its bytes, from which a warehouse of many runs is read at once.

A snapshot is JSON in gzip. It holds a column for each field, so that the names of fields stand once and similar values
side by side. The names of runs and parts stand once, and elsewhere their numbers. A path mostly holds the name of its
run, which is left out.
"""

from __future__ import annotations

import gc
import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final, TypeVar

from leveret.pipeline.warehouse.log import VERSION, Answer, FileState, RunState, Segment, State, another_version

T = TypeVar("T")
# For some fields of a class, how a value stands in a snapshot.
_Changes = Mapping[str, Callable[[Any], Any]]

# Level 6 makes two thirds of the bytes of level 1.
_LEVEL: Final = 6
# Stands for the name of the run in a path. A path cannot have this character.
_RUN: Final = "\0"


def encode(state: State) -> bytes:
    """Return a state as bytes."""
    parts = _Numbers()
    runs = _Numbers(state.runs)
    shapes = _Numbers()

    def shape(value: Any) -> int:
        return shapes.of(json.dumps(value))

    of_run: _Changes = {
        "segments": lambda segments: [[parts.of(part), first, count] for part, first, count in segments],
        "files": shape,
        "answer": lambda part: None if part is None else parts.of(part),
    }
    of_answer: _Changes = {
        "tables": lambda tables: [shape(list(tables)), *tables.values()],
        "runs": lambda names: [runs.of(name) for name in names],
    }
    content = {
        "v": VERSION,
        "number": state.number,
        "expired_before": state.expired_before,
        "keep_days": state.keep_days,
        "runs": _columns(RunState, state.runs.values(), of_run),
        "answers": _columns(Answer, state.answers.values(), of_answer),
        "answer_parts": [parts.of(part) for part in state.answers],
        "files": _columns(FileState, state.files.values(), {"run": runs.of}),
        "paths": [path.replace(file.run, _RUN, 1) if file.run else path for path, file in state.files.items()],
        "run_names": list(runs),
        "part_names": list(parts),
        "shapes": list(shapes),
    }
    return gzip.compress(json.dumps(content, separators=(",", ":")).encode(), _LEVEL)


def decode(snapshot: bytes) -> State:
    """Return the state of which `encode` made these bytes. Raises ValueError if another version of leveret did."""
    with _without_collection():
        content = json.loads(gzip.decompress(snapshot))
        if content.get("v") != VERSION:
            raise ValueError(another_version(f"snapshot {content.get('number')}"))
        runs, parts = content["run_names"], content["part_names"]
        shapes = [json.loads(shape) for shape in content["shapes"]]
        of_run: _Changes = {
            "segments": lambda segments: [Segment(parts[part], first, count) for part, first, count in segments],
            "files": lambda shape: dict(shapes[shape]),
            "answer": lambda part: None if part is None else parts[part],
        }
        of_answer: _Changes = {
            "tables": lambda rows: dict(zip(shapes[rows[0]], rows[1:], strict=True)),
            "runs": lambda numbers: [runs[number] for number in numbers],
        }
        files = _items(FileState, content["files"], {"run": runs.__getitem__})
        paths = [path.replace(_RUN, file.run, 1) for path, file in zip(content["paths"], files, strict=True)]
        answers = _items(Answer, content["answers"], of_answer)
        return State(
            content["number"],
            dict(zip(paths, files, strict=True)),
            # After the names of the runs come those of runs that have expired, which files and answers still name.
            dict(zip(runs, _items(RunState, content["runs"], of_run), strict=False)),
            dict(zip((parts[part] for part in content["answer_parts"]), answers, strict=True)),
            content["expired_before"],
            content["keep_days"],
        )


class _Numbers:
    """Numbers for texts: 0, 1 and so on, in the order in which they are first asked for."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._numbers = {text: number for number, text in enumerate(texts)}

    def of(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)


def _columns(kind: type, items: Iterable[object], changes: _Changes) -> dict[str, Any]:
    """Return a list of values for each field of the items, or {"all": value} if they are equal."""
    rows = list(items)
    columns: dict[str, Any] = {}
    for field in fields(kind):
        column = list(map(attrgetter(field.name), rows))
        if field.name in changes:
            column = list(map(changes[field.name], column))
        is_constant = len(column) > 1 and all(value == column[0] for value in column)
        columns[field.name] = {"all": column[0], "count": len(column)} if is_constant else column
    return columns


def _items(kind: Callable[..., T], columns: Mapping[str, Any], changes: _Changes) -> list[T]:
    """Return the items of which `_columns` made these columns."""
    lists: list[Sequence[Any]] = []
    for field in fields(kind):  # type: ignore[arg-type]
        column = columns[field.name]
        values = [column["all"]] * column["count"] if isinstance(column, dict) else column
        lists.append(list(map(changes[field.name], values)) if field.name in changes else values)
    return list(map(kind, *lists))


@contextmanager
def _without_collection() -> Iterator[None]:
    """Make many objects, of which none is garbage, without the collector looking at them again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
