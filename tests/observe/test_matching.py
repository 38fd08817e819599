"""The matcher that assertions, waits and faults share."""

import re
from unittest.mock import ANY

import pytest

from leveret.core.model.exchanges.topic import topic_matches
from leveret.observe.assertions.matching import Matcher


def matches(message, **criteria):
    return Matcher(criteria).matches(message)


def why_not(message, **criteria):
    return Matcher(criteria).why_not(message)


def test_no_criteria_match_every_message(view):
    assert matches(view(b"anything"))


def test_every_criterion_has_to_match(view):
    message = view(b"1", routing_key="a", exchange="x")

    assert matches(message, exchange="x", routing_key="a", body=b"1")
    assert not matches(message, exchange="x", routing_key="b", body=b"1")


@pytest.mark.parametrize(
    ("pattern", "routing_key", "fits"),
    [
        ("order.created", "order.created", True),
        ("order.*", "order.created", True),
        ("order.*", "order", False),
        ("order.*", "order.created.eu", False),
        ("order.#", "order", True),
        ("order.#", "order.created.eu", True),
        ("#", "", True),
        ("#", "a.b", True),
        ("*", "", False),
        ("#.eu", "order.created.eu", True),
        ("#.eu.#", "eu", True),
        ("*.#.eu", "eu", False),
        ("a.#.b.#.c", "a.b.b.x.c", True),
        ("a.#.b.#.c", "a.x.c", False),
        ("a..b", "a..b", True),
        ("a.*.b", "a..b", True),
    ],
)
def test_a_topic_pattern_matches_as_in_a_topic_exchange(pattern, routing_key, fits):
    assert topic_matches(pattern, routing_key) is fits


def test_a_routing_key_with_a_star_is_a_pattern(view):
    assert matches(view(routing_key="order.created"), routing_key="order.*")
    assert not matches(view(routing_key="invoice.created"), routing_key="order.*")


def test_a_routing_key_that_looks_like_a_pattern_matches_itself(view):
    assert matches(view(routing_key="order.#"), routing_key="order.#")


def test_a_body_is_given_as_bytes_or_as_text(view):
    message = view("späte".encode())

    assert matches(message, body="späte")
    assert matches(message, body="späte".encode())
    assert not matches(message, body="spate")


def test_json_is_compared_by_value(view):
    message = view(b'{"total": 1.0, "id": 7}')

    assert matches(message, json={"id": 7, "total": 1})
    assert not matches(message, json={"id": 7})


def test_json_null_is_not_the_same_as_no_json(view):
    assert matches(view(b"null"), json=None)
    assert not matches(view(b""), json=None)


def test_a_value_inside_json_may_be_any_object_with_equality(view):
    assert matches(view(b'{"id": 7, "at": "2026-01-01"}'), json={"id": 7, "at": ANY})


def test_headers_are_a_subset(view):
    message = view(headers={"tenant": "eu", "retry": 1})

    assert matches(message, headers={"tenant": "eu"})
    assert not matches(message, headers={"tenant": "us"})
    assert not matches(message, headers={"trace": ANY})


def test_headers_of_a_message_without_any_are_empty(view):
    assert matches(view(), headers={})
    assert not matches(view(), headers={"tenant": ANY})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("content_type", "application/json"),
        ("correlation_id", "c-1"),
        ("priority", 5),
        ("delivery_mode", 2),
        ("type", "order"),
        ("timestamp", 1_700_000_000),
    ],
)
def test_a_basic_property_is_matched_by_its_name(view, name, value):
    assert matches(view(**{name: value}), **{name: value})
    assert not matches(view(), **{name: value})


def test_none_asks_for_the_absence_of_a_property(view):
    assert matches(view(), reply_to=None)
    assert not matches(view(reply_to="answers"), reply_to=None)


def test_a_compiled_expression_is_searched_for(view):
    message = view(b"order 17 of 20", routing_key="order.created")

    assert matches(message, routing_key=re.compile(r"\.created$"), body=re.compile(r"\d+ of"))
    assert matches(message, body=re.compile(rb"\d+ of"))
    assert not matches(message, routing_key=re.compile("^created"))


def test_any_object_with_its_own_equality_is_a_value(view):
    class Long:
        def __eq__(self, other):
            return len(other) > 3

        __hash__ = None

    assert matches(view(b"12345"), body=Long(), routing_key=ANY)
    assert not matches(view(b"123"), body=Long())


@pytest.mark.parametrize(
    ("criteria", "reason"),
    [
        ({"routing_key": "order.created"}, "routing key 'order.updated' instead of 'order.created'"),
        ({"exchange": "billing"}, "exchange 'orders' instead of 'billing'"),
        ({"body": "x"}, """body '{"id": 8, "lines": [1, 2]}' instead of 'x'"""),
        ({"json": {"id": 7, "lines": [1, 2]}}, "JSON['id'] is 8 instead of 7"),
        ({"json": {"id": 8, "lines": [1, 3]}}, "JSON['lines'][1] is 2 instead of 3"),
        ({"json": {"id": 8}}, "JSON also has 'lines' (json_contains= ignores further keys)"),
        ({"json": {"id": 7}}, "JSON['id'] is 8 instead of 7; JSON also has 'lines'"),
        ({"json": {"id": 8, "lines": [1, 2], "total": 3}}, "JSON has no 'total'"),
        ({"json": {"id": 8, "lines": [1]}}, "JSON['lines'] has 2 items instead of 1"),
        ({"json": {}}, "JSON also has 'id' and 'lines' (json_contains= ignores further keys)"),
        ({"json_contains": {"id": 7}}, "JSON['id'] is 8 instead of 7"),
        ({"json_contains": {"total": 3, "tax": 1, "net": 2}}, "JSON has no 'total', 'tax' and 'net'"),
        ({"json_contains": {"lines": {"first": 1}}}, "JSON['lines'] is [1, 2] instead of {'first': 1}"),
        ({"headers": {"tenant": "us"}}, "header 'tenant' 'eu' instead of 'us'"),
        ({"headers": {"trace": "1"}}, "header 'trace' is missing"),
        ({"priority": 5}, "priority None instead of 5"),
    ],
)
def test_a_miss_is_explained_by_what_differs(view, criteria, reason):
    message = view(b'{"id": 8, "lines": [1, 2]}', routing_key="order.updated", headers={"tenant": "eu"})

    assert why_not(message, **criteria) == [reason]


@pytest.mark.parametrize("keyword", ["json", "json_contains"])
def test_a_body_that_is_not_json_says_so(view, keyword):
    assert why_not(view(b"plain"), **{keyword: {}}) == ["body 'plain' is not JSON"]


@pytest.mark.parametrize(
    ("expected", "is_match"),
    [
        ({"id": 8}, True),
        ({}, True),
        ({"customer": {"name": "Ada"}}, True),
        ({"lines": [{"sku": "a"}, {"sku": "b"}]}, True),
        ({"id": ANY}, True),
        ({"customer": ANY}, True),
        ({"id": 9}, False),
        ({"customer": {"name": "Bob"}}, False),
        ({"customer": {"city": "Rome"}}, False),
        ({"lines": [{"sku": "a"}]}, False),
        ({"lines": [{"sku": "b"}, {"sku": "a"}]}, False),
        ([], False),
    ],
)
def test_json_contains_ignores_further_keys_at_every_level(view, expected, is_match):
    body = b'{"id": 8, "customer": {"name": "Ada", "vip": true}, "lines": [{"sku": "a", "n": 1}, {"sku": "b", "n": 2}]}'

    assert matches(view(body), json_contains=expected) is is_match
    assert (why_not(view(body), json_contains=expected) == []) is is_match


def test_json_contains_of_a_list_looks_into_its_items(view):
    assert matches(view(b'[{"id": 1, "total": 2}]'), json_contains=[{"id": 1}])
    assert not matches(view(b'{"id": 1}'), json_contains=[{"id": 1}])


def test_many_differences_are_cut(view):
    body = b'{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}'

    assert why_not(view(body), json={}) == [
        "JSON also has 'a', 'b', 'c' and 2 more (json_contains= ignores further keys)"
    ]
    assert why_not(view(body), json={"a": 2, "b": 3, "c": 4, "d": 5, "e": 5}) == [
        "JSON['a'] is 1 instead of 2; JSON['b'] is 2 instead of 3; JSON['c'] is 3 instead of 4 (and 1 more)"
    ]


def test_only_the_criteria_that_miss_are_explained(view):
    assert why_not(view(routing_key="b"), exchange="orders", routing_key="a") == ["routing key 'b' instead of 'a'"]


def test_a_match_has_nothing_to_explain(view):
    assert why_not(view(), exchange="orders") == []
    assert Matcher({"exchange": "orders"}).distance(view()) == 0


@pytest.mark.parametrize("keyword", ["json", "json_contains"])
@pytest.mark.parametrize("empty", [{}, [], [{}], {"items": []}])
def test_json_that_has_no_values_has_a_distance(view, keyword, empty):
    matcher = Matcher({keyword: empty})

    assert 0 < matcher.distance(view(b"null")) < matcher.distance(view(b"no json"))


def test_a_typo_is_closer_than_another_value(view):
    matcher = Matcher({"routing_key": "order.created"})

    assert 0 < matcher.distance(view(routing_key="order.craeted")) < matcher.distance(view(routing_key="x"))


def test_one_missed_criterion_is_nearer_than_two(view):
    matcher = Matcher({"routing_key": "order.created", "json": {"id": 7}})

    assert matcher.distance(view(b'{"id": 7}', routing_key="x")) < matcher.distance(view(b'{"id": 8}', routing_key="y"))


def test_json_that_differs_in_less_is_nearer(view):
    matcher = Matcher({"json": {"id": 7, "total": 1}})

    assert matcher.distance(view(b'{"id": 7, "total": 2}')) < matcher.distance(view(b'{"id": 8, "total": 2}'))
    assert matcher.distance(view(b'{"id": 8, "total": 2}')) < matcher.distance(view(b"no json"))


def test_a_matcher_prints_as_its_keywords():
    assert repr(Matcher({"routing_key": "a.*", "json": {"id": 7}})) == "routing_key='a.*', json={'id': 7}"


@pytest.mark.parametrize("value", [lambda document: True, len, "".join, dict])
def test_a_function_is_refused_with_what_to_pass_instead(value):
    with pytest.raises(TypeError, match=r"json=.*: cannot compare a message with a function or a class; pass a value"):
        Matcher({"json": value})


@pytest.mark.parametrize(
    ("criteria", "text"),
    [
        ({"headers": "x"}, "headers='x' never matches, because it is not a mapping of names to values"),
        ({"priority": "5"}, "priority='5' never matches, because it is not a number"),
        ({"routing_key": b"a"}, "routing_key=b'a' never matches, because it is not text"),
        ({"message_id": 5}, "message_id=5 never matches, because it is not text"),
        ({"body": {"id": 7}}, "body={'id': 7} never matches, because it is not bytes or text"),
        (
            {"json_contains": "id"},
            "json_contains='id' never matches, because it is not an object or a list; json= compares a whole value",
        ),
        ({"redelivered": "yes"}, "redelivered='yes' never matches, because it is not True or False"),
    ],
)
def test_a_value_that_no_message_can_have_is_refused(criteria: dict, text: str) -> None:
    with pytest.raises(TypeError) as refused:
        Matcher(criteria)

    assert str(refused.value) == text
