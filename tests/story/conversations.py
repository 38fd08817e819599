"""Random conversations with every type of queue, faults, restarts and resets, for what reads the events of a broker.

`python -m tests.story.conversations --count 20000` holds the timeline to the broker in that many.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable

from pamqp.commands import Basic, Exchange, Queue

from leveret.core.protocol.connection import Connection
from leveret.story.timeline import Timeline
from tests.faults.world import FaultyServer
from tests.properties.programs import NAMES, PLAIN_CHANNEL, TX_CHANNEL, Client, Interpreter, Step
from tests.protocol.peer import declare

# Steps beside those of the programs, as often as each stands here.
MORE_NAMES = (
    *("stream_publish", "stream_publish", "stream_publish", "stream_consume", "stream_ack", "stream_ack"),
    *("rebind", "rebind", "unbind", "route", "route", "delete_exchange"),
    *("own_queue", "own_queue", "fleeting_queue", "fault", "fault", "restart", "reset"),
)
# None of those that hold a delivery back: until it is sent, only the broker knows of it.
FAULTS: tuple[tuple[str, dict[str, object]], ...] = (
    *(("drop", {"on": on}) for on in ("basic.publish", "basic.deliver", "basic.ack")),
    *(("duplicate", {}), ("redeliver", {}), ("expire", {}), ("nack_publishes", {})),
    *(("withhold_confirms", {}), ("cancel_consumers", {"on": "basic.ack"}), ("close_channel", {"on": "basic.publish"})),
    *((name, {"on": "basic.ack"}) for name in ("close_connection", "reset_peer")),
    ("reset_peer", {"on": "basic.publish", "when": "after"}),
)
STREAM = "log"


def conversation(seed: int, length: int = 120) -> list[Step]:
    """Return a random program with the further steps in it."""
    dice = random.Random(seed)
    names = (*NAMES, *MORE_NAMES)
    return [(dice.choice(names), *(dice.randrange(12) for _ in range(4))) for _ in range(length)]


class Conversation(Interpreter):
    """An interpreter with further steps. Its timeline is fed after each."""

    server: FaultyServer

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._begin()

    def _begin(self) -> None:
        super().__init__(FaultyServer(seed=self._seed))
        self.timeline = Timeline()
        self._taken = 0

    def run(self, program: list[Step]) -> None:
        for step in program:
            super().run([step])
            for client in self.clients:
                if client.peer.connection.is_closed:
                    self._replace(client)
            self.take()

    def take(self) -> None:
        """Feed the timeline with what is new."""
        trace = self.server.trace
        self.timeline.take(trace[self._taken :])
        self._taken = len(trace)

    @property
    def connections(self) -> list[Connection]:
        """The connections of the clients."""
        return [client.peer.connection for client in self.clients]

    def _declare_all(self, client: Client) -> None:
        super()._declare_all(client)
        exchange = Exchange.Declare(exchange="shop", exchange_type="topic", durable=True)
        client.peer.send(PLAIN_CHANNEL, exchange, declare(STREAM, queue_type="stream"))

    def _stream_publish(self, client: Client, channel: int, *_: int) -> None:
        client.peer.publish(channel, b"entry", STREAM)

    def _stream_consume(self, client: Client, channel: int, *_: int) -> None:
        self.tag_count += 1
        tag = f"s{self.tag_count}"
        client.consumers[channel].append(tag)
        consume = Basic.Consume(queue=STREAM, consumer_tag=tag, arguments={"x-stream-offset": "first"})
        client.peer.send(channel, Basic.Qos(prefetch_count=2), consume)

    def _stream_ack(self, client: Client, channel: int, which: int, *_: int) -> None:
        self._ack(client, channel, which, 11, 0)

    def _recover(self, client: Client, channel: int, *numbers: int) -> None:
        # It ends the deliveries of a stream, which gives nothing back, and no event says so.
        state = client.peer.connection.channels.get(channel)
        if state is None or all(delivery.queue.type_name != "stream" for delivery in state.unacked.values()):
            super()._recover(client, channel, *numbers)

    def _rollback(self, client: Client, *numbers: int) -> None:
        # A fault may have ended the channel.
        if TX_CHANNEL in client.peer.connection.channels:
            super()._rollback(client, *numbers)

    def _rebind(self, client: Client, channel: int, where: int, *_: int) -> None:
        queue = ("plain", "ranked", "grave")[where % 3]
        client.peer.send(channel, *[Queue.Bind(queue=queue, exchange="shop", routing_key="order.#")] * (1 + where % 2))

    def _unbind(self, client: Client, channel: int, where: int, *_: int) -> None:
        queue = ("plain", "ranked", "grave")[where % 3]
        client.peer.send(channel, Queue.Unbind(queue=queue, exchange="shop", routing_key="order.#"))

    def _route(self, client: Client, channel: int, *_: int) -> None:
        client.peer.publish(channel, b"order", "order.paid", "shop")

    def _delete_exchange(self, client: Client, channel: int, *_: int) -> None:
        exchange = Exchange.Declare(exchange="shop", exchange_type="topic", durable=True)
        client.peer.send(channel, Exchange.Delete(exchange="shop"), exchange)

    def _own_queue(self, client: Client, channel: int, where: int, *_: int) -> None:
        """Declare a queue that goes with its connection, or with its last consumer, and consume it."""
        self.tag_count += 1
        name, tag = f"own{self.tag_count}", f"o{self.tag_count}"
        client.consumers[channel].append(tag)
        own = Queue.Declare(queue=name, exclusive=where % 2 == 0, auto_delete=where % 3 == 0)
        client.peer.send(channel, own, Basic.Consume(queue=name, consumer_tag=tag))
        client.peer.publish(channel, b"own", name)

    def _fleeting_queue(self, client: Client, channel: int, where: int, *_: int) -> None:
        client.peer.send(channel, declare(f"fleeting{where}", expires=50))
        client.peer.publish(channel, b"soon gone", f"fleeting{where}")

    def _fault(self, client: Client, channel: int, which: int, *_: int) -> None:
        name, options = FAULTS[which % len(FAULTS)]
        add: Callable[..., object] = getattr(self.server.faults, name)
        add(times=1, optional=True, **options)

    def _restart(self, client: Client, channel: int, rarely: int, *_: int) -> None:
        if rarely == 0:
            for connection in self.connections:
                connection.connection_lost()
            self.server.node.restart()
            for each in list(self.clients):
                self._replace(each)

    def _reset(self, client: Client, channel: int, rarely: int, *_: int) -> None:
        """Begin anew, as a broker that was reset: everything counts from 1 again."""
        if rarely == 0:
            self._begin()


def main() -> None:
    """Run as many conversations as the command line says."""
    from tests.story.test_timeline import differences

    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    differing = 0
    for seed in range(options.first, options.first + options.count):
        found = differences(seed)
        differing += bool(found)
        if found:
            print(f"seed {seed}: {found}", flush=True)
    print(f"{options.count} conversations, {differing} differ")


if __name__ == "__main__":
    main()
