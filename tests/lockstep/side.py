"""One of the two servers under a program: its connections, and what it has sent since the last step.

Programs use channels 1 to 8 of connections 1 and up. Channel 9 of each connection belongs to the machine, for barriers
and counts. So does connection 0, which stays open whatever the program does.
"""

from __future__ import annotations

import re
import select
import time
from collections.abc import Iterable

from tests.semantics import render
from tests.semantics.channel import Channel
from tests.semantics.client import CAPABILITIES, Connection, Event, Log, ScenarioEnded
from tests.semantics.target import Endpoint

CONTROL = 9
OWN = 0
_GENERATED = re.compile(rb"amq\.(?:gen|ctag)-[A-Za-z0-9_-]{22}")
_REPLY_TO = b"amq.rabbitmq.reply-to."
# A name that programs use ends with this if they mean the server's name with its last five characters overwritten.
BROKEN = "~"

Place = tuple[int, int]


class Side:
    """One server."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.names = render.Names(endpoint.token)
        self.connections: dict[int, Connection] = {}
        # Names that the server generated, by the label that programs use: gen1, ctag1, reply1, ...
        self.made_up: dict[str, bytes] = {}
        self.connect(OWN)

    def connect(self, ordinal: int) -> Connection:
        """Return the connection with that number; open it if necessary."""
        found = self.connections.get(ordinal)
        if found is not None and not found.is_ended:
            return found
        log = Log(ordinal, self.names, {})
        made = Connection(self.endpoint.address, log, 10.0, 1)
        made.start()
        made.log_in("guest", "guest", {"product": "lockstep", "capabilities": CAPABILITIES})
        made.tune()
        made.open(self.endpoint.vhost)
        self._open(made, CONTROL)
        made.events.clear()
        self.connections[ordinal] = made
        return made

    def channel(self, place: Place) -> Channel:
        """Return that channel; open it if necessary."""
        connection = self.connect(place[0])
        if place[1] not in connection.open_channels:
            self._open(connection, place[1])
        return Channel(connection, place[1])

    def await_close(self, place: Place, seconds: float) -> None:
        """Read until the server has closed the channel or the connection has ended, or until the time is over."""
        connection, deadline = self.connections[place[0]], time.monotonic() + seconds
        while time.monotonic() < deadline and not connection.is_ended:
            if any(event.channel == place[1] and event.name == "channel.close" for event in connection.events):
                return
            connection.read_for(0.002)

    def is_open(self, place: Place) -> bool:
        """Return whether the connection and the channel are open."""
        connection = self.connections.get(place[0])
        return connection is not None and not connection.is_ended and place[1] in connection.open_channels

    def channel_count(self, ordinal: int) -> int:
        """Return how many channels of programs are open on that connection."""
        connection = self.connections.get(ordinal)
        return 0 if connection is None or connection.is_ended else len(connection.open_channels) - 1

    def _open(self, connection: Connection, number: int) -> None:
        connection.send(number, "channel.open")
        connection.take(number, "channel.open-ok")
        connection.open_channels.append(number)

    def settle(self, first: int) -> None:
        """Wait for a round trip on that connection, then on every one."""
        self._round_trips([self.connections[first if first in self.connections else OWN]])
        # The first once more: leveret sends confirms at the end of a turn, after the replies of that turn.
        self._round_trips(self.connections.values())

    def _round_trips(self, connections: Iterable[Connection]) -> None:
        asked = [connection for connection in connections if not connection.is_ended]
        for connection in asked:
            connection.send(CONTROL, "channel.flow", active=True)
        for connection in asked:
            try:
                connection.take(CONTROL, "channel.flow-ok")
            except ScenarioEnded:
                if not connection.is_ended:
                    raise

    def await_events(self, counts: dict[Place, int], deadline: float) -> None:
        """Read until this many events have arrived, not counting confirms, or until the deadline."""
        for connection in self.connections.values():
            connection.take_frames()
        while not self._has_come(counts):
            living = [connection for connection in self.connections.values() if not connection.is_ended]
            readable, _, _ = select.select(living, [], [], max(deadline - time.monotonic(), 0))
            if not readable:
                return
            for connection in readable:
                connection.read_once()

    def _has_come(self, counts: dict[Place, int]) -> bool:
        return all(
            self.connections[ordinal].is_ended or self.connections[ordinal].count(channel) >= count
            for (ordinal, channel), count in counts.items()
        )

    def collect(self) -> Iterable[tuple[Place, Event]]:
        """Yield what has arrived on the program's channels since the last call."""
        for ordinal, connection in self.connections.items():
            events, connection.events = connection.events, []
            for event in events:
                if event.channel != CONTROL:
                    self._note_made_up(event)
                    yield (ordinal, event.channel), event

    def _note_made_up(self, event: Event) -> None:
        reply_to = (event.properties or {}).get("reply_to")
        if isinstance(reply_to, bytes) and reply_to.startswith(_REPLY_TO) and reply_to not in self.made_up.values():
            self._label("reply", reply_to)
        if event.name not in ("queue.declare-ok", "basic.consume-ok"):
            return
        name = event.fields["queue" if event.name == "queue.declare-ok" else "consumer_tag"]
        assert isinstance(name, bytes)
        if _GENERATED.fullmatch(name) and name not in self.made_up.values():
            self._label("gen" if name.startswith(b"amq.gen") else "ctag", name)

    def _label(self, kind: str, name: bytes) -> None:
        number = sum(label.startswith(kind) for label in self.made_up) + 1
        self.made_up[f"{kind}{number}"] = name

    def real_name(self, name: object) -> object:
        """Return the server's own name for gen1, ctag1, reply1, ...; other names stay the same."""
        if not isinstance(name, str):
            return name
        found = self.made_up.get(name.removesuffix(BROKEN), name)
        return found[:-5] + b"xxxxx" if isinstance(found, bytes) and name.endswith(BROKEN) else found

    def label(self, name: bytes) -> str:
        """Return the name that programs use for a name of this server."""
        found = next((label for label, made in self.made_up.items() if made == name), None)
        return found or name.decode()

    def counts(self, queues: dict[str, int]) -> dict[str, str]:
        """Return the ready messages and consumers of these queues, or the reply code of the error, by queue.

        Each queue is counted on the connection given for it, if that is open.
        """
        found: dict[str, str] = {}
        by_connection: dict[int, list[str]] = {}
        for name, ordinal in queues.items():
            is_there = ordinal in self.connections and not self.connections[ordinal].is_ended
            by_connection.setdefault(ordinal if is_there else OWN, []).append(name)
        for ordinal, names in by_connection.items():
            found |= self._ask(self.connections[ordinal], names)
        return found

    def _ask(self, connection: Connection, names: list[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        while len(found) < len(names):
            due = names[len(found) :]
            for name in due:
                connection.send(CONTROL, "queue.declare", queue=self.real_name(name), passive=True)
            for name in due:
                reply = connection.take(CONTROL, "queue.declare-ok")
                if reply.name != "queue.declare-ok":
                    found[name] = str(reply.fields.get("reply_code", reply.name))
                    self._open(connection, CONTROL)
                    break
                found[name] = f"{reply['message_count']} ready, {reply['consumer_count']} consumers"
        return found

    def read_for(self, seconds: float) -> None:
        """Read from all connections for this many seconds in total."""
        for connection in self.connections.values():
            if not connection.is_ended:
                connection.read_for(seconds / len(self.connections))

    def close(self, queues: Iterable[str], exchanges: Iterable[str], policies: Iterable[str]) -> None:
        """Remove everything that the program created."""
        for name in sorted(policies):
            self.endpoint.operator.clear_policy(self.endpoint.vhost, name)
        for ordinal, connection in self.connections.items():
            if ordinal != OWN and not connection.is_ended:
                connection.close()
        own = self.connections[OWN]
        for name in queues:
            own.send(CONTROL, "queue.delete", queue=self.real_name(name))
            own.take(CONTROL, "queue.delete-ok")
            if CONTROL not in own.open_channels:
                self._open(own, CONTROL)
        for name in sorted(exchanges):
            own.send(CONTROL, "exchange.delete", exchange=name)
            own.take(CONTROL, "exchange.delete-ok")
        own.close()
