"""Random programs of several clients, and an interpreter that runs them on a node.

A program is a list of steps, each a name and a few small numbers. The interpreter decides what a number refers to
(which queue, which outstanding delivery) when it runs the step. So every program can run, and runs the same way every
time.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st
from pamqp import commands
from pamqp.commands import Basic, Channel, Confirm, Exchange, Queue, Tx

from tests.protocol.peer import Peer, Received, Server, declare

Step = tuple[str, int, int, int, int]

QUEUES: dict[str, dict[str, object]] = {
    "plain": {"dead_letter_exchange": "graves"},
    "short": {"max_length": 3, "dead_letter_exchange": "", "dead_letter_routing_key": "plain"},
    "brief": {"message_ttl": 50, "dead_letter_exchange": "", "dead_letter_routing_key": "short"},
    "quorum": {"queue_type": "quorum", "delivery_limit": 1, "dead_letter_exchange": "graves"},
    "patient": {"queue_type": "quorum", "delayed_retry_type": "all", "delayed_retry_min": 30},
    "strict": {"max_length": 2, "overflow": "reject-publish"},
    "ranked": {"max_priority": 3, "max_length_bytes": 40},
    "single": {"single_active_consumer": True},
    "loop": {"message_ttl": 20, "dead_letter_exchange": "", "dead_letter_routing_key": "loop"},
    "grave": {"max_length": 6},
}
KEYS = (*QUEUES, "nowhere")
PREFETCHES = (0, 1, 2)
PLAIN_CHANNEL, CONFIRM_CHANNEL, TX_CHANNEL = 1, 2, 3
CHANNELS = (PLAIN_CHANNEL, CONFIRM_CHANNEL, TX_CHANNEL)
PEER_COUNT = 2

WEIGHTS = {
    "publish": 16,
    "consume": 5,
    "cancel": 2,
    "get": 8,
    "ack": 8,
    "nack": 8,
    "reject": 8,
    "recover": 2,
    "purge": 1,
    "delete": 1,
    "advance": 5,
    "close_channel": 1,
    "lose": 1,
    "break": 1,
    "commit": 4,
    "rollback": 2,
}
NAMES = [name for name, weight in WEIGHTS.items() for _ in range(weight)]
NUMBER = st.integers(0, 11)
STEPS = st.tuples(st.sampled_from(NAMES), NUMBER, NUMBER, NUMBER, NUMBER)


def programs(max_size: int = 60) -> st.SearchStrategy[list[Step]]:
    return st.lists(STEPS, max_size=max_size)


def random_program(seed: int, length: int) -> list[Step]:
    """Return a longer program than Hypothesis likes to draw."""
    dice = random.Random(seed)
    return [(dice.choice(NAMES), *(dice.randrange(12) for _ in range(4))) for _ in range(length)]


@dataclass
class Client:
    """One client's knowledge: the delivery tags to settle and the tags of consumers, by channel."""

    peer: Peer
    outstanding: dict[int, list[int]] = field(default_factory=lambda: {number: [] for number in CHANNELS})
    consumers: dict[int, list[str]] = field(default_factory=lambda: {number: [] for number in CHANNELS})

    def forget(self, channel: int) -> None:
        self.outstanding[channel], self.consumers[channel] = [], []


class Interpreter:
    """An interpreter that runs programs on one server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        # All bytes that each connection was sent, in order of connecting.
        self.octets: list[bytes] = []
        self.body_count = 0
        self.tag_count = 0
        self.clients = [self._connect() for _ in range(PEER_COUNT)]
        self._declare_all(self.clients[0])

    def run(self, program: list[Step]) -> None:
        for name, *numbers in program:
            client = self.clients[numbers[0] % PEER_COUNT]
            channel = CHANNELS[numbers[0] % len(CHANNELS)]
            step: Callable[..., None] = getattr(self, f"_{name}")
            step(client, channel, *numbers[1:])
            self._react()

    def end(self) -> None:
        """Collect what every connection was sent."""
        self._react()
        for client in self.clients:
            self.octets.append(client.peer.output)

    def _connect(self) -> Client:
        peer = self.server.peer(channels=CHANNELS)
        client = Client(peer)
        for number in CHANNELS:
            self._set_up(client, number)
        return client

    def _set_up(self, client: Client, channel: int) -> None:
        if channel == CONFIRM_CHANNEL:
            client.peer.send(channel, Confirm.Select())
        elif channel == TX_CHANNEL:
            client.peer.send(channel, Tx.Select())

    def _declare_all(self, client: Client) -> None:
        exchange = Exchange.Declare(exchange="graves", exchange_type="fanout", durable=True)
        client.peer.send(1, exchange, *(declare(name, **arguments) for name, arguments in QUEUES.items()))
        client.peer.send(1, Queue.Bind(queue="grave", exchange="graves"))
        for name in ("plain", "short", "strict"):
            client.peer.send(1, Queue.Bind(queue=name, exchange="amq.fanout"))

    def _react(self) -> None:
        """Let every client read what has arrived and answer where an answer is due."""
        for _ in range(10):
            received = [(client, client.peer.read()) for client in self.clients]
            if not any(frames for _, frames in received):
                return
            for client, frames in received:
                self._take(client, frames)

    def _take(self, client: Client, frames: list[Received]) -> None:
        auto = self.server.node
        for channel, item in frames:
            if isinstance(item, Basic.Deliver):
                consumer = client.peer.connection.channels.get(channel)
                known = None if consumer is None else consumer.consumers.get(item.consumer_tag)
                if known is None or not known.no_ack:
                    client.outstanding[channel].append(item.delivery_tag)
            elif isinstance(item, Basic.Cancel):
                client.consumers[channel].remove(item.consumer_tag)
            elif isinstance(item, Channel.Close):
                client.forget(channel)
                client.peer.send(channel, Channel.CloseOk(), Channel.Open())
                self._set_up(client, channel)
            elif isinstance(item, commands.Connection.Close):
                self._replace(client)
                return
        assert auto.internal_errors == []

    def _replace(self, client: Client) -> None:
        client.peer.connection.connection_lost()
        self.octets.append(client.peer.output)
        self.clients[self.clients.index(client)] = self._connect()

    def _publish(self, client: Client, channel: int, where: int, priority: int, ttl: int) -> None:
        self.body_count += 1
        properties: dict[str, object] = {"priority": priority} if priority < 6 else {}
        if ttl < 3:
            properties["expiration"] = str(ttl * 20)
        name = KEYS[where % len(KEYS)]
        exchange = "amq.fanout" if priority == 11 else ""
        client.peer.publish(channel, b"%d" % self.body_count, name, exchange, mandatory=ttl % 2 == 0, **properties)

    def _consume(self, client: Client, channel: int, where: int, prefetch: int, no_ack: int) -> None:
        self.tag_count += 1
        tag = f"c{self.tag_count}"
        client.consumers[channel].append(tag)
        client.peer.send(
            channel,
            Basic.Qos(prefetch_count=PREFETCHES[prefetch % 3]),
            Basic.Consume(queue=_queue(where), consumer_tag=tag, no_ack=no_ack == 0),
        )

    def _cancel(self, client: Client, channel: int, which: int, *_: int) -> None:
        if client.consumers[channel]:
            tag = client.consumers[channel].pop(which % len(client.consumers[channel]))
            client.peer.send(channel, Basic.Cancel(consumer_tag=tag))

    def _get(self, client: Client, channel: int, where: int, no_ack: int, _: int) -> None:
        self._react()
        client.peer.send(channel, Basic.Get(queue=_queue(where), no_ack=no_ack == 0))
        received = client.peer.read()
        for _, item in received:
            if isinstance(item, Basic.GetOk) and no_ack:
                client.outstanding[channel].append(item.delivery_tag)
        self._take(client, received)

    def _settle(self, client: Client, channel: int, which: int, multiple: bool) -> int | None:
        tags = sorted(client.outstanding[channel])
        if not tags:
            return None
        tag = tags[which % len(tags)]
        client.outstanding[channel] = [other for other in tags if other > tag or (other < tag and not multiple)]
        return tag

    def _ack(self, client: Client, channel: int, which: int, multiple: int, _: int) -> None:
        tag = self._settle(client, channel, which, multiple < 4)
        if tag is not None:
            client.peer.send(channel, Basic.Ack(tag, multiple < 4))

    def _nack(self, client: Client, channel: int, which: int, multiple: int, requeue: int) -> None:
        tag = self._settle(client, channel, which, multiple < 4)
        if tag is not None:
            client.peer.send(channel, Basic.Nack(tag, multiple < 4, requeue < 6))

    def _reject(self, client: Client, channel: int, which: int, requeue: int, _: int) -> None:
        tag = self._settle(client, channel, which, multiple=False)
        if tag is not None:
            client.peer.send(channel, Basic.Reject(tag, requeue < 6))

    def _recover(self, client: Client, channel: int, *_: int) -> None:
        # Redeliveries have new tags. Deliveries that a transaction holds back do not return.
        client.outstanding[channel] = []
        client.peer.send(channel, Basic.Recover(requeue=True))

    def _purge(self, client: Client, channel: int, where: int, *_: int) -> None:
        client.peer.send(channel, Queue.Purge(queue=_queue(where)))

    def _delete(self, client: Client, channel: int, where: int, *_: int) -> None:
        name = _queue(where)
        client.peer.send(channel, Queue.Delete(queue=name))
        self._react()
        client.peer.send(channel, declare(name, **QUEUES[name]))
        if name == "grave":
            client.peer.send(channel, Queue.Bind(queue="grave", exchange="graves"))

    def _advance(self, client: Client, channel: int, tens_of_ms: int, *_: int) -> None:
        self.server.elapse(tens_of_ms / 100)

    def _close_channel(self, client: Client, channel: int, *_: int) -> None:
        client.forget(channel)
        client.peer.send(channel, Channel.Close(200, "bye", 0, 0), Channel.Open())
        self._set_up(client, channel)

    def _lose(self, client: Client, *_: int) -> None:
        self._replace(client)

    def _break(self, client: Client, channel: int, *_: int) -> None:
        client.peer.send(channel, Basic.Ack(987_654))

    def _commit(self, client: Client, *_: int) -> None:
        client.peer.send(TX_CHANNEL, Tx.Commit())

    def _rollback(self, client: Client, *_: int) -> None:
        client.peer.send(TX_CHANNEL, Tx.Rollback())
        # Settlements that were held back can be made again. Only the broker remembers their tags.
        channel = client.peer.connection.channels[TX_CHANNEL]
        client.outstanding[TX_CHANNEL] = list(channel.unacked)


def _queue(number: int) -> str:
    return list(QUEUES)[number % len(QUEUES)]
