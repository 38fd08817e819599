"""The contract of a suite: a lock of its messages, which runs write and check, and documents, which they check.

This module has the options. Without a contract, a run imports nothing else of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from pytest_leveret.options import Option, read_choice, read_settings

FILE: Final = "messages.lock"
INI: Final = "leveret_contract"
WRITING: Final = ("write", "rewrite")
# A file with one of these endings is a document, and so is a folder; all else is a lock.
SUFFIXES: Final = (".json", ".yaml", ".yml")
_DOCUMENTS: Final = "AsyncAPI documents or folders of JSON Schemas"
_MODE: Final = Option(
    "contract",
    "MODE",
    "what to do with the contract: check the tests' messages against the files of leveret_contract, write what they "
    "show to the lock among them, rewrite it, or off (default: check)",
    read_choice("check", "write", "rewrite", "off"),
    has_ini=False,
)
OPTIONS: Final = (_MODE,)


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
    locks = [path for path in _files_of(config) if not is_document(path)]
    if len(locks) > 1:
        names = " and ".join(path.name for path in locks)
        raise pytest.UsageError(f"{INI}: {names} are several locks; a suite has one, and {_DOCUMENTS} beside it")
    return locks


def _files_of(config: pytest.Config) -> list[Path]:
    return [Path(config.rootpath, line) for line in config.getini(INI)]


def is_document(path: Path) -> bool:
    """Return whether a file of a contract is a document, not a lock."""
    return path.suffix.lower() in SUFFIXES or path.is_dir()


def mode_of(config: pytest.Config) -> str:
    """Return what the run is to do with its contract, if it has one."""
    setting = read_settings(config, OPTIONS).get(_MODE.word)
    return "check" if setting is None else str(setting.value)


def prepare(config: pytest.Config) -> None:
    """Begin to write or check the contract, if the run has one. Raises UsageError if that is impossible."""
    setting = read_settings(config, OPTIONS).get(_MODE.word)
    mode = mode_of(config)
    given = mode if setting is not None and setting.origin == _MODE.flag else None
    documents = [path for path in _files_of(config) if is_document(path)]
    locks = locks_of(config) or ([Path(config.rootpath, FILE)] if given in WRITING and not documents else [])
    if mode == "off":
        return
    if given in (*WRITING, "check") and not locks and not (documents and given == "check"):
        raise pytest.UsageError(
            f"{_MODE.flag}: there is no lock in {INI}; set {INI} = {FILE}, then write it with {_MODE.flag}=write"
        )
    if locks:
        from pytest_leveret.contract.run import Contract

        config.pluginmanager.register(Contract(config, mode, locks[0]), "leveret-contract")
    if documents:
        _check_documents(config, documents)


def _check_documents(config: pytest.Config, documents: list[Path]) -> None:
    try:
        import jsonschema_rs  # noqa: F401
    except ImportError:
        raise pytest.UsageError(
            f"{INI}: {documents[0].name} needs jsonschema-rs to be checked; pip install 'leveret[asyncapi]'"
        ) from None
    from pytest_leveret.contract.documents.run import DocumentWatch

    config.pluginmanager.register(DocumentWatch(config, documents), "leveret-documents")
