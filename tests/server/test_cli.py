"""`python -m leveret serve`: a broker for other processes and other languages."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pika
import pytest

from leveret.core.compat import VERSIONS

needs_amqp_tools = pytest.mark.skipif(shutil.which("amqp-publish") is None, reason="amqp-tools are not installed")


@contextmanager
def served(*options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, "-m", "leveret", "serve", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout.readline().strip(), process
        finally:
            process.terminate()


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "leveret", *options], capture_output=True, text=True, timeout=30)


def test_the_first_line_is_where_to_connect() -> None:
    with served() as (url, _), pika.BlockingConnection(pika.URLParameters(url)) as connection:
        assert connection.channel().queue_declare("orders", durable=True).method.message_count == 0


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(end: signal.Signals) -> None:
    with served() as (url, process):
        connection = pika.BlockingConnection(pika.URLParameters(url))
        process.send_signal(end)

        assert process.wait(10) == 0
        assert process.stderr.read() == ""
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="shutdown"):
            connection.process_data_events(5)


def test_users_virtual_hosts_and_features_are_as_asked() -> None:
    with served("--user", "shop:a:b", "--vhost", "stage", "--permit", "transient_nonexcl_queues") as (url, _):
        parts = urlsplit(url)
        parameters = pika.URLParameters(f"amqp://shop:a%3Ab@{parts.hostname}:{parts.port}/stage")
        with pika.BlockingConnection(parameters) as connection:
            assert connection.channel().queue_declare("orders", durable=False).method.queue == "orders"


def test_it_behaves_as_the_version_asked_for() -> None:
    with served("--rabbitmq", "4.0") as (url, _), pika.BlockingConnection(pika.URLParameters(url)) as connection:
        assert connection._impl.server_properties["version"].startswith("4.0")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--rabbitmq", "2.8"), f"unknown RabbitMQ version '2.8'; expected one of {', '.join(VERSIONS)}"),
        (("--user", "shop"), "--user 'shop' is not of the form NAME:PASSWORD"),
        (("--port", "123456"), "--port=123456 is not a port; expected a number from 0 (a free one) to 65535"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(options: tuple[str, ...], said: str) -> None:
    done = run("serve", *options)

    assert done.stderr == f"leveret: {said}\n"
    assert done.returncode == 2


def test_a_port_in_use_is_one_line_and_exit_code_2() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        done = run("serve", "--port", str(port))

    assert done.stderr == f"leveret: cannot listen on 127.0.0.1 port {port}: Address already in use\n"
    assert done.returncode == 2


def test_help_shows_every_option_and_examples() -> None:
    said = run("serve", "--help").stdout

    for word in ("--port", "--host", "--rabbitmq", "--permit", "--user", "--vhost", "--seed", "examples:"):
        assert word in said


@pytest.fixture
def tool() -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    with served("--permit", "transient_nonexcl_queues") as (url, _):

        def call(name: str, *options: str, body: str = "") -> subprocess.CompletedProcess[str]:
            command = [name, "--url", url, *options]
            return subprocess.run(command, input=body, capture_output=True, text=True, timeout=30)

        yield call


@needs_amqp_tools
def test_amqp_tools_publish_get_and_consume(tool) -> None:
    assert tool("amqp-declare-queue", "-q", "orders", "-d").stdout.strip() == "orders"
    assert tool("amqp-publish", "-r", "orders", "-p", body="first").returncode == 0
    assert tool("amqp-publish", "-r", "orders", "-b", "second").returncode == 0

    assert tool("amqp-get", "-q", "orders").stdout == "first"
    assert tool("amqp-consume", "-q", "orders", "-c", "1", "cat").stdout == "second"
    assert tool("amqp-get", "-q", "orders").returncode == 2
    assert tool("amqp-delete-queue", "-q", "orders").returncode == 0
