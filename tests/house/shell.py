"""Blocks of shell: what their commands are, whether their options exist, and how they run.

`leveret` runs inside this process, which takes a tenth of the time, and `pytest` in a fork, which takes a third.
`pip install` is not run; its extras are checked. Everything else runs in bash, where `leveret`, `pytest` and `python`
are those that run the tests.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import redirect_stderr
from io import StringIO
from itertools import groupby
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

import pytest
import pytest_leveret

import leveret
from leveret import cli
from tests.house.blocks import Block
from tests.house.forked_runs import shared_runner
from tests.house.repository import ROOT

# A line with one of these is more than one command with its arguments.
_SYNTAX: Final = re.compile(r"[|&;<>$`()*?{}#=]")
_LEVERET: Final = (["leveret"], ["python", "-m", "leveret"])


def lines_of(code: str) -> list[str]:
    """Return the commands of a block: its lines, joined where one ends in a backslash, without comments."""
    lines = re.sub(r"\\\n\s*", " ", code).splitlines()
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def run_shell(block: Block) -> None:
    """Run a block in the current folder after its hidden lines, and fail with the output of what fails."""
    for runs_pytest, part in _parts_of(block.setup):
        _check(block, part, *(in_pytest(part) if runs_pytest else in_bash(part)))
    for is_plain, group in groupby(lines_of(block.code), key=_is_plain):
        lines = [line for line in group if not re.match(r"(python3? -m )?pip install\b", line)]
        if not is_plain and lines:
            _check(block, "; ".join(lines), *in_bash("\n".join(lines)))
        for line in lines if is_plain else ():
            if is_pytest(line):
                _check(block, line, *in_pytest(line))
                continue
            _check(block, line, cli.main(leveret_arguments(line)), "its output is among the captured output")


def _is_plain(line: str) -> bool:
    """Tell whether a line is one command of leveret or pytest with its arguments."""
    if is_pytest(line):
        return True
    return bool(leveret_arguments(line)) and not _SYNTAX.search(re.sub(r"'[^']*'|\"[^\"$`]*\"", "", line))


def _check(block: Block, command: str, status: int, output: str) -> None:
    if status:
        pytest.fail(
            f"{block.place}: exit code {status} of `{command}`. Mend it, put what it needs into a comment "
            f"<!-- setup ... --> before the block, or say why it cannot run here: <!-- not run: REASON -->\n{output}",
            pytrace=False,
        )


def leveret_arguments(line: str) -> list[str] | None:
    """Return the arguments of a line that is a command of leveret, or None if it is none."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        return None
    return next((words[len(start) :] for start in _LEVERET if words[: len(start)] == start), None)


def problems_of(line: str, config: pytest.Config) -> Iterator[str]:
    """Return what is wrong with a command as it is written: options and extras that do not exist."""
    for part in re.split(r"&&|\|\|?|;|>\s*\S+|2>&1", line):
        arguments = leveret_arguments(part)
        if arguments is not None and (problem := _refusal(arguments)):
            yield problem
    for option in re.findall(r"(?<!\S)--leveret-[\w-]+", line):
        if not hasattr(config.option, option[2:].replace("-", "_")):
            yield f"pytest has no option {option}"
    for extras in re.findall(r"\bleveret\[([\w,-]+)\]|'\.\[([\w,-]+)\]'", line):
        for extra in "".join(extras).split(","):
            if extra not in _extras():
                yield f"pyproject.toml has no extra {extra!r}"


def is_pytest(line: str) -> bool:
    """Tell whether a line is pytest with arguments that need no shell. Without forks, a shell runs it."""
    return hasattr(os, "fork") and re.fullmatch(r"pytest(?: [\w./,=-]+)*\n?", line) is not None


def _parts_of(setup: str) -> Iterator[tuple[bool, str]]:
    """Yield the parts of hidden lines, and of each whether it is a line of pytest. What a shell keeps is one part."""
    if re.search(r"^(?:export|cd) ", setup, re.MULTILINE):
        yield False, setup
        return
    for runs_pytest, group in groupby(setup.splitlines(keepends=True), key=is_pytest):
        lines = list(group)
        yield from ((runs_pytest, part) for part in (lines if runs_pytest else ["".join(lines)]))


def in_pytest(line: str, folder: Path | None = None) -> tuple[int, str]:
    """Run a line that is pytest, in this folder or the current one, in a process that need not import it."""
    with NamedTemporaryFile() as output:
        return shared_runner().run_pytest(folder or Path.cwd(), line.split()[1:], Path(output.name))


def in_bash(line: str, folder: Path | None = None) -> tuple[int, str]:
    """Run a line in bash, in this folder or the current one, and return its exit code and its output."""
    command = ["bash", "-euo", "pipefail", "-c", line]
    ran = subprocess.run(
        command,
        cwd=folder,
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    return ran.returncode, ran.stdout


def _refusal(arguments: list[str]) -> str | None:
    """Return what the command line says of arguments that it does not know."""
    said = StringIO()
    try:
        with redirect_stderr(said):
            cli.parser().parse_args(arguments)
    except SystemExit as end:
        return said.getvalue().strip().splitlines()[-1] if end.code else None
    except argparse.ArgumentError as error:
        return str(error)
    return None


def _extras() -> dict[str, list[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    return extras


def _environment() -> dict[str, str]:
    """Return an environment in which `python`, `pytest` and `leveret` are those that run the tests.

    pytest loads the plugin of leveret and no other, which takes a fifth of the time.
    """
    sources = (Path(module.__file__ or "").parents[1] for module in (leveret, pytest_leveret))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "LEVERET_"))}
    plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "pytest_leveret.plugin"}
    return {**kept, **plugins, "PATH": path, "PYTHONPATH": os.pathsep.join(map(str, sources))}
