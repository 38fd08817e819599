"""Peers that speak another protocol, or come to the wrong port: the reports name them and the way out."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress

import pika
import pytest

from leveret import Broker

AMQP_0_9_1 = b"AMQP\x00\x00\x09\x01"
AMQP_1_0 = b"AMQP\x03\x01\x00\x00"


def send(port: int, octets: bytes) -> bytes:
    """Send first bytes to a port, and return the whole answer."""
    with socket.create_connection(("127.0.0.1", port), 5) as peer:
        peer.sendall(octets)
        answer = b""
        with suppress(ConnectionResetError):
            while octets := peer.recv(100):
                answer += octets
    return answer


def test_a_client_with_tls_on_the_plain_port_is_named_with_its_line_and_the_way_out() -> None:
    with Broker() as broker:
        parameters = pika.URLParameters(broker.url)
        parameters.ssl_options = pika.SSLOptions(ssl.create_default_context())
        with pytest.raises(ssl.SSLError):
            pika.BlockingConnection(parameters)

        report = broker._engine.report()

    assert "a TLS hello arrived on the port without TLS, during the call at " in report
    assert "test_strangers.py" in report
    assert "give the client broker.url, or start the broker with tls=True" in report
    assert "no client has connected" not in report


def test_a_wait_that_times_out_names_a_client_with_tls() -> None:
    with Broker() as broker:
        broker.declare_queue("mails")
        parameters = pika.URLParameters(broker.url)
        parameters.ssl_options = pika.SSLOptions(ssl.create_default_context())
        with pytest.raises(ssl.SSLError):
            pika.BlockingConnection(parameters)

        with pytest.raises(AssertionError) as failure:
            broker.assert_delivered("mails", timeout=0)

    assert "a TLS hello arrived" in "".join(failure.value.__notes__)


@pytest.mark.parametrize(
    ("octets", "answer", "words"),
    [
        (b"GET /api/queues HTTP/1.1\r\n\r\n", AMQP_1_0, "an HTTP request arrived on the port for AMQP: the management"),
        (b"POST /api/x HTTP/1.1\r\n\r\n", AMQP_1_0, "an HTTP request arrived on the port for AMQP: the management"),
        (b"AMQP\x00\x01\x00\x00", AMQP_1_0, "a client that speaks AMQP 1.0 arrived: leveret speaks AMQP 0-9-1"),
        (AMQP_1_0, AMQP_0_9_1, "a client that speaks AMQP 1.0 arrived: leveret speaks AMQP 0-9-1"),
    ],
)
def test_another_protocol_is_named_and_gets_the_answer_of_any_wrong_header(octets, answer, words) -> None:
    with Broker() as broker:
        assert send(broker.port, octets) == answer

        assert words in broker._engine.report()


def test_amqp_without_tls_on_the_tls_port_is_named() -> None:
    with Broker(tls=True) as broker:
        send(broker.tls.port, b"AMQP\x00\x00\x09\x01")

        assert "AMQP without TLS arrived on the port for TLS: give the client broker.url" in broker._engine.report()


def test_a_reset_forgets_peers_of_another_protocol() -> None:
    with Broker() as broker:
        send(broker.port, b"GET / HTTP/1.1\r\n\r\n")
        broker.reset()

        assert "an HTTP request arrived" not in broker._engine.report()
