"""A breakdown of a request's time with pika: the ceiling, the least that Python can do, and leveret.

    python benchmarks/floor.py [--processor 0] [--rounds 5]

The least in Python is a thread of this process that replies to every method from a table of prebuilt frames. It knows
no queues and decodes nothing. Its time above the ceiling is the price of Python and of sharing a process. leveret's
time above it is the price of being a broker. The figures are milliseconds for an operation, the minimum of the rounds;
they are never asserted.
"""

from __future__ import annotations

import _socket
import argparse
import os
import select
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pika
from servers import ceiling

COUNTS = {"qos": 3000, "get": 3000, "declare": 1500, "connect": 200}
PEERS = ("ceiling", "table", "leveret")
_HEAD = struct.Struct(">BHIHH")


def frame(channel: int, class_id: int, method_id: int, arguments: bytes = b"") -> bytes:
    """Return a method frame."""
    payload = struct.pack(">HH", class_id, method_id) + arguments
    return struct.pack(">BHI", 1, channel, len(payload)) + payload + b"\xce"


START = frame(0, 10, 10, b"\0\x09" + bytes(4) + struct.pack(">I5sI5s", 5, b"PLAIN", 5, b"en_US"))
ANSWERS = {
    (10, 11): frame(0, 10, 30, struct.pack(">HIH", 2047, 131072, 0)),
    (10, 40): frame(0, 10, 41, b"\0"),
    (10, 50): frame(0, 10, 51),
    (20, 10): frame(1, 20, 11, bytes(4)),
    (20, 40): frame(1, 20, 41),
    (50, 10): frame(1, 50, 11, b"\1q" + bytes(8)),
    (50, 40): frame(1, 50, 41, bytes(4)),
    (60, 10): frame(1, 60, 11),
    (60, 70): frame(1, 60, 72, b"\0"),
}


class Table:
    """The broker that does the least that Python can do."""

    def __init__(self) -> None:
        self._listener = _socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(8)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        poller = select.epoll()
        poller.register(self._listener.fileno(), 1)
        peers: dict[int, _socket.socket] = {}
        while True:
            for number, _ in poller.poll(None):
                if number == self._listener.fileno():
                    accepted, _ = self._listener._accept()
                    peers[accepted] = peer = _socket.socket(fileno=accepted)
                    peer.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
                    poller.register(accepted, 1)
                elif octets := peers[number].recv(65536):
                    self._answer(peers[number], octets)
                else:
                    poller.unregister(number)
                    peers.pop(number).close()

    def _answer(self, peer: _socket.socket, octets: bytes) -> None:
        at, out = 0, b""
        while at < len(octets):
            if octets.startswith(b"AMQP", at):
                at, out = at + 8, START
                continue
            _, _, size, class_id, method_id = _HEAD.unpack_from(octets, at)
            at += size + 8
            out += ANSWERS.get((class_id, method_id), b"")
        if out:
            peer.send(out)


def operation(name: str, parameters: pika.ConnectionParameters) -> Callable[[], object]:
    """The operations that are measured."""

    def connect() -> None:
        with pika.BlockingConnection(parameters) as connection:
            connection.channel()

    if name == "connect":
        return connect
    channel = pika.BlockingConnection(parameters).channel()
    channel.queue_declare("q", durable=True)

    def declare() -> None:
        channel.queue_declare("q", durable=True)
        channel.queue_delete("q")

    operations: dict[str, Callable[[], object]] = {
        "qos": lambda: channel.basic_qos(prefetch_count=1),
        "get": lambda: channel.basic_get("q"),
        "declare": declare,
    }
    return operations[name]


def thread_times() -> dict[str, int]:
    """Return the nanoseconds that each thread of this process has run."""
    tasks = Path("/proc/self/task")
    return {task: int((tasks / task / "schedstat").read_text().split()[0]) for task in os.listdir(tasks)}


def measured(peer: str, name: str, port: int) -> tuple[float, float, float]:
    """Return the milliseconds of an operation: in all, of the client's thread, and of the other threads."""
    if peer == "leveret":
        from leveret import Broker

        broker = Broker()
        broker.start()
        port = broker.port
    elif peer == "table":
        port = Table().port
    act, count = operation(name, pika.ConnectionParameters("127.0.0.1", port)), COUNTS[name]
    for _ in range(count // 10):
        act()
    before, started = thread_times(), time.perf_counter()
    for _ in range(count):
        act()
    took = time.perf_counter() - started
    ran = {task: ran_ns - before.get(task, 0) for task, ran_ns in thread_times().items()}
    own = ran.pop(str(threading.get_native_id()))
    return took / count * 1e3, own / count / 1e6, sum(ran.values()) / count / 1e6


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processor", type=int, default=0, help="the processor that everything runs on (default: 0)")
    parser.add_argument("--rounds", type=int, default=5, help="(default: 5)")
    parser.add_argument("--once", nargs=3, metavar=("PEER", "OPERATION", "PORT"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    os.sched_setaffinity(0, {chosen.processor})
    if chosen.once is not None:
        print(*measured(chosen.once[0], chosen.once[1], int(chosen.once[2])))
        return
    print(f"Milliseconds an operation, the least of {chosen.rounds}; the last two are what leveret's threads used.")
    print(f"The load average is {os.getloadavg()[0]:.1f}: above 2 the figures mean little.\n")
    print("| operation | ceiling | table in Python | leveret | its client | its loop |")
    print("| --- | --- | --- | --- | --- | --- |")
    with ceiling() as server:
        for name in COUNTS:
            rounds: dict[str, list[tuple[float, ...]]] = {peer: [] for peer in PEERS}
            for _ in range(chosen.rounds):
                for peer in PEERS:
                    command = [sys.executable, __file__, "--processor", str(chosen.processor)]
                    command += ["--once", peer, name, str(server.port)]
                    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
                    rounds[peer].append(tuple(map(float, output.split())))
            best = {peer: min(of_peer) for peer, of_peer in rounds.items()}
            cells = [best["ceiling"][0], best["table"][0], *best["leveret"]]
            print(f"| {name} | {' | '.join(f'{cell:.3f}' for cell in cells)} |", flush=True)


if __name__ == "__main__":
    main()
