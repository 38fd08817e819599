"""A broker that speaks no AMQP: a host and conversations of the shape that the loop expects, to test the loop alone.

A client sends lines; the conversation answers each in capitals. A few lines are commands: see `Echo`.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

from leveret.clocks import HoldableClock, SystemClock
from leveret.server import native
from leveret.server.listener import Listener
from leveret.server.loop import Loop
from leveret.server.pollers import Poller, new_poller


class EchoHost:
    def __init__(self) -> None:
        self.internal_errors: list[BaseException] = []
        self.now = 0
        self.conversations: list[Echo] = []
        self.due_at: int | None = None
        self.liveness_due_at: int | None = None
        self.fired: list[str] = []
        self.advance_count = 0
        self.allowance = inf
        self.left_over: list[str] = []
        # Called once all work is done, as a conversation goes on then.
        self.when_done: Callable[[], None] | None = None
        # The processor time used so far, and what a byte of input costs.
        self.cpu_ns = 0
        self.cost_ns = 0
        # The sizes of all reads, with the conversation of each.
        self.reads: list[tuple[Echo, int]] = []

    def advance(self, now: int, wall_now: int) -> None:
        self.now = now
        self.advance_count += 1
        if self.due_at is not None and self.due_at <= now:
            self.due_at = None
            self.fired.append("due")
        if self.liveness_due_at is not None and self.liveness_due_at <= wall_now:
            self.liveness_due_at = None
            self.fired.append("liveness")

    def go_on(self) -> None:
        del self.left_over[:1]

    def finish_work(self) -> None:
        self.left_over.clear()
        if self.when_done is not None:
            self.when_done()
            self.when_done = None

    def next_deadline(self) -> int | None:
        return self.due_at

    def next_liveness_deadline(self) -> int | None:
        return self.liveness_due_at


class Echo:
    """A conversation that answers lines.

    `bye` closes, `reset` resets, `pause` stops reading, `half` closes our side, `crash` raises, `flood` answers 64 MB.
    """

    def __init__(self, host: EchoHost, dirty: list[Echo]) -> None:
        self.host = host
        self.dirty = dirty
        self.is_closed = self.is_half_closed = self.is_reset = self.is_reading_paused = self.is_lost = False
        self.output: list[bytes] = []
        self.received = b""
        host.conversations.append(self)

    def receive_data(self, data: bytes) -> None:
        self.received += data
        self.host.reads.append((self, len(data)))
        self.host.cpu_ns += self.host.cost_ns * len(data)
        for line in data.splitlines():
            match line:
                case b"bye":
                    self.say(b"BYE\n")
                    self.is_closed = True
                case b"reset":
                    self.is_reset = True
                    self.dirty.append(self)
                case b"half":
                    self.say(b"HALF\n")
                    self.is_half_closed = True
                case b"quiet":
                    pass
                case b"pause":
                    self.is_reading_paused = True
                case b"crash":
                    raise RuntimeError("a bug of ours")
                case b"flood":
                    for _ in range(64):
                        self.say(bytes(1024 * 1024))
                case _:
                    self.say(line.upper() + b"\n")

    def say(self, data: bytes) -> None:
        if not self.output:
            self.dirty.append(self)
        self.output.append(data)

    def data_to_send(self) -> list[bytes]:
        output, self.output = self.output, []
        return output

    def connection_lost(self) -> None:
        self.is_lost = True


class EchoBroker:
    def __init__(self, new_poller: Callable[[], Poller] = new_poller, host: str = "127.0.0.1") -> None:
        self.host = EchoHost()
        self.lock = native.reentrant_lock()
        self.clock = HoldableClock(SystemClock())
        self.loop = Loop(
            self.host,
            lock=self.lock,
            clock=self.clock,
            wall=SystemClock(),
            connect=lambda peer, own: Echo(self.host, self.loop.dirty),
            new_poller=new_poller,
            cpu_clock=lambda: self.host.cpu_ns,
        )
        self.listener = Listener(host, 0)
        self.address = self.listener.address

    def start(self) -> None:
        self.loop.start(self.listener)

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=60)

    def sync(self) -> None:
        self.loop.ask(lambda: None)

    def wait_until(self, predicate: Callable[[], bool]) -> None:
        """Wait for something that the kernel does in its own time, such as the end of a peer."""
        clock = SystemClock()
        limit = clock.now() + 60_000_000
        while True:
            with self.lock:
                count = self.loop.turns.count
                if predicate():
                    return
            assert clock.now() < limit, "it did not happen within 60 s"
            self.loop.turns.wait_beyond(count, 5)


@contextmanager
def echo_broker(new_poller: Callable[[], Poller] = new_poller) -> Iterator[EchoBroker]:
    broker = EchoBroker(new_poller)
    broker.start()
    try:
        yield broker
    finally:
        broker.loop.stop()


def read_to_end(client: socket.socket) -> bytes:
    received = []
    while data := client.recv(65536):
        received.append(data)
    return b"".join(received)
