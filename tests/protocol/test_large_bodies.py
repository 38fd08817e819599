"""What a body of many frames costs on its way in and out."""

from __future__ import annotations

import gc
import tracemalloc

from pamqp.body import ContentBody
from pamqp.commands import Basic

from tests.protocol.peer import Frame, Server, declare, octets, publish_octets

SIZE = 4_000_000
PIECE = 256 * 1024


def peak_of_receiving(request: bytes) -> int:
    """Return the most memory that is in use at once while the server reads a publish piece by piece."""
    server = Server()
    peer = server.peer()
    peer.call(1, declare())
    gc.collect()
    tracemalloc.start()
    try:
        for at in range(0, len(request), PIECE):
            peer.send_octets(request[at : at + PIECE])
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_large_body_that_is_published_is_put_together_as_it_arrives() -> None:
    assert peak_of_receiving(publish_octets(1, bytes(SIZE))) < 1.5 * SIZE


def test_a_header_that_announces_a_very_large_body_does_not_set_aside_all_of_it() -> None:
    announced = publish_octets(1, bytes(100_000_000))

    assert peak_of_receiving(announced[:PIECE]) < 20_000_000


def test_a_body_that_is_larger_than_what_is_set_aside_arrives_whole() -> None:
    peer = Server("3.13").peer()
    peer.call(1, declare())
    body = bytes(range(256)) * 80_000

    peer.publish(1, body)

    reply = peer.call(1, Basic.Get(queue="q", no_ack=True))
    assert b"".join(item.value for _, item in reply if isinstance(item, ContentBody)) == body


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
