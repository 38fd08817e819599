"""One conversation with the fast paths, and without them, as if a fault were waiting for something."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.protocol.peer import Frame, Server


def outcome(
    opening: Mapping[int, Iterable[Frame]], data: bytes, *, is_plain: bool, size: int, frame_max: int = 131_072
) -> tuple[bytes, list[str]]:
    """Return the bytes sent to a client and all events, after it opens these channels and sends `data` in pieces."""
    server = Server()
    peer = server.peer(channels=opening, frame_max=frame_max)
    for channel, methods in opening.items():
        peer.send(channel, *methods)
    server.node.hooks.faults.is_armed = is_plain
    for at in range(0, len(data), size):
        peer.send_octets(data[at : at + size])
    assert server.node.internal_errors == []
    return peer.read_octets(), [repr(event) for event in server.events()]
