"""The tutorial works for a reader who does what it says: saves each file, runs each command, and compares the output.

A block whose title is a file name is that file. "NAME, at the end" is added to it, and "NAME, changed" replaces the
functions of the same names. A block of text after a command shows lines of what that command prints.
"""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

from tests.house.blocks import FOLLOWED, Block, blocks_of
from tests.house.repository import ROOT
from tests.house.shell import in_bash, in_pytest, is_pytest

PAGES = ("first-test", "worker", "retry", "lost-connection")
_DURATION = re.compile(r" for [\d.]+ m?s")


def test_a_reader_who_follows_the_tutorial_sees_what_it_shows(tmp_path: Path) -> None:
    output = ""
    for page in PAGES:
        for block in blocks_of(f"{FOLLOWED}{page}.md"):
            if block.language == "python":
                save(tmp_path, block)
            elif block.language == "sh":
                _, output = (in_pytest if is_pytest(block.code) else in_bash)(block.code, tmp_path)
            else:
                assert missing_lines(block.code, output) == [], f"{block.place}; pytest printed:\n{output}"


def test_every_page_of_the_tutorial_is_followed() -> None:
    assert sorted(path.stem for path in (ROOT / FOLLOWED).glob("*.md")) == sorted((*PAGES, "index"))


def save(folder: Path, block: Block) -> None:
    """Do to the reader's file what the title of a block says."""
    name, _, what = (block.title or "").partition(", ")
    path = folder / name
    text = block.code
    if what == "at the end":
        text = path.read_text(encoding="utf-8") + text
    elif what == "changed":
        text = with_changed_functions(path.read_text(encoding="utf-8"), block.code)
    else:
        assert not what, f"unknown title {block.title!r}"
    path.write_text(text, encoding="utf-8")


def with_changed_functions(text: str, functions: str) -> str:
    """Return a module with these methods in place of those of the same names."""
    for function in ast.parse(textwrap.dedent(functions)).body:
        assert isinstance(function, ast.FunctionDef)
        lines = text.splitlines(keepends=True)
        (old,) = (
            node
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef) and node.name == function.name
        )
        text = "".join([*lines[: old.lineno - 1], functions, *lines[old.end_lineno :]])
    return text


def missing_lines(shown: str, output: str) -> list[str]:
    """Return the lines that a page shows and the command did not print, whatever the durations."""
    printed = _DURATION.sub("", output)
    return [line for line in shown.splitlines() if _DURATION.sub("", line.strip()) not in printed]
