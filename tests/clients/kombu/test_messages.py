"""Producing and consuming with kombu: Producer, Consumer, SimpleQueue, ConsumerMixin and the pool of producers.

kombu builds on py-amqp: it has no `basic.nack`, bytes in headers become text, and a timestamp is a naive UTC datetime.
"""

from datetime import datetime
from decimal import Decimal
from queue import Empty

import kombu
import pytest
from amqp.exceptions import MessageNacked
from kombu.mixins import ConsumerMixin, ConsumerProducerMixin
from kombu.pools import producers, reset

HEADERS = {
    "text": "grün",
    "yes": True,
    "small": -5,
    "large": 2**40,
    "fraction": 1.1,
    "price": Decimal("3.14"),
    "when": datetime(2026, 1, 2, 3, 4, 5),
    "nothing": None,
    "list": [1, "two", None, [3.0], {"four": 4}],
    "table": {"inner": {"deep": True}},
}


@pytest.fixture
def work(connection):
    """A durable queue on the default exchange."""
    queue = kombu.Queue("work")(connection.default_channel)
    queue.declare()
    return queue


@pytest.fixture
def filled(connection, work):
    """A queue that holds the messages 0 to 4."""
    producer = connection.Producer()
    for number in range(5):
        producer.publish(number, routing_key="work")
    return work


@pytest.fixture
def consume(connection):
    """Return a function that starts a consumer and collects its messages in a list."""

    def consume(*queues, channel=None, **options):
        messages = []
        consumer = connection.Consumer(queues, channel=channel, on_message=messages.append, **options)
        consumer.consume()
        return consumer, messages

    return consume


def test_confirmed_publish(connection, work, ready_count):
    for _ in range(3):
        connection.Producer().publish("", routing_key="work")

    assert ready_count("work") == 3


def test_mandatory_publish_without_route_is_returned(connection):
    returned = []
    on_return = lambda error, exchange, key, message: returned.append((error.reply_code, key))  # noqa: E731
    producer = connection.Producer(on_return=on_return)

    producer.publish("back", routing_key="nowhere", mandatory=True)

    assert returned == [(312, "nowhere")]


def test_full_queue_nacks_the_publish(connection):
    arguments = {"x-max-length": 0, "x-overflow": "reject-publish"}
    kombu.Queue("full", queue_arguments=arguments)(connection.default_channel).declare()

    with pytest.raises(MessageNacked):
        connection.Producer().publish("", routing_key="full")


def test_tx_commit_and_rollback(broker_url, work, ready_count):
    with kombu.Connection(broker_url) as other:
        channel = other.channel()
        channel.tx_select()
        producer = kombu.Producer(channel)

        producer.publish("taken back", routing_key="work")
        channel.tx_rollback()
        producer.publish("kept", routing_key="work")
        assert ready_count("work") == 0
        channel.tx_commit()
        assert ready_count("work") == 1


@pytest.mark.parametrize("compression", [None, "zlib"])
def test_body_of_five_megabytes(connection, work, compression):
    body = bytes(range(256)) * (5 * 4096)

    connection.Producer().publish(body, routing_key="work", serializer="raw", compression=compression)

    assert work.get(no_ack=True).payload == body


def test_headers_of_every_type_come_back(connection, work):
    connection.Producer().publish("", routing_key="work", headers=HEADERS)

    assert work.get(no_ack=True).headers == HEADERS


def test_consume_and_ack(connection, filled, consume, drain, ready_count):
    _, messages = consume(filled)

    drain(messages, 5)
    for message in messages:
        message.ack()
    connection.default_channel.close()

    assert [message.payload for message in messages] == [0, 1, 2, 3, 4]
    assert ready_count("work") == 0


def test_requeue_and_reject(filled):
    filled.get().requeue()
    again = filled.get()
    again.reject()

    assert (again.payload, again.delivery_info["redelivered"]) == (0, True)
    assert filled.get().payload == 1


def test_recover_requeues_what_is_unacked(filled, consume, drain):
    consumer, messages = consume(filled, prefetch_count=1)
    drain(messages, 1)

    consumer.recover(requeue=True)

    assert drain(messages, 2)[1].delivery_info["redelivered"] is True
    assert [message.payload for message in messages] == [0, 0]


def test_prefetch_is_enforced(filled, consume, drain, ready_count):
    _, messages = consume(filled, prefetch_count=2)

    drain(messages, 2)
    assert ready_count("work") == 3
    assert len(messages) == 2

    messages[0].ack()
    assert drain(messages, 3)[2].payload == 2


def test_cancel_gives_no_more_deliveries(filled, consume, drain, ready_count):
    consumer, messages = consume(filled, prefetch_count=1)
    drain(messages, 1)

    consumer.cancel()
    messages[0].ack()

    assert ready_count("work") == 4
    assert len(messages) == 1


def test_consumer_is_notified_when_its_queue_is_deleted(connection, work, drain):
    told = []
    queue = kombu.Queue("work", on_declared=None)(connection.default_channel)
    queue.consume("mine", callback=lambda message: None)
    connection.default_channel.cancel_callbacks["mine"] = told.append

    with connection.channel() as other:
        work(other).delete()

    assert drain(told, 1) == ["mine"]


def test_expired_message_is_dead_lettered(connection, consume, drain):
    channel = connection.default_channel
    dead = kombu.Queue("dead", kombu.Exchange("graveyard", type="fanout"))
    brief = kombu.Queue("brief", queue_arguments={"x-dead-letter-exchange": "graveyard"})
    dead(channel).declare()
    brief(channel).declare()
    _, messages = consume(dead)

    connection.Producer().publish("old", routing_key="brief", expiration=0.001)
    (message,) = drain(messages, 1)

    assert message.delivery_info["exchange"] == "graveyard"
    (death,) = message.headers["x-death"]
    assert (death["reason"], death["queue"], death["original-expiration"]) == ("expired", "brief", "1")


def test_rpc_over_direct_reply_to(connection, consume, drain):
    # The request goes out on the channel that consumes the replies.
    server, client = connection.channel(), connection.channel()
    _, requests = consume(kombu.Queue("rpc"), channel=server, no_ack=True)
    _, replies = consume(kombu.Queue("amq.rabbitmq.reply-to", no_declare=True), channel=client, no_ack=True)

    request = {"reply_to": "amq.rabbitmq.reply-to", "correlation_id": "7"}
    kombu.Producer(client).publish(20, routing_key="rpc", **request)
    (question,) = drain(requests, 1)
    answer = {"correlation_id": question.properties["correlation_id"]}
    kombu.Producer(server).publish(question.payload + 1, routing_key=question.properties["reply_to"], **answer)

    (reply,) = drain(replies, 1)
    assert (reply.properties["correlation_id"], reply.payload) == ("7", 21)


def test_simple_queue(connection, patience):
    with connection.SimpleQueue("simple") as queue:
        queue.put({"id": 7})
        message = queue.get(timeout=patience)
        message.ack()

        assert message.payload == {"id": 7}
        assert queue.qsize() == 0
        with pytest.raises(Empty):
            queue.get(block=False)


def test_simple_buffer(connection):
    with connection.SimpleBuffer("buffer") as buffer:
        buffer.put("lost when unread")

        assert buffer.get(block=False).payload == "lost when unread"


def test_consumer_mixin(connection, filled, patience):
    class Worker(ConsumerMixin):
        def __init__(self, connection):
            self.connection = connection
            self.seen = []

        def get_consumers(self, Consumer, channel):
            return [Consumer([kombu.Queue("work")], callbacks=[self.on_task], prefetch_count=1)]

        def on_task(self, body, message):
            self.seen.append(body)
            message.ack()
            self.should_stop = len(self.seen) == 5

    worker = Worker(connection)
    worker.run(timeout=patience)

    assert worker.seen == [0, 1, 2, 3, 4]


def test_consumer_producer_mixin(connection, filled, patience, drain):
    class Doubler(ConsumerProducerMixin):
        def __init__(self, connection):
            self.connection = connection

        def get_consumers(self, Consumer, channel):
            return [Consumer([kombu.Queue("work")], callbacks=[self.on_number], prefetch_count=1)]

        def on_number(self, body, message):
            self.producer.publish(2 * body, routing_key="doubled", declare=[kombu.Queue("doubled")], retry=True)
            message.ack()
            self.should_stop = body == 4

    Doubler(connection).run(timeout=patience)

    doubled = kombu.Queue("doubled")(connection.default_channel)
    assert [doubled.get(no_ack=True).payload for _ in range(5)] == [0, 2, 4, 6, 8]


def test_pool_of_producers(connection, work, ready_count):
    try:
        for _ in range(3):
            with producers[connection].acquire(block=True) as producer:
                producer.publish("", routing_key="work", declare=[kombu.Queue("work")])
        with (
            producers[connection].acquire(block=True) as one,
            producers[connection].acquire(block=True) as another,
        ):
            one.publish("", routing_key="work")
            another.publish("", routing_key="work")
            assert one is not another
    finally:
        reset()

    assert ready_count("work") == 5
