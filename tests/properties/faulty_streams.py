"""Random conversations under random faults on bytes, and the promise that holds for all of them.

For each connection and direction, what was received is a prefix of what was sent, except for the byte that `corrupt`
inverts. It is all that was sent, if no fault and no mistake of a client ended the connection.

    python -m tests.properties.faulty_streams --cases 10000
"""

from __future__ import annotations

import argparse
import collections
import random
import sys
from dataclasses import dataclass, field

from pamqp.commands import Basic, Channel

from leveret.core.protocol.connection import Connection, Reader
from leveret.core.protocol.receiving.reading import ConnectionInput
from leveret.faults import Rule
from tests.faults.world import FaultyServer
from tests.protocol.peer import Peer, declare, octets, publish_octets, select

DIRECTIONS = ("both", "to_client", "to_broker")
# The moments at which a rule may put its fault on a connection.
MOMENTS = (None, None, None, "basic.publish", "basic.ack", "basic.deliver", "delivered", "acked")
PEER_COUNT = 3
STEP_COUNT = 40


@dataclass
class Direction:
    """What one side of a connection has sent, and what the other has received."""

    sent: bytearray = field(default_factory=bytearray)
    received: bytearray = field(default_factory=bytearray)
    # Where a byte was inverted, by how many faults.
    inverted: collections.Counter[int] = field(default_factory=collections.Counter)

    def expected(self) -> bytes:
        """Return what must have been received, given how much has been."""
        expected = self.sent[: len(self.received)]
        for at, count in self.inverted.items():
            if at < len(expected) and count % 2:
                expected[at] ^= 0xFF
        return bytes(expected)


class RecordedReader:
    """A reader that notes what the broker receives."""

    def __init__(self, reader: Reader, to_broker: Direction) -> None:
        self._reader, self._to_broker = reader, to_broker
        self.limit, self.hold, self.release = reader.limit, reader.hold, reader.release

    def receive(self, data: bytes = b"") -> None:
        self._to_broker.received += data
        self._reader.receive(data)


class RecordedConnection(Connection):
    """A connection that notes what both sides send and what the broker receives."""

    def __init__(self, server: FaultyServer, number: int) -> None:
        super().__init__(
            server.node, number=number, peer=("127.0.0.1", 40_000), local=("127.0.0.1", 5672), dirty=server.dirty
        )
        self.to_client, self.to_broker = Direction(), Direction()
        self.reader = RecordedReader(ConnectionInput(self), self.to_broker)

    def receive_data(self, data: bytes) -> None:
        self.to_broker.sent += data
        super().receive_data(data)

    def data_to_send(self) -> list[bytes]:
        # What is on its way counts as sent once the server asks for it: until then, a fault may still swallow it.
        self.to_client.sent += b"".join(self._out)
        chunks = super().data_to_send()
        self.to_client.received += b"".join(chunks)
        return chunks


class Conversations:
    """A few peers of one server, and the faults on their bytes, driven by chance."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.server = FaultyServer(seed=seed)
        self.peers = [self._peer(number) for number in range(1, PEER_COUNT + 1)]
        # The rules that are in force, with the places at which they invert a byte.
        self.rules: dict[Rule, list[tuple[Direction, int]]] = {}
        self.kinds: collections.Counter[str] = collections.Counter()
        self.body_count = 0

    def _peer(self, number: int) -> Peer:
        peer = Peer(RecordedConnection(self.server, number))
        peer.open()
        peer.send(1, Channel.Open(), declare("q"), declare("r", queue_type="quorum"), select())
        peer.send(1, Basic.Qos(prefetch_count=5), Basic.Consume(queue="q", no_ack=number == 1))
        peer.read()
        return peer

    def run(self) -> None:
        """Run one conversation to its end, and check the promise after each step."""
        steps = [self._publish] * 6 + [self._ack] * 4 + [self._get, self._add] * 3 + [self._remove, self._elapse] * 3
        for _ in range(STEP_COUNT):
            self.dice.choice([*steps, self._lose])()
            self._serve()
            self.check()
        while self.rules:
            self._remove()
            self._serve()
            self.check()
        self.server.elapse(3600)
        self._serve()
        self.check()
        for peer in self.peers:
            self._check_that_all_arrived(peer.connection)
        assert self.server.node.internal_errors == []

    def check(self) -> None:
        """Check the promise."""
        for peer in self.peers:
            for direction in (peer.connection.to_client, peer.connection.to_broker):
                assert direction.received == direction.expected()

    def _check_that_all_arrived(self, connection: RecordedConnection) -> None:
        if connection.is_reset or connection.is_closed:
            return
        assert len(connection.to_broker.received) == len(connection.to_broker.sent)
        if not connection.is_half_closed:
            assert len(connection.to_client.received) == len(connection.to_client.sent)

    def _publish(self) -> None:
        self.body_count += 1
        body = b"%d" % self.body_count * self.dice.choice((1, 20, 300))
        pieces = publish_octets(1, body, self.dice.choice("qqr")) * self.dice.randint(1, 3)
        cut = self.dice.randrange(len(pieces))
        peer = self._any()
        self._send(peer, pieces[:cut])
        self._send(peer, pieces[cut:])

    def _ack(self) -> None:
        peer = self._any()
        channel = peer.connection.channels.get(1)
        if channel is not None and channel.unacked:
            self._send(peer, octets(1, Basic.Ack(next(iter(channel.unacked)), self.dice.random() < 0.3)))

    def _get(self) -> None:
        self._send(self._any(), octets(1, Basic.Get(queue="r", no_ack=True)))

    def _send(self, peer: Peer, data: bytes) -> None:
        if data and not (peer.connection.is_reset or peer.connection.is_closed):
            peer.send_octets(data)

    def _any(self) -> Peer:
        return self.dice.choice(self.peers)

    def _add(self) -> None:
        dice, faults = self.dice, self.server.faults
        kind = dice.choice(
            ("blackhole", "bandwidth", "stall", "stall for", "slicer", "corrupt", "limit_data", "half_close")
        )
        if kind in ("corrupt", "limit_data", "half_close") and dice.random() < 0.7:
            return
        on, connection = dice.choice(MOMENTS), dice.choice((None, *range(1, PEER_COUNT + 1)))
        where = {"on": on, "connection": connection, "optional": True, "times": dice.choice((None, 1))}
        direction = dice.choice(DIRECTIONS)
        self.kinds[kind] += 1
        if kind == "blackhole":
            rule = faults.blackhole(direction, **where)
        elif kind == "bandwidth":
            rule = faults.bandwidth(dice.choice((7, 100, 5000, 3_000_000)), direction=direction, **where)
        elif kind == "stall":
            rule = faults.stall(direction=direction, **where)
        elif kind == "stall for":
            rule = faults.stall(dice.choice((0.01, 1, 20)), direction=direction, **where)
        elif kind == "slicer":
            rule = faults.slicer(dice.choice((1, 2, 9, 200)), direction=direction, **where)
        elif kind == "limit_data":
            rule = faults.limit_data(dice.choice((0, 5, 300)), **where)
        elif kind == "half_close":
            rule = faults.half_close(**where)
        else:
            self._corrupt(direction, connection)
            return
        self.rules[rule] = []

    def _corrupt(self, direction: str, number: int | None) -> None:
        """Invert a byte from now on, because only then is its place in the stream known to the test."""
        byte = self.dice.choice((1, 2, 30, 400))
        places = []
        for peer in self.peers:
            connection = peer.connection
            if connection.number in self.server.node.connections and number in (None, connection.number):
                for towards, name in ((connection.to_client, "to_client"), (connection.to_broker, "to_broker")):
                    if direction in ("both", name):
                        places.append((towards, len(towards.received) + byte - 1))
        for towards, at in places:
            towards.inverted[at] += 1
        rule = self.server.faults.corrupt(byte, direction=direction, connection=number, optional=True)
        self.rules[rule] = places

    def _remove(self) -> None:
        if not self.rules:
            return
        rule = self.dice.choice(list(self.rules))
        for direction, at in self.rules.pop(rule):
            if at >= len(direction.received):
                direction.inverted[at] -= 1
        rule.remove()

    def _elapse(self) -> None:
        self.server.elapse(self.dice.choice((0.001, 0.1, 0.1, 1, 30)))

    def _lose(self) -> None:
        if self.dice.random() < 0.05:
            self._any().connection.connection_lost()

    def _serve(self) -> None:
        """Do what the loop does at the end of a turn."""
        while self.server.dirty:
            connections = list(self.server.dirty)
            self.server.dirty.clear()
            for connection in connections:
                connection.data_to_send()
                if connection.is_reset:
                    connection.connection_lost()


def main() -> int:
    """Run many cases; return 1 as the exit code if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.properties.faulty_streams")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    kinds: collections.Counter[str] = collections.Counter()
    octet_count = failed = 0
    for seed in range(options.seed, options.seed + options.cases):
        conversations = Conversations(seed)
        try:
            conversations.run()
        except AssertionError:
            failed += 1
            print(f"seed {seed}: what was received is not what was sent")
        kinds += conversations.kinds
        for peer in conversations.peers:
            octet_count += len(peer.connection.to_client.received) + len(peer.connection.to_broker.received)
    print(f"{options.cases} cases, {failed} failed, {octet_count:,} bytes received, faults: {dict(kinds)}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
