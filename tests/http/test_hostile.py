"""Hostile and careless clients: each is answered or dropped, and messages flow on meanwhile."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Event, Semaphore
from urllib.parse import urlsplit

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from leveret import Broker
from leveret.http.control.endpoint import ENDPOINTS
from leveret.http.messages import Request, Response
from leveret.http.server import HttpServer, Limits
from tests.http import campaign
from tests.http.client import GUEST, ask, connection, raw, read_to_end
from tests.server.test_cli import served
from tests.server.test_clock import stopped

HEAD = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"
VHOST = "/leveret/v1/vhosts/%2F"
STREAM = f"GET /leveret/v1/events/stream HTTP/1.1\r\nhost: localhost\r\nauthorization: {GUEST}\r\n\r\n".encode()


@contextmanager
def client_of(url: str) -> Iterator[BlockingChannel]:
    """A client of AMQP with a queue, for messages that must flow whatever the clients of HTTP do."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.queue_declare("flowing", durable=True)
        yield channel


def flow(channel: BlockingChannel, body: bytes = b"x") -> None:
    """Publish a message and get it."""
    channel.basic_publish("", "flowing", body)
    method, _, received = channel.basic_get("flowing")
    assert received == body
    channel.basic_ack(method.delivery_tag)


class Site:
    """An app whose answer the test chooses."""

    def __init__(self, answer: Callable[[Request], Response]) -> None:
        self.handle = answer


@contextmanager
def server(answer: Callable[[Request], Response], **options: object) -> Iterator[HttpServer]:
    errors: list[BaseException] = []
    server = HttpServer(Site(answer), internal_errors=errors, **options)
    server.address = server.start("127.0.0.1", 0)
    try:
        yield server
    finally:
        server.stop()


def fine(_request: Request) -> Response:
    return Response(200, (), b"fine")


def connected(server: HttpServer) -> socket.socket:
    return socket.create_connection(server.address, timeout=60)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.name)
def test_no_endpoint_serves_a_stranger(broker: Broker, endpoint) -> None:
    path = endpoint.template.replace("{vhost}", "%2F").replace("{queue}", "q").replace("{exchange}", "e")

    assert ask(broker, endpoint.method, path.replace("{fault}", "1"), {}, authorization=None).status == 401


@pytest.mark.parametrize("tags", [(), ("management",), ("monitoring", "policymaker")])
def test_a_user_without_the_tag_administrator_is_refused(broker: Broker, tags: tuple[str, ...]) -> None:
    broker.admin.add_user("bob", "secret", tags=tags)
    try:
        answer = ask(broker, "GET", "/leveret/v1/state", authorization="Basic Ym9iOnNlY3JldA==")
    finally:
        broker.admin.delete_user("bob")

    assert answer.status == 403
    assert answer.json["reason"] == "user 'bob' lacks the tag 'administrator'; set it with set_user_tags"


def test_a_body_of_100_mb_is_refused_while_it_is_still_being_sent(broker: Broker) -> None:
    with client_of(broker.url) as channel, raw(broker) as client:
        client.sendall(b"POST /leveret/v1/reset HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000000\r\n\r\n")
        answer = client.recv(65536)
        for _ in range(100):
            client.sendall(bytes(1_000_000))
            flow(channel)

    assert answer.startswith(b"HTTP/1.1 413")
    assert b"the body exceeds the limit of 20000000 bytes; send less" in answer


def test_a_body_without_a_length_is_refused_once_it_is_too_large(broker: Broker) -> None:
    with raw(broker) as client:
        client.sendall(b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(21):
            client.sendall(b"f4240\r\n" + bytes(1_000_000) + b"\r\n")

        assert client.recv(65536).startswith(b"HTTP/1.1 413")


def test_a_head_that_is_too_large_is_refused(broker: Broker) -> None:
    with raw(broker) as client:
        client.sendall(HEAD[:-2] + b"x: " + b"y" * 40_000)

        assert read_to_end(client).startswith(b"HTTP/1.1 431")


def test_a_head_that_is_too_large_is_refused_even_in_one_piece(broker: Broker) -> None:
    with raw(broker) as client:
        client.sendall(HEAD[:-2] + b"x: " + b"y" * 32_768 + b"\r\n\r\n")
        answer = read_to_end(client)

    assert answer.startswith(b"HTTP/1.1 431")
    assert b"the head of the request exceeds the limit of 32768 bytes; send a shorter URL or fewer headers" in answer


def test_a_client_that_sends_its_request_slowly_is_dropped_in_real_time() -> None:
    clock = stopped()
    with server(fine, wall=clock, limits=Limits(request_us=1000)) as slow, connected(slow) as client:
        client.sendall(HEAD[:20])
        slow.loop.ask(lambda: None)
        clock.skip(999)
        client.sendall(HEAD[20:21])
        slow.loop.ask(lambda: None)
        clock.skip(1)
        slow.loop.wake()

        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_a_connection_without_requests_is_dropped_after_a_while() -> None:
    clock = stopped()
    with server(fine, wall=clock, limits=Limits(idle_us=1000)) as idle, connected(idle) as client:
        client.sendall(HEAD)
        assert client.recv(65536).endswith(b"fine")
        idle.loop.ask(lambda: None)
        clock.skip(1000)
        idle.loop.wake()

        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_a_client_that_sends_many_requests_and_reads_no_answer_is_dropped() -> None:
    released = Event()

    def wait(_request: Request) -> Response:
        released.wait(60)
        return fine(_request)

    with server(wait) as busy, connected(busy) as client:
        client.sendall(HEAD)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            client.sendall(HEAD * 1_000_000)
        released.set()


def test_connections_beyond_the_limit_are_reset() -> None:
    with server(fine, limits=Limits(connections=2)) as small, ExitStack() as stack:
        first, _second = (stack.enter_context(connected(small)) for _ in range(2))
        small.loop.ask(lambda: None)

        with pytest.raises(ConnectionResetError):
            connected(small).recv(1)
        first.sendall(HEAD)
        assert first.recv(65536).endswith(b"fine")


def test_no_request_waits_for_the_requests_of_others() -> None:
    all_started, released = Semaphore(0), Event()

    def wait(request: Request) -> Response:
        all_started.release()
        released.wait(60)
        return fine(request)

    with server(wait) as busy, ExitStack() as stack:
        clients = [stack.enter_context(connected(busy)) for _ in range(300)]
        for client in clients:
            client.sendall(HEAD)

        assert all(all_started.acquire(timeout=60) for _ in clients)
        released.set()
        assert all(client.recv(65536).endswith(b"fine") for client in clients)


def test_a_bug_of_an_app_is_answered_and_kept() -> None:
    def fail(_request: Request) -> Response:
        raise RuntimeError("a bug of ours")

    with server(fail) as failing, connected(failing) as client:
        client.sendall(HEAD)
        answer = client.recv(65536)

    assert answer.startswith(b"HTTP/1.1 500")
    assert b"leveret failed to answer GET /: RuntimeError: a bug of ours" in answer
    assert [str(error) for error in failing.internal_errors] == ["a bug of ours"]


def test_an_answer_that_cannot_be_sent_is_an_error_and_closes() -> None:
    def split(_request: Request) -> Response:
        return Response(200, (("x", "a\r\nb: c"),))

    with server(split) as failing, connected(failing) as client:
        client.sendall(HEAD)
        answer = read_to_end(client)

    assert answer.startswith(b"HTTP/1.1 500")
    assert b"leveret failed to send its answer: LocalProtocolError" in answer
    assert [type(error).__name__ for error in failing.internal_errors] == ["LocalProtocolError"]


def test_a_pattern_of_many_choices_holds_up_no_request(broker: Broker) -> None:
    broker.publish("", "hostile", b"a" * 300 + b"!")

    answer = ask(broker, "POST", f"{VHOST}/assert/published", {"exchange": "", "body": {"regex": "^(a+)+$"}})

    assert answer.status == 409


def test_a_pattern_that_has_no_time_limit_is_refused(broker: Broker) -> None:
    question = {"body": {"regex": r"^(a+)+\1$"}}

    answers = [
        ask(broker, "POST", f"{VHOST}/assert/published", {"exchange": "", **question}),
        ask(broker, "GET", r"/api/queues?page=1&use_regex=true&name=^(a%2B)%2B\1$"),
        ask(
            broker, "POST", "/leveret/v1/faults", {"fault": "drop", "on": "basic.publish", "body": {"regex": "(ab+)+"}}
        ),
    ]

    assert [answer.status for answer in answers] == [400, 400, 400]
    assert "a back-reference beside many repeats has no time limit" in answers[0].json["reason"]
    assert "a back-reference beside many repeats has no time limit" in answers[1].json["reason"]
    assert "(ab+)+' cannot be used by a fault: a text of 2049 characters is too long" in answers[2].json["reason"]


def test_a_client_that_leaves_before_its_answer_does_no_harm() -> None:
    started, released = Event(), Event()

    def wait(_request: Request) -> Response:
        started.set()
        released.wait(60)
        return fine(_request)

    with server(wait) as left:
        with connected(left) as client:
            client.sendall(HEAD)
            started.wait(60)
        released.set()
        with connected(left) as client:
            client.sendall(HEAD)
            assert client.recv(65536).endswith(b"fine")

    assert left.internal_errors == []


def test_a_reader_that_leaves_a_stream_unread_is_dropped_and_messages_flow_on(broker: Broker) -> None:
    with client_of(broker.url) as channel, raw(broker) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(STREAM)
        assert client.recv(4096).startswith(b"HTTP/1.1 200")
        # More than the buffers of the system and of the server hold.
        for _ in range(200):
            flow(channel, bytes(100_000))

        with pytest.raises(ConnectionResetError):
            read_to_end(client)


def test_500_open_streams_hold_up_no_message_and_all_see_the_next() -> None:
    with served("--management-port", "0") as (url, process), ExitStack() as stack:
        parts = urlsplit(process.stdout.readline().strip())
        streams = []
        for _ in range(500):
            stream = stack.enter_context(socket.create_connection((parts.hostname, parts.port), timeout=30))
            stream.sendall(STREAM.replace(b"/stream", b"/stream?kinds=published"))
            streams.append(stream)
        for stream in streams:
            read_until(stream, b"event: open")
        with client_of(url) as channel:
            for _ in range(50):
                flow(channel)
            channel.basic_publish("", "flowing", b"last")

            for stream in streams:
                read_until(stream, b"last")


def read_until(client: socket.socket, text: bytes) -> None:
    received = b""
    while text not in received:
        data = client.recv(65536)
        assert data, "the stream has ended"
        received += data


def test_hostile_requests_are_answered_and_a_witness_gets_its_messages() -> None:
    report = campaign.run(300, seed=3)

    assert report.faults == []
    assert report.statuses.total() == 300
    assert report.witnessed > 0


@pytest.mark.parametrize(
    ("method", "path", "body", "reason"),
    [
        ("PUT", f"/api/vhosts/{'9' * 400}", {}, "is 400 bytes long; AMQP allows 255"),
        ("POST", "/api/users/bulk-delete", {"users": [[]]}, "['no_such_user', []]"),
    ],
)
def test_a_name_that_is_none_is_refused(broker: Broker, method: str, path: str, body: object, reason: str) -> None:
    answer = ask(broker, method, path, body)

    assert answer.status == 400
    assert str(answer.json["reason"]).endswith(reason)


def test_an_answer_of_many_megabytes_arrives_whole() -> None:
    # The trace of the shared broker also has the large messages of other tests.
    with Broker(management=True) as broker:
        for _ in range(8):
            broker.publish("", "large", bytes(500_000))
        http = connection(broker)
        http.request("GET", "/leveret/v1/trace", headers={"authorization": GUEST})

        assert len(http.getresponse().read()) > 4_000_000
        http.close()
