"""The command `leveret init`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_leveret.commands.project import Project
    from pytest_leveret.commands.proposal import IniLine


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to a parser."""
    init = commands.add_parser(
        "init",
        help="propose what to write so that a project's tests run on leveret",
        description="Read a project, and propose the lines for pytest, and one green test unless the project's own "
        "tests need none. Show them, and write them when asked to. Nothing of the project is imported or run, unless "
        "you say --try.",
    )
    init.add_argument("folder", nargs="?", default=".", type=Path, help="the project's folder (default: this one)")
    init.add_argument("--yes", action="store_true", help="write without asking")
    init.add_argument(
        "--skill",
        action="store_true",
        help="also write what a program that writes tests should know: a skill file, and three lines for AGENTS.md",
    )
    init.add_argument(
        "--try",
        dest="tries",
        action="store_true",
        help="also run the tests once with what it proposes, and say which pass, which do not, and why; once more if "
        "they need a line for what RabbitMQ denies from 4.3 on",
    )
    init.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from pytest_leveret.commands import proposal
    from pytest_leveret.commands.project import read

    project = read(options.folder.resolve())
    written = proposal.changes(project, with_skill=options.skill)
    is_set_up = project.settings is not None and "leveret_" in proposal.text_of(project.settings)
    print(proposal.diff(project, written), end="")
    for line in () if is_set_up and not written else proposal.advice(project):
        print(f"note: {line}")
    if not written:
        is_named = project.addresses.fixed or project.docker_py
        why = (
            "this project is set up"
            if is_set_up
            else f"no address of {'this machine' if is_named else 'a RabbitMQ'} was found"
        )
        print(f"leveret: nothing to write; {why}")
        return _tried(project, [])[0] if options.tries else 0
    is_agreed = options.yes or (not options.tries and _agreed())
    if is_agreed:
        proposal.write(written)
        missing = proposal.missing_extras(project)
        install = f"`pip install 'leveret[{','.join(missing)}]'`, then " if missing else ""
        # The test imports the project, which `pytest` alone may not find.
        print(f"leveret: written; now run {install}`python -m pytest`")
    else:
        print("leveret: nothing was written")
    if not options.tries:
        return 0
    lines = [] if is_agreed or is_set_up else proposal.lines_for(project)
    code, denied = _tried(project, lines)
    more = None if is_set_up else proposal.permitting(project, denied)
    if more is None:
        return code
    print(f"note: {more.option}: {more.because}")
    if is_agreed:
        permitted = proposal.with_line(project, more)
        print(proposal.diff(project, permitted), end="")
        proposal.write(permitted)
    return _tried(project, lines if is_agreed else [*lines, more], "once more")[0]


def _tried(project: Project, lines: list[IniLine], how: str = "once") -> tuple[int, set[str]]:
    """Run the tests with more lines, and print what became of them; return the exit code, and what was denied."""
    from pytest_leveret.commands import trying

    print(f"leveret: running the tests {how}")
    options = [f"--{it.option.replace('_', '-')}={it.value.replace(chr(10), ';')}" for it in lines]
    code, said, denied = trying.run(project.root, options)
    print("\n".join(["leveret: " + said[0], *said[1:]]))
    return code, denied


def _agreed() -> bool:
    if not sys.stdin.isatty():
        print("leveret: run it again with --yes to write this")
        return False
    return input("Write this? [y/N] ").strip().lower() in ("y", "yes")
