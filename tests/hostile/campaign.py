"""Feed mutated frames to the core, without sockets, and to a broker over TCP; count what came of it.

Each conversation is a client of its own. When the broker closes one of its channels, the client opens it again and goes
on, so that many mutated frames reach a connection that works. A witness publishes and gets its messages all along.
"""

from __future__ import annotations

import collections
import gc
import random
import socket
import struct
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leveret import Broker
from leveret.core.protocol.channel import Channel
from leveret.core.protocol.connection import Connection
from leveret.core.protocol.state import State
from leveret.engine.harness import Harness
from tests.protocol.peer import Peer, Server
from tests.semantics import codec
from tests.systems import has_proc

from .corpus import CORPUS, OPENING, method, publish
from .mutations import mutated

# Conversations that one broker lives through. What mutated frames declare stays in it, as it should.
_LIFE = 1000
# A frame that takes longer than this of the processor's time, or an answer over TCP in real time, counts as a hang.
_HANG_SECONDS = 2.0
_HANG_SECONDS_OVER_TCP = 120.0
_TOGETHER = 16
# The witness of the core acts once for so many mutated frames.
_WITNESS_EVERY = 10
_WITNESS_QUEUE = "witness"
_CLOSES = {(10, 50): "connection", (20, 40): "channel"}


@dataclass
class Report:
    """What a campaign saw."""

    conversations: int = 0
    # Frames handed in while the connection was alive: all of them, and those that were mutated.
    frames: int = 0
    mutated: int = 0
    # By kind of close and reply code.
    refusals: collections.Counter[str] = field(default_factory=collections.Counter)
    resets: int = 0
    witnessed: int = 0
    slowest_seconds: float = 0.0
    seconds: float = 0.0
    rss_before_mib: float = 0.0
    rss_after_mib: float = 0.0
    # Each with the seed and conversation that shows it.
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        refused = ", ".join(f"{name} {count:,}" for name, count in sorted(self.refusals.items()))
        lines = [
            f"{self.conversations:,} conversations, {self.mutated:,} mutated frames of {self.frames:,}",
            f"refusals: {refused}; resets {self.resets:,}",
            f"witness served {self.witnessed:,} times; slowest answer {self.slowest_seconds * 1000:.0f} ms",
            f"{self.seconds:.0f} s",
            f"memory {self.rss_before_mib:.1f} MiB before, {self.rss_after_mib:.1f} MiB after",
            f"FAULTS: {len(self.faults)}",
            *self.faults[:20],
        ]
        return "\n".join(lines)


def _say_nothing(report: Report) -> None:
    """Ignore how far a campaign is."""


def feed_core(frames: int, version: str, seed: int, progress: Callable[[Report], None] = _say_nothing) -> Report:
    """Feed at least this many mutated frames to brokers without sockets; report each broker's end to `progress`."""
    report, started = Report(), time.monotonic()
    dice = random.Random(seed)
    while report.mutated < frames and not report.faults:
        _live(dice, version, frames, report, seed)
        report.seconds, report.rss_after_mib = time.monotonic() - started, _rss_mib()
        # The first life loads what is loaded once.
        report.rss_before_mib = report.rss_before_mib or report.rss_after_mib
        progress(report)
    gc.collect()
    report.rss_after_mib, report.seconds = _rss_mib(), time.monotonic() - started
    return report


def _live(dice: random.Random, version: str, frames: int, report: Report, seed: int) -> None:
    """Let one broker live through some conversations."""
    server = Server(version)
    witness = _Witness(server)
    for _ in range(_LIFE):
        if report.mutated >= frames:
            break
        report.conversations += 1
        label = f"seed {seed}, conversation {report.conversations}"
        try:
            _converse(dice, server, witness, report)
        except Exception:
            report.faults.append(f"{label}: {traceback.format_exc()}")
        server.trace.clear()
        server.dirty.clear()
        report.faults += [f"{label}: {''.join(traceback.format_exception(it))}" for it in server.node.internal_errors]
        if report.faults:
            return
    gc.collect()
    found = collections.Counter(type(it).__name__ for it in gc.get_objects() if _is_of(it, server))
    if found["Connection"] > 1 or found["Channel"] > 1 or len(server.node.connections) > 1:
        report.faults.append(f"{label}: left in memory: {dict(found)}, {len(server.node.connections)} connections")


def _is_of(found: object, server: Server) -> bool:
    """Return whether this is a connection or a channel of this server; other tests leave their own in memory."""
    # isinstance would ask a lazy object of some library for its class, and so wake it.
    connection: Any = found.connection if type(found) is Channel else found
    return type(connection) is Connection and connection.node is server.node


def _converse(dice: random.Random, server: Server, witness: _Witness, report: Report) -> None:
    peer = server.stranger()
    reader = _Closes()
    waiting = b""
    for frame, is_mutated in mutated(dice, dice.choice(CORPUS)):
        waiting += frame
        report.frames += 1
        if not is_mutated:
            # Frames that were not touched arrive together with the next one that was.
            continue
        report.mutated += 1
        started = time.process_time()
        peer.send_octets(waiting)
        answer = peer.read_octets()
        peer.output, waiting = b"", b""
        report.slowest_seconds = max(report.slowest_seconds, time.process_time() - started)
        for kind, channel, code in reader.read(answer):
            report.refusals[f"{kind} {code}"] += 1
            if kind == "channel":
                waiting += method(channel, "channel.close-ok") + method(channel, "channel.open")
        if report.mutated % _WITNESS_EVERY == 0:
            witness.use(report)
        if reader.is_closed or _is_over(peer):
            break
    if not reader.is_closed and _is_over(peer):
        report.resets += 1
    if report.slowest_seconds > _HANG_SECONDS:
        report.faults.append(f"a frame took {report.slowest_seconds:.1f} s")
    peer.connection.connection_lost()
    # Heartbeats, message TTLs and timeouts come due.
    server.elapse(dice.choice((0, 0.001, 40)))


def _is_over(peer: Peer) -> bool:
    """Return whether the broker ignores whatever the client still sends."""
    return peer.connection.is_closed or peer.connection.state is State.ENDING


class _Closes:
    """The refusals among the bytes that a server sent to one client."""

    def __init__(self) -> None:
        self._rest = b""
        self.is_closed = False

    def read(self, data: bytes) -> list[tuple[str, int, int]]:
        """Return the closes in these bytes: channel or connection, the channel's number, the reply code."""
        found, data, at = [], self._rest + data, 0
        if data[:4] == b"AMQP":
            data, self.is_closed = data[8:], True
        while len(data) - at >= 7:
            kind, channel, size = struct.unpack_from(">BHI", data, at)
            if len(data) - at < size + 8:
                break
            if data[at + 7 + size] != codec.FRAME_END:
                raise ValueError(f"the broker sent a bad frame: {data[at : at + 100]!r}")
            if kind == codec.METHOD:
                name = _CLOSES.get(struct.unpack_from(">HH", data, at + 7))  # type: ignore[arg-type]
                if name is not None:
                    found.append((name, channel, struct.unpack_from(">H", data, at + 11)[0]))
                    self.is_closed |= name == "connection"
            at += size + 8
        self._rest = data[at:]
        return found


class _Witness:
    """A proper client of a broker without sockets: it publishes to a queue of its own and gets the message back."""

    def __init__(self, server: Server) -> None:
        self._peer = server.peer()
        self._peer.send_octets(method(1, "queue.declare", queue=_WITNESS_QUEUE, exclusive=True))
        self._peer.read_octets()

    def use(self, report: Report) -> None:
        """Publish and get once; raise if the answer is anything but that message."""
        report.witnessed += 1
        body = b"%d" % report.witnessed
        get = method(1, "basic.get", queue=_WITNESS_QUEUE, no_ack=True)
        self._peer.send_octets(b"".join(publish(1, _WITNESS_QUEUE, body)) + get)
        answer = self._peer.read_octets()
        self._peer.output = b""
        if not answer.endswith(codec.frame(codec.BODY, 1, body)) or answer[7:11] != b"\0\x3c\0\x47":
            raise AssertionError(f"the witness got {answer!r}")


def feed_tcp(conversations: int, version: str, seed: int, progress: Callable[[Report], None] = _say_nothing) -> Report:
    """Have this many mutated conversations with a broker over TCP, some at a time; report now and then."""
    report, started, dice = Report(), time.monotonic(), random.Random(seed)
    with Broker(rabbitmq=version, permit={"transient_nonexcl_queues"}) as broker:
        address, harness = (broker.host, broker.port), Harness(broker)
        witness = _TcpWitness(address)
        while report.conversations < conversations and not report.faults:
            _converse_over_tcp(dice, address, min(_TOGETHER, conversations - report.conversations), report)
            witness.use(report)
            report.faults += [
                f"seed {seed}, before conversation {report.conversations}: {''.join(traceback.format_exception(it))}"
                for it in harness.take_internal_errors()
            ]
            if report.conversations % 4000 < _TOGETHER:
                broker.reset()
                witness = _TcpWitness(address)
                report.seconds, report.rss_after_mib = time.monotonic() - started, _rss_mib()
                report.rss_before_mib = report.rss_before_mib or report.rss_after_mib
                progress(report)
        witness.close()
        broker.sync()
        if broker.connections:
            report.faults.append(f"{len(broker.connections)} connections are left")
        broker.reset()
    gc.collect()
    report.rss_after_mib, report.seconds = _rss_mib(), time.monotonic() - started
    report.rss_before_mib = report.rss_before_mib or report.rss_after_mib
    return report


def _converse_over_tcp(dice: random.Random, address: tuple[str, int], count: int, report: Report) -> None:
    talking = []
    for _ in range(count):
        client = socket.create_connection(address, _HANG_SECONDS_OVER_TCP)
        frames = list(mutated(dice, dice.choice(CORPUS)))
        report.conversations += 1
        report.frames += len(frames)
        report.mutated += sum(is_mutated for _, is_mutated in frames)
        try:
            _send_in_pieces(dice, client, [frame for frame, _ in frames])
            client.shutdown(socket.SHUT_WR)
        except OSError:
            # The broker has ended the conversation before its end.
            pass
        talking.append(client)
    for client in talking:
        started = time.perf_counter()
        try:
            reader = _Closes()
            while data := client.recv(65_536):
                for kind, _, code in reader.read(data):
                    report.refusals[f"{kind} {code}"] += 1
        except TimeoutError:
            report.faults.append(f"conversation {report.conversations}: the broker does not end it")
        except ConnectionResetError:
            report.resets += 1
        report.slowest_seconds = max(report.slowest_seconds, time.perf_counter() - started)
        client.close()


def _send_in_pieces(dice: random.Random, client: socket.socket, frames: Iterable[bytes]) -> None:
    data = b"".join(frames)
    cut = dice.randint(0, len(data))
    for piece in (data[:cut], data[cut:]):
        client.sendall(piece)


class _TcpWitness:
    """A proper client over TCP, which publishes and gets on a connection that stays."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, _HANG_SECONDS_OVER_TCP)
        self._socket.sendall(b"".join(OPENING) + method(1, "queue.declare", queue=_WITNESS_QUEUE, exclusive=True))
        self._read_until(b"\0\x32\0\x0b")

    def use(self, report: Report) -> None:
        """Publish and get once; raise if the answer does not come or is anything else."""
        report.witnessed += 1
        body = b"witnessed %d" % report.witnessed
        get = method(1, "basic.get", queue=_WITNESS_QUEUE, no_ack=True)
        self._socket.sendall(b"".join(publish(1, _WITNESS_QUEUE, body)) + get)
        self._read_until(codec.frame(codec.BODY, 1, body))

    def _read_until(self, wanted: bytes) -> None:
        data = b""
        while wanted not in data:
            part = self._socket.recv(65_536)
            if not part:
                raise AssertionError("the broker has ended the witness's connection")
            data += part

    def close(self) -> None:
        self._socket.sendall(method(0, "connection.close", reply_code=200, reply_text="bye"))
        self._read_until(b"\0\x0a\0\x33")
        self._socket.close()


def _rss_mib() -> float:
    """Return the memory of this process, or 0 where the system does not say."""
    if not has_proc():
        return 0.0
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 2**20
