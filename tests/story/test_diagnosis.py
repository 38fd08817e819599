"""The diagnosis of a broker on which a test has failed: what it says, and what it keeps to itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from leveret import Broker
from leveret.engine.harness import Harness
from leveret.story.causes import Cause, sentence
from leveret.story.diagnosis import Asked, diagnosis
from leveret.story.scene import Scene

Connect = Callable[[str], BlockingChannel]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(checks="all=off") as broker:
        yield broker


@pytest.fixture
def connect(broker: Broker) -> Iterator[Connect]:
    """Return a function that returns a channel of a client with this name."""
    connections = []

    def channel_of(name: str) -> BlockingChannel:
        parameters = pika.URLParameters(broker.url)
        parameters.client_properties = {"connection_name": name}
        connections.append(pika.BlockingConnection(parameters))
        return connections[-1].channel()

    yield channel_of
    for connection in connections:
        if connection.is_open:
            connection.close()


def said(broker: Broker, *values: object) -> list[str]:
    return [sentence(cause) for cause in Harness(broker).diagnosis("", Asked(values))]


def holding(broker: Broker, connect: Connect, queue: str) -> BlockingChannel:
    """Let a worker consume a message of a queue, and return its channel."""
    channel, taken = connect("worker"), list[int]()
    channel.basic_consume(queue, lambda channel, method, *_: taken.append(method.delivery_tag))
    while not taken:
        channel.connection.process_data_events(0.01)
    return channel


def test_a_missed_value_in_a_message_that_came_back_says_how_it_came_back(broker: Broker, connect: Connect) -> None:
    broker.declare_queue("jobs")
    broker.publish("", "jobs", b"ann")
    holding(broker, connect, "jobs").connection.close()
    broker.sync()

    assert said(broker, "ann") == [
        "'ann' is in #1, which was requeued because its channel closed and is ready again in 'jobs' after 1 delivery"
    ]


def test_a_refusal_ends_without_the_full_stop_of_its_text(broker: Broker, connect: Connect) -> None:
    channel = connect("shop")
    with pytest.raises(pika.exceptions.AMQPError):
        channel.queue_declare("orders")

    (text,) = said(broker)
    assert text.startswith("shop got 541 INTERNAL_ERROR - Feature `transient_nonexcl_queues` is deprecated, at ")


def test_what_waits_in_a_queue_that_the_test_declared_is_for_the_test(broker: Broker, connect: Connect) -> None:
    broker.declare_queue("jobs")
    broker.declare_queue("seen")
    connect("worker").basic_consume("jobs", lambda *_: None)
    connect("shop").basic_publish("", "seen", b"1")
    broker.sync()

    assert said(broker) == []


def test_what_waits_in_a_queue_that_a_client_declared_has_no_consumer(broker: Broker, connect: Connect) -> None:
    broker.declare_queue("jobs")
    connect("worker").basic_consume("jobs", lambda *_: None)
    shop = connect("shop")
    shop.queue_declare("mails", durable=True)
    shop.basic_publish("", "mails", b"1")
    broker.sync()

    assert said(broker) == ["#1 waits in 'mails', which has no consumer"]


def test_what_a_consumer_sets_aside_waits_there_on_purpose(broker: Broker, connect: Connect) -> None:
    broker.declare_queue("jobs")
    worker = connect("worker")
    worker.basic_consume("jobs", lambda *_: None)
    worker.queue_declare("jobs.failed", durable=True)
    worker.basic_publish("", "jobs.failed", b"1")
    broker.sync()

    assert said(broker) == []


def test_several_messages_have_a_verb_of_their_own(broker: Broker, connect: Connect) -> None:
    broker.declare_queue("jobs")
    connect("worker").basic_consume("jobs", lambda *_: None)
    shop = connect("shop")
    shop.queue_declare("mails", durable=True)
    for body in (b"1", b"2"):
        shop.basic_publish("", "mails", body)
    broker.sync()

    assert said(broker) == ["#1 and #2 wait in 'mails', which has no consumer"]


def test_a_message_that_dramatiq_holds_until_it_is_due_is_no_cause(broker: Broker, connect: Connect) -> None:
    broker.declare_queue("jobs.DQ")
    body = {"queue_name": "jobs.DQ", "actor_name": "ship", "args": [7], "options": {"eta": 1_900_000_000_000}}
    broker.publish("", "jobs.DQ", json.dumps(body).encode())
    holding(broker, connect, "jobs.DQ")

    assert said(broker) == []


def test_how_long_a_message_was_held_counts_until_the_failure(broker: Broker, connect: Connect) -> None:
    broker.declare_queue("jobs")
    broker.publish("", "jobs", b"1")
    holding(broker, connect, "jobs")
    broker.clock.advance(seconds=70, settle=0)

    assert said(broker) == ["worker still held #1 of 'jobs' when the test failed, after 1 min 10 s"]


def test_a_message_that_was_held_for_an_instant_has_no_age(broker: Broker, connect: Connect) -> None:
    broker.declare_queue("jobs")
    broker.publish("", "jobs", b"1")
    holding(broker, connect, "jobs")
    named = Cause("unacked_at_end", {"holder": "worker", "queue": "jobs", "age": 90}, {"message": 1, "age": 90})

    assert [sentence(cause) for cause in diagnosis(Scene(broker.events), [named])] == ["worker held #1 of 'jobs'"]
