"""Queues: what is shown, declared, purged and deleted."""

from __future__ import annotations

from tests.semantics.codec import Field

from ..scenario import Run, scenario

_MEASURED = {"messages": 0, "consumers": 0, "memory": lambda it: it is not None}
_MESSAGE = {"routing_key": "q", "payload": "ab", "payload_encoding": "string"}
# Depends on whether the queue has been idle for long enough; and what 3.10 shows of its inner workings.
_IDLE = ("idle_since", "backing_queue_status", "recoverable_slaves", "single_active_consumer_ctag")


@scenario
def a_classic_queue(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True})
    s.get(f"/queues/{s.v}/q", until=_MEASURED, without=_IDLE)
    s.get(f"/queues/{s.v}", without=_IDLE)
    s.get("/queues", mine=True, without=_IDLE)


@scenario
def a_quorum_queue(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
    s.get(f"/queues/{s.v}/q", until=_MEASURED, without=_IDLE)
    s.get(f"/queues/{s.v}", without=_IDLE)


@scenario
def a_stream(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True, "arguments": {"x-queue-type": "stream"}})
    s.get(f"/queues/{s.v}/q", until=_MEASURED if s.version == "3.10" else {**_MEASURED, "segments": 1}, without=_IDLE)
    s.get(f"/queues/{s.v}", without=_IDLE)


@scenario
def without_statistics(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True, "arguments": {"x-max-length": 3}})
    s.get(f"/queues/{s.v}/q", hidden=True, until=_MEASURED)
    s.get(f"/queues/{s.v}?disable_stats=true")
    s.get(f"/queues/{s.v}?disable_stats=true&enable_queue_totals=true")
    s.get(f"/queues/{s.v}/q?disable_stats=true")


@scenario(versions=("4.3", "4.0"))
def in_detail(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True})
    s.get("/queues/detailed?disable_stats=true", mine=True)


@scenario
def declaring_one(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True})
    s.put(f"/queues/{s.v}/q", {"durable": True})
    s.put(f"/queues/{s.v}/q", {"durable": False})
    s.put(f"/queues/{s.v}/q", {"durable": True, "auto_delete": True})
    s.put(f"/queues/{s.v}/q", {"durable": True, "arguments": {"x-max-length": 5}})
    s.put(f"/queues/{s.v}/plain", {})
    s.put(f"/queues/{s.v}/deleted", {"durable": True, "auto_delete": True})
    s.put(f"/queues/{s.v}/words", {"durable": "true", "auto_delete": "false"})
    arguments = {"x-max-length": 5, "x-overflow": "reject-publish", "own": {"list": [1, 2.5, "a", True, None]}}
    s.put(f"/queues/{s.v}/args", {"durable": True, "arguments": arguments})
    s.get(f"/queues/{s.v}?columns=name,durable,auto_delete,exclusive,arguments,type,vhost,node")


@scenario
def wrong_declarations(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": "nonsense"})
    s.put(f"/queues/{s.v}/q", {"durable": 5})
    s.put(f"/queues/{s.v}/q", {"durable": True, "arguments": {"x-max-length": "x"}})
    s.put(f"/queues/{s.v}/q", {"durable": True, "arguments": {"x-max-length": -1}})
    s.put(f"/queues/{s.v}/q", {"durable": True, "arguments": {"x-queue-type": "nonsense"}})
    s.put(f"/queues/{s.v}/q", {"arguments": {"x-queue-type": "quorum"}})
    s.put(f"/queues/{s.v}/q", {"durable": True, "auto_delete": True, "arguments": {"x-queue-type": "quorum"}})
    s.put(f"/queues/{s.v}/amq.mine", {"durable": True})
    s.put("/queues/nothing/q", {"durable": True})
    s.put(f"/queues/{s.v}/other", {"vhost": "nothing", "name": "another", "durable": True})
    s.get(f"/queues/{s.v}?columns=name")


@scenario
def a_name_that_is_too_long(s: Run) -> None:
    s.put(f"/queues/{s.v}/{255 * 'n'}", {"durable": True})
    s.put(f"/queues/{s.v}/{256 * 'n'}", {"durable": True, "arguments": {"x-max-length": -1}})
    s.put(f"/queues/{s.v}/{128 * '%C3%A4'}", {"durable": True})


@scenario
def a_queue_of_the_default_type(s: Run) -> None:
    s.put(f"/vhosts/{s.v}", {"default_queue_type": "quorum"})
    s.put(f"/queues/{s.v}/q", {"durable": True})
    s.get(f"/queues/{s.v}/q?disable_stats=true&columns=name,type,arguments")


@scenario
def purging_one(s: Run) -> None:
    channel = s.amqp.channel()
    channel.declare("q")
    channel.fill("q", "a", "b")
    s.delete(f"/queues/{s.v}/q/contents")
    channel.await_count("q", 0)
    s.delete(f"/queues/{s.v}/nothing/contents")
    s.delete("/queues/nothing/q/contents")


@scenario
def deleting_one(s: Run) -> None:
    channel = s.amqp.channel()
    channel.declare("q")
    channel.fill("q", "a")
    channel.declare("used")
    channel.consume("used")
    s.delete(f"/queues/{s.v}/q?if-empty=true")
    s.delete(f"/queues/{s.v}/used?if-unused=true")
    s.delete(f"/queues/{s.v}/q?if-unused=true")
    s.delete(f"/queues/{s.v}/used?if-empty=true")
    s.delete(f"/queues/{s.v}/q")
    s.delete("/queues/nothing/q")


@scenario
def an_exclusive_queue(s: Run) -> None:
    channel = s.amqp.channel()
    channel.declare("q", exclusive=True, durable=False)
    s.get(
        f"/queues/{s.v}/q?columns=name,exclusive,durable,auto_delete,owner_pid_details.name",
        until={"owner_pid_details": bool},
    )
    s.delete(f"/queues/{s.v}/q")
    s.delete(f"/queues/{s.v}/q/contents")
    s.put(f"/queues/{s.v}/q", {"durable": False})
    s.post(f"/queues/{s.v}/q/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"})


@scenario
def names_that_are_not_taken_as_they_are(s: Run) -> None:
    s.put(f"/queues/{s.v}/a%0D%0Ab", {"durable": True})
    s.put(f"/exchanges/{s.v}/c%0D%0Ad", {"type": "direct", "durable": True})
    s.get(f"/queues/{s.v}?columns=name")
    s.get(f"/exchanges/{s.v}/cd?columns=name")
    s.put(f"/queues/{s.v}/amq.new", {"durable": True})


@scenario
def actions(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True})
    s.post(f"/queues/{s.v}/q/actions", {"action": "sync"})
    s.post(f"/queues/{s.v}/q/actions", {"action": "cancel_sync"})
    s.post(f"/queues/{s.v}/q/actions", {"action": "nonsense"})
    s.post(f"/queues/{s.v}/q/actions", {})


@scenario
def its_bindings(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True})
    s.post(f"/bindings/{s.v}/e/amq.direct/q/q", {"routing_key": "k"})
    s.post(f"/bindings/{s.v}/e/amq.headers/q/q", {"arguments": {"x-match": "all", "a": 1}})
    s.get(f"/queues/{s.v}/q/bindings")
    s.get(f"/queues/{s.v}/nothing/bindings")


@scenario
def made_by_a_client_with_typed_arguments(s: Run) -> None:
    channel = s.amqp.channel()
    arguments = {
        "x-max-length": Field("I", 5),
        "bytes": Field("x", b"\xff\x00"),
        "time": Field("T", 5),
        "null": Field("V", None),
        "short": Field("s", 3),
    }
    channel.declare("q", arguments=arguments)
    s.get(f"/queues/{s.v}/q?disable_stats=true")


@scenario
def messages_in_a_queue(s: Run) -> None:
    channel = s.amqp.channel()
    channel.declare("q")
    channel.fill("q", "four", "five5", "sixsix")
    channel.get("q")
    s.get(
        f"/queues/{s.v}/q?columns=messages,messages_ready,messages_unacknowledged,message_bytes,message_bytes_ready,"
        "message_bytes_unacknowledged,message_bytes_persistent,messages_persistent,consumers",
        until={"messages": 3, "messages_unacknowledged": 1, "message_bytes": 15},
    )
    s.get(
        f"/queues/{s.v}?disable_stats=true&enable_queue_totals=true&columns=name,messages,messages_ready,messages_unacknowledged",
        until={"messages": 3},
    )


@scenario
def consumers_of_a_queue(s: Run) -> None:
    channel = s.amqp.channel()
    channel.declare("q")
    channel.qos(7)
    channel.consume("q", consumer_tag="c")
    s.get(
        f"/queues/{s.v}/q?columns=consumers,consumer_details,consumer_capacity,exclusive_consumer_tag,single_active_consumer_tag",
        until=lambda it: isinstance(it, dict) and bool(it.get("consumer_details")) and it.get("consumers") == 1,
        without=("consumer_timeout",),
    )


@scenario
def an_exclusive_consumer_and_a_single_active_one(s: Run) -> None:
    channel = s.amqp.channel()
    channel.declare("e")
    channel.consume("e", consumer_tag="c", exclusive=True)
    channel.declare("s", arguments={"x-single-active-consumer": Field("t", True)})
    channel.consume("s", consumer_tag="one")
    channel.consume("s", consumer_tag="two")
    s.get(
        f"/queues/{s.v}/e?columns=consumers,exclusive_consumer_tag,single_active_consumer_tag",
        until={"exclusive_consumer_tag": "c"},
    )
    s.get(
        f"/queues/{s.v}/s?columns=consumers,exclusive_consumer_tag,single_active_consumer_tag",
        until={"single_active_consumer_tag": "one"},
    )


@scenario(versions=("4.3", "4.0"))
def an_action_on_a_missing_queue(s: Run) -> None:
    s.post(f"/queues/{s.v}/nothing/actions", {"action": "sync"})


@scenario
def messages_in_a_quorum_queue(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
    for priority in (1, 4, 5, 9, 40):
        message = {
            "properties": {"priority": priority},
            "routing_key": "q",
            "payload": "ab",
            "payload_encoding": "string",
        }
        s.post(f"/exchanges/{s.v}/amq.default/publish", message)
    s.post(f"/queues/{s.v}/q/get", {"count": 2, "ackmode": "reject_requeue_true", "encoding": "auto"})
    s.get(
        f"/queues/{s.v}/q",
        until={"messages": 5, "message_bytes": lambda it: bool(it)},
        without=(*_IDLE, "message_stats"),
    )


@scenario
def messages_in_a_stream(s: Run) -> None:
    channel = s.amqp.channel()
    channel.declare("q", arguments={"x-queue-type": "stream"})
    channel.confirm_select()
    for body in ("one", "two", "three"):
        channel.publish("", "q", body)
    channel.confirms()
    channel.qos(2)
    channel.consume("q", consumer_tag="c", arguments={"x-stream-offset": "first"})
    channel.deliveries(2)
    keys = "columns=messages,messages_ready,messages_unacknowledged,consumers,readers,message_bytes"
    s.get(f"/queues/{s.v}/q?{keys}", until={"messages": 3, "consumers": 1})


@scenario
def a_full_classic_queue(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True, "arguments": {"x-max-length": 2}})
    for mode in (1, 2, 2):
        s.post(f"/exchanges/{s.v}/amq.default/publish", {**_MESSAGE, "properties": {"delivery_mode": mode}})
    keys = "messages,messages_ready,messages_persistent,message_bytes,message_bytes_ready,message_bytes_persistent"
    s.get(f"/queues/{s.v}/q?columns={keys}", until={"messages": 2, "message_bytes": 4})


@scenario
def consumers_hold_and_wait(s: Run) -> None:
    channel = s.amqp.channel()
    channel.declare("busy")
    channel.fill("busy", "a", "b", "c")
    channel.qos(2)
    channel.consume("busy", consumer_tag="c")
    channel.deliveries(2)
    channel.declare("idle")
    channel.consume("idle", consumer_tag="d")
    keys = "columns=messages,messages_ready,messages_unacknowledged,consumers,consumer_capacity,consumer_utilisation"
    s.get(f"/queues/{s.v}/busy?{keys}", until={"messages_unacknowledged": 2, "consumers": 1})
    s.get(f"/queues/{s.v}/idle?{keys}", until={"consumers": 1})


@scenario
def queues_of_each_type_without_statistics(s: Run) -> None:
    for queue_type in ("classic", "quorum", "stream"):
        s.put(f"/queues/{s.v}/{queue_type}", {"durable": True, "arguments": {"x-queue-type": queue_type}})
        s.get(f"/queues/{s.v}/{queue_type}?disable_stats=true")


@scenario
def consumers_at_their_limit(s: Run) -> None:
    keys = "consumer_details.activity_status,consumer_details.active,single_active_consumer_tag,publishers,idle_since"
    has_consumer: dict[str, object] = {"consumer_details": {}}
    is_measured = {"publishers": 1, "single_active_consumer_tag": "first"} if s.version != "3.10" else has_consumer
    for kind, until in (
        ("classic", lambda found: "idle_since" in found and bool(found["consumer_details"])),
        ("quorum", {**has_consumer, **is_measured}),
        ("stream", has_consumer),
    ):
        channel = s.amqp.channel()
        channel.qos(1)
        channel.declare(kind, durable=True, arguments={"x-queue-type": kind})
        channel.publish("", kind, "one")
        channel.publish("", kind, "two")
        channel.await_count(kind, 2)
        channel.consume(kind, "first", arguments={"x-stream-offset": "first"} if kind == "stream" else None)
        channel.deliver()
        s.get(f"/queues/{s.v}/{kind}?columns={keys}", until=until)


@scenario
def queues_that_are_declared_exclusive(s: Run) -> None:
    for kind in ({}, {"x-queue-type": "quorum"}, {"x-queue-type": "stream"}):
        for durable in (True, False):
            s.put(f"/queues/{s.v}/q", {"durable": durable, "exclusive": True, "arguments": kind})
            s.get(f"/queues/{s.v}/q?disable_stats=true&columns=durable,exclusive,type")
            s.delete(f"/queues/{s.v}/q")


@scenario
def queues_in_the_order_of_a_key(s: Run) -> None:
    for name, arguments in (
        *(("a", {"x-max-length": 5}), ("b", {}), ("c", {"x-max-length": 3}), ("d", {"x-expires": 90_000})),
        *(("e", {"x-max-length": 5, "x-expires": 90_000}), ("f", {"x-max-length": 0})),
    ):
        s.put(f"/queues/{s.v}/{name}", {"durable": True, "arguments": arguments})
    for key in ("arguments.x-max-length", "arguments.nothing", "arguments", "nothing", "nothing.at.all", "durable"):
        for reverse in ("", "&sort_reverse=true"):
            s.get(f"/queues/{s.v}?disable_stats=true&columns=name&sort={key}{reverse}")


@scenario
def queues_on_a_node_that_does_not_exist(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True, "node": "rabbit@nowhere"})


@scenario(versions=("4.3",))
def queues_in_an_order_of_any_word(s: Run) -> None:
    for name in ("a", "b"):
        s.put(f"/queues/{s.v}/{name}", {"durable": True})
    for reverse in ("x", "", "True", "1", "false"):
        s.get(f"/queues/{s.v}?disable_stats=true&columns=name&sort_reverse={reverse}")


@scenario
def the_columns_of_a_list_are_those_of_a_description(s: Run) -> None:
    names = ("classic", "quorum", "stream")
    for name in names:
        s.put(f"/queues/{s.v}/{name}", {"durable": True, "arguments": {"x-queue-type": name}})
    s.put(f"/policies/{s.v}/p", {"pattern": "^c", "definition": {"max-length": 4}})
    for name in names:
        s.get(f"/queues/{s.v}/{name}", hidden=True, until=_MEASURED)
    columns = "name,policy,operator_policy,effective_policy_definition,exclusive_consumer_tag,head_message_timestamp"
    s.get(f"/queues/{s.v}?columns={columns},consumer_details,incoming", until={"policy": "p"})


@scenario
def totals_by_type(s: Run) -> None:
    for name in ("classic", "quorum", "stream"):
        s.put(f"/queues/{s.v}/{name}", {"durable": True, "arguments": {"x-queue-type": name}})
    s.get(f"/queues/{s.v}?disable_stats=true&enable_queue_totals=true")
    s.put(f"/policies/{s.v}/p", {"pattern": "", "definition": {"max-length": 4}})
    s.get(f"/queues/{s.v}?disable_stats=true&enable_queue_totals=true")
    s.get(f"/queues/{s.v}?disable_stats=true")
