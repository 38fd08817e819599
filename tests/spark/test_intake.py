"""What a streaming query takes from its queue, keeps and acknowledges, before and after crashes; without Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pika
import pytest

from leveret import Broker
from leveret.errors import LinkError, LinkLostError
from leveret.spark.amqp.intake import Intake
from leveret.spark.amqp.offsets import Offset
from leveret.spark.amqp.options import stream_read_options

START = Offset.start()
LIMIT = 10
# Fewer messages than a batch may have.
FEW = 5


@pytest.fixture(params=["classic", "quorum"])
def queue_type(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def broker(leveret: Broker, queue_type: str) -> Broker:
    leveret.declare_queue("jobs", durable=True, arguments={"x-queue-type": queue_type})
    return leveret


@contextmanager
def intake(broker: Broker, **options: object) -> Iterator[Intake]:
    """Yield a query's reader; leaving the block crashes it, and the broker sees the connection close."""
    texts = {name: str(value) for name, value in options.items()}
    reader = Intake(
        stream_read_options({"url": broker.url, "queue": "jobs", "maxMessagesPerBatch": str(LIMIT), **texts})
    )
    try:
        yield reader
    finally:
        reader.close()


def publish(broker: Broker, *bodies: str, with_ids: bool = True) -> None:
    for body in bodies:
        broker.publish("", "jobs", body.encode(), message_id=f"id-{body}" if with_ids else None)


def bodies(reader: Intake, start: Offset, end: Offset) -> list[str]:
    return [body.decode() for _, _, body in reader.messages_between(start, end)]


def numbers(first: int, behind: int) -> list[str]:
    return [str(number) for number in range(first, behind)]


def left(broker: Broker) -> list[str]:
    """Return the messages that the broker still has, ready or unacked."""
    queue = broker.queue("jobs")
    return sorted([message.text for message in (*queue.ready, *queue.unacked)], key=int)


def test_a_batch_holds_the_ready_messages_in_order(broker: Broker) -> None:
    publish(broker, *numbers(0, FEW))

    with intake(broker) as reader:
        end = reader.next_offset(START, LIMIT)

        assert bodies(reader, START, end) == numbers(0, FEW)


def test_a_batch_has_no_more_than_it_may_have(broker: Broker) -> None:
    publish(broker, *numbers(0, 25))

    with intake(broker) as reader:
        end = reader.next_offset(START, LIMIT)

        assert bodies(reader, START, end) == numbers(0, 10)
        assert end.total == 10


def test_an_empty_queue_gives_no_new_offset(broker: Broker) -> None:
    with intake(broker) as reader:
        assert reader.next_offset(START, LIMIT) == START


def test_no_message_is_acknowledged_before_the_next_offset_is_requested(broker: Broker) -> None:
    publish(broker, *numbers(0, FEW))

    with intake(broker) as reader:
        end = reader.next_offset(START, LIMIT)
        reader.messages_between(START, end)

        assert left(broker) == numbers(0, FEW)


def test_the_next_offset_acknowledges_the_committed_batch(broker: Broker) -> None:
    publish(broker, *numbers(0, 15))

    with intake(broker) as reader:
        first = reader.next_offset(START, LIMIT)
        second = reader.next_offset(first, LIMIT)

        assert left(broker) == numbers(10, 15)
        assert reader.next_offset(second, LIMIT) == second
        assert left(broker) == []


def test_asking_twice_for_the_same_gives_the_same(broker: Broker) -> None:
    publish(broker, *numbers(0, 15))

    with intake(broker) as reader:
        assert reader.next_offset(START, LIMIT) == reader.next_offset(START, LIMIT)


def test_two_batches_with_the_same_content_have_different_offsets(broker: Broker) -> None:
    publish(broker, *["again"] * 20, with_ids=False)

    with intake(broker) as reader:
        first = reader.next_offset(START, LIMIT)
        second = reader.next_offset(first, LIMIT)

        assert first.digest == second.digest
        assert first != second


def test_a_batch_that_was_planned_and_not_committed_is_replayed_after_a_crash(broker: Broker) -> None:
    publish(broker, *numbers(0, 15))
    with intake(broker) as reader:
        end = reader.next_offset(START, LIMIT)

    with intake(broker) as reader:
        assert bodies(reader, START, end) == numbers(0, 10)
        behind = reader.next_offset(end, LIMIT)
        assert bodies(reader, end, behind) == numbers(10, 15)
        assert left(broker) == numbers(10, 15)


def test_a_batch_that_was_committed_and_not_acknowledged_is_dropped_after_a_crash(broker: Broker) -> None:
    publish(broker, *numbers(0, 15))
    with intake(broker) as reader:
        end = reader.next_offset(START, LIMIT)

    with intake(broker) as reader:
        behind = reader.next_offset(end, LIMIT)

        assert bodies(reader, end, behind) == numbers(10, 15)
        assert left(broker) == numbers(10, 15)


def test_nothing_is_dropped_after_a_crash_when_the_ack_had_arrived(broker: Broker) -> None:
    publish(broker, *numbers(0, 15))
    with intake(broker) as reader:
        first = reader.next_offset(START, LIMIT)
        reader.next_offset(first, LIMIT)

    with intake(broker) as reader:
        behind = reader.next_offset(first, LIMIT)

        assert bodies(reader, first, behind) == numbers(10, 15)


def test_messages_without_ids_are_distinguished_by_their_content(broker: Broker) -> None:
    publish(broker, *numbers(0, 15), with_ids=False)
    with intake(broker) as reader:
        end = reader.next_offset(START, LIMIT)

    with intake(broker) as reader:
        behind = reader.next_offset(end, LIMIT)

        assert bodies(reader, end, behind) == numbers(10, 15)


def test_identical_messages_are_read_twice_rather_than_lost(broker: Broker) -> None:
    publish(broker, *["again"] * 20, with_ids=False)
    with intake(broker) as reader:
        first = reader.next_offset(START, LIMIT)
        # This acknowledges the first ten; the others look the same.
        reader.next_offset(first, LIMIT)

    with intake(broker) as reader:
        behind = reader.next_offset(first, LIMIT)

        assert bodies(reader, first, behind) == ["again"] * 10


def test_a_batch_that_lost_a_message_to_another_consumer_replays_empty_and_is_read_later(broker: Broker) -> None:
    publish(broker, *numbers(0, 12))
    with intake(broker) as reader:
        end = reader.next_offset(START, LIMIT)
    steal_one(broker)

    with intake(broker) as reader:
        assert bodies(reader, START, end) == []
        behind = reader.next_offset(end, LIMIT)
        assert bodies(reader, end, behind) == numbers(1, 11)


def test_a_second_crash_after_an_empty_replay_loses_nothing(broker: Broker) -> None:
    publish(broker, *numbers(0, 12))
    with intake(broker) as reader:
        end = reader.next_offset(START, LIMIT)
    steal_one(broker)
    with intake(broker) as reader:
        assert bodies(reader, START, end) == []

    with intake(broker) as reader:
        behind = reader.next_offset(end, LIMIT)

        assert bodies(reader, end, behind) == numbers(1, 11)


def test_a_connection_lost_on_the_ack_is_reopened_and_no_message_is_duplicated(broker: Broker) -> None:
    publish(broker, *numbers(0, 15))
    broker.faults.reset_peer(on="basic.ack")

    with intake(broker) as reader:
        first = reader.next_offset(START, LIMIT)
        second = reader.next_offset(first, LIMIT)

        assert bodies(reader, first, second) == numbers(10, 15)
        assert left(broker) == numbers(10, 15)


def test_a_connection_lost_after_the_ack_is_reopened_and_no_message_is_lost(broker: Broker) -> None:
    publish(broker, *numbers(0, 15))
    broker.faults.reset_peer(on="basic.ack", when="after")

    with intake(broker) as reader:
        first = reader.next_offset(START, LIMIT)
        second = reader.next_offset(first, LIMIT)

        assert bodies(reader, first, second) == numbers(10, 15)


def test_a_restart_of_the_broker_during_a_batch_is_survived(broker: Broker) -> None:
    for number in numbers(0, 15):
        broker.publish("", "jobs", number.encode(), message_id=number, delivery_mode=2)

    with intake(broker) as reader:
        first = reader.next_offset(START, LIMIT)
        broker.restart()
        second = reader.next_offset(first, LIMIT)

        assert bodies(reader, first, second) == numbers(10, 15)


def test_a_broker_that_stays_away_is_reported(broker: Broker) -> None:
    publish(broker, "0")

    with intake(broker, reconnectSeconds=0.1) as reader:
        end = reader.next_offset(START, LIMIT)
        broker.faults.refuse_connections()
        broker.faults.reset_peer()

        with pytest.raises(LinkLostError, match="no broker answers at"):
            reader.next_offset(end, LIMIT)


def test_messages_that_arrive_later_are_not_available_now(broker: Broker) -> None:
    publish(broker, *numbers(0, 12))

    with intake(broker) as reader:
        reader.set_target()
        publish(broker, *numbers(12, 30))
        first = reader.next_offset(START, LIMIT)
        second = reader.next_offset(first, LIMIT)

        assert bodies(reader, first, second) == ["10", "11"]
        assert reader.next_offset(second, LIMIT) == second


def test_available_messages_on_their_way_are_awaited(broker: Broker) -> None:
    # A quorum queue of RabbitMQ counts 0 ready messages before it has sent them.
    broker.faults.delay("basic.deliver", seconds=0.4)
    publish(broker, *numbers(0, FEW))

    with intake(broker) as reader:
        reader.set_target()
        end = reader.next_offset(START, LIMIT)

        assert bodies(reader, START, end) == numbers(0, FEW)


def test_a_batch_to_replay_is_awaited_while_its_messages_are_on_their_way(broker: Broker) -> None:
    publish(broker, *numbers(0, FEW))
    with intake(broker) as reader:
        end = reader.next_offset(START, LIMIT)
    broker.faults.delay("basic.deliver", seconds=0.4)

    with intake(broker) as reader:
        assert bodies(reader, START, end) == numbers(0, FEW)


def test_a_replay_counts_towards_the_messages_available_now(broker: Broker) -> None:
    publish(broker, *numbers(0, 12))
    with intake(broker) as reader:
        end = reader.next_offset(START, LIMIT)

    with intake(broker) as reader:
        reader.set_target()
        publish(broker, *numbers(12, 30))
        reader.messages_between(START, end)
        behind = reader.next_offset(end, LIMIT)

        assert bodies(reader, end, behind) == ["10", "11"]


def test_a_crash_loses_messages_that_were_acked_on_read(broker: Broker) -> None:
    publish(broker, *numbers(0, 15))
    with intake(broker, ack="auto") as reader:
        end = reader.next_offset(START, LIMIT)
        assert left(broker) == numbers(10, 15)

    with intake(broker, ack="auto") as reader:
        assert bodies(reader, START, end) == []
        behind = reader.next_offset(end, LIMIT)
        assert bodies(reader, end, behind) == numbers(10, 15)


def test_no_more_than_the_prefetch_is_held(broker: Broker) -> None:
    publish(broker, *numbers(0, 50))

    with intake(broker) as reader:
        reader.next_offset(START, LIMIT)

        assert len(broker.queue("jobs").unacked) == 20


def test_more_may_be_held_than_one_consumer_can_say_and_stays_in_order(broker: Broker) -> None:
    with intake(broker, maxMessagesPerBatch=65535, prefetch=131070) as reader:
        reader.next_offset(START, LIMIT)
        publish(broker, *numbers(0, 30))
        end = reader.next_offset(START, 65535)

        assert [consumer.prefetch_count for consumer in broker.queue("jobs").consumers] == [65535, 65535]
        assert bodies(reader, START, end) == numbers(0, 30)


def test_only_one_reader_may_read_exclusively(leveret: Broker) -> None:
    leveret.declare_queue("jobs")

    with intake(leveret, exclusive="true") as reader:
        reader.next_offset(START, LIMIT)

        with (
            pika.BlockingConnection(pika.URLParameters(leveret.url)) as connection,
            pytest.raises(pika.exceptions.ChannelClosedByBroker, match="exclusive use"),
        ):
            connection.channel().basic_consume("jobs", lambda *_: None)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"queue": "nowhere"}, "404 NOT_FOUND - no queue 'nowhere' in vhost '/': format amqp declares nothing"),
        ({"user": "guest", "password": "wrong"}, "refuses the login of user 'guest' ("),
        ({"user": "guest", "password": "wrong"}, "check the user and the password, in the option url or in the"),
        ({"url": "amqp://guest:guest@127.0.0.1:{port}/shop"}, "has no virtual host 'shop' that user 'guest' may use"),
    ],
)
def test_a_refusal_of_the_broker_is_reported(leveret: Broker, options: dict[str, str], said: str) -> None:
    given = {name: value.format(port=leveret.port) for name, value in options.items()}
    reader = Intake(stream_read_options({"url": leveret.url, "queue": "jobs", **given}))

    with pytest.raises(LinkError, match=re.escape(said)):
        reader.next_offset(START, LIMIT)
    reader.close()


def test_a_missing_broker_is_reported(leveret: Broker) -> None:
    leveret.stop()

    reader = Intake(stream_read_options({"url": leveret.url, "queue": "jobs"}))

    with pytest.raises(LinkError, match=r"no broker answers at 127\.0\.0\.1:.*check that it is running"):
        reader.next_offset(START, LIMIT)


def test_a_queue_deleted_meanwhile_is_reported(leveret: Broker) -> None:
    leveret.declare_queue("jobs")

    with intake(leveret) as reader:
        reader.next_offset(START, LIMIT)
        leveret.delete_queue("jobs")

        with pytest.raises(LinkError, match=r"the queue was deleted|no queue 'jobs'"):
            reader.next_offset(START, LIMIT)


def steal_one(broker: Broker) -> None:
    """Let another consumer take and ack the first message."""
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        assert connection.channel().basic_get("jobs", auto_ack=True)[0] is not None


@pytest.mark.parametrize("version", ["4.2", "4.3"])
def test_a_batch_that_takes_longer_than_the_consumer_timeout_is_not_read_again(
    make_leveret: Callable[..., Broker], queue_type: str, version: str
) -> None:
    broker = make_leveret(rabbitmq=version)
    broker.declare_queue("jobs", durable=True, arguments={"x-queue-type": queue_type})
    publish(broker, *numbers(0, FEW))
    with intake(broker) as reader:
        end = reader.next_offset(START, LIMIT)
        assert bodies(reader, START, end) == numbers(0, FEW)

        broker.clock.advance(hours=1, settle=0)
        # RabbitMQ 4.3 limits consumers of quorum queues only.
        is_limited = version == "4.2" or queue_type == "quorum"
        broker.assert_requeued("jobs", reason="consumer_timeout", times=FEW if is_limited else 0)
        publish(broker, *numbers(FEW, 8))
        second = reader.next_offset(end, LIMIT)

        assert bodies(reader, end, second) == numbers(FEW, 8)
        assert left(broker) == numbers(FEW, 8)
