"""No mistake of the sixty is silent, and nearly all are named together with the way out."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

import pytest

from leveret import Broker
from tests.mistakes.programs import MISTAKES
from tests.plugin.conftest import no_options_of_ours, run, suite

__all__ = ["no_options_of_ours", "run", "suite"]
CONFTEST = """
import socket
import pytest
from leveret import Broker

@pytest.fixture
def unused_port():
    with socket.socket() as somewhere:
        somewhere.bind(("127.0.0.1", 0))
        return somewhere.getsockname()[1]

@pytest.fixture
def other_broker():
    with Broker() as broker:
        yield broker
"""


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake(name, run, suite):
    mistake = MISTAKES[name]
    suite.makeconftest(CONFTEST)
    result = run(mistake.source)
    text = result.stdout.str() + result.stderr.str()
    # What pytest quotes of the test itself says nothing.
    source = {line.strip() for line in mistake.source.splitlines()}
    lines = [line for line in text.splitlines() if line.removeprefix(">").strip() not in source]
    outcomes = result.parseoutcomes()
    assert set(outcomes) & {"failed", "errors", "error", "warnings", "warning"}, text
    assert [line for line in lines if re.search(mistake.cause, line)], text
    if mistake.way_out is not None:
        assert [line for line in lines if re.search(mistake.way_out, line)], text
