"""Publishing and consuming with pika's callback adapters.

pika cannot write a float (`UnsupportedAMQPFieldException`), so the headers of every other type contain none.
"""

from datetime import UTC, datetime
from decimal import Decimal

import pika
import pytest

HEADERS = {
    "text": "grün",
    "octets": b"\x00\xff",
    "yes": True,
    "small": -5,
    "large": 2**40,
    "price": Decimal("3.14"),
    "when": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    "nothing": None,
    "list": [1, "two", None, [3], {"four": 4}],
    "table": {"inner": {"deep": True}},
}


@pytest.fixture
def filled(client, channel):
    """The name of a queue that holds the messages 0 to 4."""
    client.ask(channel.queue_declare, "work", durable=True)
    for number in range(5):
        channel.basic_publish("", "work", b"%d" % number)
    return "work"


def get(client, channel, queue):
    """Return the method, properties and body of the next message."""
    return client.ask(channel.basic_get, queue)[1:]


def test_confirmed_publish(client, channel):
    confirmed = client.mailbox()
    client.ask(channel.queue_declare, "work", durable=True)
    client.ask(channel.confirm_delivery, confirmed)

    for number in range(10):
        channel.basic_publish("", "work", b"%d" % number)
    highest = 0
    while highest < 10:
        method = confirmed.take().method
        assert method.NAME == "Basic.Ack"
        highest = max(highest, method.delivery_tag)

    assert client.ask(channel.queue_declare, "work", passive=True).method.message_count == 10


def test_full_queue_nacks_the_publish(client, channel):
    confirmed = client.mailbox()
    arguments = {"x-max-length": 0, "x-overflow": "reject-publish"}
    client.ask(channel.queue_declare, "full", durable=True, arguments=arguments)
    client.ask(channel.confirm_delivery, confirmed)

    channel.basic_publish("", "full", b"")

    assert confirmed.take().method.NAME == "Basic.Nack"


def test_mandatory_publish_without_route_is_returned(client, channel):
    calls = client.mailbox()
    channel.add_on_return_callback(lambda channel, method, properties, body: calls(("return", method, body)))
    client.ask(channel.confirm_delivery, lambda frame: calls(("confirm", frame.method)))

    channel.basic_publish("", "nowhere", b"back", mandatory=True)
    kind, method, body = calls.take()

    assert (kind, method.reply_code, method.routing_key, body) == ("return", 312, "nowhere", b"back")
    kind, method = calls.take()
    assert (kind, method.NAME, method.delivery_tag) == ("confirm", "Basic.Ack", 1)


def test_tx_commit_and_rollback(client, channel):
    client.ask(channel.queue_declare, "work", durable=True)
    client.ask(channel.tx_select)

    channel.basic_publish("", "work", b"taken back")
    client.ask(channel.tx_rollback)
    channel.basic_publish("", "work", b"kept")
    assert client.ask(channel.queue_declare, "work", passive=True).method.message_count == 0
    client.ask(channel.tx_commit)

    method, _, body = get(client, channel, "work")
    assert (body, method.message_count) == (b"kept", 0)


def test_body_of_five_megabytes(client, channel):
    body = bytes(range(256)) * (5 * 4096)
    delivered = client.mailbox()
    client.ask(channel.queue_declare, "work", durable=True)
    client.ask(channel.basic_consume, "work", delivered)

    channel.basic_publish("", "work", body)

    assert delivered.take()[3] == body


def test_headers_of_every_type_come_back(client, channel):
    client.ask(channel.queue_declare, "work", durable=True)

    channel.basic_publish("", "work", b"", pika.BasicProperties(headers=HEADERS))

    assert get(client, channel, "work")[1].headers == HEADERS


def test_consume_and_ack(client, channel, filled):
    delivered = client.mailbox()
    client.ask(channel.basic_consume, filled, delivered)

    taken = [delivered.take() for _ in range(5)]
    channel.basic_ack(taken[-1][1].delivery_tag, multiple=True)
    closed = client.mailbox()
    channel.add_on_close_callback(closed)
    channel.close()
    closed.take()

    assert [body for _, _, _, body in taken] == [b"0", b"1", b"2", b"3", b"4"]
    channel = client.channel()
    assert client.ask(channel.queue_declare, filled, passive=True).method.message_count == 0


def test_requeue_and_reject(client, channel, filled):
    first, second = get(client, channel, filled)[0], get(client, channel, filled)[0]
    channel.basic_nack(first.delivery_tag)
    channel.basic_reject(second.delivery_tag, requeue=False)

    again = [get(client, channel, filled) for _ in range(2)]

    assert [(method.redelivered, body) for method, _, body in again] == [(True, b"0"), (False, b"2")]


def test_recover_requeues_what_is_unacked(client, channel, filled):
    get(client, channel, filled)

    client.ask(channel.basic_recover, requeue=True)

    assert get(client, channel, filled)[0].redelivered is True


def test_prefetch_is_enforced(client, channel, filled):
    delivered = client.mailbox()
    client.ask(channel.basic_qos, prefetch_count=2)
    client.ask(channel.basic_consume, filled, delivered)

    held = [delivered.take() for _ in range(2)]
    assert client.ask(channel.queue_declare, filled, passive=True).method.message_count == 3
    assert not delivered.calls

    channel.basic_ack(held[0][1].delivery_tag)
    assert delivered.take()[3] == b"2"


def test_cancel_gives_no_more_deliveries(client, channel, filled):
    delivered = client.mailbox()
    client.ask(channel.basic_qos, prefetch_count=1)
    tag = client.ask(channel.basic_consume, filled, delivered).method.consumer_tag
    _, method, _, _ = delivered.take()

    client.ask(channel.basic_cancel, tag)
    channel.basic_ack(method.delivery_tag)

    assert client.ask(channel.queue_declare, filled, passive=True).method.message_count == 4
    assert not delivered.calls


def test_consumer_is_notified_when_its_queue_is_deleted(client, channel):
    cancelled = client.mailbox()
    channel.add_on_cancel_callback(cancelled)
    client.ask(channel.queue_declare, "work", durable=True)
    tag = client.ask(channel.basic_consume, "work", lambda *message: None).method.consumer_tag

    client.ask(client.channel().queue_delete, "work")

    assert cancelled.take().method.consumer_tag == tag


def test_unknown_delivery_tag_closes_the_channel(client, channel):
    closed = client.mailbox()
    channel.add_on_close_callback(closed)

    channel.basic_ack(1)
    _, reason = closed.take()

    assert (reason.reply_code, reason.reply_text) == (406, "PRECONDITION_FAILED - unknown delivery tag 1")


def test_expired_message_is_dead_lettered(client, channel):
    dead = client.mailbox()
    client.ask(channel.queue_declare, "dead", durable=True)
    client.ask(channel.queue_bind, "dead", "amq.fanout")
    arguments = {"x-dead-letter-exchange": "amq.fanout", "x-message-ttl": 1}
    client.ask(channel.queue_declare, "brief", durable=True, arguments=arguments)
    client.ask(channel.basic_consume, "dead", dead)

    channel.basic_publish("", "brief", b"old")
    _, method, properties, body = dead.take()

    assert (method.exchange, method.routing_key, body) == ("amq.fanout", "brief", b"old")
    (death,) = properties.headers["x-death"]
    assert (death["reason"], death["queue"], death["count"]) == ("expired", "brief", 1)


def test_rpc_over_direct_reply_to(client, channel):
    requests, replies = client.mailbox(), client.mailbox()
    server = client.channel()
    client.ask(server.queue_declare, "rpc", durable=True)
    client.ask(server.basic_consume, "rpc", requests, auto_ack=True)
    client.ask(channel.basic_consume, "amq.rabbitmq.reply-to", replies, auto_ack=True)

    request = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id="7")
    channel.basic_publish("", "rpc", b"20", request)
    _, _, received, body = requests.take()
    answer = pika.BasicProperties(correlation_id=received.correlation_id)
    server.basic_publish("", received.reply_to, b"%d" % (int(body) + 1), answer)

    _, _, properties, body = replies.take()
    assert (properties.correlation_id, body) == ("7", b"21")
