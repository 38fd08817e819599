"""Patterns that leveret refuses: those of RabbitMQ that it cannot match, by name, and those that are none."""

from __future__ import annotations

import re

import pytest

from leveret import Broker, BrokerError
from leveret.core.model.operators.patterns import name_pattern
from leveret.core.model.operators.pcre import UnsupportedError


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("(?1)(a)", "(?1"),
        ("(?R)?", "(?R"),
        ("(?&n)(?<n>a)", "(?&"),
        (r"\g<1>(a)", r"\g"),
        ("(?|(a)|(b))", "(?|"),
        ("(?C1)a", "(?C"),
        ("(*ACCEPT)a", "(*ACCEPT"),
        (r"\p{Lu}", r"\p"),
        (r"[\P{L}]", r"\P"),
        (r"\X", r"\X"),
        (r"a\Kb", r"\K"),
        ("(?J)(?<n>a)(?<n>b)", "(?J"),
        ("(?(?=a)a|b)", "(?(?"),
        ("[[:<:]]a", "[[:<:]]"),
        (r"(\2a)(b)", "a reference to a later group"),
        (r"(?<=a|b+)c", "look-behind requires fixed-width pattern"),
        (r"(a+)+\1$", "a back-reference beside many repeats has no time limit"),
    ],
)
def test_what_leveret_cannot_match_is_named(pattern: str, named: str) -> None:
    with pytest.raises(UnsupportedError, match=re.escape(named)):
        name_pattern(pattern, is_pcre2=True)


@pytest.mark.parametrize("pattern", ["(", "a)", "[a", "*a", r"(a)\2", r"\y", "[z-a]", r"\x{100}"])
def test_what_pcre2_refuses_is_not_unsupported(pattern: str) -> None:
    with pytest.raises(re.error) as refused:
        name_pattern(pattern, is_pcre2=True)

    assert not isinstance(refused.value, UnsupportedError)


def test_the_error_about_a_policy_says_what_leveret_cannot_match() -> None:
    with Broker() as broker, pytest.raises(BrokerError, match=re.escape("leveret cannot match (?1")):
        broker.admin.set_policy("p", "(?1)(a)", {"max-length": 1})
