"""The option `leveret_hosts`: names of other machines that are the broker of the run."""

from __future__ import annotations

import socket
import sys

import pytest

from leveret import Broker
from leveret.workers.startup import sitecustomize

WORKER = """
import pika

def consume():
    channel = pika.BlockingConnection(pika.ConnectionParameters("rabbitmq")).channel()
    channel.queue_declare("jobs", durable=True)
    channel.basic_consume("jobs", print, auto_ack=True)
    channel.start_consuming()

if __name__ == "__main__":
    consume()
"""


@pytest.fixture
def shop(suite):
    """A suite whose broker has the name of a service."""
    suite.makepyfile(shop_worker=WORKER)
    suite.makeini("[pytest]\nleveret_hosts = rabbitmq\nleveret_checks = off")
    return suite


@pytest.fixture
def lead():
    """A function that leads names, until the test ends."""
    ends = []
    yield lambda *args: ends.append(sitecustomize.lead(*args))
    for end in reversed(ends):
        end()


def test_a_name_leads_clients_to_the_broker_of_the_run(run, shop):
    result = run("""
        import asyncio
        import aio_pika
        import kombu
        import pika

        async def connect():
            async with await aio_pika.connect("amqp://rabbitmq/") as connection:
                await (await connection.channel()).declare_queue("aio_pika", durable=True)

        def test_it(leveret_session):
            asyncio.run(connect())
            with pika.BlockingConnection(pika.URLParameters("amqp://guest:guest@rabbitmq:5672/")) as connection:
                connection.channel().queue_declare("pika", durable=True)
            with kombu.Connection("amqp://rabbitmq") as connection:
                connection.SimpleQueue("kombu").put("x")

            assert {"aio_pika", "kombu", "pika"} <= {it.name for it in leveret_session.queues}
    """)

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["leveret: *rabbitmq is this broker (ini option leveret_hosts)*"])


def test_workers_and_programs_that_a_test_starts_are_led_too(run, shop):
    result = run("""
        import subprocess
        import sys
        from shop_worker import consume

        def test_a_function(leveret_session):
            with leveret_session.worker(consume): pass

        def test_a_program(leveret_session):
            with leveret_session.worker([sys.executable, "shop_worker.py"]): pass

        def test_a_program_of_its_own(leveret_session):
            with subprocess.Popen([sys.executable, "shop_worker.py"]) as process:
                leveret_session.wait_for_consumer("jobs", timeout=30)
                process.kill()

        def test_a_worker_of_another_broker(leveret):
            with leveret.worker([sys.executable, "shop_worker.py"]): pass
    """)

    result.assert_outcomes(passed=4)


def test_each_worker_of_xdist_has_a_broker_of_its_own(run, shop):
    result = run(
        """
        import pika
        import pytest

        @pytest.mark.parametrize("number", range(2))
        def test_it(leveret_session, number):
            with pika.BlockingConnection(pika.ConnectionParameters("rabbitmq")) as connection:
                connection.channel().basic_publish("amq.topic", "key", b"")
            leveret_session.assert_published("amq.topic")
        """,
        *("-p", "xdist", "-n2"),
    )

    result.assert_outcomes(passed=2)


def test_the_management_api_is_at_its_usual_port_of_the_name(run, shop):
    result = run(
        """
        from http.client import HTTPConnection

        def test_it():
            connection = HTTPConnection("rabbitmq", 15672)
            connection.request("GET", "/api/overview", headers={"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="})
            assert connection.getresponse().status == 200
        """,
        "--leveret-management=yes",
    )

    result.assert_outcomes(passed=1)


def test_a_python_that_a_run_starts_has_the_sitecustomize_of_its_environment(run, shop):
    shop.mkdir("own").joinpath("sitecustomize.py").write_text("OWN = 1\n", encoding="utf-8")

    result = run("""
        import os
        import subprocess
        import sys

        def test_it():
            path = os.environ["PYTHONPATH"] + os.pathsep + "own"
            code = "import sitecustomize, socket; print(sitecustomize.OWN, socket.gethostbyname('rabbitmq'))"
            told = subprocess.check_output([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path})
            assert told.split() == [b"1", b"127.0.0.1"]
    """)

    result.assert_outcomes(passed=1)


def test_a_name_that_is_not_listed_goes_to_the_system_as_it_is(monkeypatch, lead):
    asked = []
    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
        monkeypatch.setattr(socket, name, lambda *args, **options: asked.append((args, options)))
    lead({"rabbitmq", "localhost:5671"}, "127.0.0.1", 40123, {})

    socket.getaddrinfo("database", 5672, 0, type=socket.SOCK_STREAM)
    socket.getaddrinfo(None, 0)
    socket.gethostbyname("rabbitmq.example")
    socket.gethostbyname_ex("localhost")

    assert asked == [
        (("database", 5672, 0), {"type": socket.SOCK_STREAM}),
        ((None, 0), {}),
        (("rabbitmq.example",), {}),
        (("localhost",), {}),
    ]


def test_every_port_of_a_name_but_that_of_the_management_api_is_the_brokers(lead):
    lead({"rabbitmq", "10.0.0.7"}, "127.0.0.1", 40123, {"15672": 40124})

    def places(host: str | bytes, port: int | str | None) -> set[object]:
        return {place for *_, place in socket.getaddrinfo(host, port)}

    assert places("rabbitmq", 5672) == places(b"rabbitmq", "5673") == {("127.0.0.1", 40123)}
    assert places("10.0.0.7", 15672) == {("127.0.0.1", 40124)}
    assert places("rabbitmq", None) == {("127.0.0.1", 0)}
    assert socket.gethostbyname("rabbitmq") == "127.0.0.1"


def test_a_name_with_a_port_leads_that_port_alone(lead):
    lead({"rabbitmq", "127.0.0.1:5672", "127.0.0.1:25672"}, "127.0.0.1", 40123, {"25672": 40124})

    ports = [socket.getaddrinfo("127.0.0.1", port)[0][4][1] for port in (5672, "25672", 5432)]

    assert ports == [40123, 40124, 5432]


def test_a_socket_connects_by_name_as_well(lead):
    with Broker() as broker, socket.socket() as first, socket.socket() as second:
        lead({"rabbitmq"}, "127.0.0.1", broker.port, {})

        first.connect(("rabbitmq", 5672))

        assert second.connect_ex(("rabbitmq", 5672)) == 0
        assert first.getpeername() == ("127.0.0.1", broker.port)


@pytest.mark.skipif(sys.platform == "win32", reason="sockets of the file system are those of POSIX")
def test_a_socket_of_the_file_system_connects_as_before(tmp_path, lead):
    lead({"rabbitmq"}, "127.0.0.1", 1, {})
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(str(tmp_path / "s"))
        server.listen()

        client.connect(str(tmp_path / "s"))


def test_after_its_end_no_name_is_led():
    former = socket.getaddrinfo, socket.gethostbyname, socket.socket.connect

    sitecustomize.lead({"rabbitmq"}, "127.0.0.1", 1, {})()

    assert (socket.getaddrinfo, socket.gethostbyname, socket.socket.connect) == former
