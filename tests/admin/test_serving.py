"""The operator's options of the command line."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from urllib.request import Request, urlopen

import pika
import pytest
import trustme

EXPORTED = Path(__file__).with_name("definitions-4.3.6.json")
SERVE = (sys.executable, "-m", "leveret", "serve", "--port", "0", "--tls-port", "0")


@contextmanager
def served(*options: str, lines: int = 1) -> Iterator[list[str]]:
    with subprocess.Popen([*SERVE, *options], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield [process.stdout.readline().strip() for _ in range(lines)]
        finally:
            process.terminate()


def refusal(*options: str) -> str:
    ran = subprocess.run([*SERVE, *options], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 2
    return ran.stderr


def test_definitions_are_loaded_before_the_first_client_connects() -> None:
    with served("--definitions", str(EXPORTED)) as (url,):
        url = url.replace("guest:guest", "shop:secret") + "/stage"
        with pika.BlockingConnection(pika.URLParameters(url)) as connection:
            assert connection.channel().queue_declare("q1", passive=True).method.queue == "q1"


def test_the_rights_in_definitions_win_over_those_of_a_virtual_host_of_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "definitions.json"
    right = {"user": "guest", "vhost": "shop", "configure": "^$", "write": "^$", "read": ".*"}
    path.write_text(json.dumps({"permissions": [right]}), encoding="utf-8")

    with served("--vhost", "shop", "--user", "app:secret", "--definitions", str(path)) as (url,):
        with (
            pika.BlockingConnection(pika.URLParameters(f"{url}/shop")) as connection,
            pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED - configure access"),
        ):
            connection.channel().queue_declare("orders", durable=True)
        apps_url = url.replace("guest:guest", "app:secret") + "/shop"
        with pika.BlockingConnection(pika.URLParameters(apps_url)) as connection:
            assert connection.channel().queue_declare("orders", durable=True).method.queue == "orders"


def test_a_reset_keeps_what_the_command_line_asked_for() -> None:
    asked = ("--vhost", "own", "--definitions", str(EXPORTED), "--management-port", "0")
    with served(*asked, lines=2) as (_, management):
        api = f"{management}/leveret/v1"
        login = {"Authorization": f"Basic {b64encode(b'guest:guest').decode()}"}
        urlopen(Request(f"{api}/reset", headers=login, method="POST")).close()

        with urlopen(Request(f"{api}/vhosts", headers=login)) as response:
            names = {vhost["name"] for vhost in json.load(response)}
        assert {"own", "stage"} <= names


def test_the_second_line_of_output_is_the_tls_url(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
    context = ssl.create_default_context()
    authority.configure_trust(context)

    with served("--tls-cert", str(tmp_path / "server.pem"), lines=2) as (plain, secure):
        parameters = pika.URLParameters(secure)
        parameters.ssl_options = pika.SSLOptions(context, "127.0.0.1")
        with pika.BlockingConnection(parameters) as connection:
            assert connection.is_open
        assert (plain.split(":")[0], secure.split(":")[0]) == ("amqp", "amqps")


@pytest.mark.parametrize(("more", "is_required"), [((), True), (("--tls-optional",), False)])
def test_a_certificate_of_clients_can_be_asked_for_without_being_required(
    tmp_path: Path, more: tuple[str, ...], is_required: bool
) -> None:
    authority = trustme.CA()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.create_default_context()
    authority.configure_trust(context)
    files = ("--tls-cert", str(tmp_path / "server.pem"), "--tls-ca", str(tmp_path / "ca.pem"))
    by_certificate = ("--plugin", "rabbitmq_auth_mechanism_ssl", "--setting", "auth_mechanisms.1=PLAIN")
    by_certificate += ("--setting", "auth_mechanisms.2=EXTERNAL", "--setting", "ssl_cert_login_from=common_name")

    with served(*files, *more, *by_certificate, lines=2) as (_, secure):
        parameters = pika.URLParameters(secure)
        parameters.ssl_options = pika.SSLOptions(context, "127.0.0.1")
        with pytest.raises(pika.exceptions.AMQPConnectionError) if is_required else nullcontext():
            pika.BlockingConnection(parameters).close()
        authority.issue_cert("127.0.0.1", common_name="guest").configure_cert(context)
        parameters.credentials = pika.credentials.ExternalCredentials()
        with pika.BlockingConnection(parameters) as connection:
            assert connection.is_open


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--definitions", "missing.json"), "leveret: --definitions: "),
        (("--tls-cert", "missing.pem"), "leveret: --tls-cert missing.pem: "),
        (("--tls-key", "missing.pem"), "--tls-key and --tls-ca need --tls-cert"),
        (("--tls-cert", "x.pem", "--tls-optional"), "--tls-optional needs --tls-ca, the authority of"),
        (("--plugin", "rabbitmq_shovel"), "unknown plugin 'rabbitmq_shovel'"),
    ],
)
def test_a_mistake_is_one_line(options: tuple[str, ...], text: str) -> None:
    said = refusal(*options)

    assert text in said
    assert said.count("\n") == 1


def test_a_user_of_the_command_line_has_every_right_over_http_too() -> None:
    with served("--user", "app:secret", "--management-port", "0", lines=2) as (_, management):
        login = {"Authorization": f"Basic {b64encode(b'app:secret').decode()}"}
        urlopen(Request(f"{management}/leveret/v1/reset", headers=login, method="POST")).close()

        with urlopen(Request(f"{management}/api/users", headers=login)) as response:
            tags = {user["name"]: user["tags"] for user in json.load(response)}
        assert tags == {"guest": ["administrator"], "app": ["administrator"]}
