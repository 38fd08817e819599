"""A transport over a socket that does what the test says."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest

from leveret.server.pollers import READABLE, SelectPoller
from leveret.server.transport import Transport
from tests.server.echo import Echo, EchoHost


class HalfHearted:
    """A socket whose first write is taken in part, as when the system's buffers are nearly full."""

    def __init__(self, real: socket.socket) -> None:
        self._real = real
        self.sent: list[bytes] = []
        self.calls: list[str] = []

    def send(self, data: bytes) -> int:
        taken = bytes(data) if self.sent else bytes(data[: len(data) // 2])
        self.sent.append(taken)
        return len(taken)

    def __getattr__(self, name: str) -> Any:
        self.calls.append(name)
        return getattr(self._real, name)


@pytest.mark.parametrize("lines", [b"word\nbye\n", b"bye\n"], ids=["several pieces", "one piece"])
def test_a_peer_that_took_a_part_gets_the_end_before_its_socket_ends(lines: bytes) -> None:
    """A reset would discard what the system still holds for the peer."""
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        half_hearted: Any = HalfHearted(near)
        echo = Echo(EchoHost(), [])
        transport = Transport(half_hearted, echo, SelectPoller(), time.thread_time_ns)
        far.sendall(lines)

        transport.on_ready(READABLE)
        transport.flush()

        assert not transport.is_open
        assert b"".join(half_hearted.sent) == lines.upper()
        assert "shutdown" in half_hearted.calls
        assert "setsockopt" not in half_hearted.calls
