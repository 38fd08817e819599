"""Consuming with pika's BlockingConnection: acknowledgement, prefetch, cancellation, dead letters, RPC."""

import threading

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker


@pytest.fixture
def filled(channel):
    """The name of a queue that holds the messages 0 to 4."""
    channel.queue_declare("work", durable=True)
    for number in range(5):
        channel.basic_publish("", "work", b"%d" % number)
    return "work"


def bodies(messages):
    return [body for _, _, body in messages]


def test_consume_and_ack(connection, channel, filled):
    seen = []

    def work(channel, method, properties, body):
        seen.append(body)
        channel.basic_ack(method.delivery_tag)
        if len(seen) == 5:
            channel.stop_consuming()

    channel.basic_consume(filled, work)
    channel.start_consuming()
    channel.close()

    assert seen == [b"0", b"1", b"2", b"3", b"4"]
    assert connection.channel().basic_get(filled) == (None, None, None)


def test_unacked_messages_return_when_the_channel_closes(connection, channel, filled, take):
    take(channel, filled, 5)
    channel.close()

    channel = connection.channel()
    returned = take(channel, filled, 5)

    assert [(method.redelivered, body) for method, _, body in returned] == [(True, b"%d" % n) for n in range(5)]


def test_nack_requeues_into_the_old_place(channel, filled):
    first, _, _ = channel.basic_get(filled)
    second, _, _ = channel.basic_get(filled)

    channel.basic_nack(second.delivery_tag)
    channel.basic_nack(first.delivery_tag)

    again = [channel.basic_get(filled) for _ in range(3)]
    assert bodies(again) == [b"0", b"1", b"2"]
    assert [method.redelivered for method, _, _ in again] == [True, True, False]


def test_requeue_and_reject(channel, filled):
    first, _, _ = channel.basic_get(filled)
    second, _, _ = channel.basic_get(filled)

    channel.basic_reject(first.delivery_tag, requeue=True)
    channel.basic_nack(second.delivery_tag, requeue=False)

    again = [channel.basic_get(filled) for _ in range(2)]
    assert [(method.redelivered, body) for method, _, body in again] == [(True, b"0"), (False, b"2")]


def test_multiple_ack_and_nack(channel, filled):
    tags = [channel.basic_get(filled)[0].delivery_tag for _ in range(5)]

    channel.basic_ack(tags[1], multiple=True)
    channel.basic_nack(tags[4], multiple=True)

    assert bodies(channel.basic_get(filled, auto_ack=True) for _ in range(3)) == [b"2", b"3", b"4"]


def test_recover_requeues_what_is_unacked(channel, filled):
    channel.basic_get(filled)

    channel.basic_recover(requeue=True)

    method, _, body = channel.basic_get(filled)
    assert (method.redelivered, body) == (True, b"0")


def test_prefetch_is_enforced(connection, channel, filled, patience):
    held = []
    channel.basic_qos(prefetch_count=2)
    channel.basic_consume(filled, lambda channel, method, properties, body: held.append(method.delivery_tag))

    while len(held) < 2:
        connection.process_data_events(time_limit=patience)
    # Everything that the broker sent before this reply has arrived by the time the reply arrives.
    assert channel.queue_declare(filled, passive=True).method.message_count == 3
    connection.process_data_events(time_limit=0)
    assert len(held) == 2

    channel.basic_ack(held[0])
    while len(held) < 3:
        connection.process_data_events(time_limit=patience)
    assert channel.queue_declare(filled, passive=True).method.message_count == 2


def test_unknown_delivery_tag_closes_the_channel(channel):
    channel.basic_ack(99)

    with pytest.raises(ChannelClosedByBroker, match="PRECONDITION_FAILED - unknown delivery tag 99") as refusal:
        channel.queue_declare("work", durable=True)

    assert refusal.value.reply_code == 406


def test_cancel_gives_no_more_deliveries(connection, channel, filled):
    seen = []
    channel.basic_qos(prefetch_count=1)
    tag = channel.basic_consume(filled, lambda *message: seen.append(message), consumer_tag="mine")
    assert tag == "mine"

    channel.basic_cancel(tag)

    assert channel.queue_declare(filled, passive=True).method.consumer_count == 0


def test_consumer_is_notified_when_its_queue_is_deleted(connection, channel, patience):
    cancelled = []
    channel.queue_declare("work", durable=True)
    channel.add_on_cancel_callback(lambda method: cancelled.append(method.method.consumer_tag))
    tag = channel.basic_consume("work", lambda *message: None)

    connection.channel().queue_delete("work")
    connection.process_data_events(time_limit=patience)

    assert cancelled == [tag]
    assert channel.is_open


def test_exclusive_consumer_keeps_others_out(connection, channel):
    channel.queue_declare("work", durable=True)
    channel.basic_consume("work", lambda *message: None, exclusive=True)

    with pytest.raises(ChannelClosedByBroker, match=r"ACCESS_REFUSED - queue 'work' in vhost .* in exclusive use"):
        connection.channel().basic_consume("work", lambda *message: None)


def test_two_consumers_take_turns(connection, channel, patience):
    channel.queue_declare("work", durable=True)
    seen = {"a": [], "b": []}
    for tag, taken in seen.items():
        channel.basic_consume(
            "work", lambda _, __, ___, body, taken=taken: taken.append(body), consumer_tag=tag, auto_ack=True
        )

    for number in range(4):
        channel.basic_publish("", "work", b"%d" % number)
    while sum(map(len, seen.values())) < 4:
        connection.process_data_events(time_limit=patience)

    assert seen == {"a": [b"0", b"2"], "b": [b"1", b"3"]}


def test_consumer_of_higher_priority_is_served_first(connection, channel, patience):
    channel.queue_declare("work", durable=True)
    seen = []
    for tag, priority in [("low", 1), ("high", 10)]:
        channel.basic_consume(
            "work",
            lambda _, method, __, ___: seen.append(method.consumer_tag),
            consumer_tag=tag,
            auto_ack=True,
            arguments={"x-priority": priority},
        )

    channel.basic_publish("", "work", b"")
    connection.process_data_events(time_limit=patience)

    assert seen == ["high"]


def test_priority_queue_gives_the_highest_first(channel):
    channel.queue_declare("ranked", durable=True, arguments={"x-max-priority": 5})
    for priority in [1, 5, 3]:
        channel.basic_publish("", "ranked", b"%d" % priority, pika.BasicProperties(priority=priority))

    assert bodies(channel.basic_get("ranked", auto_ack=True) for _ in range(3)) == [b"5", b"3", b"1"]


def test_rejected_message_is_dead_lettered(channel, take):
    channel.queue_declare("dead", durable=True)
    channel.queue_declare(
        "work", durable=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    )
    channel.basic_publish("", "work", b"poison", pika.BasicProperties(headers={"mine": 1}))
    channel.basic_reject(channel.basic_get("work")[0].delivery_tag, requeue=False)

    ((method, properties, body),) = take(channel, "dead", 1)

    assert (method.exchange, method.routing_key, body) == ("", "dead", b"poison")
    (death,) = properties.headers["x-death"]
    assert (death["reason"], death["queue"], death["count"]) == ("rejected", "work", 1)
    assert (death["exchange"], death["routing-keys"]) == ("", ["work"])
    assert properties.headers["x-first-death-reason"] == "rejected"
    assert properties.headers["mine"] == 1


def test_expired_message_is_dead_lettered(channel, take):
    channel.queue_declare("dead", durable=True)
    channel.queue_bind("dead", "amq.fanout")
    channel.queue_declare(
        "brief", durable=True, arguments={"x-dead-letter-exchange": "amq.fanout", "x-message-ttl": 10_000}
    )
    channel.basic_publish("", "brief", b"old", pika.BasicProperties(expiration="1"))

    ((method, properties, body),) = take(channel, "dead", 1)

    assert (method.exchange, method.routing_key, body) == ("amq.fanout", "brief", b"old")
    (death,) = properties.headers["x-death"]
    assert (death["reason"], death["queue"], death["original-expiration"]) == ("expired", "brief", "1")
    assert properties.expiration is None


def test_rpc_over_direct_reply_to(connect, patience):
    server, client = connect().channel(), connect().channel()
    server.queue_declare("rpc", durable=True)
    replies = []
    client.basic_consume(
        "amq.rabbitmq.reply-to", lambda _, __, properties, body: replies.append((properties, body)), auto_ack=True
    )

    properties = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id="7")
    client.basic_publish("", "rpc", b"20", properties)
    for _, request, body in server.consume("rpc", auto_ack=True, inactivity_timeout=patience):
        answer = pika.BasicProperties(correlation_id=request.correlation_id)
        server.basic_publish("", request.reply_to, b"%d" % (int(body) + 1), answer)
        break
    client.connection.process_data_events(time_limit=patience)

    assert [(properties.correlation_id, body) for properties, body in replies] == [("7", b"21")]


def test_consuming_in_a_thread_and_stopping_from_another(connect, patience):
    connection = connect()
    channel = connection.channel()
    channel.queue_declare("work", durable=True)
    worked = threading.Event()

    def work(channel, method, properties, body):
        channel.basic_ack(method.delivery_tag)
        worked.set()

    channel.basic_consume("work", work)
    worker = threading.Thread(target=channel.start_consuming)
    worker.start()
    publisher = connect().channel()
    publisher.confirm_delivery()
    publisher.basic_publish("", "work", b"1")

    assert worked.wait(patience)
    connection.add_callback_threadsafe(channel.stop_consuming)
    worker.join(patience)
    assert not worker.is_alive()
