"""The time from making a broker to the first open connection, in a process that has done nothing else.

Run it as `python benchmarks/opening.py`. It prints seconds. Importing does not count.
"""

from __future__ import annotations

import socket
import struct
import time

from leveret import Broker


def method(class_id: int, method_id: int, arguments: bytes) -> bytes:
    """Return a method of channel 0 as a frame."""
    return struct.pack(">BHIHH", 1, 0, len(arguments) + 4, class_id, method_id) + arguments + b"\xce"


START_OK = method(10, 11, b"\0\0\0\0\x05PLAIN\0\0\0\x0c\0guest\0guest\x05en_US")
TUNE_OK = method(10, 31, struct.pack(">HIH", 2047, 131072, 0))
OPEN = method(10, 40, b"\x01/\0\0")


def read_method(peer: socket.socket) -> tuple[int, int]:
    """Return class and method of the next frame."""
    head = peer.recv(11, socket.MSG_WAITALL)
    _kind, _channel, size, class_id, method_id = struct.unpack(">BHIHH", head)
    peer.recv(size - 4 + 1, socket.MSG_WAITALL)
    return class_id, method_id


def main() -> None:
    """Measure, and print the seconds."""
    started = time.perf_counter()
    broker = Broker().start()
    with socket.socket() as peer:
        peer.connect((broker.host, broker.port))
        peer.sendall(b"AMQP\0\0\x09\x01")
        read_method(peer)
        peer.sendall(START_OK)
        read_method(peer)
        peer.sendall(TUNE_OK + OPEN)
        assert read_method(peer) == (10, 41)
        took = time.perf_counter() - started
    broker.stop()
    print(f"{took:.9f}")


if __name__ == "__main__":
    main()
