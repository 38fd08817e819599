"""Exchanges: what all types share, and the default, direct and fanout types."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from leveret.core.compat import Compat
from leveret.core.model.binding import Binding, binding_key
from leveret.core.model.errors import AmqpError, CommandInvalid, PreconditionFailed
from leveret.core.model.exchanges import EXCHANGE_TYPES, exchange_class, exchange_type
from leveret.core.model.exchanges.default import DefaultExchange
from leveret.core.model.exchanges.exchange import Exchange, ExchangeDeclaration
from leveret.core.model.message import Message
from leveret.core.model.queues.arguments import refuse_unless_string
from leveret.core.wire.properties import Properties
from leveret.core.wire.values import Field, Table

V4_3 = Compat.for_version("4.3")
# A consistent-hash binding needs a weight. Other types take it as any key, except x-local-random.
KEYS = {"x-local-random": ""}
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


@pytest.mark.parametrize("type_name", EXCHANGE_TYPES)
def test_every_type_routes_to_a_binding_until_it_is_removed(type_name: str) -> None:
    source = exchange(type_name, DELAYED)
    binding = bind(source, A, KEYS.get(type_name, "1"))

    before = names(source.route(message("1")))
    source.unbind(binding.key)
    after = names(source.route(message("1")))

    assert (before, after) == (["a"], [])


@pytest.mark.parametrize("type_name", EXCHANGE_TYPES)
def test_every_type_routes_nowhere_without_bindings(type_name: str) -> None:
    assert names(exchange(type_name, DELAYED).route(message("1"))) == []


@pytest.mark.parametrize("type_name", EXCHANGE_TYPES)
def test_every_type_tries_cc_and_bcc_keys_without_failing(type_name: str) -> None:
    source = exchange(type_name, DELAYED)
    bind(source, A, KEYS.get(type_name, "1"))

    found = source.route(message("1", "2"))

    assert set(names(found)) == {"a"}


def test_the_same_binding_twice_is_one() -> None:
    source = exchange("direct")

    added = [source.bind(Binding(source.name, A, "k", Table.EMPTY)) for _ in range(2)]

    assert added == [True, False]
    assert len(source.bindings) == 1


def test_the_order_of_arguments_does_not_make_another_binding() -> None:
    one = Table.from_python({"a": 1, "b": 2})
    other = Table.from_python({"b": 2, "a": 1})

    assert binding_key(A, "k", one) == binding_key(A, "k", other)


def test_the_wire_type_of_an_argument_makes_another_binding() -> None:
    small = Table((("a", Field("I", 1)),))
    large = Table((("a", Field("l", 1)),))

    assert binding_key(A, "k", small) != binding_key(A, "k", large)


def test_a_queue_and_an_exchange_of_one_name_are_two_destinations() -> None:
    assert binding_key(A, "k", Table.EMPTY) != binding_key(Place("a", is_queue=False), "k", Table.EMPTY)


def test_unbinding_needs_the_exact_arguments() -> None:
    source = exchange("direct")
    bind(source, A, "k", {"a": 1})

    removed = source.unbind(binding_key(A, "k", Table.EMPTY))

    assert not removed
    assert names(source.route(message("k"))) == ["a"]


def test_an_auto_delete_exchange_is_not_due_before_its_first_binding() -> None:
    assert not exchange("direct", auto_delete=True).is_due_for_deletion


def test_an_auto_delete_exchange_is_due_when_its_last_binding_is_removed() -> None:
    source = exchange("direct", auto_delete=True)
    first, second = bind(source, A, "k"), bind(source, B, "k")

    source.unbind(first.key)
    with_one = source.is_due_for_deletion
    source.unbind(second.key)

    assert (with_one, source.is_due_for_deletion) == (False, True)


def test_the_alternate_exchange_of_the_argument_wins_over_the_policy() -> None:
    source = exchange("direct", {"alternate-exchange": "mine"})

    source.apply_policy({"alternate-exchange": "theirs"})

    assert source.alternate_exchange == "mine"


def test_a_policy_sets_and_clears_the_alternate_exchange() -> None:
    source = exchange("direct")

    source.apply_policy({"alternate-exchange": "theirs"})
    given = source.alternate_exchange
    source.apply_policy({})

    assert (given, source.alternate_exchange) == ("theirs", None)


def test_an_alternate_exchange_that_is_not_a_string_is_refused() -> None:
    with pytest.raises(PreconditionFailed) as caught:
        refuse_unless_string(Table.from_python({"alternate-exchange": 5}), "alternate-exchange", "exchange 'x'")

    assert caught.value.reply_text == (
        "PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' in exchange 'x'"
    )


def redeclaration(**changes: object) -> str:
    known = exchange("direct", {"alternate-exchange": "a"})
    asked: dict[str, object] = {
        "type_name": "direct",
        "arguments": {"alternate-exchange": "a"},
    }
    asked |= changes
    asked["arguments"] = Table.from_python(asked["arguments"])
    try:
        known.refuse_unless_equivalent(ExchangeDeclaration("x", **asked), "/")
    except PreconditionFailed as refused:
        return refused.explanation.removeprefix("inequivalent arg ")
    return ""


def test_an_equivalent_redeclaration_passes() -> None:
    assert redeclaration() == ""


def test_arguments_other_than_the_alternate_exchange_are_not_compared() -> None:
    assert redeclaration(arguments={"alternate-exchange": "a", "foo": 1}) == ""


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"type_name": "topic", "durable": False},
            "'type' for exchange 'x' in vhost '/': received 'topic' but current is 'direct'",
        ),
        ({"durable": False}, "'durable' for exchange 'x' in vhost '/': received 'false' but current is 'true'"),
        ({"auto_delete": True}, "'auto_delete' for exchange 'x' in vhost '/': received 'true' but current is 'false'"),
        ({"internal": True}, "'internal' for exchange 'x' in vhost '/': received 'true' but current is 'false'"),
        (
            {"arguments": {"alternate-exchange": "b"}},
            "'alternate-exchange' for exchange 'x' in vhost '/': received 'b' but current is 'a'",
        ),
        (
            {"arguments": {}},
            "'alternate-exchange' for exchange 'x' in vhost '/': "
            "received none but current is the value 'a' of type 'longstr'",
        ),
    ],
)
def test_a_redeclaration_that_differs_is_refused(changes: dict[str, object], text: str) -> None:
    assert redeclaration(**changes) == text


def test_a_made_up_type_is_unknown() -> None:
    with pytest.raises(PreconditionFailed, match=r"^unknown exchange type 'zorkmid'$"):
        exchange_type("zorkmid", V4_3)


def test_the_empty_type_is_invalid() -> None:
    with pytest.raises(PreconditionFailed, match=r"^invalid exchange type ''$"):
        exchange_type("", V4_3)


def test_an_unknown_type_ends_the_connection_on_3_10() -> None:
    with pytest.raises(CommandInvalid, match=r"^unknown exchange type 'x-local-random'$"):
        exchange_type("x-local-random", Compat.for_version("3.10"))


def test_the_default_exchange_routes_to_the_queue_of_that_name() -> None:
    queues = {"a": A}
    default = DefaultExchange(queues, dice=random.Random(7), compat=V4_3)
    queues["b"] = B

    assert names(default.route(message("b", "nowhere", "a"))) == ["b", "a"]


def test_a_direct_exchange_routes_by_equal_keys() -> None:
    source = exchange("direct")
    bind(source, A, "k")
    bind(source, B, "k")
    bind(source, C, "K")

    assert names(source.route(message("k"))) == ["a", "b"]
    assert names(source.route(message("other", "K"))) == ["c"]


def test_a_fanout_exchange_ignores_keys() -> None:
    source = exchange("fanout")
    bind(source, A, "k")
    bind(source, B, "other")

    assert names(source.route(message(""))) == ["a", "b"]
