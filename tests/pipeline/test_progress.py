"""The bar of a long command: drawn on a terminal, and plain lines elsewhere."""

from __future__ import annotations

import sys
from io import StringIO

import pytest

from leveret.pipeline.progress import progress


class _Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def _work() -> None:
    with progress("ingesting", 4000) as advance:
        advance(3000)


def test_terminal_shows_a_bar_with_the_work_and_its_times(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    # Draw every step, however little time has passed.
    monkeypatch.setenv("TQDM_MININTERVAL", "0")

    _work()

    drawn = terminal.getvalue()
    assert "leveret: ingesting  75 % |" in drawn
    assert "3,000 of 4,000 events" in drawn
    assert "elapsed" in drawn
    assert "remaining" in drawn
    assert drawn.rstrip(" ").endswith("\r")


def test_log_gets_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    _work()

    assert capsys.readouterr().err == "leveret: ingesting\n"


def test_without_tqdm_a_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    # So it is not found, and an import of it raises ImportError.
    monkeypatch.setitem(sys.modules, "tqdm", None)

    _work()

    assert terminal.getvalue() == "leveret: ingesting\n"
