"""How pytest shows that a flow is another than the text of a test: the lines that differ, and no other."""

from __future__ import annotations

import pytest

from tests.plugin.conftest import Run

LINES = """
    E * assert the flow is as pinned: '-' is pinned, '+' is what flowed
    E *  - the test -> mails: ready
    E *  + the test -> letters: ready
"""
TEST = '''
def test_it(leveret):
    for name in ("orders", "bills", "letters"):
        leveret.declare_queue(name)
        leveret.publish("", name, b"7")
    pinned = """
        the test -> orders: ready
        the test -> bills: ready
        the test -> mails: ready
    """
    assert {}
'''


@pytest.mark.parametrize("comparison", ["leveret.flow() == pinned", "pinned == leveret.flow()"])
def test_only_lines_that_differ_are_shown(run: Run, comparison: str) -> None:
    result = run(TEST.format(comparison))

    result.stdout.fnmatch_lines([line.strip() for line in LINES.splitlines() if line])
    shown = [line for line in result.outlines if line.startswith("E  ")]
    assert not any("orders" in line or "bills" in line for line in shown), shown


def test_other_texts_are_compared_as_ever(run: Run) -> None:
    result = run(
        """
        def test_it(leveret):
            leveret.flow()
            assert "a text" == "another"
        """
    )

    result.stdout.fnmatch_lines(["E*assert 'a text' == 'another'"])
