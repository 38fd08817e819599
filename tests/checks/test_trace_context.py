"""Handlers that lose the trace of the message that they handle.

The headers are those that the instrumentations of OpenTelemetry write: for pika 0.44b0, aio-pika 0.48b0 and Celery
0.66b2, and FastStream's own middleware; kombu has none, so that its users inject the headers themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from threading import Barrier, Thread
from typing import Any

import aio_pika
import kombu
import pika
import pytest

from leveret import Broker

FIRST, SECOND, OTHER = (digit * 32 for digit in "abc")
CHECK = "trace_context_lost"
LOST = "without a traceparent, while it handled #1 ('', 'in', '1') of queue 'in', of trace " + FIRST
RESTARTED = f"in the new trace {OTHER}, while it handled #1 ('', 'in', '1') of queue 'in', of trace {FIRST}"

Found = Callable[[Broker], dict[str, str]]


def traced(trace: str, span: str = "1", **headers: str) -> dict[str, str]:
    return {"traceparent": f"00-{trace}-{span * 16}-03", **headers}


def properties(headers: dict[str, Any] | None = None, **more: Any) -> pika.BasicProperties:
    return pika.BasicProperties(headers=headers, **more)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(checks="off, trace_context_lost=warning") as broker:
        broker.declare_queue("in")
        broker.declare_queue("out")
        yield broker


@pytest.fixture
def channel(broker, connect) -> pika.adapters.blocking_connection.BlockingChannel:
    return connect(broker).channel()


def get(channel: pika.adapters.blocking_connection.BlockingChannel) -> int:
    """Get the next message, and return its delivery tag."""
    method, _, _ = channel.basic_get("in")
    return method.delivery_tag


def handle_with_pika(broker: Broker, headers: dict[str, str]) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        for method, _, _ in channel.consume("in"):
            channel.basic_publish("", "out", b"2", properties(headers))
            channel.basic_ack(method.delivery_tag)
            break


def handle_with_aio_pika(broker: Broker, headers: dict[str, str]) -> None:
    async def handle() -> None:
        async with await aio_pika.connect(broker.url) as connection:
            channel = await connection.channel()
            queue = await channel.get_queue("in")
            message = await queue.get()
            async with message.process():
                await channel.default_exchange.publish(aio_pika.Message(b"2", headers=dict(headers)), "out")

    asyncio.run(handle())


def handle_with_kombu(broker: Broker, headers: dict[str, str]) -> None:
    with kombu.Connection(broker.url) as connection:
        producer = connection.Producer()

        def handle(message: kombu.Message) -> None:
            producer.publish("2", routing_key="out", headers=headers)
            message.ack()

        with connection.Consumer(kombu.Queue("in", no_declare=True), on_message=handle):
            connection.drain_events(timeout=10)


@pytest.mark.parametrize("handle", [handle_with_pika, handle_with_aio_pika, handle_with_kombu])
@pytest.mark.parametrize(
    ("headers", "finding"),
    [
        pytest.param(traced(FIRST, "2"), None, id="kept"),
        pytest.param({}, LOST, id="lost"),
        pytest.param(traced(OTHER), RESTARTED, id="restarted"),
    ],
)
def test_a_kept_a_lost_and_a_restarted_trace_are_told_apart(broker, found, handle, headers, finding):
    broker.publish("", "in", b"1", headers=traced(FIRST))

    handle(broker, headers)

    text = found(broker).get(CHECK)
    assert (text is None) if finding is None else (finding in text)


@pytest.mark.parametrize(
    ("headers", "word"),
    [
        pytest.param(traced(FIRST, "2"), None, id="kept"),
        pytest.param({}, "without a traceparent", id="lost"),
        pytest.param(traced(OTHER), f"in the new trace {OTHER}", id="restarted"),
    ],
)
def test_a_task_of_celery_that_another_calls_belongs_to_its_trace(broker, connect, found, channel, headers, word):
    publisher = connect(broker, "producer").channel()
    publisher.basic_publish("", "in", b"1", properties(traced(FIRST, id="t1"), correlation_id="t1", reply_to="r"))
    broker.assert_ready("in", timeout=10)
    # Celery acks a task before it runs, and publishes on a connection of its own.
    channel.basic_ack(get(channel))
    broker.assert_acked("in", timeout=10)
    child = properties({**headers, "id": "t2", "parent_id": "t1"}, correlation_id="t2", reply_to="r")

    publisher.basic_publish("", "out", b"2", child)

    text = found(broker).get(CHECK)
    assert (text is None) if word is None else (word in text)


def test_the_finding_names_the_message_the_client_and_how_to_allow_it(broker, channel, found):
    broker.publish("", "in", b"1", headers=traced(FIRST))
    tag = get(channel)
    channel.basic_publish("", "out", b"2")
    channel.basic_ack(tag)

    text = found(broker)["trace_context_lost"]

    assert text.splitlines()[:2] == [
        "trace_context_lost: 1 message published outside of the trace of the message being handled",
        f"  '' 'out' '2', published by shop (c1/ch1); {LOST}",
    ]


def test_a_publish_can_be_allowed(broker, channel, found):
    broker.allow(CHECK, routing_key="out")
    broker.publish("", "in", b"1", headers=traced(FIRST))
    get(channel)
    channel.basic_publish("", "out", b"2")

    assert CHECK not in found(broker)


def test_handlers_of_several_messages_at_a_time_each_keep_their_trace(broker, channel, found):
    for trace in (FIRST, SECOND, OTHER):
        broker.publish("", "in", trace, headers=traced(trace))
    tags = [get(channel) for _ in range(3)]
    for tag, trace in zip(tags, (OTHER, FIRST, SECOND), strict=True):
        channel.basic_publish("", "out", b"2", properties(traced(trace, "2")))
        channel.basic_ack(tag)

    assert CHECK not in found(broker)


def test_one_handler_of_several_that_loses_its_trace_is_found(broker, channel, found):
    for trace in (FIRST, SECOND):
        broker.publish("", "in", trace, headers=traced(trace))
    get(channel), get(channel)
    channel.basic_publish("", "out", b"2", properties(traced(SECOND, "2")))
    channel.basic_publish("", "out", b"3")

    text = found(broker)[CHECK]

    assert "1 message published" in text
    assert "'' 'out' '3', published by shop" in text
    assert "while it handled one of 2 messages, the first being #1" in text


def test_handlers_in_threads_do_not_mix_their_traces(broker, connect, found):
    for number in range(20):
        broker.publish("", "in", b"1", headers=traced(f"{number + 1:032x}"))
    connections = [connect(broker, f"worker {number}") for number in range(4)]
    meeting = Barrier(len(connections))

    def work(channel: pika.adapters.blocking_connection.BlockingChannel) -> None:
        meeting.wait()
        while (got := channel.basic_get("in"))[0] is not None:
            method, given, _ = got
            channel.basic_publish("", "out", b"2", properties(given.headers))
            channel.basic_ack(method.delivery_tag)

    threads = [Thread(target=work, args=(connection.channel(),)) for connection in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert broker.queue("out").ready_count == 20
    assert CHECK not in found(broker)


def test_a_handler_may_finish_its_publishes_after_the_ack(broker, channel, found):
    for trace in (FIRST, SECOND):
        broker.publish("", "in", b"1", headers=traced(trace))
    channel.basic_ack(get(channel))
    get(channel)
    channel.basic_publish("", "out", b"2", properties(traced(FIRST, "2")))

    assert CHECK not in found(broker)


def test_a_traceparent_that_is_none_counts_as_lost(broker, channel, found):
    broker.publish("", "in", b"1", headers=traced(FIRST))
    get(channel)
    channel.basic_publish("", "out", b"2", properties({"traceparent": f"00-{'0' * 32}-{'1' * 16}-01"}))

    assert LOST in found(broker)[CHECK]


def test_headers_that_are_passed_on_unchanged_keep_the_trace(broker, channel, found):
    broker.publish("", "in", b"1", headers=traced(FIRST, baggage="tenant=7"))
    get(channel)
    channel.basic_publish("", "out", b"2", properties(traced(FIRST, baggage="tenant=7")))

    assert CHECK not in found(broker)


def test_baggage_that_is_lost_is_named(broker, channel, found):
    broker.publish("", "in", b"1", headers=traced(FIRST, baggage="tenant=7;ttl=1, region = eu"))
    get(channel)
    channel.basic_publish("", "out", b"2", properties(traced(FIRST, "2", baggage="region=us,new=1")))

    assert "; without the baggage tenant, while it handled #1 " in found(broker)[CHECK]


def test_a_correlation_id_that_is_lost_is_named(broker, channel, found):
    broker.publish("", "in", b"1", headers=traced(FIRST), correlation_id="order-7")
    get(channel)
    channel.basic_publish("", "out", b"2", properties(traced(FIRST, "2")))

    assert (
        "; without a correlation id, while it handled #1 ('', 'in', '1') of queue 'in' with 'order-7'"
        in (found(broker)[CHECK])
    )


@pytest.mark.parametrize(
    ("asked", "given"),
    [({"correlation_id": "7", "reply_to": "replies"}, {}), ({"correlation_id": "7"}, {"correlation_id": "8"})],
    ids=["of a request", "another"],
)
def test_a_correlation_id_need_not_go_on(broker, channel, found, asked, given):
    broker.publish("", "in", b"1", headers=traced(FIRST), **asked)
    get(channel)
    channel.basic_publish("", "out", b"2", properties(traced(FIRST, "2"), **given))

    assert CHECK not in found(broker)


def test_messages_without_a_trace_may_lead_to_anything(broker, channel, found):
    broker.publish("", "in", b"1", headers=traced(FIRST))
    broker.publish("", "in", b"2")
    channel.basic_ack(get(channel))
    get(channel)
    channel.basic_publish("", "out", b"3")
    channel.basic_publish("", "out", b"4", properties(traced(OTHER)))

    assert CHECK not in found(broker)


def test_what_a_client_also_publishes_of_its_own_accord_is_not_judged(broker, channel, found):
    broker.publish("", "in", b"1", headers=traced(FIRST))
    channel.basic_publish("amq.topic", "heartbeat", b"")
    get(channel)
    channel.basic_publish("amq.topic", "heartbeat", b"")

    assert CHECK not in found(broker)


def test_a_test_may_begin_traces_on_the_connection_of_the_service(broker, channel, found):
    channel.basic_publish("", "in", b"1", properties(traced(FIRST)))
    get(channel)
    channel.basic_publish("", "out", b"2", properties(traced(SECOND)))

    assert CHECK not in found(broker)


def test_a_test_that_drives_a_service_may_go_on_while_it_holds_an_answer(broker, channel, connect, found):
    service = connect(broker, "service").channel()
    channel.basic_publish("", "in", b"1", properties(traced(FIRST)))
    broker.assert_ready("in", timeout=10)
    tag = get(service)
    service.basic_publish("", "out", b"2", properties(traced(FIRST, "2")))
    service.basic_ack(tag)
    broker.assert_ready("out", timeout=10)
    channel.basic_get("out")

    channel.basic_publish("amq.topic", "next", b"3")

    assert CHECK not in found(broker)


def test_a_trace_that_is_lost_on_the_connection_of_the_test_is_found(broker, channel, found):
    channel.basic_publish("", "in", b"1", properties(traced(FIRST)))
    get(channel)
    channel.basic_publish("", "out", b"2")

    assert LOST in found(broker)[CHECK]


def test_a_new_trace_is_found_even_if_its_publisher_consumes_it_too(broker, channel, found):
    broker.publish("", "in", b"1", headers=traced(FIRST))
    tag = get(channel)
    channel.basic_publish("", "in", b"2", properties(traced(OTHER)))
    channel.basic_ack(tag)
    get(channel)

    assert RESTARTED in found(broker)[CHECK]


def test_a_handler_that_publishes_outside_of_a_trace_in_a_test_without_any_is_not_judged(broker, channel, found):
    broker.publish("", "in", b"1")
    get(channel)
    channel.basic_publish("", "out", b"2")

    assert CHECK not in found(broker)


def test_what_is_published_after_the_ack_is_not_judged(broker, channel, found):
    broker.publish("", "in", b"1", headers=traced(FIRST))
    channel.basic_ack(get(channel))
    channel.basic_publish("", "out", b"2")

    assert CHECK not in found(broker)


def test_a_delivery_that_came_back_is_handled_no_more(broker, channel, found):
    broker.publish("", "in", b"1", headers=traced(FIRST))
    channel.basic_nack(get(channel), requeue=True)
    channel.basic_publish("", "out", b"2")

    assert CHECK not in found(broker)


def test_events_of_celery_belong_to_no_trace(broker, channel, found):
    broker.declare_exchange("celeryev", "topic")
    broker.publish("", "in", b"1", headers=traced(FIRST))
    get(channel)
    channel.basic_publish("celeryev", "task.succeeded", b"")

    assert CHECK not in found(broker)
