"""The fields of JSON bodies, and bodies with one of them removed, null or of another type.

A path is a tuple of steps: the key of an object, the position of an argument, or EACH item of an array. In the body of
a task, as Celery, dramatiq, taskiq and nameko send it, only the arguments are fields; the rest is the framework's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Sequence
from typing import Final, NamedTuple

from leveret.trace.shapes import task_arguments
from leveret.trace.shapes.leaves import EACH, Path, Step, parsed, walk

REMOVED: Final = "removed"
NULL: Final = "null"
RETYPED: Final = "retyped"


class MessageKind(NamedTuple):
    """A kind of message that a consumer receives."""

    # Where it was published to, and the queue that it came from, without generated parts.
    exchange: str
    routing_key: str
    queue: str
    # The task, the actor or the property `type`, if it has one.
    name: str = ""
    vhost: str = "/"


class FieldChange(NamedTuple):
    """What happens to one field of one kind of message."""

    kind: MessageKind
    path: Path
    variant: str


def fields_of(value: object, headers: Container[str]) -> dict[Path, object]:
    """Return the fields of a body, outermost first, each with a value that it has."""
    fields: dict[Path, object] = {}
    for path, each in walk(value, ()):
        fields.setdefault(path, each)
    arguments = arguments_of(value, headers)
    if not arguments:
        return fields
    tasks: dict[Path, object] = {}
    for prefix, given in arguments:
        items = enumerate(given) if isinstance(given, list) else given.items() if isinstance(given, dict) else ()
        for key, item in items:
            for path, each in ((), item), *walk(item, ()):
                tasks.setdefault((*prefix, key, *path), each)
    return tasks


def arguments_of(value: object, headers: Container[str]) -> list[tuple[Path, object]]:
    """Return the arguments of a task, each part with the path that leads there, if the body is that of a task."""
    steps: tuple[Step, ...] = ("args", "kwargs") if isinstance(value, dict) else (0, 1)
    return [((step,), given) for step, given in zip(steps, task_arguments(value, headers) or (), strict=False)]


def changed(body: bytes, changes: Sequence[FieldChange]) -> tuple[bytes, list[FieldChange]]:
    """Return a body with these changes, and those of them that found their field."""
    value, applied = parsed(body), []
    # The inner fields first: with the outer one, they would be gone.
    for change in sorted(changes, key=lambda it: -len(it.path)):
        if _change(value, change.path, change.variant):
            applied.append(change)
    return json.dumps(value).encode(), applied


def _change(value: object, path: Path, variant: str) -> bool:
    step, rest = path[0], path[1:]
    if step is EACH:
        if not isinstance(value, list):
            return False
        if rest:
            return sum(_change(item, rest, variant) for item in value) > 0
        value[:] = [] if variant == REMOVED else [_other(item, variant) for item in value]
        return True
    if isinstance(value, dict) and step in value:
        return _change_at(value, step, rest, variant)
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return _change_at(value, step, rest, variant)
    return False


def _change_at(value: dict[Step, object] | list[object], step: Step, rest: Path, variant: str) -> bool:
    if rest:
        return _change(value[step], rest, variant)  # type: ignore[index]
    if variant == REMOVED:
        del value[step]  # type: ignore[arg-type]
    else:
        value[step] = _other(value[step], variant)  # type: ignore[index]
    return True


def _other(value: object, variant: str) -> object:
    return None if variant == NULL else retyped(value)


def retyped(value: object) -> object:
    """Return the value nearest to this one that has another type."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str):
        return int(value) if re.fullmatch(r"\d{1,15}", value) else 7
    return [] if isinstance(value, dict) else {} if isinstance(value, list) else "text"


def type_of(value: object) -> str:
    """Return the type of a value of JSON, in the words of JSON Schema."""
    if value is None:
        return "null"
    names = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "object", list: "array"}
    return names[type(value)]
