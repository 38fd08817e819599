"""The beginning of a run with a contract: what it is to do with which files."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_leveret.contract import FILE, FLAG, INI, WRITING, files_of, is_document, locks_of, mode_of
from pytest_leveret.guard import register
from pytest_leveret.options import read_settings
from pytest_leveret.options.table import CONTRACT


def prepare(config: pytest.Config) -> None:
    """Begin to write or check the contract, if the run has one. Raises UsageError if that is impossible."""
    setting = read_settings(config, CONTRACT).get("contract")
    mode = mode_of(config)
    given = mode if setting is not None and setting.origin == FLAG else None
    documents = [path for path in files_of(config) if is_document(path)]
    locks = locks_of(config) or ([Path(config.rootpath, FILE)] if given in WRITING and not documents else [])
    if mode == "off":
        return
    if given in (*WRITING, "check") and not locks and not (documents and given == "check"):
        raise pytest.UsageError(
            f"{FLAG}: there is no lock in {INI}; set {INI} = {FILE}, then write it with {FLAG}=write"
        )
    try:
        if locks:
            from pytest_leveret.contract.run import Contract

            register(config, Contract(config, mode, locks[0]), "leveret-contract", "write the contract")
        if documents:
            _check_documents(config, documents)
    except (OSError, ValueError) as error:
        raise pytest.UsageError(f"{INI}: {error}") from None


def _check_documents(config: pytest.Config, documents: list[Path]) -> None:
    try:
        import jsonschema_rs  # noqa: F401
    except ImportError:
        raise pytest.UsageError(
            f"{INI}: {documents[0].name} needs jsonschema-rs to be checked; pip install 'leveret[asyncapi]'"
        ) from None
    from pytest_leveret.contract.documents.run import DocumentWatch

    register(config, DocumentWatch(config, documents), "leveret-documents", "say what the documents show")
