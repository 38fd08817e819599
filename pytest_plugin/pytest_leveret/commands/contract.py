"""The command `leveret contract`: whether the locks of services fit together, and how two locks differ."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_CODES = "The exit code is 0 if nothing breaks, 1 if something does, and 2 if a file cannot be read."


def add_to(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to a parser."""
    contract = commands.add_parser(
        "contract",
        help="check whether services agree on their messages",
        description="Check whether services agree on their messages, from the locks that their tests have written.",
    )
    actions = contract.add_subparsers(title="actions", dest="action", required=True)
    check = actions.add_parser(
        "check",
        help="check that publishers send what consumers need",
        description=f"Compare what the publishers in locks send with what the consumers in them need. {_CODES}",
    )
    check.add_argument("locks", nargs="+", metavar="LOCK", type=Path, help="the lock of a service")
    check.set_defaults(run=_check)
    diff = actions.add_parser(
        "diff",
        help="show how a lock differs from an older one, and what that breaks",
        description=f"Show how a lock differs from an older one, and what that breaks. {_CODES}",
    )
    diff.add_argument("old", metavar="OLD", type=Path, help="the older lock")
    diff.add_argument("new", metavar="NEW", type=Path, help="the newer lock")
    diff.set_defaults(run=_diff)


def _check(options: argparse.Namespace) -> int:
    from pytest_leveret.contract.lock import read
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
    from pytest_leveret.contract.lock import read

    changes = [*lock_changes(read(options.old), read(options.new))]
    _print("breaking", [change for change in changes if change.breaks])
    _print("not breaking", [change for change in changes if not change.breaks])
    if not changes:
        print("no difference")
    return 1 if any(change.breaks for change in changes) else 0


def _print(title: str, lines: Iterable[object]) -> None:
    for index, line in enumerate(lines):
        print(f"{title}:\n  {line}" if index == 0 else f"  {line}")
