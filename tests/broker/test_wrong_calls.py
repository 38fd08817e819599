"""Wrong calls: each raises at the test's line, names the argument, and leaves nothing behind.

The cases are generated from the signatures, so a new method or parameter is covered as soon as it exists.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leveret import Broker, BrokerError, NotDeclaredError, RefusedError
from leveret.admin.admin import Admin
from leveret.faults import FaultPlan, ResetPeer
from leveret.scripted.consumer import ScriptedConsumer
from leveret.scripted.responder import Responder
from leveret.time.clock import Clock

HOLDERS: dict[type, str] = {
    Broker: "broker",
    Admin: "broker.admin",
    FaultPlan: "broker.faults",
    Clock: "broker.clock",
    ScriptedConsumer: "consumer",
    Responder: "responder",
}
LONG = "k" * 256
LONE = "a\ud800"
NAN, INFINITY = float("nan"), float("inf")
with Broker() as _broker:
    SNAPSHOT = _broker.snapshot()
# For each annotation: a valid value, and wrong ones.
VALUES: dict[str, tuple[object, tuple[object, ...]]] = {
    "str": ("q", (5, b"q", ["q"], LONE)),
    "bool": (True, ("yes", 1)),
    "int": (1, ("2", 1.5, True)),
    "int | None": (1, ("2", 1.5, True)),
    "float": (1, ("3", True, NAN, INFINITY)),
    "float | None": (1, ("3", True, NAN, INFINITY)),
    "float | timedelta | None": (1, ("3", True, NAN, INFINITY)),
    "str | None": ("q", (5, b"q", LONE)),
    "Mapping[str, object]": ({}, ("x", 5, [1])),
    "Mapping[str, object] | None": ({}, ("x", 5, [1])),
    "Mapping[str, int]": ({}, ("x", 5)),
    "Iterable[str]": (["a"], ("abc", 5, [1])),
    "Iterable[str] | None": (["a"], ("abc", 5, [1])),
    "Delivered | None": (None, (5,)),
    "Fault": (ResetPeer(), ()),
    "Snapshot": (SNAPSHOT, (5, "state", None)),
    "int | str": (1, (1.5, None)),
    "str | Path | None": (None, (5,)),
    "str | Path": ("page.html", (5,)),
}
SHORT = {"queue", "exchange", "routing_key", "source", "destination", "vhost", "tag", "to", "queue_or_exchange"}


def methods() -> Iterator[tuple[type, str]]:
    for holder in HOLDERS:
        for name in sorted(dir(holder)):
            is_public = not name.startswith("_") and inspect.isfunction(inspect.getattr_static(holder, name))
            if is_public:
                yield holder, name


METHODS = [pytest.param(*each, id=f"{HOLDERS[each[0]]}.{each[1]}") for each in methods()]


class World:
    """A broker with something of everything, and the objects that a test holds."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.view = broker.declare_queue("q")
        broker.declare_exchange("x", "topic")
        self.consumer = broker.consume("q")
        self.responder = broker.respond("requests", "pong")

    def held(self, holder: type) -> Any:
        names = {Admin: "admin", FaultPlan: "faults", Clock: "clock"}
        if holder in names:
            return getattr(self.broker, names[holder])
        return {Broker: self.broker, ScriptedConsumer: self.consumer, Responder: self.responder}[holder]

    def state(self) -> object:
        broker = self.broker
        topology = [repr(broker.queues), repr(broker.exchanges), repr(broker.admin.export_definitions())]
        return topology, [event.raw for event in broker.events], len(broker.faults.rules), broker.clock.is_held


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with Broker(checks="all=off") as broker:
        yield World(broker)


def sample(call: str, parameter: inspect.Parameter) -> object:
    if parameter.annotation in VALUES:
        return VALUES[parameter.annotation][0]
    return {
        "check": "unroutable",
        "resource": "memory",
        "with_": "pong",
        "definitions": {},
        "run": ["true"],
        "path": "orders.rec",
    }[parameter.name]


def arguments_of(function: Callable[..., object]) -> tuple[dict[str, inspect.Parameter], dict[str, object]]:
    """Return the parameters of a method by name, and valid values of those that it needs."""
    parameters = dict(list(inspect.signature(function).parameters.items())[1:])
    named = {
        name: each for name, each in parameters.items() if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    }
    needed = {name: sample(function.__name__, each) for name, each in named.items() if each.default is each.empty}
    return named, needed


def wrong_values(call: str, parameter: inspect.Parameter, world: World) -> Iterator[object]:
    yield from VALUES.get(parameter.annotation, (None, ()))[1]
    if parameter.annotation == "str":
        yield from (None, world.view)
    if parameter.annotation in ("str", "str | None") and parameter.name in SHORT:
        yield LONG


@pytest.mark.parametrize(("holder", "name"), METHODS)
def test_a_wrong_argument_is_named_at_the_line_of_the_test_and_leaves_nothing(
    world: World, holder: type, name: str
) -> None:
    method = getattr(world.held(holder), name)
    named, needed = arguments_of(inspect.getattr_static(holder, name))
    before = world.state()

    for word, parameter in named.items():
        for value in wrong_values(name, parameter, world):
            with pytest.raises((TypeError, ValueError)) as raised:
                method(**{**needed, word: value})

            assert word in str(raised.value), (word, value)
            assert str(raised.value).startswith(f"{name}()"), (word, value)
            last = raised.traceback.filter(raised)[-1]
            assert str(last.path) == __file__, (word, value)

    assert world.state() == before


@pytest.mark.parametrize(("holder", "name"), METHODS)
def test_a_misspelt_keyword_is_answered_with_the_right_one(world: World, holder: type, name: str) -> None:
    method = getattr(world.held(holder), name)
    named, needed = arguments_of(inspect.getattr_static(holder, name))
    before = world.state()

    for word in named:
        with pytest.raises(TypeError, match=f"did you mean '{word}'") as raised:
            method(**{**needed, f"{word}{word[-1]}": 1})
        assert str(raised.traceback.filter(raised)[-1].path) == __file__

    assert world.state() == before


# Calls that have valid arguments and cannot be carried out.
REFUSED: dict[str, Callable[[Broker], object]] = {
    "publish to a missing vhost": lambda broker: broker.publish("", "q", vhost="stage"),
    "publish to a missing exchange": lambda broker: broker.publish("nosuch", "q"),
    "publish with a wrong property": lambda broker: broker.publish("", "q", priority="x"),
    "publish with a wrong body": lambda broker: broker.publish("shop", b"a"),
    "publish with an invalid expiration": lambda broker: broker.publish("", "q", expiration="soon"),
    "declare in a missing vhost": lambda broker: broker.declare_queue("a", vhost="stage"),
    "declare with other arguments": lambda broker: broker.declare_queue("q", auto_delete=True),
    "declare with an invalid argument": lambda broker: broker.declare_queue("a", arguments={"x-max-length": "a"}),
    "declare with a long argument": lambda broker: broker.declare_queue("a", arguments={LONG: 1}),
    "declare an unknown type": lambda broker: broker.declare_exchange("a", "topics"),
    "bind a missing queue": lambda broker: broker.bind_queue("nosuch", "x"),
    "bind to a missing exchange": lambda broker: broker.bind_queue("q", "nosuch"),
    "bind to the default exchange": lambda broker: broker.bind_queue("q", ""),
    "unbind a missing queue": lambda broker: broker.unbind_queue("nosuch", "x"),
    "delete a queue in use": lambda broker: broker.delete_queue("q", if_unused=True),
    "purge a missing queue": lambda broker: broker.purge_queue("nosuch"),
    "consume from a missing queue": lambda broker: broker.consume("nosuch"),
    "consume in an unknown mode": lambda broker: broker.consume("q", ack="automatic"),
    "respond in a missing vhost": lambda broker: broker.respond("q", "pong", vhost="stage"),
    "respond no times": lambda broker: broker.respond("q", "pong", times=0),
    "a policy for nothing": lambda broker: broker.admin.set_policy("p", ".*", {"max-length": 1}, apply_to="queue"),
    "a policy with a broken pattern": lambda broker: broker.admin.set_policy("p", "(", {"max-length": 1}),
    "delete a missing user": lambda broker: broker.admin.delete_user("bob"),
    "permit a missing user": lambda broker: broker.admin.set_permissions("bob"),
    "limit a missing vhost": lambda broker: broker.admin.set_vhost_limits("stage", {}),
    "an unknown limit": lambda broker: broker.admin.set_vhost_limits("/", {"max-queue": 1}),
    "close a missing connection": lambda broker: broker.admin.close_connection(99),
    "a fault that is none": lambda broker: broker.faults.add(on="basic.ack", do="drop"),
    "a fault nowhere": lambda broker: broker.faults.drop("basic.akc"),
    "move time backwards": lambda broker: broker.clock.advance(-1),
}


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
def test_a_call_that_raises_leaves_no_event_and_changes_nothing(
    world: World, refused: Callable[[Broker], object]
) -> None:
    before = world.state()

    with pytest.raises((BrokerError, NotDeclaredError, TypeError, ValueError)):
        refused(world.broker)

    assert world.state() == before


def test_a_view_in_place_of_a_name_is_answered_with_the_name() -> None:
    with Broker() as broker:
        view = broker.declare_queue("orders")

        with pytest.raises(TypeError, match=r"purge_queue\(\): queue must be text, not .*; pass its name, 'orders'"):
            broker.purge_queue(view)


def test_too_many_positions_are_answered_with_those_that_exist() -> None:
    with (
        Broker() as broker,
        pytest.raises(TypeError, match=r"declare_queue\(\) takes at most 1 argument by position \(name\), not 2; pass"),
    ):
        broker.declare_queue("orders", True)


def test_a_missing_argument_is_named() -> None:
    with (
        Broker() as broker,
        pytest.raises(TypeError, match=r"bind_queue\(\) needs exchange; it takes queue, exchange,"),
    ):
        broker.bind_queue("orders")


def test_a_call_without_any_argument_raises_with_what_it_takes() -> None:
    with Broker() as broker, pytest.raises(TypeError, match=r"purge_queue\(\) needs queue; it takes queue, vhost"):
        broker.purge_queue()


ACTIONS: dict[str, Callable[[Broker], object]] = {
    "publish": lambda broker: broker.publish("", "q"),
    "declare_queue": lambda broker: broker.declare_queue("a"),
    "bind_queue": lambda broker: broker.bind_queue("q", "amq.topic"),
    "delete_queue": lambda broker: broker.delete_queue("q"),
    "consume": lambda broker: broker.consume("q"),
    "respond": lambda broker: broker.respond("q", "pong"),
    "admin": lambda broker: broker.admin.add_user("bob", "secret"),
    "faults": lambda broker: broker.faults.drop(),
}


@pytest.mark.parametrize("act", ACTIONS.values(), ids=ACTIONS)
def test_a_broker_that_was_stopped_refuses_to_act_and_can_still_be_read(act: Callable[[Broker], object]) -> None:
    with Broker() as broker:
        broker.declare_queue("q")

    with pytest.raises(BrokerError, match="this broker was stopped; its state can still be read"):
        act(broker)
    assert [queue.name for queue in broker.queues] == ["q"]


@pytest.mark.parametrize("name", ["publish", "consume", "respond"])
def test_a_broker_that_was_not_started_refuses_messages(name: str) -> None:
    broker = Broker()
    broker.declare_queue("q")

    with pytest.raises(
        BrokerError, match=r"this broker was not started; use it in a with statement, or call start\(\)"
    ):
        ACTIONS[name](broker)


def test_what_a_test_holds_can_be_closed_after_the_broker_has_stopped() -> None:
    with Broker(checks="all=off") as broker:
        broker.declare_queue("q")
        held = broker.consume("q"), broker.respond("requests", "pong"), broker.faults.drop(optional=True)

    consumer, responder, rule = held
    consumer.close()
    responder.remove()
    rule.remove()


def test_a_stopped_broker_acts_again_once_it_is_started() -> None:
    broker = Broker().start()
    broker.stop()
    with broker:
        assert broker.declare_queue("q").name == "q"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"queue": "order"}, "queue 'order' was never declared or used in vhost '/'; did you mean 'orders'?"),
        ({"exchange": "shopp"}, "exchange 'shopp' was never declared or used in vhost '/'; did you mean 'shop'?"),
        ({"queue": "orders", "vhost": "stage"}, "virtual host 'stage' does not exist"),
    ],
)
def test_a_query_for_a_name_that_never_existed_is_a_typo(fields: dict[str, Any], text: str) -> None:
    with Broker() as broker:
        broker.declare_queue("orders")
        broker.declare_exchange("shop", "fanout")

        assert broker.events.query("delivered", queue="orders") == []
        with pytest.raises(NotDeclaredError, match=text.replace("?", r"\?")) as raised:
            broker.events.query(**fields)
        assert str(raised.traceback.filter(raised)[-1].path) == __file__


def test_a_queue_used_as_an_exchange_is_recognised() -> None:
    with Broker() as broker:
        broker.declare_queue("jobs")

        with pytest.raises(RefusedError, match="no exchange 'jobs'") as refused:
            broker.publish("jobs", "a")
        with pytest.raises(NotDeclaredError, match="'jobs' is a queue: messages go to it through an exchange"):
            broker.assert_published("jobs")

    assert refused.value.__notes__ == [
        "'jobs' is a queue: messages go to it through an exchange, such as the default one with exchange='' and "
        "routing_key='jobs'"
    ]


def test_a_text_is_one_of_several_texts() -> None:
    plugin = "rabbitmq_event_exchange"
    with Broker(vhosts="shop", plugins=plugin, permit="global_qos", trace_redact="card") as broker:
        broker.admin.add_vhost("other", tags="production")
        broker.admin.add_user("app", "secret", tags="monitoring")

        assert broker.admin.list_vhosts() == ["/", "shop", "other"]
        assert broker.admin.list_users()["app"] == ("monitoring",)
        assert broker._engine.plugins == {plugin}
        assert broker._engine.node.vhosts["other"].tags == ("production",)
        assert broker._engine.permit == {"global_qos"}

        broker.admin.update_vhost_metadata("other", tags="staging")

        assert broker._engine.node.vhosts["other"].tags == ("staging",)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"host": 5}, "host must be text, not 5"),
        ({"record": "ring"}, "record='ring' is unknown; expected 'off' or 'recent'"),
        ({"record": ["off"]}, "record must be text"),
        ({"permit": 5}, "permit must be a text or several"),
        ({"trace_redact": [5]}, "trace_redact must be a text or several"),
        ({"trace_bodies": "no"}, "trace_bodies must be True or False, not 'no'"),
        ({"settings": "a"}, "settings must be a mapping of names to values, not 'a'"),
        ({"users": {LONE: "secret"}}, "users: user 'a.*' has a lone surrogate"),
        ({"port": True}, "port=True is not a port"),
        ({"seed": True}, "seed=True is not a whole number"),
    ],
)
def test_a_wrong_keyword_of_a_broker_is_named(given: dict[str, Any], text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text.replace("(", r"\(")):
        Broker(**given)


def test_a_misspelt_exchange_gets_the_nearest_one() -> None:
    with Broker() as broker:
        broker.declare_exchange("orders")
        broker.declare_queue("work")
        with pytest.raises(RefusedError, match="no exchange 'oders'") as published:
            broker.publish("oders", "a")
        with pytest.raises(RefusedError, match="no exchange 'oders'") as bound:
            broker.bind_queue("work", "oders", "a")

    assert published.value.__notes__ == ["did you mean 'orders'?"] == bound.value.__notes__


def test_what_belongs_to_aio_is_named_there_and_the_other_way_round() -> None:
    with Broker() as broker:
        with pytest.raises(AttributeError, match=r"no attribute 'aio'; use broker\.aio\.clock$"):
            broker.clock.aio.advance(1)  # type: ignore[attr-defined]
        with pytest.raises(AttributeError, match="'publish'; it does not wait for clients: call it on the broker"):
            broker.aio.publish("", "orders")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "add",
    [
        lambda faults: faults.reset_peer(on="basic.ak"),
        lambda faults: faults.reset_peer(on="basic.ack", after=-1),
        lambda faults: faults.stall(probability=3),
        lambda faults: faults.delay(0, on="basic.ack"),
        lambda faults: faults.reset_peer(on="queue.declare", json={}),
        lambda faults: faults.refuse_connections("rest"),
        lambda faults: faults.close_channel(99999),
        lambda faults: faults.add(do="reset"),
    ],
)
def test_the_traceback_of_an_invalid_fault_ends_at_the_line_that_adds_it(add: Callable[[Any], object]) -> None:
    with Broker() as broker, pytest.raises((ValueError, TypeError)) as raised:
        add(broker.faults)

    assert raised.traceback[-1].path == Path(__file__)
