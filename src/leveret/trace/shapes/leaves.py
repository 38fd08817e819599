"""The values in bodies of JSON, each with the path that leads to it.

A path is a tuple of steps: the key of an object, the position of an argument, or EACH item of an array.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from leveret.trace.shapes import field_path

EACH: Final = None
Step = str | int | None
Path = tuple[Step, ...]


def parsed(body: bytes) -> object:
    """Return the object or array of a body of JSON; None for any other body."""
    if body.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        value: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value


def walk(value: object, path: Path) -> Iterator[tuple[Path, object]]:
    """Yield each value below a value, outermost first, with its path after `path`."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key), item
            yield from walk(item, (*path, key))
    elif isinstance(value, list):
        for item in value:
            # Without its objects and arrays, an array is empty, which is another field's matter.
            if not isinstance(item, dict | list):
                yield (*path, EACH), item
            yield from walk(item, (*path, EACH))


def leaves_of(value: object) -> Iterator[tuple[str, object]]:
    """Yield each value that holds no other, with the text of its path."""
    yield from ((path_text(path), item) for path, _, item in placed_leaves_of(value))


def placed_leaves_of(value: object, path: Path = (), at: tuple[int, ...] = ()) -> Iterator[tuple[Path, Path, object]]:
    """Yield each value that holds no other, with its path and its positions in arrays."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from placed_leaves_of(item, (*path, key), at)
    elif isinstance(value, list) and value:
        for position, item in enumerate(value):
            yield from placed_leaves_of(item, (*path, EACH), (*at, position))
    elif path and not (path[-1] is EACH and isinstance(value, dict | list)):
        # Without its objects and arrays, an array is empty, which is another field's matter.
        yield path, at, value


def path_text(path: Path) -> str:
    """Return a path as a lock writes it: "customer.email", "items[].sku", "args.arg0"."""
    if path[:1] in ((0,), (1,)):
        path = (("args", "kwargs")[path[0] == 1], *path[1:])
    text = ""
    for step in path:
        text = f"{text}[]" if step is EACH else field_path(text, f"arg{step}" if isinstance(step, int) else step)
    return text
