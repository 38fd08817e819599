"""Pages as test modules: pytest collects the blocks of a page, runs them in order, and fails at a line of the page.

All blocks of a page share one namespace and one empty folder, so that a block may use what an earlier one made. A block
that only defines things (tests, fixtures, functions) is read as a test module is; its tests run with the fixtures
and markers they name. Every other block is a test by itself, named after its line. It runs with a broker of its own,
as `leveret`, and its `url`; `await` needs no function around it. A block of shell runs in the page's folder.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import pkgutil
import types
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import Phase, settings

from leveret.trace.run import close_files
from tests.house.blocks import Block, blocks_of, pages
from tests.house.repository import ROOT
from tests.house.shell import run_shell

# Shrinking what a machine of Hypothesis finds takes most of its time; tests/stateful tests that.
QUICK: Final = settings(phases=(Phase.generate,), stateful_step_count=8)
_DEFINITIONS: Final = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def collected(parent: pytest.File) -> Iterator[Page]:
    """Return a module for each page that has something to run."""
    for page in pages():
        if any(_is_collected(block) for block in blocks_of(page)):
            yield Page.from_parent(parent, path=ROOT / page, name=page, nodeid=f"{parent.nodeid}::{page}")


class Page(pytest.Module):
    """A page whose blocks are tests."""

    def _getobj(self) -> types.ModuleType:
        module = types.ModuleType(Path(self.name).stem.replace("-", "_"))
        module.__file__ = str(self.path)
        names = vars(module)
        names["_in_a_folder"] = _in_a_folder
        for block in blocks_of(self.name):
            if _is_collected(block):
                _add(names, block)
        return module


def _is_collected(block: Block) -> bool:
    return block.runs and block.language in ("python", "sh")


@pytest.fixture(scope="module", autouse=True)
def _in_a_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run the blocks of a page in an empty folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("page"))
        yield
    # A page may have recorded a run.
    close_files()


def _add(names: dict[str, Any], block: Block) -> None:
    """Add the tests of a block to the namespace of its page."""
    test = f"test_block_at_line_{block.line}"
    if block.language == "sh":
        names[test] = lambda: run_shell(block)
        return
    try:
        tree = _parse(block.code, block)
        if _only_defines(tree):
            _define(names, block, tree)
        else:
            names[test] = _script(names, block, tree)
    except Exception as error:
        names[test] = _failure(block, error)


def _parse(code: str, block: Block) -> ast.Module:
    """Return the syntax tree of a block of Python and its hidden lines, numbered as the lines of the page are."""
    tree = ast.parse("\n" * (block.line - 1) + code, block.page)
    hidden = ast.parse("\n" * (block.setup_line - 1) + block.setup, block.page) if block.setup else ast.Module([], [])
    return ast.Module([*hidden.body, *tree.body], [])


def _only_defines(tree: ast.Module) -> bool:
    """Tell whether a block is like a test module: it holds a test or a fixture, or does nothing but define."""
    return any(_is_for_pytest(node) for node in tree.body) or all(
        isinstance(node, _DEFINITIONS)
        or (isinstance(node, ast.Assign | ast.AnnAssign) and not any(isinstance(n, ast.Call) for n in ast.walk(node)))
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for node in tree.body
    )


def _is_for_pytest(node: ast.stmt) -> bool:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return node.name.startswith("test") or any("fixture" in ast.unparse(each) for each in node.decorator_list)
    return isinstance(node, ast.ClassDef) and (node.name.startswith("Test") or "TestCase" in ast.unparse(node))


def _define(names: dict[str, Any], block: Block, tree: ast.Module) -> None:
    before = dict(names)
    exec(compile(tree, str(ROOT / block.page), "exec", dont_inherit=True), names)
    for name, value in names.items():
        if value is before.get(name):
            continue
        if name in before and _is_test(name, before[name]):
            raise ValueError(f"{name} is the name of two tests of this page; rename one, or the first never runs")
        if _is_test(name, value):
            value.__module__ = names["__name__"]
            if hasattr(value, "settings"):
                value.settings = QUICK
            if block.raises:
                names[name] = pytest.mark.xfail(raises=_resolved(block.raises), strict=True)(value)


def _is_test(name: str, value: object) -> bool:
    if inspect.isclass(value):
        return name.startswith("Test") or issubclass(value, unittest.TestCase)
    return inspect.isfunction(value) and name.startswith("test")


def _script(names: dict[str, Any], block: Block, tree: ast.Module) -> Callable[[pytest.FixtureRequest], None]:
    """Return the test that runs a block of statements."""
    code = compile(tree, str(ROOT / block.page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}

    def test(request: pytest.FixtureRequest) -> None:
        given: dict[str, object] = {}
        if used & {"leveret", "url"}:
            broker = request.getfixturevalue("leveret")
            given = {"leveret": broker, "url": broker.url}
        before = {name: names[name] for name in given if name in names}
        names.update(given)
        try:
            if inspect.iscoroutine(started := eval(code, names)):
                asyncio.run(started)
        finally:
            for name in given:
                del names[name]
            names.update(before)

    return pytest.mark.xfail(raises=_resolved(block.raises), strict=True)(test) if block.raises else test


def _failure(block: Block, error: Exception) -> Callable[[], None]:
    """Return a test that fails: the block cannot even be read. An error while collecting would end the whole run."""

    def test() -> None:
        error.add_note(
            f"{block.place}: this block of Python cannot be read. Mend it. If it lacks names, define them on the page "
            "or in a comment <!-- setup ... --> before it; if it cannot run here, say why: <!-- not run: REASON -->"
        )
        raise error

    return test


def _resolved(name: str) -> type[BaseException]:
    found: type[BaseException] = pkgutil.resolve_name(name if "." in name else f"builtins.{name}")
    return found
