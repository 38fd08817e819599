"""Publishing and consuming with py-amqp.

py-amqp has no `basic.nack`. In headers it writes bytes as `S`, so they come back as text. It writes a large integer as
`L` and reads a timestamp as a naive UTC datetime.
"""

from datetime import datetime
from decimal import Decimal

import amqp
import pytest
from amqp.exceptions import MessageNacked, PreconditionFailed

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
def filled(channel):
    """The name of a queue that holds the messages 0 to 4."""
    channel.queue_declare("work", durable=True, auto_delete=False)
    for number in range(5):
        channel.basic_publish(amqp.Message(str(number)), "", "work")
    return "work"


def test_confirmed_publish(channel, ready_count):
    channel.queue_declare("work", durable=True, auto_delete=False)

    for number in range(3):
        channel.basic_publish(amqp.Message(str(number)), "", "work")

    assert ready_count("work") == 3


def test_confirms_reach_the_listener(connect, patience):
    connection = connect()
    channel = connection.channel()
    confirmed = []
    channel.events["basic_ack"].add(lambda tag, multiple: confirmed.append(tag))
    channel.confirm_select()

    for _ in range(3):
        channel.basic_publish(amqp.Message(""), "", "nowhere")
    while not confirmed or confirmed[-1] < 3:
        connection.drain_events(timeout=patience)

    assert confirmed == sorted(confirmed)


def test_mandatory_publish_without_route_is_returned(channel):
    returned = []
    channel.events["basic_return"].add(lambda error, exchange, key, message: returned.append((error, key, message)))

    channel.basic_publish(amqp.Message("back"), "", "nowhere", mandatory=True)

    ((error, key, message),) = returned
    assert (error.reply_code, error.message, key, message.body) == (312, "NO_ROUTE", "nowhere", "back")


def test_full_queue_nacks_the_publish(channel):
    arguments = {"x-max-length": 0, "x-overflow": "reject-publish"}
    channel.queue_declare("full", durable=True, auto_delete=False, arguments=arguments)

    with pytest.raises(MessageNacked):
        channel.basic_publish(amqp.Message(""), "", "full")


def test_tx_commit_and_rollback(connect, filled, ready_count):
    channel = connect().channel()
    channel.tx_select()

    channel.basic_publish(amqp.Message("taken back"), "", "work")
    channel.tx_rollback()
    channel.basic_publish(amqp.Message("5"), "", "work")
    assert ready_count("work") == 5
    channel.tx_commit()
    assert ready_count("work") == 6

    message = channel.basic_get("work")
    channel.basic_ack(message.delivery_tag)
    channel.close()
    assert ready_count("work") == 6


def test_body_of_five_megabytes(channel):
    body = bytes(range(256)) * (5 * 4096)
    channel.queue_declare("work", durable=True, auto_delete=False)

    channel.basic_publish(amqp.Message(body), "", "work")

    assert channel.basic_get("work", no_ack=True).body == body


def test_headers_of_every_type_come_back(channel):
    channel.queue_declare("work", durable=True, auto_delete=False)

    channel.basic_publish(amqp.Message("", application_headers=HEADERS), "", "work")

    assert channel.basic_get("work", no_ack=True).headers == HEADERS


def test_properties_come_back(channel):
    sent = {
        "content_type": "application/json",
        "content_encoding": "utf-8",
        "delivery_mode": 2,
        "priority": 9,
        "correlation_id": "c",
        "reply_to": "r",
        "expiration": "60000",
        "message_id": "m",
        "timestamp": 1_767_312_000,
        "type": "t",
        "user_id": "guest",
        "app_id": "a",
        "cluster_id": "k",
    }
    channel.queue_declare("work", durable=True, auto_delete=False)

    channel.basic_publish(amqp.Message("{}", **sent), "", "work")

    assert channel.basic_get("work", no_ack=True).properties == sent


def test_consume_and_ack(channel, filled, drain, ready_count):
    messages = []
    channel.basic_consume(filled, callback=messages.append)

    drain(messages, 5)
    channel.basic_ack(messages[-1].delivery_tag, multiple=True)
    channel.close()

    assert [message.body for message in messages] == ["0", "1", "2", "3", "4"]
    assert ready_count(filled) == 0


def test_requeue_and_reject(channel, filled):
    first, second = channel.basic_get(filled), channel.basic_get(filled)

    channel.basic_reject(first.delivery_tag, requeue=True)
    channel.basic_reject(second.delivery_tag, requeue=False)

    again = [channel.basic_get(filled) for _ in range(2)]
    assert [(message.delivery_info["redelivered"], message.body) for message in again] == [(True, "0"), (False, "2")]


def test_recover_requeues_what_is_unacked(channel, filled):
    channel.basic_get(filled)

    channel.basic_recover(requeue=True)

    message = channel.basic_get(filled)
    assert (message.delivery_info["redelivered"], message.body) == (True, "0")


def test_prefetch_is_enforced(channel, filled, drain, ready_count):
    held = []
    channel.basic_qos(prefetch_size=0, prefetch_count=2, a_global=False)
    channel.basic_consume(filled, callback=held.append)

    drain(held, 2)
    assert ready_count(filled) == 3
    assert len(held) == 2

    channel.basic_ack(held[0].delivery_tag)
    assert drain(held, 3)[2].body == "2"


def test_cancel_gives_no_more_deliveries(channel, filled, drain, ready_count):
    held = []
    channel.basic_qos(prefetch_size=0, prefetch_count=1, a_global=False)
    tag = channel.basic_consume(filled, callback=held.append)
    drain(held, 1)

    channel.basic_cancel(tag)
    channel.basic_ack(held[0].delivery_tag)

    assert ready_count(filled) == 4
    assert len(held) == 1


def test_consumer_is_notified_when_its_queue_is_deleted(connection, channel, filled, drain):
    cancelled = []
    tag = channel.basic_consume(filled, callback=lambda message: None, on_cancel=cancelled.append)

    with connection.channel() as other:
        other.queue_delete(filled)

    assert drain(cancelled, 1) == [tag]


def test_unknown_delivery_tag_closes_the_channel(channel):
    channel.basic_ack(3)

    with pytest.raises(PreconditionFailed, match="PRECONDITION_FAILED - unknown delivery tag 3"):
        channel.queue_declare("work", durable=True)


def test_expired_message_is_dead_lettered(channel, drain):
    dead = []
    channel.queue_declare("dead", durable=True, auto_delete=False)
    channel.queue_bind("dead", "amq.fanout")
    arguments = {"x-dead-letter-exchange": "amq.fanout"}
    channel.queue_declare("brief", durable=True, auto_delete=False, arguments=arguments)
    channel.basic_consume("dead", callback=dead.append)

    channel.basic_publish(amqp.Message("old", expiration="1"), "", "brief")
    (message,) = drain(dead, 1)

    assert (message.delivery_info["exchange"], message.delivery_info["routing_key"]) == ("amq.fanout", "brief")
    (death,) = message.headers["x-death"]
    assert (death["reason"], death["queue"], death["original-expiration"]) == ("expired", "brief", "1")


def test_rpc_over_direct_reply_to(connection, channel, drain):
    requests, replies = [], []
    server = connection.channel()
    server.queue_declare("rpc", durable=True, auto_delete=False)
    server.basic_consume("rpc", callback=requests.append, no_ack=True)
    channel.basic_consume("amq.rabbitmq.reply-to", callback=replies.append, no_ack=True)

    channel.basic_publish(amqp.Message("20", reply_to="amq.rabbitmq.reply-to", correlation_id="7"), "", "rpc")
    (request,) = drain(requests, 1)
    answer = amqp.Message(str(int(request.body) + 1), correlation_id=request.properties["correlation_id"])
    server.basic_publish(answer, "", request.properties["reply_to"])

    (reply,) = drain(replies, 1)
    assert (reply.properties["correlation_id"], reply.body) == ("7", "21")
