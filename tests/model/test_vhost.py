"""A virtual host: declarations, equivalence, what is deleted together, and the way of a message."""

from __future__ import annotations

import pytest

from leveret.core.model.errors import (
    AccessRefused,
    AmqpError,
    InternalRefusal,
    NotFound,
    PreconditionFailed,
    ResourceLocked,
)
from leveret.core.wire.values import Table
from tests.model.world import Peer, World, bodies, consume


@pytest.fixture
def world() -> World:
    return World()


def refusal(action: object, *arguments: object, **options: object) -> AmqpError:
    assert callable(action)
    with pytest.raises(AmqpError) as caught:
        action(*arguments, **options)
    return caught.value


def waiting(world: World, *names: str) -> list[list[bytes]]:
    return [bodies(world.vhost.queues[name].ready) for name in names]


def test_a_new_vhost_has_the_exchanges_of_rabbitmq(world: World) -> None:
    other = world.node.add_vhost("other")

    expected = ["", "amq.direct", "amq.fanout", "amq.headers", "amq.match", "amq.rabbitmq.trace", "amq.topic"]
    assert sorted(other.exchanges) == expected
    assert sorted(world.vhost.exchanges) == sorted([*expected, "amq.rabbitmq.log"])


def test_a_queue_declared_again_is_the_same_queue(world: World) -> None:
    assert world.queue(max_length=3) is world.queue(max_length=3)


def test_a_queue_without_a_name_gets_one(world: World) -> None:
    first, second = world.vhost.declare_queue("", exclusive=True), world.vhost.declare_queue("", exclusive=True)

    assert first.name.startswith("amq.gen-")
    assert len(first.name) == len("amq.gen-") + 22
    assert first.name != second.name


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (
            {"durable": False},
            "inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'",
        ),
        (
            {"auto_delete": True},
            "inequivalent arg 'auto_delete' for queue 'q' in vhost '/': received 'true' but current is 'false'",
        ),
    ],
)
def test_a_queue_declared_otherwise_is_refused(world: World, flags: dict[str, bool], text: str) -> None:
    world.queue()

    error = refusal(world.vhost.declare_queue, "q", **flags)

    assert (type(error), error.explanation) == (PreconditionFailed, text)


def test_the_refusal_names_the_argument_that_differs(world: World) -> None:
    world.queue(max_length=3)

    error = refusal(world.queue, max_length=4)

    assert error.explanation == (
        "inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received '4' but current is '3'"
    )


def test_an_unknown_argument_is_not_compared(world: World) -> None:
    assert world.queue(colour="red") is world.queue(colour="blue")


def test_an_existing_queue_cannot_become_exclusive(world: World) -> None:
    world.queue()

    assert isinstance(refusal(world.vhost.declare_queue, "q", exclusive=True, connection=Peer()), ResourceLocked)


def test_the_refusal_names_the_missing_queue(world: World) -> None:
    assert refusal(world.vhost.queue, "nowhere").reply_text == "NOT_FOUND - no queue 'nowhere' in vhost '/'"


def test_deleting_a_missing_queue_or_exchange_has_no_effect(world: World) -> None:
    world.vhost.delete_exchange("nowhere")

    assert world.vhost.delete_queue("nowhere") == 0


def test_a_deletion_may_spare_a_queue_in_use_or_not_empty(world: World) -> None:
    queue = world.queue()
    world.fill(queue, b"1")
    not_empty = refusal(world.vhost.delete_queue, "q", if_empty=True)
    consume(queue)
    in_use = refusal(world.vhost.delete_queue, "q", if_unused=True)

    assert [not_empty.explanation, in_use.explanation] == [
        "queue 'q' in vhost '/' not empty",
        "queue 'q' in vhost '/' in use",
    ]


def test_a_transient_shared_queue_is_denied_unless_permitted() -> None:
    world = World(permit=())

    error = refusal(world.vhost.declare_queue, "q", durable=False)

    assert isinstance(error, InternalRefusal)
    assert error.reply_text.startswith("INTERNAL_ERROR - Feature `transient_nonexcl_queues` is deprecated.")


def test_an_exclusive_queue_is_never_durable(world: World) -> None:
    assert not world.vhost.declare_queue("mine", exclusive=True, connection=Peer()).durable


def test_the_default_type_of_a_vhost_applies_if_the_flags_allow_it() -> None:
    world = World()
    vhost = world.node.add_vhost("modern", default_queue_type="quorum")

    plain = vhost.declare_queue("plain")
    mine = vhost.declare_queue("mine", exclusive=True, connection=Peer())

    assert (plain.type_name, mine.type_name) == ("quorum", "classic")


def test_a_vhost_may_limit_its_queues(world: World) -> None:
    world.vhost.limits["max-queues"] = 1
    world.queue("first")

    error = refusal(world.queue, "second")

    assert error.explanation == "cannot declare queue 'second': queue limit in vhost '/' (1) is reached"
    assert world.queue("first").name == "first"


def test_reserved_names_of_exchanges_are_refused(world: World) -> None:
    assert isinstance(refusal(world.vhost.declare_exchange, "amq.mine", "direct"), AccessRefused)
    assert isinstance(refusal(world.vhost.delete_exchange, "amq.direct"), AccessRefused)


def test_a_deletion_may_spare_an_exchange_in_use(world: World) -> None:
    world.vhost.declare_exchange("x", "fanout")
    world.queue()
    world.bind("x", "q")

    error = refusal(world.vhost.delete_exchange, "x", if_unused=True)

    assert error.explanation == "exchange 'x' in vhost '/' in use"


def test_deleting_a_queue_deletes_its_bindings(world: World) -> None:
    world.queue()
    world.bind("amq.fanout", "q")

    world.vhost.delete_queue("q")

    assert not world.vhost.exchanges["amq.fanout"].bindings
    assert not world.vhost.incoming


def test_deleting_an_exchange_deletes_bindings_to_and_from_it(world: World) -> None:
    world.vhost.declare_exchange("x", "fanout")
    world.queue()
    world.bind("x", "q")
    world.bind("amq.topic", "x", "#")

    world.vhost.delete_exchange("x")

    assert not world.vhost.exchanges["amq.topic"].bindings
    assert not world.vhost.incoming


def test_the_same_binding_twice_is_one(world: World) -> None:
    world.queue()
    for _ in range(2):
        world.bind("amq.direct", "q", "k")

    world.publish(b"1", "k", "amq.direct")

    assert waiting(world, "q") == [[b"1"]]


def test_bindings_that_differ_in_arguments_are_two_and_deliver_once(world: World) -> None:
    queue = world.queue()
    for number in (1, 2):
        world.bind("amq.direct", "q", "k", {"n": number})
    direct = world.vhost.exchanges["amq.direct"]

    world.vhost.unbind(direct, queue, "k", Table.from_python({"n": 1}))
    world.publish(b"1", "k", "amq.direct")

    assert len(direct.bindings) == 1
    assert waiting(world, "q") == [[b"1"]]


def test_unbinding_a_missing_binding_has_no_effect(world: World) -> None:
    world.vhost.unbind(world.vhost.exchanges["amq.direct"], world.queue(), "nothing")

    assert not world.events("unbind")


def test_an_auto_delete_exchange_is_deleted_with_its_last_binding(world: World) -> None:
    world.vhost.declare_exchange("x", "fanout", auto_delete=True)
    queue = world.queue()
    is_there_before_any = "x" in world.vhost.exchanges
    world.bind("x", "q")

    world.vhost.unbind(world.vhost.exchanges["x"], queue, "")

    assert is_there_before_any
    assert "x" not in world.vhost.exchanges


def test_a_chain_of_auto_delete_exchanges_is_deleted_with_the_queue_at_its_end(world: World) -> None:
    length = 3000
    for number in range(length):
        world.vhost.declare_exchange(f"x{number}", "fanout", auto_delete=True)
        if number:
            world.bind(f"x{number - 1}", f"x{number}")
    world.queue()
    world.bind(f"x{length - 1}", "q")

    world.vhost.delete_queue("q")

    assert [name for name in world.vhost.exchanges if name.startswith("x")] == []
    assert not world.vhost.incoming


def test_a_message_goes_to_every_queue_once(world: World) -> None:
    world.queue("a")
    world.queue("b")
    for key in ("#", "k.*", "k.1"):
        world.bind("amq.topic", "a", key)
    world.bind("amq.topic", "b", "k.#")

    world.publish(b"1", "k.1", "amq.topic")

    assert waiting(world, "a", "b") == [[b"1"], [b"1"]]


def test_exchanges_feed_exchanges_and_cycles_end(world: World) -> None:
    for name in ("a", "b", "c"):
        world.vhost.declare_exchange(name, "fanout")
    for source, destination in (("a", "b"), ("b", "c"), ("c", "a"), ("a", "a")):
        world.bind(source, destination)
    world.queue()
    world.bind("c", "q")

    assert world.publish(b"1", exchange="a").is_routed
    assert waiting(world, "q") == [[b"1"]]


def test_a_message_without_a_matching_binding_goes_to_the_alternate_exchange(world: World) -> None:
    world.vhost.declare_exchange("x", "direct", arguments=Table.from_python({"alternate-exchange": "amq.fanout"}))
    for name in ("taken", "left"):
        world.queue(name)
    world.bind("x", "taken", "k")
    world.bind("amq.fanout", "left")

    world.publish(b"1", "k", "x")
    world.publish(b"2", "other", "x")

    assert waiting(world, "taken", "left") == [[b"1"], [b"2"]]
    (entry,) = world.vhost.queues["left"].ready
    assert (entry.message.exchange, entry.message.routing_key) == ("x", "other")


def test_alternate_exchanges_may_form_chains_and_cycles(world: World) -> None:
    for name, alternate in (("a", "b"), ("b", "c"), ("c", "a")):
        world.vhost.declare_exchange(name, "direct", arguments=Table.from_python({"alternate-exchange": alternate}))
    world.queue()
    world.bind("c", "q", "k")

    routed = [world.publish(b"1", key, "a").is_routed for key in ("k", "nothing")]

    assert routed == [True, False]


def test_the_alternate_exchange_is_not_used_if_a_binding_matched_but_led_nowhere(world: World) -> None:
    world.vhost.declare_exchange("x", "fanout", arguments=Table.from_python({"alternate-exchange": "amq.fanout"}))
    world.vhost.declare_exchange("dead end", "fanout")
    world.bind("x", "dead end")
    world.queue()
    world.bind("amq.fanout", "q")

    assert not world.publish(b"1", exchange="x").is_routed
    assert waiting(world, "q") == [[]]


@pytest.mark.parametrize("alternate", ["nowhere", ""])
def test_a_missing_or_default_alternate_exchange_leads_nowhere(world: World, alternate: str) -> None:
    world.vhost.declare_exchange("x", "direct", arguments=Table.from_python({"alternate-exchange": alternate}))
    world.queue()

    assert not world.publish(b"1", "q", "x").is_routed


def test_cc_keys_are_tried_like_the_routing_key(world: World) -> None:
    for name in ("to", "copy"):
        world.queue(name)

    world.publish(b"1", "to", headers={"CC": ["copy", "to", "nowhere"]})

    assert waiting(world, "to", "copy") == [[b"1"], [b"1"]]


def test_the_refusal_names_the_missing_exchange(world: World) -> None:
    error = refusal(world.vhost.exchange, "nowhere")

    assert (type(error), error.explanation) == (NotFound, "no exchange 'nowhere' in vhost '/'")
