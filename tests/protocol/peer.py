"""A client without a socket: pamqp's codec on one side, `Connection` on the other, bytes in between.

pamqp is an independent implementation of the specification, so other code than leveret's reads what leveret writes.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from pamqp import base, body, commands, frame, header, heartbeat
from pamqp.commands import Basic, Channel, Confirm, Queue

from leveret.core.compat import Compat
from leveret.core.hooks import Hooks
from leveret.core.model.node import Node
from leveret.core.protocol.connection import Connection
from leveret.core.protocol.receiving.reading import accept
from leveret.trace.events import Event, RawEvent

SECOND = 1_000_000
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
CAPABILITIES = {"consumer_cancel_notify": True, "connection.blocked": True, "authentication_failure_close": True}

Frame = base.Frame | body.ContentBody | header.ContentHeader | heartbeat.Heartbeat
Received = tuple[int, Frame]


class Server:
    """A node, its trace, and the peers that talk to it."""

    def __init__(self, version: str = "4.3", *, seed: int = 7, **node_options: object) -> None:
        self.trace: list[RawEvent] = []
        options = {"hooks": Hooks(self.trace.append), "permit": frozenset({"transient_nonexcl_queues"})}
        self.node = Node(compat=Compat.for_version(version), dice=random.Random(seed), **{**options, **node_options})
        self.node.access.set_user("guest", "guest", tags=("administrator",))
        self.node.access.set_permission("/", "guest")
        self.dirty: list[Connection] = []
        self.peer_count = 0

    def stranger(self, *, peer: str = "127.0.0.1", local: str = "127.0.0.1") -> Peer:
        """Return a peer that has sent nothing yet, at these two ends of the connection."""
        self.peer_count += 1
        connection = accept(
            self.node, number=self.peer_count, peer=(peer, 40_000), local=(local, 5672), dirty=self.dirty
        )
        return Peer(connection)

    def peer(self, *, channels: Iterable[int] = (1,), **options: object) -> Peer:
        """Return a peer with an open connection and these open channels; all replies have been read."""
        peer = self.stranger()
        peer.open(**options)
        for number in channels:
            peer.send(number, Channel.Open())
        peer.read()
        return peer

    def elapse(self, seconds: float) -> None:
        """Move both clocks forward."""
        span_us = int(seconds * SECOND)
        self.node.advance(self.node.now + span_us, self.node.wall_now + span_us)

    def events(self, *kinds: str) -> list[Event]:
        return [Event(raw) for raw in self.trace if not kinds or raw[0] in kinds]


class Peer:
    """The other end of one connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.output = b""

    def open(
        self,
        *,
        frame_max: int = 131072,
        heartbeat_s: int = 0,
        channel_max: int = 2047,
        capabilities: dict[str, object] | None = None,
    ) -> None:
        """Send everything a client sends to open a connection."""
        self.send_octets(PROTOCOL_HEADER)
        self.send(0, start_ok(capabilities=CAPABILITIES if capabilities is None else capabilities))
        self.send(0, commands.Connection.TuneOk(channel_max, frame_max, heartbeat_s))
        self.send(0, commands.Connection.Open("/"))

    def send(self, channel: int, *frames: Frame) -> None:
        self.send_octets(octets(channel, *frames))

    def send_octets(self, data: bytes) -> None:
        self.connection.receive_data(data)

    def publish(self, channel: int, content: bytes, key: str = "q", exchange: str = "", **properties: object) -> None:
        self.send_octets(publish_octets(channel, content, key, exchange, **properties))

    def read_octets(self) -> bytes:
        """Return the bytes that the server has sent since the last read."""
        found = b"".join(self.connection.data_to_send())
        self.output += found
        return found

    def read(self) -> list[Received]:
        """Return the frames that the server has sent since the last read."""
        return list(split(self.read_octets()))

    def call(self, channel: int, *frames: Frame) -> list[Received]:
        """Send, and return the frames of the reply."""
        self.read()
        self.send(channel, *frames)
        return self.read()

    def told(self, channel: int, *frames: Frame) -> list[str]:
        """Send, and return the names of the methods in the reply."""
        return names(self.call(channel, *frames))


def octets(channel: int, *frames: Frame) -> bytes:
    return b"".join(frame.marshal(item, channel) for item in frames)


def publish_octets(
    channel: int,
    content: bytes,
    key: str = "q",
    exchange: str = "",
    *,
    mandatory: bool = False,
    immediate: bool = False,
    chunk: int = 131064,
    **properties: object,
) -> bytes:
    """Return a publish with its content in frames of at most `chunk` bytes."""
    bodies = [body.ContentBody(content[at : at + chunk]) for at in range(0, len(content), chunk)]
    return octets(
        channel,
        Basic.Publish(exchange=exchange, routing_key=key, mandatory=mandatory, immediate=immediate),
        header.ContentHeader(0, len(content), Basic.Properties(**properties)),
        *bodies,
    )


def start_ok(
    *, response: str = "\0guest\0guest", mechanism: str = "PLAIN", capabilities: dict[str, object] | None = None
) -> Frame:
    properties = {"product": "peer", "capabilities": capabilities or {}}
    return commands.Connection.StartOk(properties, mechanism, response, "en_US")


def declare(name: str = "q", *, durable: bool = True, exclusive: bool = False, **arguments: object) -> Frame:
    """Return a queue.declare; `max_length=3` sets the argument x-max-length."""
    named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    return Queue.Declare(queue=name, durable=durable, exclusive=exclusive, arguments=named)


def select() -> Frame:
    return Confirm.Select()


def split(data: bytes) -> Iterator[Received]:
    """Yield the frames in the bytes that a server sent."""
    while data:
        size, channel, item = frame.unmarshal(data)
        data = data[size:]
        assert not isinstance(item, header.ProtocolHeader)
        yield channel, item


def names(received: Iterable[Received]) -> list[str]:
    """Return the names of the methods; contents are left out."""
    return [item.name for _, item in received if isinstance(item, base.Frame)]


def methods(received: Iterable[Received], kind: type[Frame]) -> list[Frame]:
    return [item for _, item in received if isinstance(item, kind)]


def the(received: Iterable[Received], kind: type[Frame]) -> Frame:
    """Return the only method of a kind."""
    (found,) = methods(received, kind)
    return found


def contents(received: Iterable[Received]) -> list[bytes]:
    """Return the whole bodies of the contents received."""
    found: list[bytes] = []
    for _, item in received:
        if isinstance(item, header.ContentHeader):
            found.append(b"")
        elif isinstance(item, body.ContentBody):
            found[-1] += item.value
    return found
