"""The topic exchange: which keys match which patterns, and that no pattern is slow."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core.compat import Compat
from leveret.core.model.binding import Binding
from leveret.core.model.errors import PreconditionFailed
from leveret.core.model.exchanges import exchange_class
from leveret.core.model.exchanges.exchange import Exchange, ExchangeDeclaration
from leveret.core.model.exchanges.topic import MEMO_SIZE, TopicExchange, matching_nodes, words
from leveret.core.model.message import Message
from leveret.core.wire.properties import Properties
from leveret.core.wire.values import Table

V4_3 = Compat.for_version("4.3")


def make(type_name: str, name: str) -> Exchange:
    return exchange_class(type_name)(ExchangeDeclaration(name, type_name), dice=random.Random(7), compat=V4_3)


def bound(*patterns: str) -> tuple[Exchange, dict[str, Binding]]:
    """Return a topic exchange with one destination for each pattern, named like the pattern."""
    topic = make("topic", "t")
    bindings = {pattern: Binding(topic.name, make("fanout", pattern), pattern, Table.EMPTY) for pattern in patterns}
    for binding in bindings.values():
        topic.bind(binding)
    return topic, bindings


def route(topic: Exchange, *keys: str) -> list[str]:
    message = Message(1, "t", keys[0], Properties(), b"", b"", keys)
    return [destination.name for destination in topic.route(message)]


@pytest.mark.parametrize(
    ("pattern", "key"),
    [
        ("a.*", "a.b"),
        ("a.*", "a."),
        ("a.#", "a"),
        ("a.#", "a."),
        ("a.#", "a.b.c"),
        ("#", ""),
        ("#", "a.b"),
        ("*", "a"),
        ("", ""),
        ("#.a", "a"),
        ("#.a", "b.a"),
        ("a.#.b", "a.b"),
        ("a.#.b", "a.x.b"),
        ("a.#.b", "a.x.y.b"),
        ("*.*", "a.b"),
        ("*.*", "."),
        ("*.#", "a"),
        ("#.*", "a"),
        ("#.#", ""),
        ("#.#", "a.b"),
        ("a.#.*", "a.b"),
        ("a*", "a*"),
        ("a#", "a#"),
        ("a.*.b", "a..b"),
        ("#.#.a", "x.a"),
    ],
)
def test_a_pattern_matches_a_key(pattern: str, key: str) -> None:
    topic, _ = bound(pattern)

    assert route(topic, key) == [pattern]


@pytest.mark.parametrize(
    ("pattern", "key"),
    [
        ("a.*", "a"),
        ("a.*", "a.b.c"),
        ("*", ""),
        ("", "a"),
        ("#.a", "a.b"),
        ("a.#.b", "ab"),
        ("*.#", ""),
        ("#.*", ""),
        ("a.#.*", "a"),
        ("a*", "ab"),
        ("a#", "ab"),
        ("a", "A"),
    ],
)
def test_a_pattern_does_not_match_a_key(pattern: str, key: str) -> None:
    topic, _ = bound(pattern)

    assert route(topic, key) == []


def test_every_key_of_a_message_is_tried() -> None:
    topic, _ = bound("a.*", "b.*")

    assert route(topic, "nothing", "b.1", "a.1") == ["b.*", "a.*"]


def test_a_new_binding_is_seen_by_a_key_routed_before() -> None:
    topic, _ = bound("a.*")
    route(topic, "a.b")

    topic.bind(Binding(topic.name, make("fanout", "late"), "#", Table.EMPTY))

    assert sorted(route(topic, "a.b")) == ["a.*", "late"]


def test_a_removed_binding_is_not_seen_by_a_key_routed_before() -> None:
    topic, bindings = bound("a.*", "#")
    route(topic, "a.b")

    topic.unbind(bindings["a.*"].key)

    assert route(topic, "a.b") == ["#"]


def test_removing_a_binding_keeps_others_with_the_same_first_words() -> None:
    topic, bindings = bound("a", "a.b", "a.b.c")

    topic.unbind(bindings["a.b"].key)

    assert [route(topic, key) for key in ("a", "a.b", "a.b.c")] == [["a"], [], ["a.b.c"]]


def test_removing_all_bindings_leaves_an_empty_trie() -> None:
    topic, bindings = bound("a.b.c", "a.#", "*")

    for binding in bindings.values():
        topic.unbind(binding.key)

    assert isinstance(topic, TopicExchange)
    assert not topic._root.children


def test_more_keys_than_an_exchange_remembers_are_routed() -> None:
    topic, _ = bound("a.*")

    assert all(route(topic, f"a.{number}") == ["a.*"] for number in range(MEMO_SIZE + 10))


def test_many_hash_wildcards_do_not_multiply_the_work() -> None:
    topic, _ = bound(".".join(["#", "a"] * 20))
    assert isinstance(topic, TopicExchange)

    places = list(matching_nodes(topic._root, ["a"] * 60))

    assert len(places) <= 41


def test_more_than_two_hash_wildcards_are_refused() -> None:
    topic, _ = bound()

    with pytest.raises(PreconditionFailed) as caught:
        topic.check_binding(topic, "#.a.#.b.#", Table.EMPTY, V4_3)

    assert caught.value.explanation == "Topic binding key '#.a.#.b.#' uses 3 '#' wildcards, at most 2 are allowed"


def test_a_hash_within_a_word_is_not_counted() -> None:
    topic, _ = bound()

    topic.check_binding(topic, "#.a#.b#.#", Table.EMPTY, V4_3)


@pytest.mark.parametrize("version", ["4.2", "4.0", "3.10"])
def test_older_versions_accept_any_number_of_hash_wildcards(version: str) -> None:
    topic, _ = bound()

    topic.check_binding(topic, "#.#.#", Table.EMPTY, Compat.for_version(version))


def naive(pattern: list[str], key: list[str]) -> bool:
    """Apply the definition: `#` takes any number of words, `*` takes one, every other word itself."""
    if not pattern:
        return not key
    if pattern[0] == "#":
        return naive(pattern[1:], key) or bool(key and naive(pattern, key[1:]))
    return bool(key) and pattern[0] in ("*", key[0]) and naive(pattern[1:], key[1:])


def dotted(letters: str) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(letters.split(",")), max_size=6).map(".".join)


@given(
    patterns=st.lists(dotted("a,b,*,#,"), unique=True, max_size=6),
    removed=st.integers(0, 5),
    keys=st.lists(dotted("a,b,*,#,"), min_size=1, max_size=6),
)
def test_the_trie_agrees_with_the_definition(patterns: list[str], removed: int, keys: list[str]) -> None:
    topic, bindings = bound(*patterns)
    for pattern in patterns[:removed]:
        topic.unbind(bindings[pattern].key)

    for key in keys:
        expected = [pattern for pattern in patterns[removed:] if naive(words(pattern), words(key))]
        assert sorted(route(topic, key)) == sorted(expected)
