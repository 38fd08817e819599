"""Which fields of a message the code looks up by name, in a run in which nothing changes.

What the module `json` makes of a delivered body is a dictionary that notes `order["id"]`, `order.get("id")`,
`order.pop("id")` and `"id" in order`. Code that hands the body to a model, or has another parser, shows nothing here.
So a field that is noted is read, and one that is not may be.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from leveret.trace.shapes.leaves import EACH, Path
from pytest_leveret.needs.bodies import MessageKind, arguments_of

Read = Callable[[Path], None]


class _Noting(dict[Any, Any]):
    """An object that notes which of its fields are looked up."""

    path: Path = ()
    read: Read | None = None

    def _note(self, key: object) -> None:
        if self.read is not None and isinstance(key, str):
            self.read((*self.path, key))

    def __getitem__(self, key: Any) -> Any:
        self._note(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._note(key)
        return super().__contains__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        self._note(key)
        return super().get(key, default)

    def pop(self, key: Any, *default: Any) -> Any:
        self._note(key)
        return super().pop(key, *default)


def noting(value: object, read: Read, path: Path = ()) -> object:
    """Return a value of JSON whose objects pass the path of each field that is looked up to `read`."""
    if isinstance(value, dict):
        other = _Noting({key: noting(item, read, (*path, key)) for key, item in value.items()})
        other.path, other.read = path, read
        return other
    if isinstance(value, list):
        return [noting(item, read, (*path, EACH)) for item in value]
    return value


def _task_noting(value: Any, read: Read, headers: Mapping[str, object]) -> object:
    """Return a body, in which the arguments of a task have places."""
    for prefix, given in arguments_of(value, headers):
        items = enumerate(given) if isinstance(given, list) else list(given.items()) if isinstance(given, dict) else ()
        for key, item in items:
            given[key] = noting(item, read, (*prefix, key))  # type: ignore[index]
    return value if arguments_of(value, headers) else noting(value, read)


def _is_asked_by_leveret() -> bool:
    """Return whether it is leveret that parses a body, for an assertion of the test or for itself."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("json"):
        frame = frame.f_back
    return str(frame.f_globals["__name__"]).partition(".")[0] in ("leveret", "pytest_leveret")


@contextmanager
def noted_reads(
    bodies: Mapping[str, tuple[MessageKind, Mapping[str, object]]], reads: dict[MessageKind, set[Path]]
) -> Iterator[None]:
    """Note in `reads` which fields of these bodies the code looks up; each has its kind, and the headers."""
    decode = json.JSONDecoder.decode

    def decode_and_note(self: json.JSONDecoder, text: str, *arguments: Any) -> Any:
        value = decode(self, text, *arguments)
        known = bodies.get(text)
        if known is None or _is_asked_by_leveret():
            return value
        kind, headers = known
        return _task_noting(value, reads.setdefault(kind, set()).add, headers)

    json.JSONDecoder.decode = decode_and_note  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        json.JSONDecoder.decode = decode  # type: ignore[method-assign]
