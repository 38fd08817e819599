"""The headers exchange: which arguments of a binding match which headers."""

from __future__ import annotations

import random

import pytest

from leveret.core.compat import Compat
from leveret.core.model.binding import Binding
from leveret.core.model.errors import PreconditionFailed
from leveret.core.model.exchanges import exchange_class
from leveret.core.model.exchanges.default import DefaultExchange
from leveret.core.model.exchanges.exchange import Exchange, ExchangeDeclaration
from leveret.core.model.message import Message
from leveret.core.wire.properties import Properties
from leveret.core.wire.values import Field, Table

V4_3 = Compat.for_version("4.3")


def headers_exchange(compat: Compat = V4_3) -> Exchange:
    return exchange_class("headers")(ExchangeDeclaration("h", "headers"), dice=random.Random(7), compat=compat)


def table(*entries: tuple[str, str, object]) -> Table:
    return Table(tuple((name, Field(tag, value)) for name, tag, value in entries))


def match(arguments: Table, headers: Table | None, compat: Compat = V4_3) -> bool:
    source = headers_exchange(compat)
    somewhere = DefaultExchange({}, dice=random.Random(7), compat=compat)
    source.bind(Binding(source.name, somewhere, "key", arguments))
    published = Message(1, "h", "other", Properties(headers=headers), b"", b"", ("other",))
    return bool(source.route(published))


ONE = ("a", "I", 1)
TWO = ("b", "S", b"x")


def x_match(word: str) -> tuple[str, str, object]:
    return ("x-match", "S", word.encode())


@pytest.mark.parametrize(
    ("arguments", "headers", "expected"),
    [
        (table(ONE, TWO), table(ONE, TWO), True),
        (table(ONE, TWO), table(ONE), False),
        (table(ONE), table(ONE, TWO), True),
        (table(x_match("all"), ONE, TWO), table(ONE), False),
        (table(x_match("any"), ONE, TWO), table(ONE), True),
        (table(x_match("any"), ONE, TWO), table(("c", "I", 1)), False),
    ],
)
def test_all_is_the_default_and_any_takes_one(arguments: Table, headers: Table, expected: bool) -> None:
    assert match(arguments, headers) is expected


@pytest.mark.parametrize("headers", [None, Table.EMPTY, table(ONE)])
def test_all_without_conditions_matches_every_message(headers: Table | None) -> None:
    assert match(Table.EMPTY, headers)


@pytest.mark.parametrize("headers", [None, Table.EMPTY, table(ONE)])
def test_any_without_conditions_matches_no_message(headers: Table | None) -> None:
    assert not match(table(x_match("any")), headers)


@pytest.mark.parametrize(
    ("word", "expected"), [("all", True), ("any", False), ("all-with-x", False), ("any-with-x", False)]
)
def test_names_that_begin_with_x_dash_count_only_in_the_with_x_modes(word: str, expected: bool) -> None:
    assert match(table(x_match(word), ("x-a", "I", 1)), table(("x-a", "I", 2))) is expected


@pytest.mark.parametrize("word", ["all-with-x", "any-with-x"])
def test_the_with_x_modes_compare_names_that_begin_with_x_dash(word: str) -> None:
    assert match(table(x_match(word), ("x-a", "I", 1)), table(("x-a", "I", 1)))


@pytest.mark.parametrize("header", [("I", 5), ("V", None), ("S", b"")])
def test_a_void_argument_asks_only_for_presence(header: tuple[str, object]) -> None:
    assert match(table(("a", "V", None)), table(("a", *header)))
    assert not match(table(("a", "V", None)), table(("b", *header)))


@pytest.mark.parametrize(
    ("argument", "header"),
    [
        (("I", 1), ("l", 1)),
        (("b", 1), ("u", 1)),
        (("f", 1.5), ("d", 1.5)),
        (("S", b"x"), ("x", b"x")),
        (("t", True), ("t", True)),
        (("D", (2, 150)), ("D", (2, 150))),
        (("A", (Field("I", 1),)), ("A", (Field("I", 1),))),
        (("F", table(ONE)), ("F", table(ONE))),
        (("A", ()), ("F", Table.EMPTY)),
    ],
)
def test_values_are_equal_without_their_wire_type(argument: tuple[str, object], header: tuple[str, object]) -> None:
    assert match(table(("a", *argument)), table(("a", *header)))


@pytest.mark.parametrize(
    ("argument", "header"),
    [
        (("I", 1), ("d", 1.0)),
        (("d", 1.0), ("I", 1)),
        (("S", b"1"), ("I", 1)),
        (("t", True), ("I", 1)),
        (("S", b"x"), ("V", None)),
        (("S", b"x"), ("S", b"X")),
        (("A", (Field("I", 1),)), ("A", (Field("l", 1),))),
        (("F", table(ONE, TWO)), ("F", table(TWO, ONE))),
    ],
)
def test_values_that_differ_do_not_match(argument: tuple[str, object], header: tuple[str, object]) -> None:
    assert not match(table(("a", *argument)), table(("a", *header)))


def test_names_are_case_sensitive() -> None:
    assert not match(table(("a", "I", 1)), table(("A", "I", 1)))


@pytest.mark.parametrize(("seconds", "expected"), [(5, False), (5000, True)])
def test_a_header_timestamp_is_compared_in_milliseconds(seconds: int, expected: bool) -> None:
    assert match(table(("a", "T", seconds)), table(("a", "T", 5))) is expected


def test_a_timestamp_in_milliseconds_is_an_integer() -> None:
    assert match(table(("a", "l", 5000)), table(("a", "T", 5)))


def test_timestamps_inside_arrays_are_left_alone() -> None:
    assert match(table(("a", "A", (Field("T", 5),))), table(("a", "A", (Field("T", 5),))))


@pytest.mark.parametrize(("argument", "header"), [(("I", 1), ("d", 1.0)), (("d", 1.0), ("I", 1)), (("T", 5), ("T", 5))])
def test_3_10_converts_neither_numbers_nor_timestamps(argument: tuple[str, object], header: tuple[str, object]) -> None:
    assert match(table(("a", *argument)), table(("a", *header)), Compat.for_version("3.10"))


def test_every_pair_of_a_name_given_twice_counts() -> None:
    assert not match(table(("a", "I", 1), ("a", "I", 2)), table(("a", "I", 1)))


@pytest.mark.parametrize(("value", "expected"), [(1, False), (2, True)])
def test_the_last_of_two_headers_with_the_same_name_counts(value: int, expected: bool) -> None:
    assert match(table(("a", "I", value)), table(("a", "I", 1), ("a", "I", 2))) is expected


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (("S", b"foo"), 'field value <<"foo">>; expected all, any, all-with-x, or any-with-x'),
        (("S", b""), "field value <<>>; expected all, any, all-with-x, or any-with-x"),
        (("S", "é".encode()), 'field value <<"é"/utf8>>; expected all, any, all-with-x, or any-with-x'),
        (("I", 5), "field type signedint (value 5); expected longstr"),
        (("t", True), "field type bool (value true); expected longstr"),
        (("V", None), "field type void (value undefined); expected longstr"),
        (
            ("A", (Field("I", 1), Field("S", b"a"))),
            'field type array (value [{signedint,1},{longstr,<<"a">>}]); expected longstr',
        ),
        (("F", table(ONE)), 'field type table (value [{<<"a">>,signedint,1}]); expected longstr'),
    ],
)
def test_an_x_match_other_than_the_four_words_is_refused(field: tuple[str, object], text: str) -> None:
    arguments = table(("x-match", *field))
    source = headers_exchange()

    with pytest.raises(PreconditionFailed) as caught:
        source.check_binding(source, "", arguments, V4_3)

    assert caught.value.explanation == f"Invalid x-match {text}"
