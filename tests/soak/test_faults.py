"""The table of the faults of a soak is complete."""

from __future__ import annotations

from tests.soak.faults import ADD, EXCUSED, NAMES


def test_each_fault_of_the_broker_is_in_a_soak_or_excused() -> None:
    missing = [name for name in NAMES if name not in ADD and name not in EXCUSED]

    assert missing == [], "write how a soak adds them into ADD of tests/soak/faults.py, or why it cannot into EXCUSED"
    assert [name for name in (*ADD, *EXCUSED) if name not in NAMES] == []
