"""The repository as the house rules see it: text files, each read once, and the syntax trees of Python files."""

from __future__ import annotations

import ast
import gc
import io
import os
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

N = TypeVar("N", bound=ast.AST)

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "pytest_plugin", "tests", "examples", "tools", "benchmarks", "docs", ".ci", ".github")
ENDINGS = (".py", ".html", ".md", ".toml", ".yml", ".cfg", ".ini", ".sh", "run", "LICENSE", "py.typed")
# What a broker is and what it tells; the rest of the trace writes and reads files.
CORE = (
    "src/leveret/core/wire/",
    "src/leveret/core/model/",
    "src/leveret/core/protocol/",
    *(f"src/leveret/trace/{name}.py" for name in ("events", "ring", "schema", "rows", "lines", "redaction")),
)


@dataclass(frozen=True)
class SourceFile:
    """This is one text file of the repository; `path` is relative to its root, with forward slashes."""

    path: str
    text: str = field(repr=False)

    @cached_property
    def lines(self) -> list[str]:
        """Its lines."""
        return self.text.splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree, which the garbage collector never looks at.

        All trees are a million objects: they would slow each collection of the tests that run after these.
        """
        gc.disable()
        try:
            return ast.parse(self.text, self.path)
        finally:
            gc.freeze()
            gc.enable()

    @cached_property
    def _nodes(self) -> list[ast.AST]:
        nodes: list[ast.AST] = [self.tree]
        for node in nodes:
            for name in node._fields:
                value = getattr(node, name, None)
                if isinstance(value, ast.AST):
                    nodes.append(value)
                elif isinstance(value, list):
                    nodes.extend(each for each in value if isinstance(each, ast.AST))
        return nodes

    def nodes(self, kind: type[N]) -> list[N]:
        """Return the nodes of one kind of its tree, in the order of `ast.walk`, which is twice as slow."""
        return [node for node in self._nodes if isinstance(node, kind)]

    @cached_property
    def attributes(self) -> set[str]:
        """The names that it asks objects for."""
        return {node.attr for node in self.nodes(ast.Attribute)}

    @cached_property
    def comments(self) -> list[tuple[int, str]]:
        """Its comments with their lines."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline) if "#" in self.text else ()
        return [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]

    def at(self, node: ast.AST) -> str:
        """Where a node of the tree stands, as an editor opens it."""
        return f"{self.path}:{getattr(node, 'lineno', 1)}"


def read_all() -> list[SourceFile]:
    """These are all text files of the repository."""
    return [SourceFile(path, (ROOT / path).read_text(encoding="utf-8")) for path in _paths()]


def without_house(files: Iterable[SourceFile]) -> list[SourceFile]:
    """Return the files that are not the house's own: what those say of the code proves nothing."""
    return [file for file in files if not file.path.startswith("tests/house/")]


def members_of(kind: type) -> dict[str, object]:
    """Return the members of a class, with those it inherits."""
    return {name: value for base in reversed(kind.__mro__[:-1]) for name, value in vars(base).items()}


def is_module(path: Path) -> bool:
    """Tell whether a path is a module or a package to import."""
    if path.stem.startswith("__"):
        return False
    return path.suffix == ".py" or (path / "__init__.py").exists()


def _paths() -> Iterator[str]:
    """Yield the paths of the text files, from the root."""
    for folder in FOLDERS:
        yield from sorted(_below(folder), key=lambda path: path.split("/"))
    yield from sorted(path.name for path in ROOT.glob("*") if path.is_file() and path.name.endswith(ENDINGS))


def _below(folder: str) -> Iterator[str]:
    for top, folders, names in os.walk(ROOT / folder):
        folders[:] = [name for name in folders if not _is_made(name)]
        parent = Path(top).relative_to(ROOT).as_posix()
        yield from (f"{parent}/{name}" for name in names if name.endswith(ENDINGS))


def _is_made(name: str) -> bool:
    return name in ("__pycache__", "build", "dist", "node_modules") or name.endswith(".egg-info")
