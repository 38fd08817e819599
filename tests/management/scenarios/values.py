"""Values of JSON in requests, of each type, and values of AMQP in answers."""

from __future__ import annotations

from tests.semantics.codec import Field

from ..scenario import Run, scenario

_GET = {"count": 10, "ackmode": "ack_requeue_true", "encoding": "auto"}
# A value of each type of JSON.
_WRONG = (None, 5, 1.5, True, [], {}, "text", [1])
# RabbitMQ stores a list of numbers as arguments, and crashes once it reads them.
_WRONG_ARGUMENTS = _WRONG[:-1]
# A value of each type of AMQP that JSON lacks, and some beside it.
_TYPED = {
    "time": Field("T", 77), "decimal": Field("D", (2, 314)), "whole": Field("D", (0, 5)), "long": Field("D", (3, 7)),
    "bytes": Field("x", b"ab"), "octets": Field("x", b"\xff\x00"), "line": Field("x", b"\xff" * 57),
    "lines": Field("x", b"\xff" * 100), "text": Field("S", b"\xff"), "void": Field("V", None),
    "float": Field("f", 1.5), "list": Field("A", (Field("T", 1), Field("D", (1, 5)), Field("V", None))),
    "table": {"inner": Field("D", (1, 25))},
}  # fmt: skip


def _message(**changes: object) -> dict[str, object]:
    return {"properties": {}, "routing_key": "q", "payload": "x", "payload_encoding": "string", **changes}


@scenario
def values_that_json_lacks(s: Run) -> None:
    channel = s.amqp.channel()
    channel.declare("q", durable=True, arguments=_TYPED)
    channel.declare_exchange("x", "direct", durable=True, arguments=_TYPED)
    channel.bind("q", "x", "k", _TYPED)
    channel.publish("", "q", "m", headers=dict(_TYPED))
    channel.await_count("q", 1)
    s.get(f"/queues/{s.v}/q?disable_stats=true&columns=arguments")
    s.get(f"/exchanges/{s.v}/x?columns=arguments")
    s.get(f"/bindings/{s.v}/e/x/q/q")
    s.get(f"/definitions/{s.v}", unordered=True)
    s.post(f"/queues/{s.v}/q/get", _GET)
    channel.consume("q", "tag", arguments=dict(_TYPED))
    s.get(f"/consumers/{s.v}?columns=arguments", until=bool)
    s.get(f"/queues/{s.v}/q?columns=consumer_details.arguments", until=lambda it: bool(it.get("consumer_details")))


@scenario
def values_that_json_lacks_in_definitions_of_the_broker(s: Run) -> None:
    channel = s.amqp.channel()
    channel.declare("q", durable=True, arguments=_TYPED)
    whole = s.get("/definitions", hidden=True)
    assert isinstance(whole, dict)
    mine = next(queue for queue in whole["queues"] if queue["vhost"] == s.vhost)
    arguments = {name: mine["arguments"][name] for name in sorted(_TYPED)}
    s.post(
        "/definitions",
        {"queues": [{"name": "copy", "vhost": s.vhost, "arguments": arguments, "durable": True, "auto_delete": False}]},
    )
    s.get(f"/queues/{s.v}/copy?disable_stats=true&columns=arguments")


@scenario(versions=("4.3", "4.0"))
def publishes_with_a_value_of_each_type(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True})
    for name in ("routing_key", "properties", "payload", "payload_encoding"):
        for value in _WRONG:
            s.post(f"/exchanges/{s.v}/amq.default/publish", _message(**{name: value}))
    for name in ("headers", "type", "priority", "timestamp", "delivery_mode", "user_id", "message_id"):
        for value in _WRONG:
            s.post(f"/exchanges/{s.v}/amq.default/publish", _message(properties={name: value}))
    for value in _WRONG:
        headers = {"a": value, "b": [value], "c": {"d": value}}
        s.post(f"/exchanges/{s.v}/amq.default/publish", _message(properties={"headers": headers}))
    s.post(f"/queues/{s.v}/q/get", {**_GET, "count": 100})


@scenario
def base64_with_white_space_and_without_sense(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True})
    for text in (
        *("aGk=", "aG\nk=", "aG\r\n k\t=", "aGk= \n", "aGk", "aGk==", "", "=", "aGk=x", "a"),
        *("ä", "aGkaGk=", "aGk=aGk=", "-_-_", "aGl="),
    ):
        s.post(f"/exchanges/{s.v}/amq.default/publish", _message(payload=text, payload_encoding="base64"))
    s.post(f"/queues/{s.v}/q/get", {**_GET, "count": 100, "encoding": "base64"})


@scenario
def gets_with_a_value_of_each_type(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True})
    for text in ("abcdef", "ghi"):
        s.post(f"/exchanges/{s.v}/amq.default/publish", _message(payload=text))
    numbers = ("3", "50000", 3, 0, 2.9, " 3", "+3", "3.5", "", "1_0", "\u0663", -1, "-1", -1.5, 2**70)
    for value in (*numbers, *_WRONG):
        s.post(f"/queues/{s.v}/q/get", {**_GET, "truncate": value})
    for value in (*numbers, -2, -0.5, *_WRONG):
        s.post(f"/queues/{s.v}/q/get", {**_GET, "count": value})
    for value in _WRONG:
        s.post(f"/queues/{s.v}/q/get", {**_GET, "encoding": value})
    for value in (None, 1.5, True, {}, "text"):
        s.post(f"/queues/{s.v}/q/get", {**_GET, "ackmode": value})


@scenario(versions=("4.3",))
def declarations_with_a_value_of_each_type(s: Run) -> None:
    s.put(f"/queues/{s.v}/end", {"durable": True})
    for name in ("durable", "auto_delete", "arguments", "node"):
        for value in _WRONG_ARGUMENTS:
            s.put(f"/queues/{s.v}/q", {"durable": True, name: value})
            s.delete(f"/queues/{s.v}/q")
    for name in ("durable", "auto_delete", "internal", "arguments"):
        for value in _WRONG_ARGUMENTS:
            s.put(f"/exchanges/{s.v}/x", {"durable": True, name: value})
            s.delete(f"/exchanges/{s.v}/x")
    for value in _WRONG_ARGUMENTS:
        s.post(f"/bindings/{s.v}/e/amq.direct/q/end", {"arguments": value, "routing_key": "k"})
        s.put(f"/queues/{s.v}/q", {"durable": True, "arguments": {"a": value, "b": [value], "c": {"d": value}}})
        s.get(f"/queues/{s.v}/q?disable_stats=true&columns=arguments")
        s.delete(f"/queues/{s.v}/q")
    s.get(f"/bindings/{s.v}/e/amq.direct/q/end")


@scenario
def policies_with_a_value_of_each_type(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True})
    for kind in ("policies", "operator-policies"):
        for name in ("pattern", "definition", "priority", "apply-to"):
            for value in (None, 1.5, True, [], {}, "text"):
                body = {"pattern": "", "definition": {"max-length": 3}, name: value}
                s.put(f"/{kind}/{s.v}/p", body)
                s.get(f"/{kind}/{s.v}")
    s.get(
        f"/queues/{s.v}/q?disable_stats=true&columns=name,policy,operator_policy", without=("policy", "operator_policy")
    )


@scenario
def lengths_of_each_type_in_policies(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True})
    for kind in ("policies", "operator-policies"):
        for name in ("max-length", "max-length-bytes", "message-ttl", "expires"):
            for value in (None, 1.5, True, [], "5", 2**31, 2**63, 2**70, -1):
                s.put(f"/{kind}/{s.v}/p", {"pattern": "", "definition": {name: value}})
    s.get(f"/operator-policies/{s.v}")


@scenario(versions=("4.3", "4.0"))
def limits_with_a_value_of_each_type(s: Run) -> None:
    for value in (*_WRONG, -5, 0, 2**70, "3"):
        s.put(f"/vhost-limits/{s.v}/max-queues", {"value": value})
        s.put(f"/vhost-limits/{s.v}/nonsense", {"value": value})
        # An empty parameter exists, which nothing but the next answer shows.
        s.put(f"/parameters/vhost-limits/{s.v}/limits", {"value": value or 5})
        s.put(f"/parameters/vhost-limits/{s.v}/limits", {"value": {"max-connections": value}})
        s.get(f"/vhost-limits/{s.v}")


@scenario
def global_parameters_with_a_value_of_each_type(s: Run) -> None:
    for value in _WRONG:
        s.put(f"/global-parameters/{s.v}", {"value": value})
        s.get(f"/global-parameters/{s.v}")
    s.delete(f"/global-parameters/{s.v}")
