"""The exchange types of plugins: hashes, random choice, history and delay."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from leveret.core.compat import Compat
from leveret.core.model.binding import Binding
from leveret.core.model.errors import AmqpError, InternalRefusal
from leveret.core.model.exchanges import exchange_class
from leveret.core.model.exchanges.exchange import Exchange, ExchangeDeclaration
from leveret.core.model.exchanges.x_delayed_message import headers_after_delay
from leveret.core.model.message import Message
from leveret.core.wire.properties import Properties
from leveret.core.wire.values import Table

V4_3 = Compat.for_version("4.3")
DELAYED = {"x-delayed-type": "direct"}


@dataclass(frozen=True)
class Place:
    """A destination of a binding."""

    name: str
    is_queue: bool = True
    type_name: str = "classic"


A, B, C = Place("a"), Place("b"), Place("c")


def exchange(type_name: str, arguments: Mapping[str, object] | None = None, *, auto_delete: bool = False) -> Exchange:
    table = Table.from_python(arguments or {})
    wanted = ExchangeDeclaration("x", type_name, auto_delete=auto_delete, arguments=table)
    return exchange_class(type_name)(wanted, dice=random.Random(7), compat=V4_3)


def bind(source: Exchange, place: Place, key: str = "", arguments: Mapping[str, object] | None = None) -> Binding:
    binding = Binding(source.name, place, key, Table.from_python(arguments or {}))
    source.bind(binding)
    return binding


def message(*keys: str, **properties: object) -> Message:
    return Message(1, "x", keys[0], Properties.from_python(properties), b"", b"", keys)


def names(found: object) -> list[str]:
    assert isinstance(found, (list, tuple))
    return [place.name for place in found]


def refusal(type_name: str, arguments: Mapping[str, object]) -> AmqpError:
    with pytest.raises(AmqpError) as caught:
        exchange_class(type_name).check_arguments(Table.from_python(arguments), V4_3)
    return caught.value


def bind_refusal(source: Exchange, place: Place, key: str, compat: Compat = V4_3) -> AmqpError:
    with pytest.raises(AmqpError) as caught:
        source.check_binding(place, key, Table.EMPTY, compat)
    return caught.value


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("", "The binding key must be an integer: <<>>"),
        ("5.0", 'The binding key must be an integer: <<"5.0">>'),
        (" 5", 'The binding key must be an integer: <<" 5">>'),
        ("é", 'The binding key must be an integer: <<"é"/utf8>>'),
        ("0", "The binding key must be greater than 0"),
        ("-3", "The binding key must be greater than 0"),
        ("10001", "The binding key must not exceed 10000"),
    ],
)
def test_a_consistent_hash_binding_key_is_a_weight(key: str, text: str) -> None:
    assert bind_refusal(exchange("x-consistent-hash"), A, key).explanation == text


def test_a_signed_weight_is_a_weight() -> None:
    exchange("x-consistent-hash").check_binding(A, "+5", Table.EMPTY, V4_3)


def test_4_0_takes_any_large_weight() -> None:
    exchange("x-consistent-hash").check_binding(A, "10001", Table.EMPTY, Compat.for_version("4.0"))


def test_a_consistent_hash_exchange_hashes_one_thing() -> None:
    error = refusal("x-consistent-hash", {"hash-header": "a", "hash-property": "message_id"})

    assert error.explanation == "hash-header and hash-property are mutually exclusive"


def test_a_consistent_hash_exchange_knows_three_properties() -> None:
    assert refusal("x-consistent-hash", {"hash-property": "foo"}).explanation == "Unsupported property: foo"


def test_a_hash_property_that_is_not_a_string_is_an_internal_error() -> None:
    error = refusal("x-consistent-hash", {"hash-property": 5, "hash-header": "a"})

    assert isinstance(error, InternalRefusal)
    assert error.reply_text == "INTERNAL_ERROR"


def test_consistent_hash_gives_each_destination_its_weight() -> None:
    source = exchange("x-consistent-hash")
    for place, weight in ((A, "1"), (B, "1"), (C, "2")):
        bind(source, place, weight)

    counts = Counter(names(source.route(message(f"key{number}")))[0] for number in range(4000))

    assert 800 < counts["a"] < 1200
    assert 800 < counts["b"] < 1200
    assert 1800 < counts["c"] < 2200


def test_consistent_hash_moves_few_keys_when_a_destination_is_added() -> None:
    source = exchange("x-consistent-hash")
    bind(source, A, "1")
    bind(source, B, "1")
    before = [names(source.route(message(f"key{number}")))[0] for number in range(1000)]

    bind(source, C, "1")

    after = [names(source.route(message(f"key{number}")))[0] for number in range(1000)]
    assert {new for old, new in zip(before, after, strict=True) if old != new} == {"c"}


def test_a_second_weight_for_a_destination_does_not_change_the_ring() -> None:
    source = exchange("x-consistent-hash")
    bind(source, A, "1")
    bind(source, B, "1")
    before = [names(source.route(message(f"key{number}"))) for number in range(100)]

    bind(source, A, "5")

    assert [names(source.route(message(f"key{number}"))) for number in range(100)] == before


def test_unbinding_one_of_two_weights_takes_the_destination_off_the_ring() -> None:
    source = exchange("x-consistent-hash")
    bind(source, A, "1")
    second = bind(source, A, "5")
    bind(source, B, "1")

    source.unbind(second.key)

    assert {names(source.route(message(f"key{number}")))[0] for number in range(100)} == {"b"}


@pytest.mark.parametrize(
    ("arguments", "properties"),
    [
        ({"hash-header": "h"}, {"headers": {"h": "same"}}),
        ({"hash-property": "message_id"}, {"message_id": "same"}),
        ({"hash-property": "correlation_id"}, {"correlation_id": "same"}),
        ({"hash-property": "timestamp"}, {"timestamp": 5}),
        ({"hash-property": "timestamp"}, {}),
        ({"hash-header": "h"}, {}),
    ],
)
def test_consistent_hash_sends_equal_values_to_one_destination(
    arguments: dict[str, object], properties: dict[str, object]
) -> None:
    source = exchange("x-consistent-hash", arguments)
    for place in (A, B, C):
        bind(source, place, "10")

    found = {names(source.route(message(f"key{number}", **properties)))[0] for number in range(50)}

    assert len(found) == 1


def test_consistent_hash_spreads_by_a_header() -> None:
    source = exchange("x-consistent-hash", {"hash-header": "h"})
    for place in (A, B, C):
        bind(source, place, "10")

    found = {names(source.route(message("key", headers={"h": f"v{number}"})))[0] for number in range(100)}

    assert found == {"a", "b", "c"}


@pytest.mark.parametrize("type_name", ["x-random", "x-local-random"])
def test_a_random_exchange_picks_one_destination_evenly(type_name: str) -> None:
    source = exchange(type_name)
    for place in (A, B):
        bind(source, place)

    counts = Counter(tuple(names(source.route(message("any")))) for _ in range(1000))

    assert set(counts) == {("a",), ("b",)}
    assert 400 < counts["a",] < 600


def test_a_local_random_binding_has_no_key() -> None:
    error = bind_refusal(exchange("x-local-random"), A, "k")

    assert error.explanation == "Non empty binding 'k' key not permitted"


def test_a_local_random_exchange_takes_classic_queues_only() -> None:
    error = bind_refusal(exchange("x-local-random"), Place("q", type_name="quorum"), "")

    assert error.explanation == "Queue type rabbit_quorum_queue not valid for this exchange type"


def test_a_local_random_exchange_takes_no_exchanges() -> None:
    error = bind_refusal(exchange("x-local-random"), Place("e", is_queue=False), "")

    assert error.explanation == "Destination not found"


def test_modulus_hash_depends_on_names_and_not_on_the_order_of_binding() -> None:
    forward, backward = exchange("x-modulus-hash"), exchange("x-modulus-hash")
    for place in (A, B, C):
        bind(forward, place, "any")
    for place in (C, B, A):
        bind(backward, place, "any")

    routes = [(names(forward.route(message(key))), names(backward.route(message(key)))) for key in map(str, range(50))]

    assert all(one == other for one, other in routes)
    assert {one[0] for one, _ in routes} == {"a", "b", "c"}


@pytest.mark.parametrize(("length", "shown"), [(0, "0"), (-1, "-1"), ("5", '<<"5">>'), (True, "true"), (1.5, "1.5")])
def test_the_length_of_a_history_is_a_positive_integer(length: object, shown: str) -> None:
    assert refusal("x-recent-history", {"x-recent-history-length": length}).explanation == (
        f"Invalid argument {shown}, 'x-recent-history-length' must be a positive integer"
    )


def test_a_history_replays_its_last_messages_oldest_first() -> None:
    source = exchange("x-recent-history", {"x-recent-history-length": 2})
    published = [message(key) for key in "abc"]
    for each in published:
        source.route(each)

    kept = source.on_bound(bind(source, A))

    assert list(kept) == published[1:]


def test_a_history_is_twenty_messages_long_by_default() -> None:
    source = exchange("x-recent-history")
    for number in range(30):
        source.route(message(str(number)))

    assert len(source.on_bound(bind(source, A))) == 20


def test_a_message_may_ask_not_to_be_kept() -> None:
    source = exchange("x-recent-history")
    bind(source, A)

    found = source.route(message("k", headers={"x-recent-history-no-store": True}))

    assert names(found) == ["a"]
    assert source.on_bound(bind(source, B)) == ()


@pytest.mark.parametrize("arguments", [{}, {"x-delayed-type": 5}, {"x-delayed-type": "zorkmid"}])
def test_a_delayed_exchange_needs_an_existing_inner_type(arguments: dict[str, object]) -> None:
    assert refusal("x-delayed-message", arguments).explanation == (
        "Invalid argument, 'x-delayed-type' must be an existing exchange type"
    )


def test_a_delayed_exchange_cannot_be_its_own_inner_type() -> None:
    assert refusal("x-delayed-message", {"x-delayed-type": "x-delayed-message"}).explanation == (
        "Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'"
    )


def test_a_delayed_exchange_checks_bindings_like_its_inner_type() -> None:
    source = exchange("x-delayed-message", {"x-delayed-type": "topic"})

    assert "'#' wildcards" in bind_refusal(source, A, "#.#.#").explanation


@pytest.mark.parametrize(
    ("delay", "microseconds"),
    [
        (5000, 5_000_000),
        ("5000", 5_000_000),
        (2.0, 2_000),
        (4294967295, 4_294_967_295_000),
        (4294967296, 0),
        (0, 0),
        (-5, 0),
        ("soon", 0),
        (True, 0),
    ],
)
def test_the_delay_is_read_from_the_header(delay: object, microseconds: int) -> None:
    source = exchange("x-delayed-message", DELAYED)

    assert source.delay_us(message("k", headers={"x-delay": delay})) == microseconds


def test_a_message_without_the_header_is_not_delayed() -> None:
    assert exchange("x-delayed-message", DELAYED).delay_us(message("k")) == 0


def test_a_delayed_message_arrives_with_its_delay_negated() -> None:
    headers = Table.from_python({"a": "kept", "x-delay": 5000})

    assert headers_after_delay(headers).to_python() == {"a": "kept", "x-delay": -5000}
