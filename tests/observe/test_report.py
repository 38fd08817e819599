"""The report of a broker: the state that matters, and the last events that matter."""

from __future__ import annotations

import pika
import pytest

from leveret import Broker, WaitTimeoutError
from leveret.clocks import SystemClock
from leveret.engine.explaining import Explaining
from leveret.observe.texts.report import Facts, Report, report_text
from leveret.observe.texts.story import Story
from leveret.story.timeline import Timeline
from leveret.trace import events


@pytest.fixture
def story(world):
    """Return a function that returns the lines of what has happened in the world."""
    return lambda about=(): Story(Timeline(world.recorder.raw())).lines(about)


def test_the_report_names_set_up_queues_and_events_in_a_few_lines(world):
    shop, worker = world.client("shop"), world.client("worker")
    worker.consume("orders.work", "ctag1")
    world.publish("orders", "order.created", b'{"id": 7}', by=shop)
    world.elapse(1.5)
    worker.ack(1)
    del world.node.connections[1]

    assert report_text(Facts(world.node, world.recorder, world.timeline()), "state of the broker").splitlines() == [
        "state of the broker",
        "set-up: c1 shop (closed), c2 worker; 1 exchange, 1 queue, 1 binding, 1 consumer",
        "queues: orders.work 0 ready, consumed by c2/ch1",
        "events, seconds since the test began:",
        "  0.000 c1/ch1 published #1 ('orders', 'order.created', '{\"id\": 7}') to 'orders.work'",
        "  0.000 delivered #1 from 'orders.work' to c2/ch1",
        "  1.500 c2/ch1 acked #1 of 'orders.work'",
    ]


def test_what_two_clients_declare_is_counted_once(leveret):
    for _ in range(2):
        with pika.BlockingConnection(pika.URLParameters(leveret.url)) as connection:
            channel = connection.channel()
            channel.exchange_declare("orders", durable=True)
            channel.queue_declare("jobs", durable=True)
            channel.queue_bind("jobs", "orders", "job")

    with pytest.raises(AssertionError) as failure:
        leveret.assert_published("orders")

    assert "; 1 exchange, 1 queue, 1 binding\n" in failure.value.__notes__[0]


def test_times_count_from_the_beginning_of_the_test(world, story):
    world.elapse(100)
    world.begin_test("test_it")
    world.elapse(0.25)
    world.publish("orders", "order.created")

    assert story() == ["0.250 the test published #1 ('orders', 'order.created', '') to 'orders.work'"]


def test_events_of_earlier_tests_are_left_out(world, story):
    world.publish("orders", "order.created")
    world.begin_test("test_it")

    assert story() == []


def test_a_dead_letter_is_told_in_one_line_with_who_rejected_it(world, story):
    world.exchange("graves", "fanout")
    world.queue("dead", exchange="graves")
    world.queue("doomed", exchange="orders", routing_key="order.doomed", x_dead_letter_exchange="graves")
    worker = world.client("worker")
    worker.consume("doomed", "ctag1")
    world.publish("orders", "order.doomed", b"1")
    worker.reject(1)

    assert story()[1:] == [
        "0.000 delivered #1 from 'doomed' to c1/ch1",
        "0.000 c1/ch1 dead-lettered #1 from 'doomed' (rejected) to 'dead'",
    ]


def test_a_requeue_names_who_requeued_and_the_redelivery(world, story):
    worker = world.client("worker")
    worker.consume("orders.work", "ctag1")
    world.publish("orders", "order.created", b"1")
    worker.requeue(1)

    assert story()[2:] == [
        "0.000 c1/ch1 requeued #1 to 'orders.work' (nacked)",
        "0.000 redelivered #1 from 'orders.work' to c1/ch1",
    ]


def test_a_returned_message_takes_one_line(world, story):
    world.exchange("empty")
    world.publish("empty", "order.created", by=world.client(), mandatory=True)

    assert story() == [
        "0.000 c1/ch1 published #1 ('empty', 'order.created', '')",
        "0.000 returned #1 to c1/ch1 (NO_ROUTE)",
    ]


def test_the_last_events_are_chosen(world, story):
    for number in range(1, 31):
        world.publish("orders", "order.created", str(number).encode())

    assert [line.split()[4] for line in story()] == [f"#{number}" for number in range(21, 31)]
    assert Story(Timeline(world.recorder.raw())).title(has_dropped=False).startswith("last 10 of 30 events, ")
    assert Story(Timeline(world.recorder.raw())).title(has_dropped=True).startswith("last 10 of 30+ events, ")


def test_the_life_of_the_message_of_the_failure_comes_first(world, story):
    worker = world.client("worker")
    world.publish("orders", "order.created", b"1")
    worker.get("orders.work")
    worker.ack(1)
    for number in range(2, 31):
        world.publish("orders", "order.created", str(number).encode())

    lines = story([1])

    assert lines[:3] == [
        "0.000 the test published #1 to 'orders.work'",
        "0.000 c1/ch1 got #1 from 'orders.work'",
        "0.000 c1/ch1 acked #1 of 'orders.work'",
    ]
    assert [line.split()[4] for line in lines[3:]] == [f"#{number}" for number in range(24, 31)]


def test_what_the_failure_has_said_is_left_out(world, story):
    world.publish("orders", "order.created", b"1")

    assert story([1]) == []


def test_a_loop_takes_two_lines(world, story):
    worker = world.client("worker")
    world.publish("orders", "order.created", b"1")
    for tag in range(1, 21):
        worker.get("orders.work")
        worker.requeue(tag)

    assert story([1]) == [
        "0.000 the test published #1 to 'orders.work'",
        "0.000 c1/ch1 got #1 from 'orders.work'",
        "0.000 c1/ch1 requeued #1 to 'orders.work' (nacked) (and both 19 more times)",
    ]


def test_a_binding_counts_as_an_event_once_a_message_was_published(world, story):
    bind = (events.BIND, world.node.now, "/", 1, 1, "orders", "queue", "billing", "order.*.paid", {})
    world.recorder.tap(bind)
    world.publish("orders", "order.created")
    world.recorder.tap(bind)

    assert story()[1:] == ["0.000 c1/ch1 bound queue 'billing' to 'orders' with key 'order.*.paid'"]


def test_a_lost_connection_and_a_fault_are_events(world, story):
    world.recorder.tap((events.FAULT, world.node.now, "/", 3, 1, "basic.ack", "reset_peer"))
    world.recorder.tap((events.CONN_CLOSE, world.node.now, "/", 3, None, "connection lost", None))
    world.recorder.tap((events.CONN_CLOSE, world.node.now, "/", 4, None, None, None))

    assert story() == [
        "0.000 fault reset_peer on basic.ack (c3/ch1)",
        "0.000 c3 lost its connection: connection lost",
    ]


def test_a_long_line_is_cut(world, story):
    world.publish("orders", "order." + "x" * 200)

    (line,) = story()

    assert len(line) == 160
    assert line.endswith("...")


@pytest.mark.parametrize("kind", events.KINDS)
def test_every_kind_of_event_can_be_told(world, story, kind):
    world.publish("orders", "order.created")
    message = world.recorder.raw()[-1][events.POSITIONS[events.ENQUEUED]["message"]]
    values = {"message": message, "conn": 1, "chan": 1, "reason": "a reason", "count": 1}
    fields = [values.get(name, name) for name in events.FIELDS[kind]]

    world.recorder.tap((kind, world.node.now, *fields))

    assert all(line.startswith("0.000 ") for line in story())


def test_the_error_of_a_wait_and_its_report_say_that_the_clock_is_held():
    with Broker() as broker:
        broker.declare_queue("orders")
        broker.clock.hold()

        with pytest.raises(WaitTimeoutError, match="s; the clock is held") as error:
            broker.wait_for_consumer("orders", timeout=0.01)

        assert "the clock is held, so nothing comes due: move it with broker.clock.advance()" in notes(error.value)
        broker.clock.release()
        with pytest.raises(WaitTimeoutError) as error:
            broker.wait_for_consumer("orders", timeout=0.01)
        assert "the clock is held" not in f"{error.value}{notes(error.value)}"


def test_a_failure_of_a_test_that_needs_no_client_does_not_ask_for_one():
    with Broker() as broker:
        broker.declare_queue("orders")
        with pytest.raises(AssertionError) as error:
            broker.assert_published("", timeout=0.01)
        assert "no client has connected" in notes(error.value)
        broker.publish("", "orders", b"7")

        with pytest.raises(AssertionError) as error:
            broker.assert_dead_lettered("orders")
        assert "no client has connected" not in notes(error.value)

        assert broker.url
        with pytest.raises(AssertionError) as error:
            broker.assert_acked("orders")
        assert "no client has connected" in notes(error.value)


def notes(error):
    return "\n".join(error.__notes__)


def test_waits_that_time_out_together_share_a_report_that_was_begun_since():
    explaining, began = Explaining(), SystemClock().now()
    reports = [explaining.report(about, lambda: Report("state"), began) for about in ("/", "/", "shop")]

    assert reports[0] is reports[1]
    assert reports[1] is not reports[2]
