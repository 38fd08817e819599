"""Copies of the repository in which recipes of CONTRIBUTING.md are carried out, and the tests that run there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.house.forked_runs import environment
from tests.house.repository import FOLDERS, ROOT

_TIMEOUT_S = 300
# Compiled files stay beside their sources: a run in a copy is to begin as fast as one here.
_LEFT_BEHIND = shutil.ignore_patterns(".*", "*.egg-info", "node_modules")


def copy_repository(root: Path) -> None:
    """Copy the repository to `root`, a folder that does not exist yet."""
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, root / folder, ignore=_LEFT_BEHIND)
    for path in ROOT.glob("*.*"):
        if path.is_file() and not path.name.startswith("."):
            shutil.copy2(path, root / path.name)


class Tree:
    """A copy of the repository, and the files that were changed in it. Trees may take turns with one copy."""

    def __init__(self, root: Path) -> None:
        """Change the copy at `root`."""
        self.root = root
        # The texts before the change, None where there was no file, by path.
        self._before: dict[str, str | None] = {}
        self._after: dict[str, str] = {}
        # Tests that are no part of the change, with their texts by path.
        self._shown: dict[str, str] = {}

    @property
    def shown(self) -> list[str]:
        """The paths of the tests that are no part of the change."""
        return list(self._shown)

    @property
    def changed(self) -> list[str]:
        """The paths of the changed files, in the order in which they were changed."""
        return list(self._before)

    def create(self, path: str, text: str) -> None:
        """Write a new file."""
        assert not (self.root / path).exists(), f"{path} exists"
        self._write(path, text)

    def show(self, path: str, text: str) -> None:
        """Write a test that shows that the change works, and that is no part of it."""
        self._shown[path] = text
        self._put(path, text)

    def replace(self, path: str, old: str, new: str) -> None:
        """Replace the one place where a file says `old`."""
        text = self.read(path)
        assert text.count(old) == 1, f"{path} says {text.count(old)} times {old!r}"
        self._write(path, text.replace(old, new))

    def insert(self, path: str, *, before: str, text: str) -> None:
        """Put `text` before the one place where a file says `before`."""
        self.replace(path, before, text + before)

    def append(self, path: str, text: str) -> None:
        """Put `text` at the end of a file.

        Recipes add to documents so, for these are rewritten often, and the tests do not look where a line stands.
        """
        self._write(path, self.read(path) + text)

    def generate(self, *command: str, writes: Iterable[str]) -> None:
        """Run a Python command that writes these files."""
        before = {path: self.read(path) for path in writes}
        ran = self.python(*command)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        for path, text in before.items():
            self._before.setdefault(path, text)
            self._after[path] = self.read(path)
            assert self._after[path] != text, f"{command} left {path} as it was"

    def leave_out(self, paths: Iterable[str]) -> None:
        """Make the change, but for these files."""
        for path, text in {**self._shown, **self._after, **{path: self._before[path] for path in paths}}.items():
            self._put(path, text)

    def take_back(self) -> None:
        """Leave the copy as it was, for another tree."""
        for path, text in {**dict.fromkeys(self._shown), **self._before}.items():
            self._put(path, text)
            folder = (self.root / path).parent
            if text is None and folder.exists() and {each.name for each in folder.iterdir()} <= {"__pycache__"}:
                shutil.rmtree(folder)

    def read(self, path: str) -> str:
        """Return the text of a file."""
        return (self.root / path).read_text(encoding="utf-8")

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Python in the copy, with the copy's packages."""
        paths = os.pathsep.join(str(self.root / folder) for folder in ("src", "pytest_plugin", "."))
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env={**environment(), "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
        )

    def _write(self, path: str, text: str) -> None:
        file = self.root / path
        self._before.setdefault(path, file.read_text(encoding="utf-8") if file.exists() else None)
        self._after[path] = text
        self._put(path, text)

    def _put(self, path: str, text: str | None) -> None:
        """Write a file if it differs, or delete it if `text` is None."""
        file = self.root / path
        if file.exists() and text == file.read_text(encoding="utf-8"):
            return
        # Bytecode counts as current if its source was of the same size in the same second.
        for compiled in file.parent.glob(f"__pycache__/{file.stem}.*"):
            compiled.unlink()
        if text is None:
            file.unlink(missing_ok=True)
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")


def is_named(path: str, output: str) -> bool:
    """Tell whether the errors that pytest printed name a file: by its path, as a module, or a test by its folder."""
    errors = "\n".join(line for line in output.splitlines() if re.match(r"E\s|\S+:\d+: ", line))
    names = [path, re.sub(r"^(?:src|pytest_plugin)/|(?:/__init__)?\.py$", "", path).replace("/", ".")]
    if "/test_" in path:
        names.append(path.rpartition("/")[0])
    return any(re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w-]|\.\w)", errors) for name in names)
