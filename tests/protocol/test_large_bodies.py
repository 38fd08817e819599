"""What a body of many frames costs on its way out."""

from __future__ import annotations

import gc
import tracemalloc

from pamqp.commands import Basic

from tests.protocol.peer import Frame, Server, declare, octets

SIZE = 4_000_000


def peak_of_sending(how: Frame) -> int:
    """Return the most memory that is in use at once while the server writes a large message to a client."""
    server = Server()
    peer = server.peer()
    peer.call(1, declare())
    peer.publish(1, bytes(SIZE))
    request = octets(1, how)
    gc.collect()
    tracemalloc.start()
    try:
        peer.send_octets(request)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_large_body_that_is_fetched_is_copied_once() -> None:
    assert peak_of_sending(Basic.Get(queue="q")) < 1.5 * SIZE


def test_a_large_body_that_is_delivered_is_copied_once() -> None:
    assert peak_of_sending(Basic.Consume(queue="q")) < 1.5 * SIZE
