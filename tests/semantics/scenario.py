"""The language of scenarios: ``s`` (the run) and its channels.

Every method of a channel sends and waits for the reply, so a scenario needs no sleep. ``send`` and ``receive`` are for
methods without a reply and for pipelining. ``elapse`` lets time pass: in real time on a server, by the clock on
leveret.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.recording import ALL_VERSIONS, Scenario, Scenarios, Transcripts

from . import codec, render
from .channel import Channel
from .client import CAPABILITIES, Connection, Event, Log, ScenarioEnded
from .target import Endpoint

transcripts = Transcripts(
    Path(__file__).parent / "transcripts", lambda kept: json.dumps(kept, indent=1, ensure_ascii=False) + "\n"
)
SCENARIOS = Scenarios()
scenario = SCENARIOS.scenario


class Run:
    """One run of a scenario against one endpoint (``s`` in scenarios)."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.version = endpoint.version
        self.vhost = endpoint.vhost
        self.operator = endpoint.operator
        self.lines: dict[str, list[str]] = {}
        self.connections: list[Connection] = []
        self._names = render.Names(endpoint.token)
        self._main: Connection | None = None

    def raw(self) -> Connection:
        """Open a socket without any handshake; everything that arrives is recorded."""
        ordinal = len(self.connections) + 1
        log = Log(ordinal, self._names, self.lines)
        connection = Connection(self.endpoint.address, log, self.endpoint.limit_seconds, self.endpoint.patience)
        log.is_recording = True
        self.connections.append(connection)
        return connection

    def connect(
        self,
        *,
        vhost: str | None = None,
        user: str = "guest",
        password: str = "guest",
        capabilities: Mapping[str, object] = CAPABILITIES,
        client_properties: Mapping[str, object] | None = None,
        **tuning: int,
    ) -> Connection:
        """Open a connection; the handshake is recorded only if it fails."""
        connection = self.raw()
        connection.log.hidden |= {"connection.start", "connection.tune", "connection.open-ok"}
        connection.start()
        properties = {"product": "scenario", "capabilities": dict(capabilities), **(client_properties or {})}
        connection.log_in(self.user(user), password, properties)
        connection.tune(**tuning)
        connection.open(self.vhost if vhost is None else vhost)
        connection.log.hidden -= {"connection.start", "connection.tune", "connection.open-ok"}
        return connection

    def channel(self, number: int | None = None, on: Connection | None = None) -> Channel:
        """Open a channel, on the first connection by default."""
        if on is None:
            if self._main is None:
                self._main = self.connect()
            on = self._main
        if number is None:
            number = max(on.open_channels, default=0) + 1
        channel = Channel(on, number)
        channel.open()
        return channel

    @property
    def connection(self) -> Connection:
        """The first connection made by ``channel``."""
        assert self._main is not None
        return self._main

    def user(self, name: str) -> str:
        """Return the real name of a user that this run created."""
        return self.endpoint.user(name)

    def elapse(self, milliseconds: int) -> None:
        """Let time pass for TTLs, expiry and retries."""
        self.endpoint.elapse(milliseconds, self.connections)

    def elapse_liveness(self, milliseconds: int) -> None:
        """Let time pass for heartbeats and timeouts."""
        self.endpoint.elapse_liveness(milliseconds)

    def expect_end(self, connection: Connection, after_ms: int = 0) -> None:
        """Wait until the server ends the socket, which takes it ``after_ms``."""
        self.endpoint.elapse_liveness(after_ms)
        how = connection.wait_end(self.endpoint.limit_seconds + after_ms / 1000 * self.endpoint.real_time)
        if how in ("still open", "ended"):
            connection.log.write(0, f"(socket {how})")

    def finish(self) -> dict[str, list[str]]:
        """Read what still arrives, close everything, and return the transcript."""
        for connection in self.connections:
            self._sync(connection)
        for connection in self.connections:
            connection.log.is_recording = False
        for connection in self.connections:
            self._close(connection)
        return self.lines

    def _sync(self, connection: Connection) -> None:
        connection.log.hidden.add("channel.flow-ok")
        is_silent = connection.is_ended or not connection.answers_close
        for number in [] if is_silent else list(connection.open_channels):
            connection.send(number, "channel.flow", active=True)
            try:
                connection.take(number, "channel.flow-ok")
            except ScenarioEnded as ended:
                connection.log.write(number, f"(at the end: {ended})")

    def _close(self, connection: Connection) -> None:
        if connection.is_ended or not connection.is_open or not connection.answers_close:
            connection.drop()
            return
        try:
            connection.close()
        except ScenarioEnded:
            connection.drop()


def run(scenario: Scenario, endpoint: Endpoint) -> dict[str, list[str]]:
    """Return the transcript of a scenario on an endpoint."""
    current = Run(endpoint)
    try:
        scenario.function(current)
    except ScenarioEnded as ended:
        current.lines.setdefault("scenario", []).append(f"ended early: {ended}")
    return current.finish()


__all__ = [
    "ALL_VERSIONS",
    "SCENARIOS",
    "Channel",
    "Connection",
    "Event",
    "Run",
    "Scenario",
    "codec",
    "run",
    "scenario",
    "transcripts",
]
