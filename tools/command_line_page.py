"""The reference of the command line, docs/reference/command-line.md, from the commands themselves.

    python tools/command_line_page.py [--check]

It writes the page; with `--check` it only says whether the page is what it would write.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from leveret.cli import parser

DOCS: Final = Path(__file__).parents[1] / "docs"
PAGE: Final = DOCS / "reference" / "command-line.md"
HEAD: Final = """\
# The command line

<!-- Written by `python tools/command_line_page.py`. -->

Look up a command and its options. `leveret COMMAND --help` prints the same, and `python -m leveret` works where the
command `leveret` is not on the path. The options of pytest, such as `--leveret-rabbitmq`, are in
[Options and the marker](options.md).

The exit code is 0, or 2 if the command could not do what you asked; the error is then on stderr. A command that can
also exit with 1 says so below.
"""
# The guides that show a command at work.
GUIDES: Final = {
    "leveret serve": ("how-to/other-languages.md",),
    "leveret contract": ("how-to/contract.md", "how-to/asyncapi.md"),
    "leveret definitions": ("how-to/production-topology.md",),
    "leveret needs": ("how-to/needs.md",),
    "leveret why": ("how-to/failed-test.md",),
    "leveret trace": ("how-to/recording.md", "how-to/page.md"),
    "leveret pipeline": ("how-to/pipeline.md", "how-to/report.md", "how-to/warehouse.md", "how-to/fleet.md"),
    "leveret spark": ("how-to/spark-cluster.md",),
}


def page() -> str:
    """Return the page."""
    sections = ["\n".join(section(command)) for command in commands(parser())]
    return "\n".join([HEAD, *sections])


def commands(command: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Give the commands below a command, each before those below it."""
    for below in subcommands(command).values():
        yield below
        yield from commands(below)


def subcommands(command: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the commands directly below a command, by name."""
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def section(command: argparse.ArgumentParser) -> Iterator[str]:
    """Give the lines about one command."""
    below = subcommands(command)
    shown = [action for action in command._actions if action.help and not isinstance(action, argparse._HelpAction)]
    arguments = [action for action in shown if not action.option_strings]
    options = [action for action in shown if action.option_strings]
    usage = " ".join([command.prog, *(["[OPTIONS]"] if options else []), *map(value_of, arguments)])
    yield f"{'##' if command.prog.count(' ') == 1 else '###'} {command.prog}\n"
    if command.description:
        yield f"{command.description}\n"
    if guides := GUIDES.get(command.prog):
        yield f"{wrapped('Guides: ' + ', '.join(map(link, guides)))}\n"
    if below:
        yield "| command | |\n| --- | --- |"
        for name, one in below.items():
            anchor = f"{command.prog} {name}".replace(" ", "-")
            purpose = str(one.description).partition(". ")[0].removesuffix(".")
            yield f"| [`{name}`](#{anchor}) | {purpose} |"
        yield ""
    else:
        yield f"`{usage}`\n"
    if shown:
        yield "| option | |\n| --- | --- |"
        for action in (*arguments, *options):
            written = " ".join([", ".join(action.option_strings), value_of(action)]).strip()
            required = "; required" if action.required and action.option_strings else ""
            yield f"| `{written}` | {one_line(action)}{required} |"
        yield ""
    if command.epilog:
        yield from epilog(command.epilog)


def linked(text: str) -> str:
    """Return a text with links in the place of the pages that it names, such as docs/reference/broker.md."""
    return re.sub(r"\bdocs/([\w/-]+\.md)", lambda named: link(named[1]), text)


def wrapped(text: str) -> str:
    """Return a paragraph in lines as long as those of a page."""
    return textwrap.fill(text, 120, break_on_hyphens=False)


def link(place: str) -> str:
    """Return a link to a page, by its place below docs."""
    title = (DOCS / place).read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
    return f"[{title}]({os.path.relpath(place, 'reference')})"


def value_of(action: argparse.Action) -> str:
    """Return how the value of an option is written, empty for a switch."""
    if action.nargs == 0:
        return ""
    if action.choices is not None:
        name = f"{{{','.join(map(str, action.choices))}}}"
    else:
        name = str(action.metavar or action.dest.upper())
    return {"*": f"[{name} ...]", "+": f"{name} [{name} ...]", "?": f"[{name}]"}.get(str(action.nargs), name)


def one_line(action: argparse.Action) -> str:
    """Return the help of an option, as the cell of a table."""
    text = linked(" ".join(str(action.help).split()).replace("|", "\\|"))
    return f"{text[0].upper()}{text[1:]}"


def epilog(text: str) -> Iterator[str]:
    """Give the lines of an epilog: the examples, which it indents, as a list, and the rest as it is."""
    for paragraph in text.strip().split("\n\n"):
        if not paragraph.startswith("examples:\n"):
            yield f"{wrapped(linked(paragraph))}\n"
            continue
        lines = [line.strip() for line in paragraph.splitlines()[1:]]
        yield "Examples:\n"
        for example, purpose in zip(lines[::2], lines[1::2], strict=True):
            yield f"- `{example}`: {purpose}"
        yield ""


def main(arguments: list[str]) -> int:
    """Write or check the page, and return the exit status."""
    written = page()
    if "--check" not in arguments:
        PAGE.write_text(written, encoding="utf-8")
        return 0
    if PAGE.read_text(encoding="utf-8") == written:
        return 0
    print(f"{PAGE.name} does not show the commands as they are; run python tools/command_line_page.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
