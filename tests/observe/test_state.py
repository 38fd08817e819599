"""The reason why a broker is not idle, and its queues as lines."""

from leveret.observe.texts.state import queue_lines, why_not_idle
from leveret.wording import span_text


def test_a_broker_without_anything_to_do_is_idle(world):
    world.publish("orders", "waits without a consumer")
    world.client().consume("orders.work", "ctag1")
    world.node.connections.clear()

    assert why_not_idle(world.node) == []


def test_a_held_message_is_reported_with_its_holder_and_for_how_long(world):
    client = world.client("pika")
    client.consume("orders.work", "ctag1")
    world.publish("orders", "a")
    world.publish("orders", "b")
    client.connection.data_to_send()

    world.elapse(2.13)

    assert why_not_idle(world.node) == ["2 unacked on orders.work held by ctag1 of pika for 2.1 s: #1, #2"]


def test_acknowledging_makes_it_idle_again(world):
    client = world.client()
    client.consume("orders.work", "ctag1")
    world.publish("orders", "a")
    client.ack(1)
    client.connection.data_to_send()

    assert why_not_idle(world.node) == []


def test_pending_work_is_named(world):
    world.node.work.append(lambda: None)

    assert why_not_idle(world.node) == ["1 task pending"]


def test_output_that_was_not_sent_is_named(world):
    client = world.client("pika")
    client.connection.mark_dirty()

    assert why_not_idle(world.node) == ["unsent output for pika"]


def test_messages_of_different_holders_are_counted_separately(world):
    first, second = world.client("first"), world.client("second")
    first.consume("orders.work", "ctag1", prefetch_count=1)
    second.consume("orders.work", "ctag1", prefetch_count=1)
    for _ in range(3):
        world.publish("orders", "a")
    first.connection.data_to_send()
    second.connection.data_to_send()

    assert why_not_idle(world.node) == [
        "1 unacked on orders.work held by ctag1 of first: #1",
        "1 unacked on orders.work held by ctag1 of second: #2",
    ]


def test_a_queue_is_a_line_with_its_holders_and_consumers(world):
    world.queue("audit", exchange="orders")
    world.queue("idle")
    client = world.client("pika")
    client.consume("orders.work", "ctag1", prefetch_count=1)
    world.publish("orders", "a")
    world.publish("orders", "b")

    world.elapse(200)

    assert queue_lines(world.node) == [
        "orders.work 1 ready, 1 unacked held by ctag1 of pika for 3 min 20 s, consumed by c1/ch1",
        "audit 2 ready, no consumers",
        "empty: idle",
    ]


def test_the_queues_that_matter_come_first(world):
    for number in range(7):
        world.queue(f"q{number}", exchange="orders")
    for name in ("idle", "quiet", "still", "dead"):
        world.queue(name)
    world.publish("orders", "a")

    lines = queue_lines(world.node, first=["dead", "q6"])

    assert [line.split()[0] for line in lines[:6]] == ["q6", "orders.work", "q0", "q1", "q2", "q3"]
    assert lines[6:] == ["2 more: q4, q5", "empty: dead, idle, quiet, 1 more"]


def test_a_broker_without_queues_has_no_lines(world):
    world.vhost.delete_queue("orders.work")

    assert queue_lines(world.node) == []


def test_spans_have_fitting_units():
    assert [span_text(us) for us in (0, 350_000, 2_130_000, 200_000_000, 7_500_000_000)] == [
        "0 ms",
        "350 ms",
        "2.1 s",
        "3 min 20 s",
        "2 h 5 min",
    ]
