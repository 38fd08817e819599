"""The tutorial works for a reader who does what it says: saves each file, runs each command, and compares the output.

A block whose title is a file name is that file. "NAME, at the end" is added to it, and "NAME, changed" replaces the
functions of the same names. A block of text after a command shows lines of what that command prints.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs/tutorial"
PAGES = ("first-test", "worker", "retry", "lost-connection")
_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```', re.DOTALL | re.MULTILINE)
_DURATION = re.compile(r" for [\d.]+ m?s")


class Block(NamedTuple):
    """A block of code on a page, with its language and its title."""

    language: str
    title: str
    text: str


def test_a_reader_who_follows_the_tutorial_sees_what_it_shows(tmp_path: Path) -> None:
    output = ""
    for page in PAGES:
        for block in blocks_of(TUTORIAL / f"{page}.md"):
            if block.language == "python":
                save(tmp_path, block)
            elif block.language == "sh":
                output = printed_by(block.text, tmp_path)
            else:
                assert missing_lines(block.text, output) == [], f"docs/tutorial/{page}.md; pytest printed:\n{output}"


def test_every_page_of_the_tutorial_is_followed() -> None:
    assert sorted(path.stem for path in TUTORIAL.glob("*.md")) == sorted((*PAGES, "index"))


def blocks_of(page: Path) -> list[Block]:
    """Return the blocks of a page in their order."""
    return [Block(*found) for found in _BLOCK.findall(page.read_text(encoding="utf-8"))]


def save(folder: Path, block: Block) -> None:
    """Do to the reader's file what the title of a block says."""
    name, _, what = block.title.partition(", ")
    path = folder / name
    text = block.text
    if what == "at the end":
        text = path.read_text(encoding="utf-8") + text
    elif what == "changed":
        text = with_changed_functions(path.read_text(encoding="utf-8"), block.text)
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


def printed_by(command: str, folder: Path) -> str:
    """Run a command of pytest as the reader does, and return what it prints."""
    program, *arguments = command.split()
    assert program == "pytest", f"the tutorial runs {command!r}, and this test only pytest"
    # The reader has this plugin and no other.
    run = [sys.executable, "-m", "pytest", "-p", "pytest_leveret.plugin", *arguments]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(run, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout


def missing_lines(shown: str, output: str) -> list[str]:
    """Return the lines that a page shows and the command did not print, whatever the durations."""
    printed = _DURATION.sub("", output)
    return [line for line in shown.splitlines() if _DURATION.sub("", line.strip()) not in printed]
