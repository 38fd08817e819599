"""Publishing and getting messages."""

from __future__ import annotations

from tests.semantics.codec import Field

from ..scenario import Run, scenario

_GET = {"count": 10, "ackmode": "ack_requeue_true", "encoding": "auto"}


def _message(payload: str = "hello", **changes: object) -> dict[str, object]:
    return {"properties": {}, "routing_key": "q", "payload": payload, "payload_encoding": "string", **changes}


@scenario
def publishing(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True})
    s.post(f"/exchanges/{s.v}/amq.default/publish", _message())
    s.post(f"/exchanges/{s.v}/amq.default/publish", _message(routing_key="nothing"))
    s.post(f"/exchanges/{s.v}/amq.direct/publish", _message())
    s.post(f"/exchanges/{s.v}/amq.default/publish", _message("aGk=", payload_encoding="base64"))
    s.post(f"/queues/{s.v}/q/get", _GET)


@scenario
def publishing_properties(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True})
    properties = {
        "content_type": "text/plain", "content_encoding": "utf-8", "priority": 3, "correlation_id": "c",
        "reply_to": "r", "expiration": "60000", "message_id": "m", "timestamp": 1234, "type": "t",
        "user_id": "guest", "app_id": "a", "delivery_mode": 2, "cluster_id": "x",
        "headers": {"a": 1, "b": "text", "c": True, "d": 1.5, "e": [1, "x"], "f": {"g": None}},
    }  # fmt: skip
    s.post(f"/exchanges/{s.v}/amq.default/publish", _message(properties=properties))
    s.post(f"/exchanges/{s.v}/amq.default/publish", _message(properties={"unknown": 1, "delivery_mode": 1}))
    s.post(f"/queues/{s.v}/q/get", _GET)


@scenario
def wrong_publishes(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True})
    s.post(f"/exchanges/{s.v}/amq.default/publish", {})
    s.post(f"/exchanges/{s.v}/amq.default/publish", {"routing_key": "q", "payload": "x"})
    s.post(f"/exchanges/{s.v}/amq.default/publish", _message(payload_encoding="nonsense"))
    s.post(f"/exchanges/{s.v}/amq.default/publish", _message("!!!", payload_encoding="base64"))
    s.post(f"/exchanges/{s.v}/amq.default/publish", _message(properties={"user_id": "other"}))
    s.post(f"/exchanges/{s.v}/amq.default/publish", _message(properties={"expiration": "x"}))
    s.post(f"/exchanges/{s.v}/nothing/publish", _message())
    s.post("/exchanges/nothing/x/publish", _message())


@scenario(versions=("4.3",))
def properties_of_a_wrong_type_or_size(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True})
    for properties in (
        {"priority": 300, "delivery_mode": 258, "timestamp": 2**64 - 1},
        {"priority": -1},
        {"headers": {"a": 2**63 + 5, "b": [2**64 - 1, {"c": -(2**63) - 1}]}},
        *({"priority": it} for it in ("7", 1.5, True, None)),
        *({"type": it} for it in (5, True, None, ["t"], "t" * 256)),
        {"headers": {"k" * 256: 1}},
    ):
        s.post(f"/exchanges/{s.v}/amq.default/publish", _message(properties=properties))
    s.post(f"/queues/{s.v}/q/get", _GET)


@scenario
def getting(s: Run) -> None:
    channel = s.amqp.channel()
    channel.declare("q")
    channel.fill("q", "one", "two", "three")
    s.post(f"/queues/{s.v}/q/get", {**_GET, "count": 1})
    s.post(f"/queues/{s.v}/q/get", {**_GET, "count": 2, "ackmode": "reject_requeue_true"})
    s.post(f"/queues/{s.v}/q/get", {**_GET, "count": 1, "ackmode": "ack_requeue_false"})
    s.post(f"/queues/{s.v}/q/get", {**_GET, "count": 1, "ackmode": "reject_requeue_false"})
    s.post(f"/queues/{s.v}/q/get", _GET)
    s.post(f"/queues/{s.v}/q/get", {**_GET, "ackmode": "ack_requeue_false"})
    s.post(f"/queues/{s.v}/q/get", _GET)


@scenario
def encodings_and_truncation(s: Run) -> None:
    channel = s.amqp.channel()
    channel.declare("q")
    channel.publish("", "q", "plain text")
    channel.publish("", "q", b"\xff\xfe")
    channel.publish("", "q", "")
    channel.publish("", "q", "ä".encode())
    channel.await_count("q", 4)
    s.post(f"/queues/{s.v}/q/get", _GET)
    s.post(f"/queues/{s.v}/q/get", {**_GET, "encoding": "base64"})
    s.post(f"/queues/{s.v}/q/get", {**_GET, "truncate": 3})
    s.post(f"/queues/{s.v}/q/get", {**_GET, "encoding": "nonsense"})


@scenario
def typed_headers_of_a_client(s: Run) -> None:
    channel = s.amqp.channel()
    channel.declare("q")
    headers = {
        "int": Field("I", 5), "long": Field("l", 2**40), "text": Field("S", b"t"), "bytes": Field("x", b"ab"),
        "time": Field("T", 77), "none": Field("V", None),
        "flag": Field("t", False), "double": Field("d", 2.5),
        "list": Field("A", (Field("S", b"a"), Field("I", 1))), "table": {"k": "v"},
    }  # fmt: skip
    channel.publish("", "q", "x", headers=headers, content_type="a/b", delivery_mode=2, priority=1, timestamp=99)
    channel.await_count("q", 1)
    s.post(f"/queues/{s.v}/q/get", _GET)


@scenario
def a_dead_letter(s: Run) -> None:
    s.put(f"/queues/{s.v}/dead", {"durable": True})
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    s.put(f"/queues/{s.v}/q", {"durable": True, "arguments": arguments})
    s.post(f"/exchanges/{s.v}/amq.default/publish", _message())
    s.post(f"/queues/{s.v}/q/get", {**_GET, "ackmode": "reject_requeue_false"})
    s.post(
        f"/queues/{s.v}/dead/get",
        {**_GET, "ackmode": "ack_requeue_false"},
        until=lambda it: it != [],
        without=("time",),
    )


@scenario
def wrong_gets(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True})
    s.post(f"/queues/{s.v}/q/get", {})
    s.post(f"/queues/{s.v}/q/get", {"count": 1})
    s.post(f"/queues/{s.v}/q/get", {"count": "x", "ackmode": "ack_requeue_true", "encoding": "auto"})
    s.post(f"/queues/{s.v}/q/get", {"count": 0, "ackmode": "ack_requeue_true", "encoding": "auto"})
    s.post(f"/queues/{s.v}/q/get", {"count": 1, "requeue": True, "encoding": "auto"})
    s.post(f"/queues/{s.v}/nothing/get", _GET)
    s.post("/queues/nothing/q/get", _GET)


@scenario
def getting_from_a_quorum_queue(s: Run) -> None:
    s.put(f"/queues/{s.v}/quorum", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
    s.post(f"/exchanges/{s.v}/amq.default/publish", _message(routing_key="quorum"))
    s.post(f"/queues/{s.v}/quorum/get", {**_GET, "ackmode": "reject_requeue_true"}, until=lambda it: it != [])


@scenario(versions=("4.3",))
def a_wrong_ackmode(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True})
    s.post(f"/queues/{s.v}/q/get", {"count": 1, "ackmode": "nonsense", "encoding": "auto"})


@scenario
def a_payload_that_is_no_string(s: Run) -> None:
    for payload in (5, True, None, [1], {"id": 1}):
        body = {"properties": {}, "routing_key": "q", "payload": payload, "payload_encoding": "string"}
        s.post(f"/exchanges/{s.v}/amq.default/publish", body)


@scenario
def publishing_to_a_full_queue(s: Run) -> None:
    for kind in ("classic", "quorum"):
        for overflow in ("reject-publish", "reject-publish-dlx", "drop-head"):
            name = f"{kind}-{overflow}"
            arguments = {"x-queue-type": kind, "x-max-length": 1, "x-overflow": overflow}
            s.put(f"/queues/{s.v}/{name}", {"durable": True, "arguments": arguments})
            for text in ("1", "2", "3", "4"):
                s.post(f"/exchanges/{s.v}/amq.default/publish", _message(text, routing_key=name))
            s.post(f"/queues/{s.v}/{name}/get", _GET)


@scenario
def publishing_to_a_full_queue_and_another(s: Run) -> None:
    s.put(f"/queues/{s.v}/full", {"durable": True, "arguments": {"x-max-length": 1, "x-overflow": "reject-publish"}})
    s.put(f"/queues/{s.v}/other", {"durable": True})
    for name in ("full", "other"):
        s.post(f"/bindings/{s.v}/e/amq.fanout/q/{name}", {})
    for text in ("1", "2", "3"):
        s.post(f"/exchanges/{s.v}/amq.fanout/publish", _message(text))
    for name in ("full", "other"):
        s.post(f"/queues/{s.v}/{name}/get", _GET)


@scenario
def publishing_to_a_full_queue_by_an_alternate_exchange(s: Run) -> None:
    s.put(f"/exchanges/{s.v}/alternate", {"type": "fanout", "durable": True})
    s.put(f"/exchanges/{s.v}/x", {"durable": True, "arguments": {"alternate-exchange": "alternate"}})
    s.post(f"/exchanges/{s.v}/x/publish", _message())
    s.put(f"/queues/{s.v}/q", {"durable": True, "arguments": {"x-max-length": 0, "x-overflow": "reject-publish"}})
    s.post(f"/bindings/{s.v}/e/alternate/q/q", {})
    s.post(f"/exchanges/{s.v}/x/publish", _message())


@scenario
def publishing_to_a_queue_that_a_policy_makes_full(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True})
    s.post(f"/exchanges/{s.v}/amq.default/publish", _message())
    s.put(f"/policies/{s.v}/p", {"pattern": "", "definition": {"max-length": 1, "overflow": "reject-publish"}})
    s.post(f"/exchanges/{s.v}/amq.default/publish", _message())
    s.delete(f"/policies/{s.v}/p")
    s.post(f"/exchanges/{s.v}/amq.default/publish", _message())
    s.post(f"/queues/{s.v}/q/get", _GET)


@scenario
def publishing_to_full_priority_queues_and_streams(s: Run) -> None:
    full = {"x-max-length": 1, "x-overflow": "reject-publish"}
    s.put(f"/queues/{s.v}/q", {"durable": True, "arguments": {**full, "x-max-priority": 5}})
    for priority in (1, 5):
        s.post(f"/exchanges/{s.v}/amq.default/publish", _message(properties={"priority": priority}))
    s.put(f"/queues/{s.v}/s", {"durable": True, "arguments": {"x-queue-type": "stream", "x-max-length-bytes": 10000}})
    s.post(f"/exchanges/{s.v}/amq.default/publish", _message(routing_key="s"))


@scenario
def requeueing_by_nack_and_by_reject(s: Run) -> None:
    s.put(f"/queues/{s.v}/dead", {"durable": True})
    s.post(f"/bindings/{s.v}/e/amq.fanout/q/dead", {})
    for mode in ("ack_requeue_true", "reject_requeue_true"):
        for kind in ("classic", "quorum"):
            arguments = {"x-queue-type": kind, "x-dead-letter-exchange": "amq.fanout"}
            if kind == "quorum":
                arguments["x-delivery-limit"] = 2  # type: ignore[assignment]
            s.put(f"/queues/{s.v}/{kind}-{mode}", {"durable": True, "arguments": arguments})
            s.post(f"/exchanges/{s.v}/amq.default/publish", _message(routing_key=f"{kind}-{mode}"))
            for _ in range(5):
                s.post(f"/queues/{s.v}/{kind}-{mode}/get", {**_GET, "ackmode": mode})
            s.post(f"/queues/{s.v}/dead/get", _GET, without=("x-death", "time"))


@scenario
def getting_all(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True})
    for text in ("1", "2", "3"):
        s.post(f"/exchanges/{s.v}/amq.default/publish", _message(text))
    s.post(f"/queues/{s.v}/q/get", {**_GET, "count": -1})
    s.post(f"/queues/{s.v}/q/get", {**_GET, "count": "-1", "ackmode": "ack_requeue_false"})
    s.post(f"/queues/{s.v}/q/get", {**_GET, "count": -1})


@scenario(versions=("4.3",))
def ways_to_settle_that_are_numbers(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True})
    for mode in (5, 65, 255):
        s.post(f"/queues/{s.v}/q/get", {"count": 1, "ackmode": mode, "encoding": "auto"})


@scenario
def keys_that_a_message_lacks(s: Run) -> None:
    for number in range(16):
        given = {key: value for at, (key, value) in enumerate(_message().items()) if number >> at & 1}
        s.post(f"/exchanges/{s.v}/amq.default/publish", given)
