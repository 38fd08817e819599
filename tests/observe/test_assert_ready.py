"""assert_ready: the messages that wait in a queue now, by whatever road they came."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pika
import pytest

from leveret import Broker, NotDeclaredError


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker with a queue `work`, whose dead letters go to the queue `parked`."""
    with Broker(checks={"all": "off"}) as broker:
        broker.declare_queue("parked")
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "parked"}
        broker.declare_queue("work", arguments=arguments)
        yield broker


def test_messages_count_by_whatever_road_they_came(broker: Broker) -> None:
    broker.publish("", "parked", b"published")
    broker.publish("", "work", b"rejected")
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        method, _, _ = channel.basic_get("work")
        channel.basic_nack(method.delivery_tag, requeue=False)
        broker.assert_ready("parked", times=2)
        channel.basic_get("parked")
        broker.assert_ready("parked", times=1)

    assert [message.body for message in broker.assert_ready("parked", times=2)] == [b"published", b"rejected"]


def test_it_returns_the_first_message_that_matches(broker: Broker) -> None:
    for number in (1, 2, 3):
        broker.publish("", "work", json={"id": number, "kind": "odd" if number % 2 else "even"})

    assert broker.assert_ready("work").json["id"] == 1
    assert broker.assert_ready("work", json_contains={"kind": "even"}).json["id"] == 2
    assert [one.json["id"] for one in broker.assert_ready("work", json_contains={"kind": "odd"}, times=2)] == [1, 3]
    assert broker.assert_ready("work", json_contains={"kind": "new"}, times=0) == []


def test_it_waits_until_a_client_has_published_them_all(broker: Broker) -> None:
    asked = threading.Event()

    def publish() -> None:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            channel.queue_declare("fresh", durable=True)
            asked.wait(10)
            for _ in range(3):
                channel.basic_publish("", "fresh", b"x")

    publisher = threading.Thread(target=publish)
    publisher.start()
    asked.set()
    found = broker.assert_ready("fresh", times=3, timeout=10)
    publisher.join()

    assert len(found) == 3


def test_it_needs_no_trace() -> None:
    with Broker(record="off") as broker:
        broker.declare_queue("work")
        broker.publish("", "work", b"x")

        assert broker.assert_ready("work").body == b"x"


def test_an_event_loop_awaits_it(broker: Broker) -> None:
    async def test() -> None:
        later = asyncio.get_running_loop().call_soon(broker.publish, "", "work", b"x")
        assert (await broker.aio.assert_ready("work", timeout=10)).body == b"x"
        later.cancel()

    asyncio.run(test())


def test_the_failure_says_what_is_ready_instead_and_what_became_of_the_others(broker: Broker) -> None:
    broker.publish("", "work", b"1")
    broker.publish("", "work", b"2")
    broker.publish("", "wrok", b"3")
    with broker.consume("work", tag="one", prefetch=1) as consumer:
        consumer.next()
        with pytest.raises(AssertionError) as raised:
            broker.assert_ready("work", times=3, timeout=0)

    lines = str(raised.value).splitlines()
    assert lines[0] == "assert_ready('work', times=3): expected exactly 3 ready, saw 1 within 0 ms"
    assert lines[1] == "  ready: #2 ('', 'work', '2')"
    assert lines[2].startswith("  not ready: #1 ('', 'work', '1') from the test at ")
    assert lines[2].endswith("; it is unacked in 'work', held by one of the test")
    assert lines[3].startswith("  not ready: #3 ('', 'wrok', '3') from the test at ")
    assert "no route" in lines[3]


def test_the_failure_says_in_what_a_ready_message_differs(broker: Broker) -> None:
    broker.publish("", "work", b"1")

    with pytest.raises(AssertionError, match=r"also ready: #1 .*: body '1' instead of '2'"):
        broker.assert_ready("work", body="2")


def test_the_failure_lists_what_is_too_much_and_nothing_else(broker: Broker) -> None:
    for number in range(5):
        broker.publish("", "work", b"%d" % number)
    broker.publish("", "parked", b"elsewhere")

    with pytest.raises(AssertionError) as raised:
        broker.assert_ready("work", times=2)

    assert str(raised.value).splitlines()[1:] == [
        *(f"  ready: #{number} ('', 'work', '{number - 1}')" for number in (1, 2, 3)),
        "  ... and 2 more ready",
    ]


def test_a_queue_that_does_not_exist_is_no_empty_queue(broker: Broker) -> None:
    with pytest.raises(NotDeclaredError, match="did you mean 'work'"):
        broker.assert_ready("wrok", times=0)


def test_what_is_ready_now_needs_no_await_on_an_event_loop(broker: Broker) -> None:
    broker.publish("", "parked", b"7")

    async def look() -> bytes:
        with pytest.raises(AssertionError, match="exactly 2"):
            broker.assert_ready("parked", times=2)
        return broker.assert_ready("parked").body

    assert asyncio.run(look()) == b"7"
