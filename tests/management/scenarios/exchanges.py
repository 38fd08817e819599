"""Exchanges."""

from __future__ import annotations

from tests.semantics.codec import Field

from ..scenario import Run, scenario


@scenario
def the_predeclared_exchanges(s: Run) -> None:
    # Made with the virtual host, by whoever made that.
    maker = ("user_who_performed_action",)
    s.get(f"/exchanges/{s.v}", without=maker)
    s.get(f"/exchanges/{s.v}/amq.default", without=maker)
    s.get(f"/exchanges/{s.v}/amq.direct", without=maker)
    s.get(f"/exchanges/{s.v}/nothing")
    s.get("/exchanges/nothing")


@scenario
def declaring_one(s: Run) -> None:
    s.put(f"/exchanges/{s.v}/x", {"type": "fanout", "durable": True})
    s.get(f"/exchanges/{s.v}/x")
    s.put(f"/exchanges/{s.v}/x", {"type": "fanout", "durable": True})
    s.put(f"/exchanges/{s.v}/x", {"type": "direct", "durable": True})
    s.put(f"/exchanges/{s.v}/x", {"type": "fanout", "durable": False})
    s.put(f"/exchanges/{s.v}/plain", {})
    s.get(f"/exchanges/{s.v}/plain")
    arguments = {"alternate-exchange": "x", "number": 5, "flag": True, "list": [1, "a"], "table": {"k": 1.5}}
    s.put(
        f"/exchanges/{s.v}/args",
        {"type": "topic", "durable": True, "internal": True, "auto_delete": True, "arguments": arguments},
    )
    s.get(f"/exchanges/{s.v}/args")


@scenario
def wrong_declarations(s: Run) -> None:
    s.put(f"/exchanges/{s.v}/x", {"durable": "nonsense"})
    s.put(f"/exchanges/{s.v}/x", {"arguments": []})
    s.put(f"/exchanges/{s.v}/x", {"arguments": {"alternate-exchange": 5}})
    s.put(f"/exchanges/{s.v}/amq.mine", {"type": "direct"})
    s.put(f"/exchanges/{s.v}/amq.direct", {"type": "direct", "durable": True})
    s.put("/exchanges/nothing/x", {"type": "direct"})
    s.put(f"/exchanges/{s.v}/y", {"vhost": "nothing", "name": "other", "type": "direct", "durable": "true"})
    s.get(f"/exchanges/{s.v}?columns=name,durable", without=())


@scenario
def deleting_one(s: Run) -> None:
    s.put(f"/exchanges/{s.v}/x", {"durable": True})
    s.put(f"/queues/{s.v}/q", {"durable": True})
    s.post(f"/bindings/{s.v}/e/x/q/q", {"routing_key": "k"})
    s.delete(f"/exchanges/{s.v}/x?if-unused=true")
    s.delete(f"/exchanges/{s.v}/x")
    s.delete(f"/exchanges/{s.v}/x")
    s.delete(f"/exchanges/{s.v}/amq.direct")
    s.delete(f"/exchanges/{s.v}/amq.default")
    s.delete("/exchanges/nothing/x")


@scenario
def its_bindings(s: Run) -> None:
    s.put(f"/exchanges/{s.v}/x", {"durable": True})
    s.put(f"/exchanges/{s.v}/y", {"durable": True})
    s.put(f"/queues/{s.v}/q", {"durable": True})
    s.post(f"/bindings/{s.v}/e/x/q/q", {"routing_key": "k"})
    s.post(f"/bindings/{s.v}/e/y/e/x", {"routing_key": "j"})
    s.get(f"/exchanges/{s.v}/x/bindings/source")
    s.get(f"/exchanges/{s.v}/x/bindings/destination")
    s.get(f"/exchanges/{s.v}/amq.default/bindings/source")
    s.get(f"/exchanges/{s.v}/nothing/bindings/source")
    s.get(f"/exchanges/{s.v}/x/bindings")


@scenario
def made_by_a_client(s: Run) -> None:
    channel = s.amqp.channel()
    channel.declare_exchange(
        "x", "headers", durable=False, auto_delete=True, arguments={"a": Field("I", 5), "b": Field("S", b"t")}
    )
    s.get(f"/exchanges/{s.v}/x")
