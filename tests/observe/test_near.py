"""Why a binding nearly matches a routing key."""

from __future__ import annotations

import pytest

from leveret.observe.texts.near import nearest, slip, why_not


@pytest.mark.parametrize(
    ("key", "pattern", "why"),
    [
        ("order.paid", "order.*.paid", "one word is missing before 'paid'"),
        ("order.eu.de.paid", "order.*.paid", "one word is too many at 'de'"),
        ("", "order.#", "the routing key is empty"),
        ("order.paid", "order.shipped", "'paid' is not 'shipped'"),
        ("Order.Paid", "order.paid", "only upper and lower case differ"),
        ("order.paid ", "order.paid", "one of them has white space around it"),
        ("", "order.paid", "the routing key is empty"),
        ("order", "order.*", "one word is missing after 'order'"),
        ("shop.order.paid", "order.#", "'shop' is not 'order'"),
    ],
)
def test_the_difference_is_named(key, pattern, why):
    assert why_not(key, pattern) == why


def test_the_nearest_comes_first_and_the_far_ones_not_at_all():
    bound = [("mail.*", "a"), ("order.shipped", "b"), ("order.*.paid", "c")]

    assert [found[1] for found in nearest("order.paid", bound)] == ["c", "b"]


def test_the_same_key_is_no_near_miss():
    assert nearest("amq.gen-1", [("amq.gen-1", "a"), ("amq.gen-2", "b")])[0][1] == "b"


@pytest.mark.parametrize(
    ("key", "pattern", "why"),
    [
        ("order.paid", "order.*.paid", "one word is missing before 'paid'"),
        ("Order.paid", "order.paid", "only upper and lower case differ"),
        ("order.eu.paid", "order.created", ""),
        ("order.paid", "order.shipped", ""),
    ],
)
def test_a_slip_is_a_word_too_few_or_too_many_or_the_case(key, pattern, why):
    assert slip(key, pattern) == why
