"""The ways out that refused calls name: each row makes the mistake, finds the way out in the text, and takes it."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path
from types import FunctionType
from typing import Any

import pika
import pytest
from pika.exceptions import AMQPError

from leveret import Broker, BrokerError, EventsMissingError, NotDeclaredError, RefusedError, Reply, explore
from leveret.faults import (
    Bandwidth,
    BlockPublishers,
    Delay,
    Reorder,
    ResetPeer,
    Restart,
    Slicer,
    Stall,
    WithholdConfirm,
)
from tests.mistakes.test_ways_out import STEP, broker, on, opened, scenario

__all__ = ["broker"]

Call = Callable[[Any], object]
REFUSED = (TypeError, ValueError, AttributeError, LookupError, AssertionError, BrokerError)


# The process whose tests have noted it here.
NOTED: list[int] = []


def of_this_process(broker: Broker) -> None:
    assert os.getpid() in NOTED
    scenario(broker)


async def later(broker: Broker) -> None:
    await asyncio.to_thread(scenario, broker)


def deep(levels: int) -> dict[str, object]:
    value: dict[str, object] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


def settled(act: Callable[[Any], object]) -> Call:
    """Return a call that lets a consumer of the test act."""

    def call(broker: Broker) -> None:
        with broker.consume("orders") as consumer:
            act(consumer)

    return call


def got(b: Broker) -> Callable[[], None]:
    """Let a client get a message, and return what acknowledges it."""
    channel = pika.BlockingConnection(pika.URLParameters(b.url)).channel()
    tag = channel.basic_get("orders")[0].delivery_tag
    return lambda: channel.basic_ack(tag)


def refuse(b: Broker) -> None:
    """Refuse a client a queue that does not exist."""
    with suppress(AMQPError):
        pika.BlockingConnection(pika.URLParameters(b.url)).channel().queue_declare("nope", passive=True)


def admin(name: str, *arguments: object, **keywords: object) -> Call:
    return lambda b: getattr(b.admin, name)(*arguments, **keywords)


def imported(**sections: object) -> Call:
    return lambda b: b.admin.import_definitions({"vhosts": [{"name": "/"}], **sections})


def definition(**keywords: object) -> dict[str, object]:
    return {"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}} | keywords


def binding(queue: str) -> dict[str, object]:
    of_queue = {"source": "amq.topic", "vhost": "/", "destination": queue, "destination_type": "queue"}
    return of_queue | {"routing_key": "k", "arguments": {}}


def permission(user: str) -> dict[str, object]:
    return {"user": user, "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}


# What clients have still to acknowledge.
HELD: list[Callable[[], None]] = []
# The mistake, what its text says to do, and that.
WAYS: dict[str, tuple[Call, str, Call]] = {
    # The values of arguments, one row for each kind of check.
    "a switch that is a number": (
        lambda b: b.declare_queue("q", durable=1),
        "durable must be True or False",
        lambda b: b.declare_queue("q", durable=True),
    ),
    "a count that is a text": (
        lambda b: b.consume("orders", prefetch="1"),
        "prefetch must be a whole number",
        lambda b: b.consume("orders", prefetch=1),
    ),
    "a count out of range": (
        lambda b: b.consume("orders", prefetch=65536),
        "prefetch must be a number from 0 to 65535",
        lambda b: b.consume("orders", prefetch=65535),
    ),
    "a timeout that is a text": (
        lambda b: b.wait_idle(timeout="5"),
        "timeout must be a number of seconds",
        lambda b: b.wait_idle(timeout=5),
    ),
    "a timeout without end": (
        lambda b: b.wait_idle(timeout=float("inf")),
        "timeout must be a finite number of seconds",
        lambda b: b.wait_idle(timeout=5),
    ),
    "a timeout below zero": (
        lambda b: b.wait_idle(timeout=-1),
        "timeout must be 0 or more seconds",
        lambda b: b.wait_idle(timeout=0),
    ),
    "arguments that are a list": (
        lambda b: b.declare_queue("q", arguments=["x-max-length"]),
        "arguments must be a mapping of names to values",
        lambda b: b.declare_queue("q", arguments={"x-max-length": 1}),
    ),
    "headers too deep": (
        lambda b: b.publish("", "orders", headers=deep(20_000)),
        "use fewer levels",
        lambda b: b.publish("", "orders", headers=deep(20)),
    ),
    "a name too long": (
        lambda b: b.declare_queue("q" * 256),
        "AMQP allows 255",
        lambda b: b.declare_queue("q" * 255),
    ),
    "a path that is a number": (
        lambda b: b.save_page(5),
        "path must be a path",
        lambda b: b.save_page(Path("page.html")),
    ),
    "a message that no consumer has": (
        settled(lambda consumer: consumer.ack("x")),
        "message must be a message that next() returned",
        settled(lambda consumer: consumer.ack(consumer.next())),
    ),
    "a message to settle": (
        settled(lambda consumer: consumer.ack()),
        "take one with next()",
        settled(lambda consumer: [consumer.next(), consumer.ack()]),
    ),
    "a snapshot of a file": (
        lambda b: b.restore("state.json"),
        "snapshot must be what snapshot() returned",
        lambda b: b.restore(b.snapshot()),
    ),
    "a number of a message": (
        lambda b: b.publish("", "orders", priority=256),
        "priority must be a number from 0 to 255",
        lambda b: b.publish("", "orders", priority=255),
    ),
    "a lone surrogate": (
        lambda b: b.declare_queue("\ud800"),
        "which UTF-8 cannot encode",
        lambda b: b.declare_queue("é"),
    ),
    "an argument that AMQP has not": (
        lambda b: b.declare_queue("q", arguments={"x-a": object()}),
        "cannot be an argument",
        lambda b: b.declare_queue("q", arguments={"x-a": "object"}),
    ),
    "a header that is a date": (
        lambda b: b.publish("", "orders", headers={"on": date(2026, 5, 1)}),
        "give text, bytes, True or False, a number of 64 bits, a datetime, a list or a mapping",
        lambda b: b.publish("", "orders", headers={"a": ["x", b"x", True, 2**63 - 1, datetime.now(UTC), {"b": 1.5}]}),
    ),
    "a header that is too large a number": (
        lambda b: b.publish("", "orders", headers={"n": 2**64}),
        "give text, bytes, True or False, a number of 64 bits",
        lambda b: b.publish("", "orders", headers={"n": str(2**64)}),
    ),
    "a scenario that another process cannot run": (
        lambda b: [NOTED.append(os.getpid()), explore(of_this_process, seconds=0.1, processes=2)],
        "pass processes=1 to run it here",
        lambda b: explore(of_this_process, seconds=0.1, processes=1),
    ),
    "what JSON has not": (
        lambda b: b.publish("", "orders", json={1}),
        "give json= what JSON has, or a body of bytes or text",
        lambda b: [b.publish("", "orders", json=[1]), b.publish("", "orders", b"x"), b.publish("", "orders", "x")],
    ),
    "an argument given twice": (
        lambda b: b.declare_queue("q", name="q"),
        "name was given twice: by position and by keyword",
        lambda b: b.declare_queue(name="q"),
    ),
    "a call without its argument": (
        lambda b: b.bind_queue("orders"),
        "it takes queue, exchange, routing_key, arguments, vhost",
        lambda b: b.bind_queue(queue="orders", exchange="amq.topic", routing_key="k", arguments={}, vhost="/"),
    ),
    "times that a message cannot come": (
        lambda b: b.assert_ready("orders", times=-1),
        "times must be 0 or more",
        lambda b: b.assert_ready("orders", times=0, body=b"other"),
    ),
    # Assertions.
    "a reason of another assertion": (
        lambda b: b.assert_ready("orders", reason="expired"),
        "assert_dead_lettered",
        lambda b: b.assert_dead_lettered("orders", reason="expired", times=0),
    ),
    "a criterion that never matches": (
        lambda b: b.assert_ready("orders", body=1),
        "it is not bytes or text",
        lambda b: b.assert_ready("orders", body=b"x"),
    ),
    "a value in json_contains": (
        lambda b: [b.publish("", "orders", json="a"), b.assert_ready("orders", json_contains="a")],
        "json= compares a whole value",
        lambda b: b.assert_ready("orders", json="a"),
    ),
    "an assertion of what came not": (
        lambda b: b.assert_not_delivered("orders"),
        "pass times=0, as in assert_delivered(..., times=0)",
        lambda b: b.assert_delivered("orders", times=0),
    ),
    "a message that is not acked yet": (
        lambda b: [HELD.append(got(b)), b.assert_acked("orders")],
        "to wait for it, pass timeout=",
        lambda b: [HELD.pop()(), b.assert_acked("orders", timeout=30)],
    ),
    "a consumer of nothing": (
        lambda b: b.wait_for_consumer(),
        "as in wait_for_consumer('orders')",
        lambda b: [b.consume("orders"), b.wait_for_consumer("orders")],
    ),
    "refusals without events": (
        on(lambda b: b.assert_refused(404), record="off"),
        "use Broker(record='recent')",
        on(lambda b: [refuse(b), b.assert_refused(404)], record="recent"),
    ),
    "a page without events": (
        on(lambda b: b.save_page("page.html"), record="off"),
        "use record='recent'",
        on(lambda b: b.save_page("page.html"), record="recent"),
    ),
    "an assertion on events that were cleared": (
        lambda b: b.events.query("published", where=1),
        "where must be a function that takes an event",
        lambda b: b.events.query("published", where=lambda event: True),
    ),
    "a kind of event that is a number": (
        lambda b: b.events.query(1),
        "must be text, such as 'delivered'",
        lambda b: b.events.query("delivered"),
    ),
    "a negative tail": (
        lambda b: b.events.tail(-1),
        "count must be a whole number, 0 or more",
        lambda b: b.events.tail(0),
    ),
    # Faults.
    "a fault that needs on=": (
        lambda b: b.faults.add(do=Delay(1)),
        "it applies to ",
        lambda b: b.faults.add(do=Delay(1), on="basic.ack"),
    ),
    "a fault at an event without a connection": (
        lambda b: b.faults.add(on="expired", do=ResetPeer()),
        "wait for a method, or for an event of a connection",
        lambda b: [b.faults.add(on="basic.ack", do=ResetPeer()), b.faults.add(on="delivered", do=ResetPeer())],
    ),
    "a channel's fault at a method of a connection": (
        lambda b: b.faults.close_channel(404, on="connection.open"),
        "wait for a method of a channel",
        lambda b: b.faults.close_channel(404, on="queue.declare"),
    ),
    "a message at a method without one": (
        lambda b: b.faults.reset_peer(on="queue.declare", routing_key="a"),
        "leave it out, or wait for a method or an event that has a message",
        lambda b: [
            b.faults.reset_peer(on="queue.declare"),
            b.faults.reset_peer(on="basic.publish", routing_key="a"),
            b.faults.reset_peer(on="delivered", routing_key="a"),
        ],
    ),
    "a queue at a method without one": (
        lambda b: b.faults.reset_peer(on="channel.open", queue="orders"),
        "leave queue= out",
        lambda b: b.faults.reset_peer(on="channel.open"),
    ),
    "a sender who never sends it": (
        lambda b: b.faults.reset_peer(on="queue.declare", sent_by="broker"),
        "leave sent_by= out",
        lambda b: b.faults.reset_peer(on="queue.declare"),
    ),
    "a sender who does not exist": (
        lambda b: b.faults.reset_peer(on="queue.declare", sent_by="server"),
        "expected 'client' or 'broker'",
        lambda b: b.faults.reset_peer(on="queue.declare", sent_by="client"),
    ),
    "a method of no class": (
        lambda b: b.faults.reset_peer(on="ship"),
        "expected an AMQP method like basic.publish, or an event like delivered",
        lambda b: [b.faults.reset_peer(on="basic.publish"), b.faults.reset_peer(on="delivered")],
    ),
    "a fault that always acts at one point": (
        lambda b: b.faults.nack_publishes(on="basic.ack"),
        "takes no on=: it always acts on basic.publish",
        lambda b: b.faults.nack_publishes(),
    ),
    "times of a fault": (
        lambda b: b.faults.reset_peer(on="basic.ack", times=0),
        "times=0 must be a whole number, 1 or more",
        lambda b: b.faults.reset_peer(on="basic.ack", times=1),
    ),
    "a probability of none": (
        lambda b: b.faults.reset_peer(on="basic.ack", probability=0),
        "must be above 0 and at most 1",
        lambda b: b.faults.reset_peer(on="basic.ack", probability=1),
    ),
    "a code that is none": (
        lambda b: b.faults.close_channel(99999),
        "a reply code, such as 404",
        lambda b: b.faults.close_channel(404),
    ),
    "a code of a fault that is none": (
        lambda b: b.faults.refuse_connections("close", code="530"),
        "code must be a whole number",
        lambda b: b.faults.refuse_connections("close", code=530),
    ),
    "seconds of a fault that are a text": (
        lambda b: Delay("1"),  # type: ignore[arg-type]
        "Delay(): seconds must be a number of seconds",
        lambda b: Delay(1),
    ),
    "a window that is a text": (
        lambda b: Reorder("2"),  # type: ignore[arg-type]
        "Reorder(): window must be a whole number",
        lambda b: Reorder(2),
    ),
    "times of a fault below zero": (
        lambda b: b.faults.reset_peer(on="basic.ack", times=-1),
        "times=-1 must be a whole number, 1 or more",
        lambda b: b.faults.reset_peer(on="basic.ack", times=1),
    ),
    "how connections are refused": (
        lambda b: b.faults.refuse_connections("dns"),
        "expected 'reset', 'login' or 'close'",
        lambda b: [b.faults.refuse_connections(how) for how in ("reset", "login", "close")],
    ),
    "when a peer is reset": (
        lambda b: ResetPeer("later"),  # type: ignore[arg-type]
        "expected 'before' or 'after'",
        lambda b: [ResetPeer("before"), ResetPeer("after")],
    ),
    "an alarm that is none": (
        lambda b: BlockPublishers("cpu"),  # type: ignore[arg-type]
        "expected 'memory' or 'disk'",
        lambda b: [BlockPublishers("memory"), BlockPublishers("disk")],
    ),
    "a restart in the past": (
        lambda b: Restart(-1),
        "must be a number of seconds from now, 0 or more",
        lambda b: [b.purge_queue("orders"), b.faults.add(do=Restart(0))],
    ),
    "a window of one": (lambda b: Reorder(1), "window must be 2 or more deliveries", lambda b: Reorder(2)),
    "a bandwidth of nothing": (
        lambda b: Bandwidth(0),
        "bytes_per_second must be 1 or more",
        lambda b: Bandwidth(1),
    ),
    "a slice of nothing": (lambda b: Slicer(0), "size must be 1 or more bytes", lambda b: Slicer(1)),
    "another declaration of a queue": (
        lambda b: b.declare_queue("orders", arguments={"x-max-length": 1}),
        "declare it as before, or first call delete_queue('orders')",
        lambda b: [
            b.declare_queue("orders"),
            b.delete_queue("orders"),
            b.declare_queue("orders", arguments={"x-max-length": 1}),
        ],
    ),
    "another type of an exchange": (
        lambda b: [b.declare_exchange("ex", "topic"), b.declare_exchange("ex", "fanout")],
        "declare it as before, or first call delete_exchange('ex')",
        lambda b: [
            b.declare_exchange("ex", "topic"),
            b.delete_exchange("ex"),
            b.declare_exchange("ex", "fanout"),
        ],
    ),
    "a stall of no time": (
        lambda b: Stall(seconds=0),
        "must be above 0, or None to stall until the rule is removed",
        lambda b: b.faults.add(do=Stall(seconds=None)).remove(),
    ),
    "a direction that is none": (
        lambda b: Slicer(direction="up"),  # type: ignore[arg-type]
        "expected 'both', 'to_client' or 'to_broker'",
        lambda b: [Slicer(direction=direction) for direction in ("both", "to_client", "to_broker")],
    ),
    # Explorations.
    "no time to explore": (
        lambda b: explore(scenario, seconds=0),
        "leave it out to run all schedules",
        lambda b: explore(scenario, faults=["lost after"], processes=1),
    ),
    "no processes to explore": (
        lambda b: explore(scenario, processes=0),
        "must be 1 or more; leave it out for as many as cores",
        lambda b: [explore(scenario, seconds=0.1, processes=1), explore(scenario, seconds=0.1)],
    ),
    "a fault that has no step": (
        lambda b: explore(scenario, faults=[WithholdConfirm()]),
        "give a fault that applies to methods or deliveries",
        lambda b: explore(scenario, faults=[Delay(0.001)], on="queue.declare"),
    ),
    "a scenario that is awaited by nobody": (
        lambda b: explore(lambda broker: later(broker), processes=1),
        "pass the coroutine function itself",
        lambda b: explore(later, seconds=0.1, processes=1),
    ),
    "a scenario of no module": (
        lambda b: explore(FunctionType(scenario.__code__, {"__name__": "__main__"}), processes=2),
        "define it in a module of its own",
        lambda b: explore(scenario, seconds=0.1, processes=2),
    ),
    "a step that is none": (
        lambda b: explore(scenario, only="lost after conn 1 basic.ack"),
        "write it as in 'conn 1 chan 1 client->server basic.ack #2'",
        lambda b: explore(scenario, only=STEP),
    ),
    "a scenario in a closure": (
        lambda b: explore(lambda broker: scenario(broker, 1), seconds=0.1, processes=2),
        "define it at the top of a module, or leave processes out",
        lambda b: [
            explore(scenario, seconds=0.1, processes=2),
            explore(lambda broker: scenario(broker, 1), seconds=0.1),
        ],
    ),
    "a kind of fault that does not exist": (
        lambda b: explore(scenario, only=STEP.replace("lost after", "lost")),
        "expected one of 'lost before'",
        lambda b: explore(scenario, only=STEP.replace("lost after", "lost before")),
    ),
    "a scenario without a client": (
        lambda b: explore(lambda broker: None),
        "connect to the broker under test",
        lambda b: explore(lambda broker: scenario(broker, 1), seconds=0.1),
    ),
    "kills without a worker": (
        lambda b: explore(scenario, faults=["killed before"]),
        "start your program with broker.worker() in the scenario",
        lambda b: None,
    ),
    # What a broker serves.
    "a port of HTTP without HTTP": (
        opened(management_port=15672),
        "opens no port without management=True; add it",
        opened(management=True, management_port=0),
    ),
    "an inline broker with ports": (
        opened(inline=True, tls=True),
        "leave one out",
        lambda b: [opened(inline=True)(b), opened(tls=True)(b)],
    ),
    "an inline broker with a worker": (
        lambda b: on(lambda inline: inline.worker(["true"]), inline=True)(b),
        "leave out inline=True",
        lambda b: b.worker(["true"]),
    ),
    "definitions that must match none": (
        opened(declare="must_match"),
        "give definitions='definitions.json' too",
        lambda b: [
            Path("definitions.json").write_text('{"queues": []}', encoding="utf-8"),
            opened(declare="must_match", definitions="definitions.json")(b),
        ],
    ),
    "a feature that is no switch": (
        opened(settings={"deprecated_features.permit.global_qos": "yes"}),
        "must be True or False",
        opened(settings={"deprecated_features.permit.global_qos": True}),
    ),
    "a port that is none": (opened(port=70000), "from 0 (a free one) to 65535", opened(port=0)),
    "redeliveries that are none": (
        opened(max_redeliveries=0),
        "as in max_redeliveries=20",
        opened(max_redeliveries=20),
    ),
    "a trace in a file": (
        lambda b: [Path("traces").touch(), opened(trace_dir="traces")(b)],
        "it must be a directory, which is created if it does not exist",
        opened(trace_dir="others"),
    ),
    "levels that are truth values": (
        opened(checks={"unroutable": False}),
        "did you mean 'off'?",
        opened(checks={"unroutable": "off"}),
    ),
    "levels that are a number": (
        opened(checks=5),
        "checks must be a text or several",
        lambda b: [opened(checks="unroutable=off")(b), opened(checks=["unroutable=off"])(b)],
    ),
    "a trace in a number": (opened(trace_dir=5), "trace_dir must be a path", opened(trace_dir=Path("traces"))),
    # Administration.
    "a user that exists": (
        admin("add_user", "guest", "x"),
        "change it with change_password or set_user_tags",
        lambda b: [b.admin.change_password("guest", "guest"), b.admin.set_user_tags("guest", "monitoring")],
    ),
    "a pattern that is none": (
        admin("set_permissions", "guest", write="*"),
        "'.*' allows all",
        admin("set_permissions", "guest", write=".*"),
    ),
    "a limit that is a text": (
        admin("set_vhost_limits", "/", {"max-queues": "5"}),
        "must be an integer",
        admin("set_vhost_limits", "/", {"max-queues": 5}),
    ),
    "definitions that are a list": (
        admin("import_definitions", []),
        "must be a path, or what json.load returns",
        lambda b: [
            Path("definitions.json").write_text('{"queues": []}', encoding="utf-8"),
            b.admin.import_definitions("definitions.json"),
            b.admin.import_definitions({"queues": []}),
        ],
    ),
    "definitions in no list": (
        imported(queues={"name": "q"}),
        "'queues' must be a list",
        imported(queues=[definition()]),
    ),
    "a parameter of no component": (
        imported(parameters=[{"component": "shop", "name": "x", "vhost": "/", "value": {}}]),
        "expected one of operator_policy, vhost-limits",
        imported(parameters=[{"component": "vhost-limits", "name": "limits", "vhost": "/", "value": {}}]),
    ),
    "limits under another name": (
        imported(parameters=[{"component": "vhost-limits", "name": "mine", "vhost": "/", "value": {}}]),
        "the limits of a virtual host are the parameter 'limits'",
        imported(parameters=[{"component": "vhost-limits", "name": "limits", "vhost": "/", "value": {}}]),
    ),
    "a policy among the parameters": (
        imported(parameters=[{"component": "policy", "name": "p", "vhost": "/", "value": {}}]),
        "policies have a section of their own",
        imported(policies=[{"name": "p", "vhost": "/", "pattern": "", "definition": {"max-length": 1}}]),
    ),
    "a snapshot of another version": (
        lambda b: b.restore(other_snapshot()),
        "restore it on a broker with the same settings, or take another snapshot there",
        lambda b: [on(lambda old: old.restore(old.snapshot()), rabbitmq="3.13")(b), b.restore(b.snapshot())],
    ),
    # Views and names.
    "the length of a queue": (
        lambda b: len(b.queue("orders")),
        "take len(queue.ready), or loop over queue.ready",
        lambda b: [len(b.queue("orders").ready), [*b.queue("orders").ready]],
    ),
    "a queue that does not exist": (
        lambda b: b.consume("nope"),
        "declare it first: declare_queue('nope')",
        lambda b: [b.declare_queue("nope"), b.consume("nope")],
    ),
    "an exchange in place of a queue": (
        lambda b: b.consume("amq.topic"),
        "bind_queue(queue, exchange, routing_key) leads its messages to a queue",
        lambda b: [b.bind_queue("orders", "amq.topic", "k"), b.consume("orders")],
    ),
    "a queue in place of an exchange": (
        lambda b: b.publish("orders", "k", b"x"),
        "the default one with exchange='' and routing_key='orders'",
        lambda b: b.publish(exchange="", routing_key="orders", body=b"x"),
    ),
    "a binding to the default exchange": (
        lambda b: b.bind_queue("orders", "", "k"),
        "publish('', queue, body)",
        lambda b: b.publish("", "orders", b"x"),
    ),
    "the ack of another library": (
        lambda b: b.consume("orders", ack="no"),
        "expected 'manual' or 'auto'",
        lambda b: [b.consume("orders", ack="manual"), b.consume("orders", ack="auto")],
    ),
    "a type by position": (
        lambda b: b.declare_queue("q", "quorum"),
        "pass the others by keyword: durable=, auto_delete=, arguments=, vhost=",
        lambda b: b.declare_queue("q", durable=True, auto_delete=False, arguments={}, vhost="/"),
    ),
    "a null in definitions": (
        imported(queues=[definition(arguments={"x-max-length": None})]),
        "leave out what has no value",
        imported(queues=[definition()]),
    ),
    "a binding to a queue of another spelling": (
        imported(bindings=[binding("order")]),
        "names the unknown queue 'order'; did you mean 'orders'?",
        imported(bindings=[binding("orders")]),
    ),
    "a permission of a user of another spelling": (
        imported(permissions=[permission("gest")]),
        "names the unknown user 'gest'; did you mean 'guest'?",
        imported(permissions=[permission("guest")]),
    ),
    "a reply that is a mapping": (
        lambda b: Reply({"id": 1}),  # type: ignore[arg-type]
        "body must be bytes or text, not dict; for JSON use json=",
        lambda b: [Reply(b"x"), Reply("x"), Reply(json={"id": 1})],
    ),
    "a reply that is a number": (
        lambda b: Reply(5),  # type: ignore[arg-type]
        "body must be bytes or text, not int",
        lambda b: Reply("5"),
    ),
    "a keyword of assertions": (
        lambda b: b.publish("", "orders", b"x", times=3),
        "publish() has no keyword 'times'; it takes exchange, routing_key, body",
        lambda b: [b.publish("", "orders", b"x") for _ in range(3)],
    ),
    "a keyword of what takes none": (
        lambda b: b.clock.hold(now=5),
        "it takes none",
        lambda b: b.clock.hold(),
    ),
    # Time.
    "a span without end": (
        lambda b: b.clock.advance(minutes=float("nan")),
        "minutes must be a finite number",
        lambda b: b.clock.advance(minutes=1),
    ),
    # Workers.
    "arguments of a program": (
        lambda b: b.worker(["echo"], args=("x",)),
        "put the arguments of a program into its list",
        lambda b: b.worker(["echo", "x"]).start().end(),
    ),
    "a variable that is a number": (
        lambda b: b.worker(["true"], env={"A": 1}),
        "env['A'] must be a string",
        lambda b: b.worker(["true"], env={"A": "1"}),
    ),
    "a worker that was called": (
        lambda b: b.worker(print()),  # type: ignore[func-returns-value]
        "a list of words or a function that is not called",
        lambda b: [b.worker(print), b.worker(["true"])],
    ),
    "a worker that was not started": (
        lambda b: b.worker(["true"]).pid,
        "or call start()",
        lambda b: b.worker(["true"]).start().pid,
    ),
    "a second process of a worker": (
        lambda b: b.worker(["sleep", "60"]).start().start(),
        "call restart() for a new process",
        lambda b: restarted(b),
    ),
}


def other_snapshot() -> Any:
    with Broker(rabbitmq="3.13") as old:
        return old.snapshot()


def restarted(b: Broker) -> None:
    worker = b.worker(["sleep", "60"], ready=lambda: True).start()
    first = worker.pid
    worker.restart()
    assert worker.pid != first
    worker.end()


@pytest.mark.filterwarnings("error::leveret.LeveretWarning")
@pytest.mark.parametrize("what", WAYS)
def test_a_way_out_of_a_call_works_as_its_text_says(broker: Broker, what: str) -> None:
    wrong, said, right = WAYS[what]

    with pytest.raises((*REFUSED, EventsMissingError, NotDeclaredError, RefusedError)) as error:
        wrong(broker)

    assert said in "\n".join([str(error.value), *getattr(error.value, "__notes__", ())])
    right(broker)


# The mistake, where its text holds code, and that code within a call.
PASTED: dict[str, tuple[str, str, str]] = {
    "a body for a routing key": ("b.publish('amq.topic', b'x')", r"routing key: (publish\(.*?\)),", "b.{}"),
    "a body for a queue": ("b.publish('orders', b'x')", r"to a queue (publish\(.*\))", "b.{}"),
    "a body without a queue": (
        "b.publish('', b'x')",
        r"routing key: (publish\(.*\))",
        "b.declare_queue('queue') and b.{}",
    ),
    "a body of JSON for a routing key": ("b.publish('amq.topic', {'a': 1})", r"routing key: (publish\(.*?\)),", "b.{}"),
    "users that are a list": ("Broker(users=['bob'])", r"as in (users=.*)", "Broker({})"),
    "names that are a number": ("b.flow(bodies=5)", r"as in (bodies=\[.*?\])", "b.flow({})"),
    "a version that is a number": ("Broker(rabbitmq=4.2)", r"as a string: (rabbitmq='[^']*')", "Broker({})"),
    "a version in between": ("Broker(rabbitmq='4.1')", r"take ('[\d.]+')", "Broker(rabbitmq={})"),
    "a version that is too old": ("Broker(rabbitmq='2.8')", r"take ('[\d.]+')", "Broker(rabbitmq={})"),
    "a version that is a tag": ("Broker(rabbitmq='4-management')", r"take ('[\d.]+')", "Broker(rabbitmq={})"),
    "a rule with a class": (
        "b.faults.add(do=ResetPeer, on='basic.ack')",
        r"such as do=(ResetPeer\()...\)",
        "b.faults.add(do={}), on='basic.ack')",
    ),
    "arguments that are no tuple": ("b.worker(print, args=5)", r"as in (args=\(5,\))", "b.worker(print, {})"),
    "a text for a command": ("b.worker('echo \"x y\"')", r"as in (worker\(.*\))", "b.{}"),
    "an expiration that is a number": (
        "b.publish('', 'orders', expiration=5)",
        r"such as ('\d+')",
        "b.publish('', 'orders', expiration={})",
    ),
    "a queue for its name": ("b.purge_queue(b.queue('orders'))", r"pass its name, ('.*')", "b.purge_queue({})"),
    "a misspelt queue": ("b.purge_queue('order')", r"did you mean ('.*')\?", "b.purge_queue({})"),
    "a misspelt exchange": ("b.exchange('amq.topics')", r"did you mean ('.*')\?", "b.exchange({})"),
    "a misspelt exchange of a publish": (
        "b.publish('amq.topics', 'k')",
        r"did you mean ('.*')\?",
        "b.publish({}, 'k')",
    ),
    "a misspelt type of exchange": (
        "b.declare_exchange('e', 'topics')",
        r"did you mean ('.*')\?",
        "b.declare_exchange('e', {})",
    ),
    "a type of exchange that is none": (
        "b.declare_exchange('e', 'queue')",
        r"expected one of ([\w-]+)",
        "b.declare_exchange('e', '{}')",
    ),
    "a misspelt virtual host": (
        "b.queue('q', vhost='shops')",
        r"did you mean ('.*')\?",
        "b.declare_queue('q', vhost={})",
    ),
    "a misspelt user": ("b.url_for(user='guests')", r"did you mean ('.*')\?", "b.url_for(user={})"),
    "an unknown user": ("b.url_for(user='zoe')", r"expected one of (\w+)", "b.url_for(user='{}')"),
    "a misspelt event": ("b.events.query('publish')", r"did you mean ('.*')\?", "b.events.query({})"),
    "a field that no event has": (
        "b.events.query('published', que='orders')",
        r"expected one of .*\b(exchange|routing_key|conn)\b",
        "b.events.query('published', {}=None)",
    ),
    "a misspelt method": ("b.faults.reset_peer(on='ack')", r"did you mean ('.*')\?", "b.faults.reset_peer(on={})"),
    "a misspelt kind of fault": (
        "explore(scenario, faults='lost befor')",
        r"did you mean ('.*')\?",
        "explore(scenario, faults={}, seconds=0.1)",
    ),
    "a step that is none": (
        "explore(scenario, only='lost after conn 1 basic.ack')",
        r"write it as in '(.*)'",
        "explore(scenario, only='lost after {}'.replace('basic.ack #2', 'queue.declare #1'))",
    ),
    "a reason that is none": (
        "b.assert_dropped('', reason='noroute')",
        r"did you mean ('.*')\?|expected one of (no route)",
        "b.assert_dropped('', reason={}, times=0)",
    ),
    "a misspelt check": ("b.allow('unroutabel')", r"did you mean ('.*')\?", "b.allow({})"),
    "a misspelt level": ("Broker(checks='error=of')", r"expected one of .*(unroutable)", "Broker(checks='{}=off')"),
    "a level of another tool": (
        "Broker(checks='unroutable=ignore')",
        r"did you mean '(.*)'\?",
        "Broker(checks='unroutable={}')",
    ),
    "a misspelt setting": (
        "Broker(settings={'chanel_max': 1})",
        r"did you mean ('.*')\?",
        "Broker(settings={{{}: 1}})",
    ),
    "a feature that cannot be denied": (
        "Broker(settings={'deprecated_features.permit.global_qos': False})",
        r"can deny only (\w+)",
        "Broker(settings={{'deprecated_features.permit.{}': False}})",
    ),
    "a misspelt plugin": ("Broker(plugins='rabbitmq_shardin')", r"did you mean ('.*')\?", "Broker(plugins={})"),
    "a plugin that is none": (
        "Broker(plugins='mqtt')",
        r"expected one of (\w+)",
        "Broker(plugins='{}')",
    ),
    "a rule of declarations that is none": (
        "Broker(declare='strictly')",
        r"expected one of (\w+)",
        "Broker(declare='{}')",
    ),
    "a level of recording that is none": ("Broker(record='all')", r"expected ('\w+')", "Broker(record={})"),
    "a misspelt keyword": (
        "b.publish('', 'orders', b'x', header={})",
        r"did you mean '(.*)'\?",
        "b.publish('', 'orders', b'x', {}={{}})",
    ),
    "a misspelt keyword of a broker": ("Broker(vhost='a')", r"did you mean '(.*)'\?", "Broker({}='a')"),
    "a keyword of another library": (
        "b.declare_queue('q', ttl=5)",
        r"did you mean '(.*)'\?",
        "b.declare_queue('q', {})",
    ),
    "a keyword that no call has": ("b.reset(now=True)", r"reset\(\) (has no keyword)", "b.reset() # {}"),
    "an attribute of another library": ("b.queue_declare('q')", r"did you mean '(.*)'\?", "b.{}('q')"),
    "an attribute of a part": ("b.add_user('a', 'b')", r"use broker.(.*)", "b.{}('a', 'b')"),
    "a limit that is none": (
        "b.admin.set_vhost_limits('/', {'max-queue': 5})",
        r"did you mean '([\w-]+)'",
        "b.admin.set_vhost_limits('/', {{{0!r}: 5}})",
    ),
    "now as a call": ("b.clock.now()", r"(without parentheses)", "b.clock.now # {}"),
    "a broker that is a URL": ("b['host']", r"as in (pika\.URLParameters\(broker\.url\))", "{}"),
    "a resource that is none": (
        "b.admin.set_alarm('cpu')",
        r"expected one of (\w+)",
        "b.admin.set_alarm('{}')",
    ),
}


@pytest.mark.filterwarnings("error::leveret.LeveretWarning")
@pytest.mark.parametrize("what", PASTED)
def test_code_in_a_text_works_where_it_is_pasted(broker: Broker, what: str) -> None:
    wrong, where, code = PASTED[what]
    broker.admin.add_vhost("shop")
    broker.bind_queue("orders", "amq.topic", "#")
    names = {**globals(), "b": broker, "broker": broker}

    with pytest.raises((*REFUSED, RefusedError)) as error:
        eval(wrong, names)

    text = "\n".join([str(error.value), *getattr(error.value, "__notes__", ())])
    found = re.search(where, text)
    assert found is not None, text
    eval(code.format(next(group for group in found.groups() if group)), names)
