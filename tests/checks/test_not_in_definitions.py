"""Clients that may declare only what the definitions of production have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from leveret import Broker, CheckFailedError
from leveret.engine.harness import Harness
from leveret.story.asked import Asked
from leveret.story.causes import sentence

# An export of a virtual host of RabbitMQ 4.3.6, with 40 queues and two policies.
PRODUCTION = Path(__file__).with_name("definitions-40-queues-4.3.6.json")
# What that server answered to the same declarations, in its virtual host "shop".
REFUSED = (
    "inequivalent arg 'durable' for exchange 'dead' in vhost 'shop': received 'false' but current is 'true'",
    "inequivalent arg 'type' for exchange 'news' in vhost 'shop': received 'topic' but current is 'fanout'",
    "inequivalent arg 'alternate-exchange' for exchange 'shop' in vhost 'shop': "
    "received none but current is the value 'unrouted' of type 'longstr'",
    "inequivalent arg 'x-max-priority' for queue 'audit.jobs' in vhost 'shop': received '10' but current is '5'",
    "inequivalent arg 'x-message-ttl' for queue 'audit.retry' in vhost 'shop': received '60000' but current is '30000'",
    "inequivalent arg 'x-dead-letter-routing-key' for queue 'billing' in vhost 'shop': "
    "received none but current is the value 'billing' of type 'longstr'",
    "inequivalent arg 'x-queue-type' for queue 'orders' in vhost 'shop': received 'classic' but current is 'quorum'",
    "inequivalent arg 'durable' for queue 'region.eu' in vhost 'shop': received 'false' but current is 'true'",
    # A policy of production sets this limit, and RabbitMQ compares arguments alone.
    "inequivalent arg 'x-max-length' for queue 'stock' in vhost 'shop': "
    "received the value '100000' of type 'signedint' but current is none",
)
LACKING = (
    "queue 'order', from shop: did you mean 'orders'?",
    "exchange 'shops', from shop: did you mean 'shop'?",
    "binding of 'shop' to queue 'orders' with key 'orders.#', from shop",
)


@pytest.fixture
def production() -> Iterator[Broker]:
    broker = Broker(definitions=PRODUCTION, declare="must_match").start()
    yield broker
    broker.stop()


@pytest.fixture
def channel(production, connect) -> pika.adapters.blocking_connection.BlockingChannel:
    return connect(production).channel()


def refusals(text: str) -> list[str]:
    return re.findall(r"PRECONDITION_FAILED - (inequivalent .*?)(?:, at .*)?$", text, re.MULTILINE)


def declare_all(connection: pika.BlockingConnection, exchanges: dict[str, Any], queues: dict[str, Any]) -> None:
    """Declare and bind what production has, but with these changes, and go on after a refusal."""

    def call(method: str, **arguments: Any) -> None:
        channel = connection.channel()
        try:
            getattr(channel, method)(**arguments)
        except pika.exceptions.ChannelClosedByBroker:
            return
        channel.close()

    described = json.loads(PRODUCTION.read_text())
    for one in described["exchanges"]:
        plain = {"exchange_type": one["type"], "durable": True, "arguments": one["arguments"]}
        call("exchange_declare", exchange=one["name"], **plain | exchanges.get(one["name"], {}))
    for one in described["queues"]:
        change = dict(queues.get(one["name"], {}))
        arguments = one["arguments"] | change.pop("arguments", {})
        arguments = {name: value for name, value in arguments.items() if value is not None}
        call("queue_declare", queue=one["name"], arguments=arguments, **{"durable": True} | change)
    for one in described["bindings"]:
        kind, ends = one["destination_type"], {"source": one["source"], "destination": one["destination"]}
        if kind == "queue":
            ends = {"exchange": one["source"], "queue": one["destination"]}
        call(f"{kind}_bind", **ends, routing_key=one["routing_key"], arguments=one["arguments"])


def test_a_service_that_declares_what_production_has_passes(production, connect):
    declare_all(connect(production), {}, {})

    production.check()


def test_twelve_differences_from_forty_queues_are_named_and_nothing_else(production, connect):
    connection = connect(production)
    exchanges = {"dead": {"durable": False}, "news": {"exchange_type": "topic"}, "shop": {"arguments": {}}}
    queues = {
        "orders": {"arguments": {"x-queue-type": "classic"}},
        "billing": {"arguments": {"x-dead-letter-routing-key": None}},
        "stock": {"arguments": {"x-max-length": 100000}},
        "audit.retry": {"arguments": {"x-message-ttl": 60000}},
        "audit.jobs": {"arguments": {"x-max-priority": 10}},
        "region.eu": {"durable": False},
    }

    declare_all(connection, exchanges, queues)
    connection.channel().queue_declare("order", durable=True)
    connection.channel().exchange_declare("shops", "topic", durable=True)
    connection.channel().queue_bind("orders", "shop", "orders.#")

    with pytest.raises(CheckFailedError) as failed:
        production.check()
    text = str(failed.value)
    assert refusals(text) == [refusal.replace("vhost 'shop'", "vhost '/'") for refusal in REFUSED]
    assert len(re.findall(rf", at \S*{Path(__file__).name}:\d+", text)) == len(REFUSED)
    lines = text.split("not_in_definitions: ")[1].splitlines()
    assert lines[0] == "3 declarations of what the definitions lack"
    assert [line.strip() for line in lines[1:-1]] == list(LACKING)


def test_a_refused_declaration_names_the_definitions(production, channel):
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        channel.queue_declare("orders", durable=True)

    advice = next(line for line in production._engine.report().splitlines() if "Queue 'orders' exists" in line)
    assert advice.strip() == (
        "Queue 'orders' exists, declared in another way by the definitions. Declare it as they do, with the same "
        "durable= and arguments="
    )


def test_what_the_definitions_lack_is_said_in_a_sentence(production, channel):
    channel.queue_declare("order", durable=True)

    found = Harness(production).diagnosis("", Asked())
    assert found is not None
    (cause,) = found.noticed
    assert sentence(cause) == "the definitions lack queue 'order', which shop declared: did you mean 'orders'?"


def test_a_declaration_that_production_lacks_can_be_allowed(production, channel):
    production.allow("not_in_definitions", queue="order")

    channel.queue_declare("order", durable=True)

    production.check()


def test_a_level_of_the_user_wins_over_must_match(connect, found):
    with Broker(definitions=PRODUCTION, declare="must_match", checks="not_in_definitions=warning") as broker:
        connect(broker).channel().queue_declare("order", durable=True)

        assert "queue 'order', from shop" in found(broker)["not_in_definitions"]


@pytest.mark.parametrize(
    "declared",
    [
        {"queue": "", "exclusive": True},
        {"queue": "replies", "exclusive": True, "durable": True},
        {"queue": "worker.1", "durable": True, "auto_delete": True},
    ],
    ids=["server-named", "exclusive", "auto-delete"],
)
def test_a_queue_that_does_not_last_may_be_missing(production, channel, declared):
    name = channel.queue_declare(**declared).method.queue
    channel.queue_bind(name, "shop", "#")

    production.check()


def test_a_queue_that_the_client_deletes_again_may_be_missing(production, channel):
    channel.queue_declare("probe", durable=True)
    channel.queue_delete("probe")

    production.check()


def test_what_the_test_itself_declares_may_be_missing(production):
    production.declare_queue("seen")
    production.bind_queue("seen", "shop", "#")

    production.check()


def test_after_a_reset_the_definitions_count_again(production, channel, connect):
    production.reset()

    connect(production).channel().queue_declare("order", durable=True)

    with pytest.raises(CheckFailedError, match="queue 'order', from shop: did you mean 'orders'"):
        production.check()


def test_without_definitions_the_check_finds_nothing(broker, connect, found):
    connect(broker).channel().queue_declare("order", durable=True)

    assert "not_in_definitions" not in found(broker)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"declare": "must_match"}, "declare='must_match' has nothing to match; give definitions="),
        ({"declare": "mustmatch"}, "declare='mustmatch' is unknown; did you mean 'must_match'"),
    ],
)
def test_a_rule_that_cannot_hold_is_refused(options, fault):
    with pytest.raises(ValueError, match=re.escape(fault)):
        Broker(**options)
