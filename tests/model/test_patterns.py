"""Patterns of policies and permissions: the answers of `re`, in bounded time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.core.model.operators import patterns
from leveret.core.model.operators.patterns import Expression, TextTooLongError, compiled

LEAVES = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "^", "$", r"\b", r"\w", "(?<=a)", "(?<!ab)"])
REPEATS = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}", "*?", "+?", "{0,2}?"])


def larger(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(parts, parts).map("".join),
        st.tuples(parts, parts).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(parts, REPEATS).map(lambda pair: f"({pair[0]}){pair[1]}"),
        parts.map(lambda part: f"(?={part})"),
        parts.map(lambda part: f"(?!{part})"),
        parts.map(lambda part: f"(?i:{part})"),
    )


@settings(max_examples=100)
@given(pattern=st.recursive(LEAVES, larger, max_leaves=8), text=st.text("abA\n.", max_size=6))
def test_a_walk_finds_what_re_finds(pattern: str, text: str) -> None:
    walk = patterns._Walk(patterns._sequence(patterns._parser.parse(pattern), re.compile(pattern).flags))

    assert (walk.search(text) is not None) == (re.search(pattern, text) is not None)


# Each would hold `re` for longer than a test suite lasts.
HOSTILE = [
    ("^(a+)+$", "a" * 254 + "!"),
    ("^(a|a.)*$", "a" * 254 + "\n\n"),
    ("(.*)*x", "b" * 255),
    ("a?" * 100 + "a" * 100 + "b", "a" * 200),
    ("(x+x+)+y", "x" * 255),
    ("^(a|a|aa)(a|aa){20,}$", "a" * 254 + "!"),
    ("(?i:(A+)+B)", "a" * 255),
    ("(((^){9999}){9999}){9999}b", "a"),
]


@pytest.mark.parametrize(("pattern", "text"), HOSTILE)
def test_a_pattern_with_repeats_of_repeats_has_an_answer(pattern: str, text: str) -> None:
    assert not compiled(pattern).search(text)


@pytest.mark.parametrize(
    ("pattern", "text"), [("^(a+)+$", "a" * 255), ("(x+x+)+y", "xxxy"), ("(a*)*(b*)*(c*)*!", "?!")]
)
def test_such_a_pattern_is_found_where_it_matches(pattern: str, text: str) -> None:
    assert compiled(pattern).search(text)


@pytest.mark.parametrize("pattern", ["", ".*", r"^orders\.", r"^(?!amq\.).*", "^(orders|billing)$", "^a.*b$"])
def test_ordinary_patterns_are_left_to_re(pattern: str) -> None:
    assert isinstance(compiled(pattern), re.Pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(", "missing"),
        ("(" * 5000 + ")" * 5000, "regular expression is too complicated"),
        ("a{99999999999}", "number too big in {} quantifier"),
        (r"(a+)+\1$", "a back-reference beside many repeats has no time limit"),
        ("(a++b)*(?>c)*d*", "a possessive repeat beside many repeats has no time limit"),
    ],
)
def test_a_pattern_that_cannot_be_matched_is_invalid(pattern: str, text: str) -> None:
    with pytest.raises(re.error, match=re.escape(text)):
        compiled(pattern)


@settings(max_examples=100)
@given(
    part=LEAVES,
    repeat=st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}", "{3,7}", "{0,2}", "{400}"]),
    text=st.text("ab\n", max_size=12),
)
def test_a_repeated_character_is_found_where_re_finds_it(part: str, repeat: str, text: str) -> None:
    pattern = f"b({part}){repeat}b" if part in ("^", "$", r"\b") or "?" in part else f"b{part}{repeat}b"
    walk = patterns._Walk(patterns._sequence(patterns._parser.parse(pattern), re.compile(pattern).flags))

    assert (walk.search(text) is not None) == (re.search(pattern, text) is not None)


# `re` takes minutes for each.
@pytest.mark.parametrize("pattern", [".*x.*y", "a*a*b", "(a|aa)a*b$", "a{200000}b", "a{5,150000}b"])
def test_a_long_text_has_an_answer(pattern: str) -> None:
    assert Expression(pattern).search("a" * 200_000) is None
    assert Expression(pattern).search("xy" + "a" * 200_000 + "b") is not None


def test_a_pattern_that_repeats_a_group_is_refused_for_a_long_text() -> None:
    expression = Expression("^(ab+)+$")

    assert expression.search("abb" * 600) is not None
    with pytest.raises(TextTooLongError, match="a text of 6000 characters is too long for a pattern that repeats a gr"):
        expression.search("abb" * 2000)


def test_a_pattern_without_choices_fits_every_text() -> None:
    Expression(r"(ab)c\1").require_any_length()
    with pytest.raises(TextTooLongError):
        Expression("(ab)*").require_any_length()
