"""The reason why a broker is not idle, and its state as a table."""

from leveret.observe.state import describe, why_not_idle
from leveret.observe.wording import span_text


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

    assert why_not_idle(world.node) == ["2 unacked on orders.work held by ctag1 of pika for 2.1 s"]


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
        "1 unacked on orders.work held by ctag1 of first for 0 ms",
        "1 unacked on orders.work held by ctag1 of second for 0 ms",
    ]


def test_the_state_is_a_table_of_queues_connections_and_holders(world):
    world.queue("audit", exchange="orders")
    client = world.client("pika")
    client.consume("orders.work", "ctag1", prefetch_count=1)
    world.publish("orders", "a")
    world.publish("orders", "b")

    world.elapse(200)

    assert describe(world.node).splitlines() == [
        "queue        ready  unacked  consumers",
        "orders.work  1      1        ctag1 of pika",
        "audit        2      0        -",
        "connections:",
        "  1: pika from 127.0.0.1:40001, 1 channel",
        "held:",
        "  1 unacked on orders.work held by ctag1 of pika for 3 min 20 s",
    ]


def test_the_state_of_an_empty_broker_has_no_queues_and_connections(world):
    world.vhost.delete_queue("orders.work")

    assert describe(world.node) == "queues: none\nconnections: none"


def test_spans_have_fitting_units():
    assert [span_text(us) for us in (0, 350_000, 2_130_000, 200_000_000, 7_500_000_000)] == [
        "0 ms",
        "350 ms",
        "2.1 s",
        "3 min 20 s",
        "2 h 5 min",
    ]
