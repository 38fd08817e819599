"""The CPU time of a message in the core alone, without sockets. It is printed and never asserted.

    python benchmarks/core.py [store|number|deliver|settle] [COUNT]

store: publish and keep. number: the same, each message with a unique message-id. deliver: publish to a consumer with
automatic acks. settle: publish with a confirm, deliver and acknowledge one by one. Bodies have 1 kB, a read has fifty
publishes, recording is off, and output is joined as for a socket. `benchmarks/instructions.py` counts the instructions
of the same workloads, free of noise.
"""

from __future__ import annotations

import gc
import random
import struct
import sys
import time

from pamqp import body, commands, frame, header

from leveret.core.compat import Compat
from leveret.core.model.node import Node
from leveret.core.protocol.connection import Connection
from leveret.core.protocol.receiving.reading import accept

BATCH = 50
BODY = b"x" * 1000
ACK = struct.Struct(">BHIIQBB")


def frames(channel: int, *methods: frame.FrameTypes) -> bytes:
    return b"".join(frame.marshal(method, channel) for method in methods)


def open_connection() -> Connection:
    """Return a connection with channel 1 and the queue "q"."""
    node = Node(compat=Compat.for_version("4.3"), dice=random.Random(0), now=1_700_000_000_000_000)
    connection = log_in(node, 1)
    connection.receive_data(frames(1, commands.Channel.Open(), commands.Queue.Declare(queue="q", durable=True)))
    return connection


def log_in(node: Node, number: int) -> Connection:
    """Open one more connection to a node."""
    connection = accept(node, number=number, peer=("127.0.0.1", 1), local=("127.0.0.1", 2), dirty=[])
    connection.receive_data(b"AMQP\0\0\x09\x01")
    login = commands.Connection.StartOk({}, "PLAIN", "\0guest\0guest", "en_US")
    connection.receive_data(
        frames(0, login, commands.Connection.TuneOk(2047, 131072, 0), commands.Connection.Open("/"))
    )
    return connection


def run(workload: str, count: int) -> float:
    """Return the CPU seconds for `count` messages."""
    connection = open_connection()
    if workload == "settle":
        connection.receive_data(frames(1, commands.Confirm.Select()))
    if workload in ("deliver", "settle"):
        no_ack = workload == "deliver"
        connection.receive_data(frames(1, commands.Basic.Consume(queue="q", consumer_tag="c", no_ack=no_ack)))
    ids = [f"{number:08}" if workload == "number" else None for number in range(BATCH)]
    batch = b"".join(map(publish, ids))
    started = time.process_time()
    for first in range(1, count + 1, BATCH):
        connection.receive_data(batch)
        b"".join(connection.data_to_send())
        if workload == "settle":
            tags = range(first, first + BATCH)
            connection.receive_data(b"".join(ACK.pack(1, 1, 13, 60 << 16 | 80, tag, 0, 0xCE) for tag in tags))
            b"".join(connection.data_to_send())
    assert not connection.node.internal_errors
    return time.process_time() - started


def publish(message_id: str | None) -> bytes:
    """Return the frames of one publish to "q"."""
    properties = commands.Basic.Properties(delivery_mode=2, message_id=message_id)
    return frames(
        1,
        commands.Basic.Publish(exchange="", routing_key="q"),
        header.ContentHeader(0, len(BODY), properties),
        body.ContentBody(BODY),
    )


if __name__ == "__main__":
    gc.disable()
    chosen = sys.argv[1:2] or ["store", "number", "deliver", "settle"]
    messages = int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
    for name in chosen:
        print(f"{name}: {run(name, messages) / messages * 1e6:.1f} us of CPU a message")
