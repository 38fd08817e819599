"""A transport over a socket that does what the test says."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from leveret.server.pollers import READABLE, SelectPoller
from leveret.server.transport import LARGE_PIECE_BYTES, READ_BYTES, READ_BYTES_MAX, Transport
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


def test_a_socket_ends_on_a_system_that_does_not_count_what_is_unsent() -> None:
    """Linux does not count for a local socket, and a sandbox may not count for any."""
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        transport: Any = Transport(near, Echo(EchoHost(), []), SelectPoller(), time.thread_time_ns)

        transport.close()

        assert not transport.is_open
        assert far.recv(100) == b""


class Willing:
    """A socket whose peer sends as much as each read takes, and takes all that is sent."""

    def __init__(self, real: socket.socket) -> None:
        self._real = real
        self.read_sizes: list[int] = []
        self.sent: list[object] = []

    def recv(self, size: int) -> bytes:
        self.read_sizes.append(size)
        return bytes(size)

    def send(self, data: bytes) -> int:
        self.sent.append(data)
        return len(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@pytest.fixture
def willing() -> Iterator[Any]:
    near, far = socket.socketpair()
    with near, far:
        yield Willing(near)


def test_a_flood_that_is_cheap_to_handle_is_read_in_larger_and_larger_pieces(willing: Any) -> None:
    transport = Transport(willing, Quiet(EchoHost(), []), SelectPoller(), lambda: 0)

    for _ in range(4):
        transport.read()

    assert willing.read_sizes == [READ_BYTES, 2 * READ_BYTES, READ_BYTES_MAX, READ_BYTES_MAX]


def test_small_pieces_are_sent_together_and_a_large_one_is_sent_without_a_copy(willing: Any) -> None:
    echo = Echo(EchoHost(), [])
    transport = Transport(willing, echo, SelectPoller(), time.thread_time_ns)
    large = bytes(LARGE_PIECE_BYTES)
    echo.output = [large, large, b"a", b"b"]

    transport.flush()

    assert [data is large for data in willing.sent] == [True, True, False]
    assert willing.sent[-1] == b"ab"


class Quiet(Echo):
    """A conversation that ignores what it receives."""

    def receive_data(self, data: bytes) -> None:
        """Do nothing."""
