"""Bindings between exchanges and queues."""

from __future__ import annotations

from tests.semantics.codec import Field

from ..scenario import Run, scenario


def _declared(s: Run) -> None:
    s.put(f"/exchanges/{s.v}/x", {"type": "topic", "durable": True}, hidden=True)
    s.put(f"/exchanges/{s.v}/y", {"type": "fanout", "durable": True}, hidden=True)
    s.put(f"/queues/{s.v}/q", {"durable": True}, hidden=True)


@scenario
def all_bindings(s: Run) -> None:
    _declared(s)
    s.get(f"/bindings/{s.v}")
    s.post(f"/bindings/{s.v}/e/x/q/q", {"routing_key": "k"})
    s.post(f"/bindings/{s.v}/e/x/e/y", {"routing_key": "j", "arguments": {}})
    s.get(f"/bindings/{s.v}")
    s.get("/bindings", mine=True)
    s.get("/bindings/nothing")


@scenario
def between_an_exchange_and_a_queue(s: Run) -> None:
    _declared(s)
    s.get(f"/bindings/{s.v}/e/x/q/q")
    s.post(f"/bindings/{s.v}/e/x/q/q", {})
    s.post(f"/bindings/{s.v}/e/x/q/q", {"routing_key": "a.b c/d"})
    s.post(f"/bindings/{s.v}/e/x/q/q", {"routing_key": "a.b c/d"})
    s.post(f"/bindings/{s.v}/e/x/q/q", {"routing_key": "%ä~+"})
    s.post(f"/bindings/{s.v}/e/x/q/q", {"routing_key": "k", "arguments": {"n": 1}})
    s.get(f"/bindings/{s.v}/e/x/q/q")
    s.get(f"/bindings/{s.v}/e/x/q/q/~")
    s.get(f"/bindings/{s.v}/e/x/q/q/a.b%20c%2Fd")
    s.get(f"/bindings/{s.v}/e/x/q/q/a.b%2520c%252Fd")
    s.get(f"/bindings/{s.v}/e/x/q/q/nothing")
    s.delete(f"/bindings/{s.v}/e/x/q/q/~")
    s.delete(f"/bindings/{s.v}/e/x/q/q/~")
    s.delete(f"/bindings/{s.v}/e/x/q/q/nothing")
    s.get(f"/bindings/{s.v}/e/x/q/q")


@scenario
def a_properties_key_deletes_its_binding(s: Run) -> None:
    _declared(s)
    for routing_key in ("a b", "a/b", "ä", "~", "a~b", "#.*"):
        s.post(f"/bindings/{s.v}/e/x/q/q", {"routing_key": routing_key})
    s.post(
        f"/bindings/{s.v}/e/x/q/q", {"routing_key": "k", "arguments": {"a": 1, "b": "text", "c": [1], "d": {"e": True}}}
    )
    found = s.get(f"/bindings/{s.v}/e/x/q/q")
    assert isinstance(found, list)
    for binding in found:
        from urllib.parse import quote

        s.get(f"/bindings/{s.v}/e/x/q/q/{quote(binding['properties_key'], safe='')}")
        s.delete(f"/bindings/{s.v}/e/x/q/q/{quote(binding['properties_key'], safe='')}")
    s.get(f"/bindings/{s.v}/e/x/q/q")


@scenario
def between_exchanges(s: Run) -> None:
    _declared(s)
    s.post(f"/bindings/{s.v}/e/x/e/y", {"routing_key": "k"})
    s.get(f"/bindings/{s.v}/e/x/e/y")
    s.get(f"/bindings/{s.v}/e/x/e/y/k")
    s.delete(f"/bindings/{s.v}/e/x/e/y/k")
    s.get(f"/bindings/{s.v}/e/x/e/y")


@scenario
def wrong_bindings(s: Run) -> None:
    _declared(s)
    s.post(f"/bindings/{s.v}/e/nothing/q/q", {"routing_key": "k"})
    s.post(f"/bindings/{s.v}/e/x/q/nothing", {"routing_key": "k"})
    s.post(f"/bindings/{s.v}/e/x/e/nothing", {"routing_key": "k"})
    s.post(f"/bindings/{s.v}/e/amq.default/q/q", {"routing_key": "k"})
    s.post("/bindings/nothing/e/x/q/q", {"routing_key": "k"})
    s.post(f"/bindings/{s.v}/e/amq.headers/q/q", {"arguments": {"x-match": "nonsense"}})
    s.get(f"/bindings/{s.v}/e/nothing/q/q")
    s.get(f"/bindings/{s.v}/e/x/q/nothing")
    s.get("/bindings/nothing/e/x/q/q")
    s.delete(f"/bindings/{s.v}/e/x/q/nothing/k")


@scenario
def to_the_default_exchange(s: Run) -> None:
    _declared(s)
    s.post(f"/bindings/{s.v}/e/x/e/amq.default", {"routing_key": "k"})
    s.get(f"/bindings/{s.v}/e/x/e/amq.default")


@scenario
def to_a_queue_named_as_the_default_exchange(s: Run) -> None:
    _declared(s)
    s.post(f"/bindings/{s.v}/e/x/q/amq.default", {"routing_key": "k"})
    s.get(f"/bindings/{s.v}/e/x/q/amq.default")
    s.get(f"/bindings/{s.v}/e/amq.default/q/amq.default")
    s.get(f"/queues/{s.v}/amq.default/bindings")


@scenario
def the_default_bindings_of_a_missing_queue(s: Run) -> None:
    _declared(s)
    s.get(f"/bindings/{s.v}/e/amq.default/q/nothing")
    s.get(f"/bindings/{s.v}/e/amq.default/q/nothing/nothing")
    s.delete(f"/bindings/{s.v}/e/amq.default/q/nothing/nothing")
    s.get("/bindings/nothing/e/amq.default/q/q")


@scenario
def the_default_bindings(s: Run) -> None:
    _declared(s)
    s.get(f"/bindings/{s.v}/e/amq.default/q/q")
    s.get(f"/bindings/{s.v}/e/amq.default/q/q/q")
    s.delete(f"/bindings/{s.v}/e/amq.default/q/q/q")


@scenario
def the_hash_of_arguments(s: Run) -> None:
    channel = s.amqp.channel()
    channel.declare("q")
    for arguments in (
        {"a": Field("I", 1)}, {"a": Field("l", 1)}, {"a": Field("S", b"1")}, {"a": Field("t", True)},
        {"a": Field("d", 1.5)}, {"a": Field("V", None)},
        {"b": Field("I", 1), "a": Field("I", 2)}, {"a": {"k": "v"}}, {"a": Field("A", (Field("I", 1),))},
        {"a": Field("I", 300)},
        {"a": Field("I", -1)}, {"a": Field("l", 2**40)},
    ):  # fmt: skip
        channel.bind("q", "amq.headers", "", arguments)
    s.get(f"/bindings/{s.v}/e/amq.headers/q/q")


@scenario
def those_of_an_exclusive_queue(s: Run) -> None:
    channel = s.amqp.channel()
    channel.declare("q", exclusive=True, durable=False)
    s.post(f"/bindings/{s.v}/e/amq.direct/q/q", {"routing_key": "k"})
    channel.bind("q", "amq.direct", "k")
    s.delete(f"/bindings/{s.v}/e/amq.direct/q/q/k")
