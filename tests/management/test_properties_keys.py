"""The keys by which the API names bindings with arguments: the hashes that a server of 4.3.6 gave them."""

from __future__ import annotations

import pytest

from leveret import Broker

from .asking import ask, management_of


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ({"department": "warehouse"}, "~n-OUEg"),
        ({"department-of-the-sender": "the warehouse in Hamburg, Germany"}, "~m8WuFA"),
    ],
    ids=["short", "of more than one block"],
)
def test_the_key_of_a_binding_ends_with_the_hash_of_its_arguments(arguments: dict[str, str], key: str) -> None:
    with Broker() as broker:
        broker.declare_exchange("x", "headers")
        broker.declare_queue("q")
        broker.bind_queue("q", "x", arguments=arguments)

        _, (binding,) = ask(management_of(broker), "GET", "/bindings/%2F/e/x/q/q")

    assert binding["properties_key"] == key
