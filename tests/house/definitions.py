"""What the source files define, as documents name it: `Queue.enqueue`, `publishing.checked`, `find_queue`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.house.repository import SourceFile


class Definitions:
    """The definitions of some source files; each file is parsed when a name leads to it."""

    def __init__(self, files: list[SourceFile]) -> None:
        """Take these files."""
        self._files = files
        # All names that a file defines, by its path.
        self._names: dict[str, set[str]] = {}
        self._modules = {re.sub(r"(?:/__init__)?\.py$", "", file.path).replace("/", "."): file for file in files}

    def has(self, name: str) -> bool:
        """Tell whether a name is defined: alone anywhere, behind a dot in that class or module."""
        place, dot, last = name.rpartition(".")
        if not dot:
            return bool(self._modules_named(name)) or any(
                last in self._defined_in(file) for file in self._files if last in file.text
            )
        classes = list(self._classes(place))
        # An instance is called like its class: `broker.clock`.
        classes += self._classes(place.capitalize())
        return any(last in self._members(each) for each in classes) or any(
            last in top_level(module.tree) for module in self._modules_named(place)
        )

    def _defined_in(self, file: SourceFile) -> set[str]:
        if file.path not in self._names:
            self._names[file.path] = top_level(file.tree).union(*map(own_members, classes_of(file)))
        return self._names[file.path]

    def _modules_named(self, name: str) -> list[SourceFile]:
        return [file for path, file in self._modules.items() if f".{path}".endswith(f".{name}")]

    def _classes(self, name: str) -> Iterator[ast.ClassDef]:
        pattern = re.compile(rf"^\s*class {re.escape(name)}\b", re.MULTILINE)
        for file in self._files:
            # The pattern alone takes a hundred times as long.
            if f"class {name}" in file.text and pattern.search(file.text):
                yield from (each for each in classes_of(file) if each.name == name)

    def _members(self, kind: ast.ClassDef) -> set[str]:
        inherited = [base for each in kind.bases if isinstance(each, ast.Name) for base in self._classes(each.id)]
        return own_members(kind).union(*map(self._members, inherited))


def classes_of(file: SourceFile) -> list[ast.ClassDef]:
    """Return the classes that stand at the top of a file."""
    return [node for node in file.tree.body if isinstance(node, ast.ClassDef)]


def top_level(tree: ast.Module | ast.ClassDef) -> set[str]:
    """Return the names that the statements of a module or class define."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names.update(each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))
    return names


def own_members(kind: ast.ClassDef) -> set[str]:
    """Return the members of a class: its statements, and what its methods set on self."""
    attributes = (
        node for node in ast.walk(kind) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    )
    on_self = (node.attr for node in attributes if isinstance(node.value, ast.Name) and node.value.id == "self")
    return top_level(kind).union(on_self)
