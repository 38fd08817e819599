"""The command `leveret init`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pytest_leveret.commands.project import Project
    from pytest_leveret.commands.proposal import IniLine
    from pytest_leveret.commands.trying import Tried

# How many failed tests run again, to see whether a variable is why.
_EXAMINED: Final = 20


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
    init.add_argument("--yes", action="store_true", help="write without asking, as it must without a terminal")
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
        "they need another line",
    )
    init.add_argument(
        "--seconds",
        type=float,
        default=1800,
        help="with --try: stop the tests after this time, and say what was seen until then (default: 1800)",
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
        return _tried(project, [], options.seconds).code if options.tries else 0
    is_agreed = options.yes or (not options.tries and _agreed())
    extras = ",".join(proposal.missing_extras(project))
    install = f"`pip install 'leveret[{extras}]'`, then " if extras else ""
    if is_agreed:
        proposal.write(written)
        # The test imports the project, which `pytest` alone may not find.
        print(f"leveret: written{'' if options.tries else f'; now run {install}`python -m pytest`'}")
    else:
        print("leveret: nothing was written; --yes writes it")
    if not options.tries:
        return 0
    if is_set_up:
        return _tried(project, [], options.seconds).code
    if extras:
        raise ValueError(f"the tests need leveret[{extras}] and were not run; run {install}`leveret init --try`")
    return _try_out(project, options.seconds, writes=is_agreed)


def _try_out(project: Project, seconds: float, *, writes: bool) -> int:
    """Run the tests with the lines, and once more with what they turn out to need; return the last exit code.

    `writes` says that the lines are written, and that what the tests need is to be written too.
    """
    from pytest_leveret.commands import proposal

    lines = [] if writes else proposal.lines_for(project)
    tried = _tried(project, lines, seconds)
    needed: list[IniLine] = []
    unwanted: IniLine | None = None
    variables = _broken_by(project, lines, tried, seconds)
    if variables is not None and (instead := proposal.without_variables(project)) is not None:
        others = [*lines, variables._replace(value=""), *instead]
        again = _tried(project, others, seconds, "once more, without leveret_url_env")
        if again.red_count < tried.red_count:
            tried, lines, needed, unwanted = again, others, instead, variables
    if more := proposal.permitting(project, tried.denied):
        lines, needed = [*lines, more], [*needed, more]
    for line in needed:
        print(f"note: {line.option}: {line.because}")
    if writes and (needed or unwanted):
        changed = proposal.with_lines(project, needed, unwanted)
        print(proposal.diff(project, changed), end="")
        proposal.write(changed)
    return _tried(project, lines, seconds, "once more").code if more else tried.code


def _broken_by(project: Project, lines: list[IniLine], tried: Tried, seconds: float) -> IniLine | None:
    """Name each test that fails because a variable is set, and return the line that sets it; None if there is none."""
    from pytest_leveret.commands import proposal, trying

    line = next((it for it in proposal.lines_for(project) if it.option == "leveret_url_env"), None)
    if line is None or not (tests := tried.unreached[:_EXAMINED]):
        return None
    off = [*lines, line._replace(value="")]
    # The same few tests, so that nothing but the line is another.
    runs = [trying.run(project.root, [*_options(it), *tests], seconds).outcomes for it in (lines, off)]
    broken = [it for it in tests if [run.get(it, {}).get("outcome") for run in runs] == ["failed", "passed"]]
    for test in broken:
        print(f"note: {test} fails only if leveret_url_env is set; let it delete the variables: monkeypatch.delenv()")
    return line if broken else None


def _tried(project: Project, lines: list[IniLine], seconds: float, how: str = "once") -> Tried:
    """Run the tests with more lines, and print what became of them."""
    from pytest_leveret.commands import trying

    print(f"leveret: running the tests {how}")
    tried = trying.run(project.root, _options(lines), seconds)
    print("\n".join(["leveret: " + tried.said[0], *tried.said[1:]]))
    return tried


def _options(lines: list[IniLine]) -> list[str]:
    return [f"--{it.option.replace('_', '-')}={it.value.replace(chr(10), ';')}" for it in lines]


def _agreed() -> bool:
    if not sys.stdin.isatty():
        raise ValueError("nothing was written, because stdin is no terminal to ask at; run it again with --yes")
    return input("Write this? [y/N] ").strip().lower() in ("y", "yes")
