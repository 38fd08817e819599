"""The events that a broker's core records: each has the fields of its row in the table of kinds."""

from leveret.trace import events
from leveret.trace.events import FIELDS, Event


def test_every_event_of_a_busy_broker_has_the_fields_of_its_row(world):
    world.exchange("graves", "fanout")
    world.queue("orders.dead", exchange="graves", x_max_length=1)
    world.queue("doomed", exchange="orders", x_dead_letter_exchange="graves", x_message_ttl=1000)
    client = world.client("worker")
    client.declare("own")
    client.consume("doomed", "ctag1", prefetch_count=2)
    for number in range(5):
        world.publish("orders", "order.created", str(number).encode(), by=client)
    world.publish("", "nowhere", by=client, mandatory=True)
    client.ack(1)
    client.reject(2)
    client.requeue(3)
    client.get("orders.work")
    world.elapse(2)
    world.vhost.queues["orders.work"].purge()
    client.connection.connection_lost()

    raw = world.recorder.raw()

    assert [event for event in raw if len(event) != 2 + len(FIELDS[event[0]])] == []
    assert {event[0] for event in raw} >= {
        events.PUBLISHED,
        events.RETURNED,
        events.ENQUEUED,
        events.DELIVERED,
        events.GOT,
        events.ACKED,
        events.REJECTED,
        events.NACKED,
        events.REQUEUED,
        events.EXPIRED,
        events.DROPPED,
        events.DEAD_LETTERED,
        events.PURGED,
        events.QUEUE_DELETE,
    }


def test_every_event_prints(world):
    client = world.client("worker")
    client.consume("orders.work", "ctag1")
    world.publish("orders", "order.created", by=client)
    client.ack(1)

    lines = [repr(Event(raw)) for raw in world.recorder.raw()]

    assert any(line.endswith("queue='orders.work' arguments={'x-queue-type': 'classic'}") for line in lines)
    assert all("\n" not in line for line in lines)
