"""The command `leveret init`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to a parser."""
    init = commands.add_parser(
        "init",
        help="propose what to write so that a project's tests run on leveret",
        description="Read a project, and propose the lines for pytest, and one green test unless the project's own "
        "tests need none. Show them, and write them when asked to. Nothing of the project is imported or run.",
    )
    init.add_argument("folder", nargs="?", default=".", type=Path, help="the project's folder (default: this one)")
    init.add_argument("--yes", action="store_true", help="write without asking")
    init.add_argument(
        "--skill",
        action="store_true",
        help="also write what a program that writes tests should know: a skill file, and three lines for AGENTS.md",
    )
    init.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from pytest_leveret.commands import proposal
    from pytest_leveret.commands.project import read

    project = read(options.folder.resolve())
    written = proposal.changes(project, with_skill=options.skill)
    if not written:
        print("leveret: nothing to write; this project is set up")
        return 0
    print(proposal.diff(project, written), end="")
    for line in proposal.advice(project):
        print(f"note: {line}")
    if not options.yes and not _agreed():
        print("leveret: nothing was written")
        return 0
    proposal.write(written)
    missing = proposal.missing_extras(project)
    install = f"`pip install 'leveret[{','.join(missing)}]'`, then " if missing else ""
    print(f"leveret: written; now run {install}`pytest`")
    return 0


def _agreed() -> bool:
    if not sys.stdin.isatty():
        print("leveret: run it again with --yes to write this")
        return False
    return input("Write this? [y/N] ").strip().lower() in ("y", "yes")
