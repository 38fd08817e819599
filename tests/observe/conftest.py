"""Views of messages, and a small world: a real node with connections that have no sockets."""

import random
from contextlib import nullcontext

import pytest

from leveret.core.compat import V4_3
from leveret.core.hooks import Hooks
from leveret.core.model.message import Message
from leveret.core.model.node import Node
from leveret.core.protocol import handlers
from leveret.core.protocol.channel import Channel
from leveret.core.protocol.connection import Connection
from leveret.core.protocol.receiving.assembler import Content
from leveret.core.protocol.rights import UserRights
from leveret.core.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicReject,
    ConfirmSelect,
    QueueDeclare,
)
from leveret.core.wire.properties import Properties
from leveret.core.wire.values import Table
from leveret.observe.assertions.assertions import Assertions
from leveret.observe.views.message_view import MessageView
from leveret.story.timeline import Timeline
from leveret.trace import events
from leveret.trace.ring import EventRing

START = 1_800_000_000_000_000
SECOND = 1_000_000


class Client:
    """A client with one channel. It calls the handlers of methods directly, without bytes."""

    def __init__(self, world, name):
        self.world = world
        number = world.connection_count = world.connection_count + 1
        self.connection = Connection(
            world.node, number=number, peer=("127.0.0.1", 40_000 + number), local=("127.0.0.1", 5672), dirty=[]
        )
        self.connection.user = "guest"
        self.connection.rights = UserRights("guest", self.connection.vhost)
        self.connection.client_properties = Table.from_python({"connection_name": name})
        self.connection.is_dirty = True
        self.connection.data_to_send()
        world.node.connections[number] = self.connection
        world.tap(events.CONN_OPEN, number, None, "127.0.0.1:1", "guest", name, None)
        self.channel = Channel(self.connection, 1)
        self.connection.channels[1] = self.channel

    def declare(self, queue_name):
        """Declare a queue that belongs to this connection."""
        method = QueueDeclare(queue_name, False, False, True, False, True, Table.EMPTY)
        handlers.queue.declare(self.channel, method)

    def consume(self, queue_name, tag, *, prefetch_count=0, no_ack=False):
        handlers.basic.qos(self.channel, BasicQos(0, prefetch_count, False))
        method = BasicConsume(queue_name, tag, False, no_ack, False, True, Table.EMPTY)
        handlers.basic.consume(self.channel, method)
        self.connection.data_to_send()

    def publish(self, exchange, routing_key, properties, body, *, mandatory=False):
        method = BasicPublish(exchange, routing_key, mandatory, False)
        # Bytes that only have to differ where those of the method differ.
        octets = f"{exchange} {routing_key} {mandatory}".encode()
        handlers.basic.publish(self.channel, method, Content(properties.encode(), body, octets))

    def confirm(self):
        """Switch the channel to confirm mode."""
        handlers.confirm.select(self.channel, ConfirmSelect(True))

    def get(self, queue_name):
        handlers.basic.get(self.channel, BasicGet(queue_name, False))

    def ack(self, tag):
        handlers.basic.ack(self.channel, BasicAck(tag, False))

    def reject(self, tag):
        handlers.basic.reject(self.channel, BasicReject(tag, False))
        self.world.sync()

    def requeue(self, tag):
        handlers.basic.nack(self.channel, BasicNack(tag, False, True))


class World:
    """A broker without a server, with the attributes that the assertions need."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.node = Node(compat=V4_3, dice=random.Random(0), now=START, hooks=Hooks(tap=recorder.tap))
        self.vhost = self.node.vhosts["/"]
        self.lock = self.explaining = nullcontext()
        self.connection_count = 0
        # Steps that happen, one after the other, while an assertion waits.
        self.to_come = []
        self.waited = None
        self.assertions = Assertions(self)
        self.name = "the broker"
        # The other brokers of the test.
        self.neighbours = []

    def others(self):
        return self.neighbours

    def timeline(self):
        return Timeline(self.recorder.raw())

    def report(self, messages=(), queues=()):
        return f"state of {self.name}"

    def sync(self):
        self.node.advance(self.node.now, self.node.wall_now)

    def wait_until(self, predicate, timeout):
        self.waited = timeout
        while not predicate():
            if not self.to_come:
                return False
            self.to_come.pop(0)()
        return True

    def elapse(self, seconds):
        self.node.advance(self.node.now + round(seconds * SECOND), self.node.wall_now)

    def tap(self, kind, *fields):
        if self.recorder.tap is not None:
            self.recorder.tap((kind, self.node.now, "/", *fields))

    def begin_test(self, name):
        self.recorder.tap((events.TEST_START, self.node.now, name))

    def end_test(self, name):
        self.recorder.tap((events.TEST_END, self.node.now, name, "passed", 0.1, None))

    def client(self, name="worker"):
        return Client(self, name)

    def queue(self, name, *, exchange=None, routing_key="#", **arguments):
        table = Table.from_python({name.replace("_", "-"): value for name, value in arguments.items()})
        queue = self.vhost.declare_queue(name, arguments=table)
        if exchange is not None:
            self.vhost.bind(self.vhost.exchanges[exchange], queue, routing_key)
        return queue

    def exchange(self, name, type_name="topic"):
        return self.vhost.declare_exchange(name, type_name)

    def publish(self, exchange, routing_key, body=b"", *, by=None, mandatory=False, **properties):
        """Publish as that client, or as the test."""
        decoded = Properties.from_python(properties)
        if by is not None:
            by.publish(exchange, routing_key, decoded, body, mandatory=mandatory)
            by.channel.flush_confirms()
            return
        message = Message(
            self.node.new_message_id(), exchange, routing_key, decoded, decoded.encode(), body, (routing_key,)
        )
        self.tap(events.PUBLISHED, None, None, message, None)
        if not self.vhost.publish(self.vhost.exchanges[exchange], message).is_routed:
            self.vhost.lost(message)
        self.node.run_work()


@pytest.fixture
def world():
    """A world that records all events, with an exchange `orders` and a queue `orders.work` bound to it."""
    world = World(EventRing())
    world.exchange("orders")
    world.queue("orders.work", exchange="orders")
    return world


@pytest.fixture
def make_world():
    """Return a function that makes such a world with another recorder."""

    def make(recorder):
        world = World(recorder)
        world.exchange("orders")
        world.queue("orders.work", exchange="orders")
        return world

    return make


@pytest.fixture
def view():
    """Return a function that makes the view of a message from Python values."""

    def make(body=b"", *, exchange="orders", routing_key="order.created", redelivered=False, **properties):
        decoded = Properties.from_python(properties)
        message = Message(1, exchange, routing_key, decoded, decoded.encode(), body, (routing_key,))
        return MessageView(message, redelivered=redelivered)

    return make
