"""Traps that other brokers, fakes and test plugins have fallen into; each test names the issue.

Some of them show only in the bytes. Those tests use `Conversation`, which sends single frames over a plain socket;
pamqp encodes and decodes them. The others use pika. Tests about leveret's own process are in
`test_traps_of_a_broker_in_process.py`.
"""

import socket
from urllib.parse import unquote, urlsplit

import kombu
import pamqp.body
import pamqp.commands as amqp
import pamqp.frame
import pamqp.header
import pika
import pytest
from pika.exceptions import ChannelClosedByBroker

# The smallest frame size that RabbitMQ 4.3 accepts.
FRAME_MAX = 8192


class Conversation:
    """A client that sends and receives single frames on channel 1 of its own connection."""

    def __init__(self, url, patience):
        broker = urlsplit(url)
        self.socket = socket.create_connection((broker.hostname, broker.port), timeout=patience)
        self.stream = self.socket.makefile("rb")
        self.socket.sendall(b"AMQP\x00\x00\x09\x01")
        self.expect(amqp.Connection.Start)
        credentials = f"\0{broker.username}\0{broker.password}"
        self.send(amqp.Connection.StartOk({}, "PLAIN", credentials, "en_US"), channel=0)
        tune = self.expect(amqp.Connection.Tune)
        self.send(amqp.Connection.TuneOk(tune.channel_max, FRAME_MAX, 0), channel=0)
        self.send(amqp.Connection.Open(unquote(broker.path[1:]) or "/"), channel=0)
        self.expect(amqp.Connection.OpenOk)
        self.ask(amqp.Channel.Open(), amqp.Channel.OpenOk)

    def send(self, frame, channel=1):
        self.socket.sendall(pamqp.frame.marshal(frame, channel))

    def publish(self, body, routing_key, **options):
        self.send(amqp.Basic.Publish(routing_key=routing_key, **options))
        self.send(pamqp.header.ContentHeader(body_size=len(body), properties=amqp.Basic.Properties()))
        room = FRAME_MAX - 8
        for start in range(0, len(body), room):
            self.send(pamqp.body.ContentBody(body[start : start + room]))

    def receive(self):
        head = self.stream.read(7)
        assert len(head) == 7, "the broker closed the connection"
        _, _, frame = pamqp.frame.unmarshal(head + self.stream.read(int.from_bytes(head[3:]) + 1))
        return frame

    def expect(self, kind):
        frame = self.receive()
        assert isinstance(frame, kind), f"{frame} instead of {kind.name}"
        return frame

    def ask(self, frame, answer):
        self.send(frame)
        return self.expect(answer)


@pytest.fixture
def conversation(broker_url, patience):
    conversation = Conversation(broker_url, patience)
    with conversation.socket:
        yield conversation
        conversation.send(amqp.Connection.Close(200, "", 0, 0), channel=0)


@pytest.fixture
def connection(broker_url, patience):
    parameters = pika.URLParameters(broker_url)
    parameters.blocked_connection_timeout = parameters.socket_timeout = patience
    with pika.BlockingConnection(parameters) as connection:
        yield connection


@pytest.fixture
def channel(connection):
    return connection.channel()


@pytest.fixture
def take(channel, patience):
    """Return a function that waits for the next message of a queue and returns its (method, properties, body)."""

    def take(queue):
        message = next(channel.consume(queue, inactivity_timeout=patience))
        channel.cancel()
        assert message != (None, None, None)
        return message

    return take


def test_body_larger_than_frame_max_comes_in_several_frames(conversation):
    """amqp-mock cuts the body at the end of the first frame."""
    body = bytes(range(250)) * 80
    conversation.ask(amqp.Queue.Declare(queue="work", durable=True), amqp.Queue.DeclareOk)

    conversation.publish(body, "work")
    conversation.ask(amqp.Basic.Get(queue="work", no_ack=True), amqp.Basic.GetOk)

    assert conversation.expect(pamqp.header.ContentHeader).body_size == len(body)
    parts = [conversation.expect(pamqp.body.ContentBody).value for _ in range(3)]
    assert [len(part) for part in parts] == [FRAME_MAX - 8, FRAME_MAX - 8, len(body) - 2 * (FRAME_MAX - 8)]
    assert b"".join(parts) == body


def test_empty_body_message_is_header_only(conversation):
    """A client would read a body frame after a header with body size 0 as the next frame of something else."""
    conversation.ask(amqp.Queue.Declare(queue="work", durable=True), amqp.Queue.DeclareOk)

    conversation.publish(b"", "work")
    conversation.ask(amqp.Basic.Get(queue="work", no_ack=True), amqp.Basic.GetOk)

    assert conversation.expect(pamqp.header.ContentHeader).body_size == 0
    conversation.ask(amqp.Queue.Purge(queue="work"), amqp.Queue.PurgeOk)


def test_mandatory_return_comes_before_its_ack(conversation):
    """Clients rely on this order to find the returned publish (aiormq#9)."""
    conversation.ask(amqp.Confirm.Select(), amqp.Confirm.SelectOk)

    conversation.publish(b"back", "nowhere", mandatory=True)

    returned = conversation.expect(amqp.Basic.Return)
    assert (returned.reply_code, returned.reply_text, returned.routing_key) == (312, "NO_ROUTE", "nowhere")
    conversation.expect(pamqp.header.ContentHeader)
    assert conversation.expect(pamqp.body.ContentBody).value == b"back"
    assert conversation.expect(amqp.Basic.Ack).delivery_tag == 1


def test_no_ack_is_sent_without_confirm_select(conversation):
    """amqp-mock confirms every publish; a client that did not ask for confirms cannot handle one."""
    conversation.ask(amqp.Queue.Declare(queue="work", durable=True), amqp.Queue.DeclareOk)

    conversation.publish(b"", "work")

    assert conversation.ask(amqp.Queue.Purge(queue="work"), amqp.Queue.PurgeOk).message_count == 1


HASH_CASES = [
    ("#.x", "x", True),
    ("#.x", "a.x", True),
    ("#.x", "a.x.x", True),
    ("#.x", "x.a", False),
    ("#", "", True),
    ("a.#", "a", True),
    ("a.#", "a.b.c", True),
    ("a.#.c", "a.c", True),
    ("a.#.c", "a.b.c.b.c", True),
    ("a.#.c", "a.c.b", False),
    ("#.b.#", "a.b", True),
    ("#.b.#", "b", True),
    ("#.b.#", "a.bb.c", False),
    ("*.#.c", "c", False),
    ("*.#.c", "c.c", True),
]


@pytest.mark.parametrize(("pattern", "routing_key", "is_match"), HASH_CASES)
def test_hash_matches_zero_or_more_words_with_backtracking(channel, pattern, routing_key, is_match):
    """FastStream's test broker compares word by word and never goes back."""
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, "amq.topic", pattern)

    channel.basic_publish("amq.topic", routing_key, b"")

    method, _, _ = channel.basic_get(queue, auto_ack=True)
    assert (method is not None) == is_match


def test_expiration_ends_with_dead_lettering(channel, take):
    """TTL reset after dead-lettering: a message that kept its expiration would vanish from the queue that parks it
    (rabbitmq-mock#28).
    """
    channel.queue_declare("parked", durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "parked"}
    channel.queue_declare("brief", durable=True, arguments=arguments)

    channel.basic_publish("", "brief", b"old", pika.BasicProperties(expiration="1"))
    _, properties, body = take("parked")

    assert body == b"old"
    assert properties.expiration is None
    assert properties.headers["x-death"][0]["original-expiration"] == "1"


def test_ttl_begins_anew_in_the_next_queue(channel, take):
    """TTL reset after dead-lettering: each queue counts its own TTL from the message's arrival (rabbitmq-mock#28)."""
    for name, successor in [("first", "second"), ("second", "third")]:
        arguments = {"x-message-ttl": 5, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": successor}
        channel.queue_declare(name, durable=True, arguments=arguments)
    channel.queue_declare("third", durable=True)

    channel.basic_publish("", "first", b"")
    _, properties, _ = take("third")

    assert [(death["queue"], death["reason"]) for death in properties.headers["x-death"]] == [
        ("second", "expired"),
        ("first", "expired"),
    ]


def test_message_expires_without_a_consumer(channel, take):
    """A fake that looks at the clock only during a consume never dead-letters on time (rabbitmq-mock#28)."""
    arguments = {"x-message-ttl": 1, "x-dead-letter-exchange": "amq.fanout"}
    channel.queue_declare("unread", durable=True, arguments=arguments)
    channel.queue_declare("dead", durable=True)
    channel.queue_bind("dead", "amq.fanout")

    channel.basic_publish("", "unread", b"old")

    assert take("dead")[2] == b"old"
    assert channel.queue_declare("unread", passive=True).method.message_count == 0


def test_tx_is_reusable_after_commit(channel):
    """The channel stays transactional: publishes after a commit wait for the next commit (rabbitmq-mock#71)."""
    channel.queue_declare("work", durable=True)
    channel.tx_select()
    counts = []

    for _ in range(2):
        channel.basic_publish("", "work", b"")
        counts.append(channel.queue_declare("work", passive=True).method.message_count)
        channel.tx_commit()
        counts.append(channel.queue_declare("work", passive=True).method.message_count)

    assert counts == [0, 1, 1, 2]


def test_delete_of_a_missing_queue_is_delete_ok(channel):
    """RabbitMQ answers delete-ok since 3.2, not 404 (spring-boot#7018)."""
    assert channel.queue_delete("missing").method.message_count == 0
    channel.exchange_delete("missing")

    assert channel.is_open


def test_unknown_delivery_tag_closes_the_channel_with_406(channel):
    """A second ack of a message is a bug that tests should see (fake-amqplib since 3.0)."""
    channel.queue_declare("work", durable=True)
    channel.basic_publish("", "work", b"")
    method, _, _ = channel.basic_get("work")
    channel.basic_ack(method.delivery_tag)
    channel.basic_ack(method.delivery_tag)

    with pytest.raises(ChannelClosedByBroker) as refusal:
        channel.queue_declare("work", passive=True)

    assert (refusal.value.reply_code, refusal.value.reply_text) == (
        406,
        "PRECONDITION_FAILED - unknown delivery tag 1",
    )


def test_redelivered_is_set_after_nack_with_requeue(channel):
    """Consumers use this flag to decide whether they may have seen a message before (rabbitmq-mock#50)."""
    channel.queue_declare("work", durable=True)
    channel.basic_publish("", "work", b"")
    first, _, _ = channel.basic_get("work")

    channel.basic_nack(first.delivery_tag, requeue=True)
    second, _, _ = channel.basic_get("work")

    assert (first.redelivered, second.redelivered) == (False, True)


def test_cancel_is_sent_to_consumers_whose_queue_is_deleted(connection, channel, patience):
    """Without it, a consumer waits for ever on a deleted queue (aio-pika#334)."""
    channel.queue_declare("work", durable=True)
    cancelled = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    tags = {channel.basic_consume("work", lambda *message: None) for _ in range(2)}

    connection.channel().queue_delete("work")
    while len(cancelled) < 2:
        connection.process_data_events(time_limit=patience)

    assert set(cancelled) == tags


def test_prefetch_is_enforced(connection, channel, patience):
    """In rabbitmq-mock basic.qos does nothing, so code that forgets it passes its tests (rabbitmq-mock#271)."""
    channel.queue_declare("work", durable=True)
    for number in range(5):
        channel.basic_publish("", "work", b"%d" % number)
    held = []
    channel.basic_qos(prefetch_count=3)
    channel.basic_consume("work", lambda channel, method, properties, body: held.append(body))

    while len(held) < 3:
        connection.process_data_events(time_limit=patience)

    assert channel.queue_declare("work", passive=True).method.message_count == 2
    connection.process_data_events(time_limit=0)
    assert held == [b"0", b"1", b"2"]


def test_headers_exchange_is_not_fanout(channel):
    """FakeRabbitMQ routes a headers exchange like a fanout exchange."""
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, "amq.headers", arguments={"x-match": "all", "kind": "pdf"})

    for kind in ["zip", "pdf"]:
        channel.basic_publish("amq.headers", "", kind.encode(), pika.BasicProperties(headers={"kind": kind}))

    method, _, body = channel.basic_get(queue, auto_ack=True)
    assert (body, method.message_count) == (b"pdf", 0)


def test_exchange_to_exchange_binding_routes(channel):
    """MockForge answers exchange.bind-ok and does nothing."""
    channel.exchange_declare("source", exchange_type="direct", durable=True)
    channel.exchange_declare("destination", exchange_type="fanout", durable=True)
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.exchange_bind(destination="destination", source="source", routing_key="yes")
    channel.queue_bind(queue, "destination")

    for key in ["no", "yes"]:
        channel.basic_publish("source", key, key.encode())

    method, _, body = channel.basic_get(queue, auto_ack=True)
    assert (body, method.exchange, method.message_count) == (b"yes", "source", 0)


def test_kombu_branches_on_the_server_properties(broker_url):
    """kombu and celery choose how prefetch works by product and version (kombu's `qos_semantics_matches_spec`)."""
    with kombu.Connection(broker_url) as connection:
        assert connection.qos_semantics_matches_spec is True
        properties = connection.connection.server_properties

    assert properties["product"] == "RabbitMQ"
    assert properties["version"].startswith("4.3")
    assert properties["capabilities"]["consumer_cancel_notify"] is True
