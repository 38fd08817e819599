"""The port for HTTP: when it is open, and that a broker without it pays nothing."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from leveret import Broker
from leveret.errors import BrokerError
from tests.http.client import GUEST, Answer, ask, connection, raw, read_to_end


def test_a_user_of_the_broker_gets_an_answer(broker: Broker) -> None:
    answer = ask(broker, "GET", "/api/whoami")

    assert answer.status == 200
    assert answer.json["name"] == "guest"


def test_one_connection_carries_many_requests(broker: Broker) -> None:
    http = connection(broker)

    for _ in range(3):
        http.request("GET", "/api/whoami", headers={"authorization": GUEST})
        assert Answer(http.getresponse()).status == 200

    http.close()


def test_requests_that_are_sent_at_once_are_answered_in_order(broker: Broker) -> None:
    with raw(broker) as client:
        first = b"GET /api/whoami HTTP/1.1\r\nhost: localhost\r\n\r\n"
        client.sendall(first + first.replace(b"HTTP/1.1", b"HTTP/1.1\r\nconnection: close"))
        answers = read_to_end(client)

    assert answers.count(b"HTTP/1.1 401") == 2


@pytest.mark.parametrize(
    ("path", "login", "line"),
    [
        ("/api/whoami", b"Basic Z3Vlc3Q6eA==", b"HTTP/1.1 401 Unauthorized"),
        ("/api/whoami", GUEST.encode(), b"HTTP/1.1 200 OK"),
        ("/api/queues/%2F/none", GUEST.encode(), b"HTTP/1.1 404 Not Found"),
    ],
)
def test_an_answer_has_a_reason_phrase(broker: Broker, path: str, login: bytes, line: bytes) -> None:
    with raw(broker) as client:
        head = b"GET %s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: %s\r\n\r\n"
        client.sendall(head % (path.encode(), login))

        assert read_to_end(client).splitlines()[0] == line


def test_a_head_request_gets_the_headers_only(broker: Broker) -> None:
    answer = ask(broker, "HEAD", "/api/whoami")

    assert answer.status == 200
    assert int(answer.headers["content-length"]) > 0
    assert answer.body == b""


def test_a_client_of_http_1_0_gets_an_answer_and_the_end(broker: Broker) -> None:
    with raw(broker) as client:
        client.sendall(b"GET /api/whoami HTTP/1.0\r\nhost: localhost\r\n\r\n")

        assert b" 401 " in read_to_end(client)


@pytest.mark.parametrize(("host", "status"), [("localhost", b" 401 "), ("example.com", b" 403 ")])
def test_a_whole_url_may_stand_for_a_path_and_its_host_counts(broker: Broker, host: str, status: bytes) -> None:
    with raw(broker) as client:
        head = f"GET http://{host}/api/whoami HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        client.sendall(head.encode())

        assert status in read_to_end(client).partition(b"\r\n")[0]


def test_a_client_that_waits_for_leave_to_send_its_body_gets_it(broker: Broker) -> None:
    with raw(broker) as client:
        head = "POST /leveret/v1/vhosts HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 2\r\n"
        client.sendall(f"{head}authorization: {GUEST}\r\n\r\n".encode())
        assert client.recv(65536).startswith(b"HTTP/1.1 100 Continue")

        client.sendall(b"{}")

        assert client.recv(65536).startswith(b"HTTP/1.1 201")


@pytest.mark.parametrize(
    ("method", "path", "line"),
    [
        ("GET", "/api/whoami", b"HTTP/1.1 200 OK"),
        ("PUT", "/api/exchanges/%2F/x", b"HTTP/1.1 201 Created"),
        ("DELETE", "/api/exchanges/%2F/amq.direct/nothing", b"HTTP/1.1 405 Method Not Allowed"),
        ("GET", "/api/queues/%2F/nothing", b"HTTP/1.1 404 Not Found"),
        ("POST", "/api/exchanges/%2F/amq.direct/publish", b"HTTP/1.1 400 Bad Request"),
    ],
)
def test_a_status_has_its_phrase(broker: Broker, method: str, path: str, line: bytes) -> None:
    with raw(broker) as client:
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: {GUEST}\r\n\r\n"
        client.sendall(head.encode())

        assert read_to_end(client).partition(b"\r\n")[0] == line


def test_the_phrase_of_a_refused_login_is_that_of_rabbitmq(broker: Broker) -> None:
    with raw(broker) as client:
        client.sendall(b"GET /api/whoami HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")

        assert read_to_end(client).partition(b"\r\n")[0] == b"HTTP/1.1 401 Unauthorized"


def test_what_is_no_http_gets_400_and_a_reason(broker: Broker) -> None:
    with raw(broker) as client:
        client.sendall(b"AMQP\0\0\x09\x01\r\n\r\n")
        answer = read_to_end(client)

    assert answer.startswith(b"HTTP/1.1 400")
    assert b"not a valid HTTP/1.1 request" in answer


def test_the_port_closes_with_the_broker_and_opens_again() -> None:
    broker = Broker(management=True).start()
    parts = urlsplit(broker.management_url)
    broker.stop()

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((parts.hostname, parts.port), timeout=5)
    with broker:
        assert ask(broker, "GET", "/api/whoami").status == 200


def test_the_port_can_be_chosen() -> None:
    with Broker(management=True) as first:
        free = urlsplit(first.management_url).port

    with Broker(management=True, management_port=free) as broker:
        assert urlsplit(broker.management_url).port == free


def test_a_port_in_use_is_named_and_nothing_stays_open(broker: Broker) -> None:
    taken = urlsplit(broker.management_url).port
    other = Broker(management=True, management_port=taken)

    with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1 port {taken}"):
        other.start()

    assert repr(other).startswith("<Broker not running")


def test_a_port_without_management_is_refused() -> None:
    with pytest.raises(BrokerError, match="management_port=15672 opens no port without management=True"):
        Broker(management_port=15672)


def test_the_url_of_a_broker_without_http_is_refused() -> None:
    with Broker() as broker, pytest.raises(BrokerError, match="start it with management=True"):
        _ = broker.management_url


def test_requests_go_on_after_a_reset_and_a_restart() -> None:
    with Broker(management=True) as broker:
        http = connection(broker)
        broker.reset()
        broker.restart()

        http.request("GET", "/api/whoami", headers={"authorization": GUEST})

        assert Answer(http.getresponse()).status == 200


def test_an_open_connection_does_not_keep_the_broker_from_being_idle(broker: Broker) -> None:
    with raw(broker):
        broker.wait_idle(timeout=5)


def test_a_broker_without_http_imports_nothing_of_it() -> None:
    program = (
        "import sys; from leveret import Broker; Broker().start().stop()\n"
        "print([name for name in sys.modules if name.startswith('leveret.http') or name == 'h11'])"
    )

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)

    assert ran.stdout.strip() == "[]"


def test_management_without_its_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(BrokerError, match=r"management needs h11; install leveret\[http\]"):
        Broker(management=True)


def test_serve_ends_quietly_whatever_happened_to_messages() -> None:
    command = [sys.executable, "-m", "leveret", "serve", "--port", "0", "--management-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        url = process.stdout.readline().strip()
        path = f"{url}/leveret/v1/vhosts/%2F/publish"
        with urlopen(Request(path, b"{}", headers={"authorization": GUEST}), timeout=10) as response:
            assert response.read() == b'{"routed":false}'
        process.send_signal(signal.SIGTERM)

        assert process.wait(60) == 0
        assert process.stderr.read() == ""


def test_serve_prints_the_url_of_the_management_port_last() -> None:
    command = [sys.executable, "-m", "leveret", "serve", "--port", "0", "--management-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        url = process.stdout.readline().strip()
        with urlopen(Request(f"{url}/api/whoami", headers={"authorization": GUEST}), timeout=10) as response:
            assert response.status == 200
        process.send_signal(signal.SIGTERM)

        assert process.wait(60) == 0
