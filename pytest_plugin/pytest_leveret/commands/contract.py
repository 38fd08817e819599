"""The command `leveret contract`: whether the contracts of services fit together, how two differ, and a lock as another
document."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_FORMATS = ("asyncapi", "json-schema")
_CODES = "The exit code is 0 if nothing breaks, 1 if something does, and 2 if a file cannot be read."


def add_to(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to a parser."""
    contract = commands.add_parser(
        "contract",
        help="check whether services agree on their messages",
        description="Check whether services agree on their messages, from the locks that their tests have written and "
        "from AsyncAPI documents, and print a lock as such a document.",
    )
    actions = contract.add_subparsers(title="actions", dest="action", required=True)
    check = actions.add_parser(
        "check",
        help="check that publishers send what consumers need",
        description=f"Compare what the publishers in locks send with what the consumers in them need. {_CODES}",
    )
    check.add_argument(
        "locks", nargs="+", metavar="LOCK", type=Path, help="the lock or the AsyncAPI document of a service"
    )
    check.set_defaults(run=_check)
    diff = actions.add_parser(
        "diff",
        help="show how a lock differs from an older one, and what that breaks",
        description=f"Show how a lock differs from an older one, and what that breaks. {_CODES}",
    )
    diff.add_argument("old", metavar="OLD", type=Path, help="the older lock or document")
    diff.add_argument("new", metavar="NEW", type=Path, help="the newer lock or document")
    diff.set_defaults(run=_diff)
    export = actions.add_parser(
        "export",
        help="print a lock as an AsyncAPI document, or write it as JSON Schemas",
        description="Print a lock as an AsyncAPI 3.0 document, or write the JSON Schema of each message to a folder.",
    )
    export.add_argument("lock", metavar="LOCK", type=Path, help="the lock of a service")
    export.add_argument(
        "--format", choices=_FORMATS, default=_FORMATS[0], help=f"what to write (default: {_FORMATS[0]})"
    )
    export.add_argument(
        "--output",
        metavar="PATH",
        type=Path,
        help="the file to write, in YAML if its name ends in .yaml or .yml; with json-schema the folder, which has to "
        "be named (default: print it)",
    )
    export.add_argument(
        "--title", help="the title of the document (default: the name of the folder that the lock is in)"
    )
    export.add_argument("--version", default="1", help="the version of the document (default: 1)")
    export.set_defaults(run=_export)


def _check(options: argparse.Namespace) -> int:
    from pytest_leveret.contract.documents.importing import read
    from pytest_leveret.contract.meeting import meet

    meeting = meet({str(path): read(path) for path in options.locks})
    _print("breaking", meeting.breaking)
    _print("not breaking", meeting.harmless)
    _print("sent, and no consumer reads it", meeting.unread)
    _print("read, and no publisher sends it", meeting.unsent)
    if not meeting.breaking:
        print("leveret: the locks fit together")
    return 1 if meeting.breaking else 0


def _diff(options: argparse.Namespace) -> int:
    from pytest_leveret.contract.comparing import lock_changes
    from pytest_leveret.contract.documents.importing import read

    changes = [*lock_changes(read(options.old), read(options.new))]
    _print("breaking", [change for change in changes if change.breaks])
    _print("not breaking", [change for change in changes if not change.breaks])
    if not changes:
        print("no difference")
    return 1 if any(change.breaks for change in changes) else 0


def _export(options: argparse.Namespace) -> int:
    from pytest_leveret.contract.documents import exporting
    from pytest_leveret.contract.lock import read

    lock, output = read(options.lock), options.output
    if options.format == "asyncapi":
        title = options.title or options.lock.resolve().parent.name
        text = exporting.document_text(exporting.document_of(lock, title, options.version), output)
        if output is None:
            print(text, end="")
        else:
            output.write_text(text, encoding="utf-8")
        return 0
    if output is None:
        raise ValueError("--format=json-schema writes a file for each message; name a folder with --output=PATH")
    for name, schema in exporting.schemas_of(lock).items():
        file = output / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(exporting.document_text(schema, file), encoding="utf-8")
    return 0


def _print(title: str, lines: Iterable[object]) -> None:
    for index, line in enumerate(lines):
        print(f"{title}:\n  {line}" if index == 0 else f"  {line}")
