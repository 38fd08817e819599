"""Counted facts: what runs of the same trial do not agree on loses its value."""

from __future__ import annotations

from leveret.story.facts import CountedFact, Facts, noise_of, without_noise

FIRST, SECOND = (CountedFact("published", "orders", "id", value) for value in ("1", "2"))
ACKED = CountedFact("acked", "orders")


def test_what_two_runs_have_with_other_values_is_noise() -> None:
    assert noise_of([Facts([FIRST, ACKED]), Facts([SECOND, ACKED])]) == {FIRST.spot}


def test_what_two_runs_have_alike_is_no_noise() -> None:
    assert noise_of([Facts([FIRST, ACKED]), Facts([FIRST, ACKED])]) == set()


def test_noise_counts_without_its_value() -> None:
    facts = without_noise(Facts([FIRST, SECOND, ACKED]), {FIRST.spot})

    assert facts == Facts({FIRST.spot: 2, ACKED: 1})
