"""The catalogue and its page; `python -m tests.catalogue` tries every finder on every entry."""

from __future__ import annotations

from tests.catalogue.entries import ENTRIES
from tests.catalogue.finders import FINDERS, Tried
from tests.house.repository import ROOT


def test_the_page_has_a_row_for_each_bug_and_a_column_for_each_finder() -> None:
    page = (ROOT / "docs/explanation/finders.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]

    head, _, *bugs = rows
    assert len(head) == 2 + len(FINDERS)
    assert {row[0] for row in bugs} == {entry.what for entry in ENTRIES}


def test_a_bug_in_messages_is_found_by_the_contract_and_its_twin_is_not() -> None:
    entry = next(entry for entry in ENTRIES if entry.what == "an amount that has become a text")
    assert entry.twin is not None

    assert Tried(entry.bug, entry.twin).contract() is True
    assert Tried(entry.twin, entry.twin).contract() is False
