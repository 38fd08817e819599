"""The raw AMQP client of the scenarios: it sends exactly what a scenario says and keeps all that the server sends.

A ``Connection`` reads only while the scenario waits for something, one thing at a time, so a transcript has one order.
It answers a server's ``channel.close`` and ``connection.close`` by itself unless ``answers_close`` is off. Every wait
has a limit. When the limit passes, or a scenario acts on something closed, ``ScenarioEnded`` ends the scenario.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from . import codec, render

CAPABILITIES = {
    "authentication_failure_close": True,
    "basic.nack": True,
    "connection.blocked": True,
    "consumer_cancel_notify": True,
    "publisher_confirms": True,
}
_CONFIRMS = ("basic.ack", "basic.nack")
_ENDINGS = ("channel.close", "connection.close", "closed", "reset")


class ScenarioEnded(Exception):
    """The scenario cannot go on: nothing arrived, or the channel is closed. The text goes into the transcript."""


@dataclass
class Event:
    """One event from the server: a method with its content, a heartbeat, or the end of the socket."""

    channel: int
    name: str
    fields: dict[str, object] = field(default_factory=dict)
    properties: dict[str, object] | None = None
    body: bytes = b""
    body_sizes: list[int] = field(default_factory=list)

    def __getitem__(self, name: str) -> object:
        if name not in self.fields:
            raise ScenarioEnded(f"{self.name} came, which has no {name}")
        return self.fields[name]

    def line(self) -> str:
        """Return the event as a line of a transcript."""
        parts = [self.name, render.fields(self.fields)]
        if self.properties is not None:
            parts += ["|", render.fields(self.properties), "|", render.body(self.body)]
        if len(self.body_sizes) > 1:
            parts.append(f"in body frames of {self.body_sizes}")
        return " ".join(part for part in parts if part)


class Connection:
    """One socket. ``events`` holds what arrived and was not yet taken; ``log`` gets a line for each."""

    def __init__(self, address: tuple[str, int], log: Log, limit: float, patience: int) -> None:
        self.log = log
        # Seconds to wait for an immediate reply, and how often to poll for something that happens in its own time.
        self.limit = limit
        self.patience = patience
        self.events: list[Event] = []
        self.open_channels: list[int] = []
        self.answers_close = True
        self.is_open = False
        self.is_ended = False
        self._is_closing = False
        self._buffer = b""
        self._unsent: list[bytes] | None = None
        self._content: dict[int, Event] = {}
        self._due: dict[int, int] = {}
        self._socket = socket.create_connection(address, 5)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.local_port = self._socket.getsockname()[1]

    def send_bytes(self, data: bytes) -> None:
        """Send these bytes as they are."""
        if self._unsent is not None:
            self._unsent.append(data)
            return
        try:
            self._socket.sendall(data)
        except OSError:
            self._note_end("reset")

    @contextmanager
    def in_one_piece(self) -> Iterator[None]:
        """Send everything that the block sends at its end, at once."""
        self._unsent = []
        yield
        data, self._unsent = b"".join(self._unsent), None
        self.send_bytes(data)

    def send_frame(self, kind: int, channel: int, payload: bytes, end: int = codec.FRAME_END) -> None:
        self.send_bytes(codec.frame(kind, channel, payload, end))

    def send(self, channel: int, name: str, **fields: object) -> None:
        """Send a method and wait for nothing."""
        self.send_frame(codec.METHOD, channel, codec.encode_method(name, **fields))

    def call(self, name: str, reply: str, **fields: object) -> Event:
        """Send a method on channel 0 and return its reply."""
        self.send(0, name, **fields)
        return self.take(0, reply)

    def take(self, channel: int, *names: str, limit: float | None = None) -> Event:
        """Return the next event of that channel with one of these names, or the end of the channel or connection."""
        deadline = time.monotonic() + (self.limit if limit is None else limit)
        while True:
            for index, event in enumerate(self.events):
                is_end = event.channel == 0 and event.name in _ENDINGS
                if is_end or (event.channel == channel and event.name in (*names, "channel.close")):
                    return event if is_end and channel else self.events.pop(index)
            if self.is_ended:
                raise ScenarioEnded(f"waited for {' or '.join(names)}, but the connection has ended")
            if not self._read(deadline):
                raise ScenarioEnded(f"waited for {' or '.join(names)}, nothing came")

    def take_bytes(self, count: int) -> bytes:
        """Return this many raw bytes, for data that is not a frame."""
        deadline = time.monotonic() + self.limit
        while len(self._buffer) < count and self._receive(deadline):
            pass
        taken, self._buffer = self._buffer[:count], self._buffer[count:]
        self.log.write(0, f"octets {taken!r}")
        return taken

    def wait_end(self, limit: float) -> str:
        """Read until the socket ends, and return how it ended."""
        deadline = time.monotonic() + limit
        while not self.is_ended:
            if not self._read(deadline):
                return "still open"
        return next((event.name for event in reversed(self.events) if event.name in ("closed", "reset")), "ended")

    def read_for(self, seconds: float) -> None:
        """Let time pass on a real server while reading what arrives."""
        deadline = time.monotonic() + seconds
        while not self.is_ended and self._read(deadline):
            pass

    def fileno(self) -> int:
        """Return the socket's descriptor, for select."""
        return self._socket.fileno()

    def read_once(self) -> None:
        """Read once from a readable socket."""
        self._receive(0)
        self.take_frames()

    def take_frames(self) -> None:
        """Take all frames that were received, without reading more."""
        while self._take_frame():
            pass

    def count(self, channel: int) -> int:
        """Return how many events of that channel were not yet taken, not counting confirms."""
        return sum(event.channel == channel and event.name not in _CONFIRMS for event in self.events)

    def _read(self, deadline: float) -> bool:
        while not self._take_frame():
            if self.is_ended or not self._receive(deadline):
                return self.is_ended
        return True

    def _receive(self, deadline: float) -> bool:
        self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            data = self._socket.recv(262_144)
        except TimeoutError:
            return False
        except OSError:
            self._note_end("reset")
            return False
        if not data:
            self._note_end("closed")
        self._buffer += data
        return bool(data)

    def _note_end(self, how: str) -> None:
        if not self.is_ended:
            self.is_ended = True
            self._socket.close()
            if not self._is_closing:
                self._add(Event(0, how))

    def _take_frame(self) -> bool:
        if len(self._buffer) < 7:
            return False
        kind, channel, size = struct.unpack_from(">BHI", self._buffer)
        if len(self._buffer) < size + 8:
            return False
        payload, end, self._buffer = self._buffer[7 : 7 + size], self._buffer[7 + size], self._buffer[8 + size :]
        if end != codec.FRAME_END:
            raise ValueError("server sent a bad frame end")
        self._take_payload(kind, channel, payload)
        return True

    def _take_payload(self, kind: int, channel: int, payload: bytes) -> None:
        if kind == codec.HEARTBEAT:
            self._add(Event(channel, "heartbeat"))
            return
        if kind == codec.METHOD:
            name, fields = codec.decode_method(payload)
            event = Event(channel, name, fields)
            if name in codec.CONTENT_METHODS:
                self._content[channel] = event
                return
            self._add(event)
            self._answer(event)
            return
        event = self._content[channel]
        if kind == codec.HEADER:
            reader = codec.Reader(payload)
            reader.take(4)
            self._due[channel] = int(reader.number("Q"))
            event.properties = codec.decode_properties(reader)
        else:
            event.body += payload
            event.body_sizes.append(len(payload))
            self._due[channel] -= len(payload)
        if self._due[channel] == 0:
            self._add(self._content.pop(channel))

    def _add(self, event: Event) -> None:
        self.events.append(event)
        self.log.add(event)

    def _answer(self, event: Event) -> None:
        if not self.answers_close:
            return
        if event.name == "channel.close":
            self.forget_channel(event.channel)
            self.send(event.channel, "channel.close-ok")
        elif event.name == "connection.close":
            self.send(0, "connection.close-ok")
            self.drop()

    def forget_channel(self, number: int) -> None:
        """Forget a closed channel."""
        if number in self.open_channels:
            self.open_channels.remove(number)

    def start(self) -> Event:
        """Send the protocol header and return connection.start."""
        self.send_bytes(codec.PROTOCOL_HEADER)
        return self.take(0, "connection.start")

    def log_in(self, user: str, password: str, client_properties: dict[str, object]) -> Event:
        """Log in with PLAIN; return connection.tune, or the event that refused the login."""
        return self.call(
            "connection.start-ok",
            "connection.tune",
            client_properties=client_properties,
            mechanism="PLAIN",
            response=f"\0{user}\0{password}",
            locale="en_US",
        )

    def tune(self, channel_max: int = 2047, frame_max: int = 131_072, heartbeat: int = 0) -> None:
        self.send(0, "connection.tune-ok", channel_max=channel_max, frame_max=frame_max, heartbeat=heartbeat)

    def open(self, vhost: str) -> Event:
        reply = self.call("connection.open", "connection.open-ok", virtual_host=vhost)
        self.is_open = reply.name == "connection.open-ok"
        return reply

    def close(self) -> Event:
        """Close the connection with the client's closing handshake."""
        reply = self.call("connection.close", "connection.close-ok", reply_code=200, reply_text="bye")
        self.drop()
        return reply

    def drop(self) -> None:
        """Close the socket without a closing handshake."""
        self._is_closing = self.is_ended = True
        self._socket.close()

    def reset(self) -> None:
        """Reset the socket."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.drop()


class Log:
    """The transcript of one connection: lines by channel. ``hidden`` names are left out."""

    def __init__(self, ordinal: int, names: render.Names, lines: dict[str, list[str]]) -> None:
        self._ordinal = ordinal
        self._names = names
        self._lines = lines
        self.is_recording = False
        self.hidden: set[str] = {"channel.open-ok", "heartbeat"}
        self.confirmations: dict[int, list[Event]] = {}

    def add(self, event: Event) -> None:
        """Add a line for the event, unless it is hidden."""
        if not self.is_recording or event.name in self.hidden:
            return
        if event.channel in self.confirmations and event.name in ("basic.ack", "basic.nack"):
            self.confirmations[event.channel].append(event)
            return
        self.write(event.channel, event.line())

    def write(self, channel: int, line: str) -> None:
        """Add a line of the scenario's own."""
        self._lines.setdefault(f"{self._ordinal}.{channel}", []).append(self._names.clean(line))
