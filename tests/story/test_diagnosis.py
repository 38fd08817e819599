"""The diagnosis of a broker on which a test has failed: what it says, and what it keeps to itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from leveret import Broker
from leveret.engine.harness import Harness
from leveret.story.asked import Asked, Caught, TaskDeath
from leveret.story.causes import Cause, sentence
from leveret.story.diagnosis import Diagnosis, diagnosis
from leveret.story.timeline import Timeline
from leveret.trace.recorded_rows import raw_events
from leveret.trace.redaction import Redaction
from leveret.trace.rows import FileNumbering, Rows

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


def diagnosed(broker: Broker, *values: object) -> Diagnosis:
    """Return the diagnosis of a test that expected these values and lacks them."""
    found = Harness(broker).diagnosis("", Asked(missing=values))
    assert found is not None
    return found


def said(broker: Broker, *values: object) -> list[str]:
    return [sentence(cause) for cause in diagnosed(broker, *values).causes]


def noticed(broker: Broker, *values: object) -> list[str]:
    return [sentence(cause) for cause in diagnosed(broker, *values).noticed]


def holding(broker: Broker, connect: Connect, queue: str) -> BlockingChannel:
    """Let a worker consume a message of a queue, and return its channel."""
    channel, taken = connect("worker"), list[int]()
    channel.basic_consume(queue, lambda channel, method, *_: taken.append(method.delivery_tag))
    while not taken:
        channel.connection.process_data_events(0.01)
    return channel


def test_a_test_that_asks_for_nothing_has_no_cause(broker: Broker, connect: Connect) -> None:
    broker.declare_queue("jobs")
    broker.publish("", "jobs", b"ann")
    holding(broker, connect, "jobs")

    assert said(broker) == []


def test_a_value_that_no_message_holds_has_no_cause(broker: Broker, connect: Connect) -> None:
    broker.declare_queue("jobs")
    broker.publish("", "jobs", b"ann")
    holding(broker, connect, "jobs")

    assert said(broker, "bob") == []


def test_a_missed_value_in_a_message_that_came_back_says_why_it_waits(broker: Broker, connect: Connect) -> None:
    broker.declare_queue("jobs")
    broker.publish("", "jobs", b"ann")
    holding(broker, connect, "jobs").connection.close()
    broker.sync()

    assert said(broker, "ann") == [
        "#1 is ready again in 'jobs', because worker closed its channel without an ack that took effect"
    ]


def test_a_file_that_does_not_say_which_ack_settled_a_message_blames_no_other(broker: Broker, connect: Connect) -> None:
    broker.declare_queue("letters")
    for text in ("no", "on", "wide"):
        broker.publish("", "letters", text)
    channel = connect("sorter")
    taken = [channel.basic_get("letters")[0].delivery_tag for _ in range(3)]
    channel.basic_ack(taken[-1], multiple=True)
    broker.sync()
    rows = Rows(FileNumbering(0, count(1).__next__), Redaction(), keeps_bodies=True)
    read = [rows.columns_and_attrs(raw) for raw in Harness(broker)._engine.recorder.raw()]

    def said_of(hidden: str) -> list[str]:
        known = ({**row, "attrs": {name: it for name, it in attrs.items() if name != hidden}} for row, attrs in read)
        return [sentence(one) for one in diagnosis(Timeline(raw_events(known)), Asked(missing=("no", "on"))).causes]

    assert said_of("") == ["the ack of #3 was multiple and settled #1 and #2 of 'letters' too"]
    assert said_of("up_to_tag") == []


def test_a_refusal_that_stops_a_client_is_noticed_without_the_full_stop_of_its_text(
    broker: Broker, connect: Connect
) -> None:
    channel = connect("shop")
    with pytest.raises(pika.exceptions.AMQPError):
        channel.queue_declare("orders")

    (text,) = noticed(broker)
    assert text.startswith("shop got 541 INTERNAL_ERROR - Feature `transient_nonexcl_queues` is deprecated, at ")
    assert said(broker) == []


def test_a_missed_value_in_a_queue_without_a_consumer_waits_there(broker: Broker, connect: Connect) -> None:
    broker.declare_queue("jobs")
    connect("worker").basic_consume("jobs", lambda *_: None)
    shop = connect("shop")
    shop.queue_declare("mails", durable=True)
    shop.basic_publish("", "mails", b"1")
    broker.sync()

    assert said(broker, b"1") == ["#1 waits in 'mails', which has no consumer"]
    assert said(broker) == []


def test_several_messages_have_a_verb_of_their_own(broker: Broker, connect: Connect) -> None:
    broker.declare_queue("jobs")
    connect("worker").basic_consume("jobs", lambda *_: None)
    shop = connect("shop")
    shop.queue_declare("mails", durable=True)
    for body in (b"1", b"2"):
        shop.basic_publish("", "mails", body)
    broker.sync()

    assert said(broker, b"1", b"2") == ["#1 and #2 wait in 'mails', which has no consumer"]


def test_a_message_that_dramatiq_holds_until_it_is_due_is_not_held_by_mistake(broker: Broker, connect: Connect) -> None:
    broker.declare_queue("jobs.DQ")
    body = {"queue_name": "jobs.DQ", "actor_name": "ship", "args": [7], "options": {"eta": 1_900_000_000_000}}
    broker.publish("", "jobs.DQ", json.dumps(body).encode())
    holding(broker, connect, "jobs.DQ")

    assert said(broker, "ship") == ["#1 of 'jobs.DQ' is due only at 17:46:40 UTC on 17 March"]


def test_an_error_that_a_client_and_asyncio_both_log_is_one(broker: Broker, connect: Connect) -> None:
    broker.declare_queue("bin")
    broker.declare_queue("scans", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "bin"})
    broker.publish("", "scans", json={"name": "b"})
    channel = holding(broker, connect, "scans")
    logged = broker._engine.recorder.recorded_count
    channel.basic_reject(1, requeue=False)
    error = "KeyError: 'height'"
    asked = Asked(missing=["b"], deaths=[TaskDeath("task 'measure'", None, error, None, logged)])
    asked.caught = [Caught(error, None, logged)]

    found = Harness(broker).diagnosis("", asked)

    assert found is not None
    (cause,) = found.causes
    assert "worker rejected #1" in sentence(cause)
    assert "KeyError: 'height'" in sentence(cause)


def test_how_long_a_message_was_held_counts_until_the_failure(broker: Broker, connect: Connect) -> None:
    broker.declare_queue("jobs")
    broker.publish("", "jobs", b"1")
    holding(broker, connect, "jobs")
    broker.clock.advance(seconds=70, settle=0)

    assert said(broker, b"1") == ["worker still held #1 of 'jobs' when the test failed, after 1 min 10 s"]


def test_a_message_that_was_held_for_an_instant_has_no_age(broker: Broker, connect: Connect) -> None:
    broker.declare_queue("jobs")
    broker.publish("", "jobs", b"1")
    holding(broker, connect, "jobs")
    named = Cause("unacked_at_end", {"holder": "worker", "queue": "jobs", "age": 90}, {"message": 1, "age": 90})

    found = diagnosis(Timeline(event.raw for event in broker.events), Asked(), [named])

    assert [sentence(cause) for cause in found.noticed] == ["worker held #1 of 'jobs'"]


def test_a_check_that_failed_the_test_is_its_cause(broker: Broker) -> None:
    named = Cause("unacked_at_end", {"holder": "worker", "queue": "jobs"}, {"message": 1})

    found = diagnosis(Timeline(), Asked(is_check=True), [named])

    assert [sentence(cause) for cause in found.causes] == ["worker held #1 of 'jobs'"]
    assert found.noticed == []
