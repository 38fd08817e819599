"""The contract of a suite: a lock of the messages that its tests send and receive, which runs write and check.

This module has the options. Without a contract, a run imports nothing else of it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

MODES: Final = ("check", "write", "rewrite", "off")
FILE: Final = "messages.lock"
INI: Final = "leveret_contract"
_FLAG: Final = "--leveret-contract"
_VARIABLE: Final = "LEVERET_CONTRACT"
_DEST: Final = "leveret_contract"


def add_options(parser: pytest.Parser) -> None:
    """Add the options to pytest."""
    group = parser.getgroup("leveret", "leveret, an AMQP broker for tests")
    group.addoption(
        _FLAG,
        dest=_DEST,
        metavar="MODE",
        default=None,
        help="what to do with the contract: check the tests' messages against the file of leveret_contract, write what "
        "they show to it, rewrite it, or off (default: check)",
    )
    parser.addini(
        INI,
        help=f"the file that holds the contract of this suite's messages, such as {FILE} (default: no contract)",
        default=None,
    )


def prepare(config: pytest.Config) -> None:
    """Begin to write or check the contract, if the run has one. Raises UsageError if that is impossible."""
    given = config.getoption(_DEST, None)
    mode, origin = (given, _FLAG) if given is not None else (os.environ.get(_VARIABLE) or "check", _VARIABLE)
    if mode not in MODES:
        raise pytest.UsageError(f"{origin}: {mode!r} is unknown; expected {', '.join(MODES[:-1])} or {MODES[-1]}")
    file = config.getini(INI) or (FILE if given in ("write", "rewrite") else None)
    if mode == "off" or file is None:
        if given == "check":
            raise pytest.UsageError(
                f"{_FLAG}: there is no contract; set {INI} = {FILE}, then write it with {_FLAG}=write"
            )
        return
    from pytest_leveret.contract.run import Contract

    config.pluginmanager.register(Contract(config, mode, Path(config.rootpath, str(file))), "leveret-contract")
