"""No mistake is silent: the output names it, and nearly always the way out."""

from __future__ import annotations

import re

import pytest

from tests.mistakes.programs import MISTAKES
from tests.plugin.conftest import Run, no_options_of_ours, run, suite

__all__ = ["no_options_of_ours", "run", "suite"]
CONFTEST = """
import socket
import subprocess
import sys

import pytest

@pytest.fixture
def unused_port():
    with socket.socket() as somewhere:
        somewhere.bind(("127.0.0.1", 0))
        return somewhere.getsockname()[1]

@pytest.fixture
def other_port():
    # A broker of another process, where RabbitMQ usually listens.
    for port in (5672, 5673, 5671):
        command = [sys.executable, "-m", "leveret", "serve", "--port", str(port)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
            if server.stdout.readline():
                yield port
                server.terminate()
                return
    pytest.skip("all ports of RabbitMQ are taken on this machine")
"""


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_with_its_way_out(name: str, run: Run, suite: pytest.Pytester) -> None:
    mistake = MISTAKES[name]
    suite.makeconftest(CONFTEST)

    # A coroutine that is never awaited is such a mistake.
    result = run(mistake.source, "-W", "default:coroutine:RuntimeWarning")

    text = f"{result.stdout}{result.stderr}"
    # What pytest quotes of the test itself says nothing.
    quoted = {line.strip() for line in mistake.source.splitlines()}
    lines = [line for line in text.splitlines() if line.removeprefix(">").strip() not in quoted]
    assert {"failed", "errors", "warnings"} & set(result.parseoutcomes()), text
    assert [line for line in lines if re.search(mistake.cause, line)], text
    assert mistake.way_out is None or [line for line in lines if re.search(mistake.way_out, line)], text


def test_nearly_all_mistakes_have_a_way_out() -> None:
    assert len(MISTAKES) >= 60
    assert len([mistake for mistake in MISTAKES.values() if mistake.way_out is None]) <= 3
