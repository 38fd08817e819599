"""The files of documents: JSON or YAML as plain data, and references between them and within them.

A reference leads to a place in a file. It is never followed into the network.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit
from urllib.request import url2pathname

from pytest_leveret.contract.files import text_of

YAML: Final = (".yaml", ".yml")
# How deep values may be in one another, and how many there may be, those of an alias of YAML each time that it repeats
# them.
_DEPTH_MAX: Final = 200
_VALUES_MAX: Final = 2_000_000
_TOO_DEEP: Final = f"it is nested more than {_DEPTH_MAX} levels deep"


def load(path: Path) -> Any:
    """Return what a file holds. Raises ValueError if it is neither JSON nor YAML, OSError if it cannot be read."""
    text = text_of(path)
    try:
        if path.suffix.lower() in YAML:
            return _yaml(text)
        data = json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    _refuse_endless(data)
    return data


def _yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise ValueError(
            "a YAML file needs PyYAML; pip install 'leveret[asyncapi]', or give the file as JSON"
        ) from None
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        _refuse_endless(node)
        # Dates and numbers as keys are texts, as JSON has them.
        return json.loads(json.dumps(None if node is None else loader.construct_document(node), default=str))
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None


def _refuse_endless(data: Any) -> None:
    """Raise ValueError if values of JSON, or nodes of YAML, are too deep or too many, or hold themselves."""
    level, count = [data], 0
    for _ in range(_DEPTH_MAX):
        below: list[Any] = []
        for value in level:
            below += _below(value)
            if count + len(below) > _VALUES_MAX:
                raise ValueError(f"it holds more than {_VALUES_MAX:,} values")
        level, count = below, count + len(below)
        if not level:
            return
    raise ValueError(_TOO_DEEP)


def _below(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value.values()]
    # A node of YAML has its pairs or items there.
    items = getattr(value, "value", value)
    if not isinstance(items, list):
        return []
    return [part for item in items for part in (item if isinstance(item, tuple) else (item,))]


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file: `asyncapi.json#/components/schemas/Order`."""

    path: Path
    steps: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.path.name}{self.pointer}"

    @property
    def pointer(self) -> str:
        """The place in its file, as a reference: `#/components/schemas/Order`."""
        return "#" + "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in self.steps)

    @property
    def reference(self) -> str:
        """The pointer as a part of a URI, with what a URI cannot hold escaped."""
        return quote(self.pointer, safe="#/~!$&'()*+,;=:@?")

    def __truediv__(self, step: str | int) -> Place:
        return Place(self.path, (*self.steps, str(step)))


@dataclass(frozen=True, slots=True)
class DocumentNode:
    """A value of a file, and where it stands."""

    files: Files
    place: Place
    value: Any

    def __getitem__(self, step: str | int) -> DocumentNode:
        """Return the value below, behind its references; None is the value of what is missing."""
        below = None
        if isinstance(self.value, Mapping):
            below = self.value.get(step)
        elif isinstance(self.value, list) and isinstance(step, int):
            below = self.value[step]
        return self.files.behind(DocumentNode(self.files, self.place / step, below))

    def items(self) -> Iterator[tuple[str, DocumentNode]]:
        """Yield the values below by key. Raises ValueError if this is no object."""
        if not isinstance(self.value, (Mapping, type(None))):
            raise ValueError(f"{self.place}: expected an object, and it is {self.value!r:.50}")
        for key in self.value or ():
            yield key, self[key]

    def each(self) -> Iterator[DocumentNode]:
        """Yield the items of a list. Raises ValueError if this is none."""
        if not isinstance(self.value, (list, type(None))):
            raise ValueError(f"{self.place}: expected a list, and it is {self.value!r:.50}")
        for index in range(len(self.value or ())):
            yield self[index]

    def text(self, step: str) -> str:
        """Return a text below; an empty one if there is none."""
        value = self[step].value
        return value if isinstance(value, str) else ""


class Files:
    """The files that one document consists of, each read once."""

    def __init__(self) -> None:
        self._data: Final[dict[Path, Any]] = {}
        # The places of the references that are being followed.
        self._open: Final[set[Place]] = set()
        # How many more shapes may be made of its schemas. Those that hold one another have no end.
        self.shapes_left = 100_000

    def root(self, path: Path) -> DocumentNode:
        """Return the whole of a file."""
        if path not in self._data:
            self._data[path] = load(path)
        return DocumentNode(self, Place(path), self._data[path])

    def data(self) -> list[tuple[Path, Any]]:
        """Return each file that was read, and what it holds."""
        return [*self._data.items()]

    def behind(self, node: DocumentNode) -> DocumentNode:
        """Return what a value refers to, or the value itself. Raises ValueError if a reference leads nowhere."""
        reference = node.value.get("$ref") if isinstance(node.value, Mapping) else None
        if not isinstance(reference, str):
            return node
        if node.place in self._open:
            raise ValueError(f"{node.place}: the reference leads back to itself")
        self._open.add(node.place)
        try:
            return self._target(node.place, reference)
        finally:
            self._open.discard(node.place)

    def _target(self, place: Place, reference: str) -> DocumentNode:
        file, _, fragment = reference.partition("#")
        if urlsplit(file).scheme not in ("", "file"):
            raise ValueError(
                f"{place}: the reference {reference!r} leads into the network; keep that file beside this one"
            )
        path = (place.path.parent / url2pathname(urlsplit(file).path)).resolve() if file else place.path
        try:
            node = self.root(path)
        except (OSError, ValueError) as error:
            reason = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read: {error}"
            raise ValueError(f"{place}: the reference {reference!r} leads to a file that {reason}") from None
        for step in unquote(fragment).split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            value = node.value
            is_there = step in value if isinstance(value, Mapping) else isinstance(value, list) and step.isdecimal()
            if not is_there or (isinstance(value, list) and int(step) >= len(value)):
                raise ValueError(f"{place}: the reference {reference!r} leads nowhere")
            node = node[step if isinstance(value, Mapping) else int(step)]
        return node
