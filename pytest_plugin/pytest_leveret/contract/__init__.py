"""The contract of a suite: a lock of its messages, which runs write and check, and documents, which they check.

This module has its settings. Without a contract, a run imports `beginning` beside it, and nothing else of this room.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from pytest_leveret.options import read_settings
from pytest_leveret.options.table import CONTRACT

FILE: Final = "messages.lock"
INI: Final = "leveret_contract"
WRITING: Final = ("write", "rewrite")
# A file with one of these endings is a document, and so is a folder; all else is a lock.
SUFFIXES: Final = (".json", ".yaml", ".yml")
FLAG: Final = CONTRACT[0].flag
_DOCUMENTS: Final = "AsyncAPI documents or folders of JSON Schemas"


def add_setting(parser: pytest.Parser) -> None:
    """Add the ini setting with the files, which is no mode as the option is."""
    parser.addini(
        INI,
        type="linelist",
        help=f"the files that hold the contract of this suite's messages, one a line: a lock, such as {FILE}, AsyncAPI "
        "documents, and folders of JSON Schemas (default: no contract)",
        default=[],
    )


def locks_of(config: pytest.Config) -> list[Path]:
    """Return the locks among the files of the contract. Raises UsageError if there are several."""
    locks = [path for path in files_of(config) if not is_document(path)]
    if len(locks) > 1:
        names = " and ".join(path.name for path in locks)
        raise pytest.UsageError(f"{INI}: {names} are several locks; a suite has one, and {_DOCUMENTS} beside it")
    return locks


def files_of(config: pytest.Config) -> list[Path]:
    """Return the files of the contract, locks and documents."""
    return [Path(config.rootpath, line) for line in config.getini(INI)]


def is_document(path: Path) -> bool:
    """Return whether a file of a contract is a document, not a lock."""
    return path.suffix.lower() in SUFFIXES or path.is_dir()


def mode_of(config: pytest.Config) -> str:
    """Return what the run is to do with its contract, if it has one."""
    setting = read_settings(config, CONTRACT).get("contract")
    return "check" if setting is None else str(setting.value)
