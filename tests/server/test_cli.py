"""`python -m leveret serve`: a broker for other processes and other languages."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pika
import pytest

from leveret import Broker, __version__
from leveret.cli import main
from leveret.engine.harness import Harness

needs_amqp_tools = pytest.mark.skipif(shutil.which("amqp-publish") is None, reason="amqp-tools are not installed")


@contextmanager
def served(*options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, "-m", "leveret", "serve", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout.readline().strip(), process
        finally:
            process.terminate()


def run(*options: str, encoding: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "leveret", *options]
    return subprocess.run(command, capture_output=True, text=True, encoding=encoding, timeout=120)


def test_the_first_line_is_where_to_connect() -> None:
    with served() as (url, _), pika.BlockingConnection(pika.URLParameters(url)) as connection:
        assert connection.channel().queue_declare("orders", durable=True).method.message_count == 0


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_has_seen_enough_ends_a_command_cleanly(tmp_path: Path, unbuffered: str) -> None:
    (tmp_path / "a.json").write_text('{"queues": [{"name": "orders", "vhost": "/", "durable": true}]}')
    (tmp_path / "b.json").write_text('{"queues": []}')
    command = [sys.executable, "-m", "leveret", "definitions", "diff", "a.json", "b.json"]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, cwd=tmp_path, env=environment) as process:
        process.stdout.close()

        assert process.stderr.read() == b""


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(end: signal.Signals) -> None:
    with served() as (url, process):
        connection = pika.BlockingConnection(pika.URLParameters(url))
        process.send_signal(end)

        assert process.wait(60) == 0
        assert process.stderr.read() == ""
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="shutdown"):
            connection.process_data_events(5)


def test_users_virtual_hosts_and_features_are_as_asked() -> None:
    with served("--user", "shop:a:b", "--vhost", "stage", "--permit", "transient_nonexcl_queues") as (url, _):
        parts = urlsplit(url)
        parameters = pika.URLParameters(f"amqp://shop:a%3Ab@{parts.hostname}:{parts.port}/stage")
        with pika.BlockingConnection(parameters) as connection:
            assert connection.channel().queue_declare("orders", durable=False).method.queue == "orders"


def test_settings_are_lines_of_rabbitmq_conf() -> None:
    settings = ("--setting", "channel_max=3", "--setting", "loopback_users.guest = false")
    with served(*settings) as (url, _), pika.BlockingConnection(pika.URLParameters(url)) as connection:
        assert connection._impl.params.channel_max <= 3


@pytest.mark.parametrize(
    ("options", "is_told"),
    [((), True), (("--setting", "loopback_users=none"), False), (("--setting", "loopback_users.guest=false"), False)],
)
def test_it_says_that_guest_is_kept_to_this_machine(options: tuple[str, ...], is_told: bool) -> None:
    with served("--host", "0.0.0.0", *options) as (_, process):
        process.terminate()
        said = process.stderr.read()

    assert ("--setting loopback_users=none" in said) == is_told


def test_it_behaves_as_the_version_asked_for() -> None:
    with served("--rabbitmq", "4.0") as (url, _), pika.BlockingConnection(pika.URLParameters(url)) as connection:
        assert connection._impl.server_properties["version"].startswith("4.0")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--rabbitmq", "2.8"),
            "unknown RabbitMQ version '2.8'; expected one of 4.3, 4.2, 4.0, 3.13, 3.10; "
            "take '3.10', the oldest that leveret behaves as",
        ),
        (("--user", "shop"), "--user: each user must have the form NAME:PASSWORD"),
        (("--setting", "channel_max"), "--setting 'channel_max' is not of the form NAME=VALUE"),
        (("--port", "123456"), "--port=123456 is not a port; expected a number from 0 (a free one) to 65535"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--port", "0", *options]) == 2

    assert capsys.readouterr().err == f"leveret: {said}\n"


def test_a_port_in_use_is_one_line_and_exit_code_2() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        done = run("serve", "--port", str(port))

    assert (
        done.stderr
        == f"leveret: cannot listen on 127.0.0.1 port {port}: Address already in use; port 0 takes a free one\n"
    )
    assert done.returncode == 2


def test_the_command_says_its_version() -> None:
    assert run("--version").stdout == f"leveret {__version__}\n"


def test_help_shows_every_option_and_examples() -> None:
    said = run("serve", "--help").stdout

    for word in ("--port", "--host", "--rabbitmq", "--permit", "--user", "--vhost", "--seed", "examples:"):
        assert word in said


@pytest.fixture
def tool() -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    with served("--permit", "transient_nonexcl_queues") as (url, _):

        def call(name: str, *options: str, body: str = "") -> subprocess.CompletedProcess[str]:
            command = [name, "--url", url, *options]
            return subprocess.run(command, input=body, capture_output=True, text=True, timeout=120)

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


def test_users_come_from_a_file_and_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users = tmp_path / "users"
    users.write_text("shop:a:b\n\nbilling:c\n")
    monkeypatch.setenv("LEVERET_USERS", "audit:d app=e=f")

    with served("--user-file", str(users)) as (url, _):
        for user, password in (
            ("shop", "a%3Ab"),
            ("billing", "c"),
            ("audit", "d"),
            ("app", "e%3Df"),
            ("guest", "guest"),
        ):
            place = urlsplit(url)
            with pika.BlockingConnection(pika.URLParameters(f"amqp://{user}:{password}@{place.hostname}:{place.port}")):
                pass


@pytest.mark.parametrize("content", ["shop", "shop:", ":secret"])
def test_a_line_that_is_no_user_is_refused_without_showing_it(
    tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    users = tmp_path / "users"
    users.write_text(content)

    assert main(["serve", "--port", "0", "--user-file", str(users)]) == 2

    said = capsys.readouterr().err
    assert said == f"leveret: --user-file {users}: each user must have the form NAME:PASSWORD\n"


def test_a_user_in_the_environment_without_a_password_is_refused_without_showing_it(monkeypatch) -> None:
    monkeypatch.setenv("LEVERET_USERS", "app=secret, hidden")

    done = run("serve")

    form = "user 2 is not of the form NAME=PASSWORD or NAME:PASSWORD, as in app=secret"
    assert (done.returncode, done.stderr) == (2, f"leveret: LEVERET_USERS: {form}\n")


def test_a_file_of_users_may_begin_with_the_mark_of_windows(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_bytes(BOM_UTF8 + b"shop:secret\r\n")

    with served("--user-file", str(users)) as (url, _):
        place = urlsplit(url)
        pika.BlockingConnection(pika.URLParameters(f"amqp://shop:secret@{place.hostname}:{place.port}")).close()


def test_a_name_that_the_output_cannot_hold_is_shown_escaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker(trace_dir=tmp_path) as broker:
        broker.declare_queue("野兎-µ")
        file = Harness(broker).trace_file
    assert file is not None
    file.close()
    monkeypatch.setenv("PYTHONIOENCODING", "cp1252")

    done = run("trace", "show", file.path, encoding="cp1252")

    assert "\\u91ce\\u514e-µ" in done.stdout
    assert (done.returncode, done.stderr) == (0, "")


def test_a_missing_file_of_users_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--port", "0", "--user-file", str(tmp_path / "users")]) == 2

    said = capsys.readouterr().err
    assert "leveret: --user-file: " in said
    assert "No such file" in said


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_an_address_that_other_machines_reach_is_warned_of(host: str) -> None:
    with served("--host", host) as (_, process):
        process.terminate()
        warning = process.stderr.read()

    assert warning.startswith(f"leveret: --host {host} lets other machines connect")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_address_of_this_machine_is_not_warned_of(host: str) -> None:
    with served("--host", host) as (_, process):
        process.terminate()

        assert process.stderr.read() == ""
