"""What is written about the code is there, and says the same."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any, Literal, get_origin

import pytest

import leveret as package
from leveret import Broker
from tests.house.definitions import Definitions
from tests.house.repository import SourceFile, is_module, members_of

# The maps of the code.
MAPS = ("docs/architecture.md", "docs/architecture-pipeline.md")
# How many words the first map may have, so that it is read in ten minutes. This only moves down.
WORDS_MAX = 2600
# Names in the maps that belong to others: the standard library, and fields of the protocol.
NOT_OURS = ("selectors", "threading", "time", "ssl", "asyncio", "argparse", "pytest", "random.Random", "socket")


@pytest.fixture(scope="module")
def defined(source_files: list[SourceFile]) -> set[str]:
    """These are the names that the source files define."""
    return {name for file in source_files for name in defined_names(file)}


@pytest.fixture(scope="module")
def definitions(source_files: list[SourceFile]) -> Definitions:
    """These are the definitions of the source files."""
    return Definitions(source_files)


def test_every_file_says_what_it_is(python_files: list[SourceFile]) -> None:
    assert [file.path for file in python_files if file.text and not ast.get_docstring(file.tree)] == []


def test_every_public_name_is_described() -> None:
    names = [value for name in package.__all__ if get_origin(value := getattr(package, name)) is not Literal]
    names += [value for name, value in members_of(Broker).items() if not name.startswith("_")]

    assert [name for name in names if callable(name) and not (name.__doc__ or "").strip()] == []


def test_every_public_name_of_a_broker_stands_in_its_reference(root: Path) -> None:
    reference = (root / "docs/reference/broker.md").read_text(encoding="utf-8")

    missing = [name for name in members_of(Broker) if not name.startswith("_") and f"`{name}" not in reference]

    assert missing == []


def test_the_architecture_is_read_in_ten_minutes(root: Path) -> None:
    words = (root / MAPS[0]).read_text(encoding="utf-8").split()

    assert len(words) <= WORDS_MAX, "tell how a part works at the head of its file"


def test_every_room_of_the_plugin_has_its_place_in_the_architecture_and_says_what_it_holds(root: Path) -> None:
    rows = re.findall(r"^\| ([^|]+) \|", section(root, MAPS[0], "The rooms of the plugin"), re.MULTILINE)
    placed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    rooms = [path for path in sorted((root / "pytest_plugin/pytest_leveret").iterdir()) if is_module(path)]

    assert placed == {path.stem for path in rooms}
    heads = [path / "__init__.py" if path.is_dir() else path for path in rooms]
    assert [head for head in heads if not re.match(r'"""\w.{30,}[.:]', head.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("page", MAPS)
def test_every_name_in_the_architecture_exists(root: Path, defined: set[str], page: str) -> None:
    text = re.sub(r"```.*?```", "", (root / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    written = re.findall(r"`([A-Za-z_][\w.]*)(?:\([^`]*\))?`", text)

    unknown = [name for name in written if name not in NOT_OURS and not set(name.split(".")) <= defined]

    assert [name for name in unknown if not (root / name).exists() and not list(root.glob(f"src/**/{name}"))] == []


@pytest.mark.parametrize("page", MAPS)
def test_every_name_in_the_flows_of_the_architecture_is_defined(
    root: Path, definitions: Definitions, page: str
) -> None:
    flows = section(root, page, "Flows")
    names = re.findall(r"`([A-Za-z_][\w.]*)(?:\([^`]*\))?`", flows)

    unknown = [name for name in dict.fromkeys(names) if not (definitions.has(name) or is_path(root, name))]

    assert names
    assert unknown == [], f"{page} names these in its flows, and nothing defines them"


def test_every_package_has_its_place_in_the_architecture(root: Path) -> None:
    rows = re.findall(r"^\| ([^|]+) \|", section(root, MAPS[0], "Packages"), re.MULTILINE)
    placed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    packages = [path.stem for path in sorted((root / "src/leveret").iterdir()) if is_module(path)]

    missing = [name for name in packages if name not in placed]

    assert missing == [], "the table of packages in docs/architecture.md leaves these out"


def test_links_between_documents_lead_somewhere(root: Path, text_files: list[SourceFile]) -> None:
    broken = [
        f"{file.path} -> {target}"
        for file in text_files
        if file.path.endswith(".md")
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", file.text)
        if not (root / file.path).parent.joinpath(target).exists()
    ]

    assert broken == []


def test_the_test_in_the_readme_passes(root: Path, leveret: Broker) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (root / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}

    exec(code, names)
    (test,) = (value for name, value in names.items() if name.startswith("test_"))

    test(leveret)


def test_the_commands_of_the_readme_are_those_the_checks_run(root: Path) -> None:
    readme = (root / "README.md").read_text(encoding="utf-8")
    commands = [line for block in re.findall(r"```sh\n(.*?)```", readme, re.DOTALL) for line in block.splitlines()]
    checks = (root / ".ci/run").read_text(encoding="utf-8").splitlines()

    assert len(commands) == 2
    assert [command for command in commands if command not in checks] == []


def section(root: Path, page: str, title: str) -> str:
    """Return a section of a page."""
    text = (root / page).read_text(encoding="utf-8")
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]


def is_path(root: Path, name: str) -> bool:
    """Tell whether a name is that of a source file: `trace/events.py`."""
    return bool(list(root.glob(f"src/**/{name}")))


def defined_names(file: SourceFile) -> set[str]:
    """These are the names a file defines, with that of the module and the folders it is in."""
    names = set(file.path.removesuffix(".py").split("/"))
    for node in file.nodes(ast.AST):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)
    return names
