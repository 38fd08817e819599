"""AMQP over TLS, with certificates that the tests generate."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import amqp
import pika
import pytest

from leveret import Broker
from leveret.errors import BrokerError
from leveret.server.tls import names_of


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(tls=True) as broker:
        yield broker


PLUGIN = "rabbitmq_auth_mechanism_ssl"
BOTH = {"auth_mechanisms.1": "EXTERNAL", "auth_mechanisms.2": "PLAIN"}


@pytest.fixture
def by_certificate() -> Iterator[Broker]:
    """Return a broker that takes the common name of a certificate for a login."""
    with Broker(tls=True, plugins=PLUGIN, settings={**BOTH, "ssl_cert_login_from": "common_name"}) as broker:
        yield broker


# What py-amqp takes for TLS without a certificate of its own.
SOME_TLS = {"cert_reqs": ssl.CERT_NONE}


def offered(broker: Broker, port: int) -> list[str]:
    """Return the mechanisms that a client is offered on a port."""
    with amqp.Connection(
        f"127.0.0.1:{port}", ssl=SOME_TLS if port == broker.tls.port else False, login_method="PLAIN"
    ) as connection:
        return [name.decode() if isinstance(name, bytes) else name for name in connection.mechanisms]


def parameters(broker: Broker, context: ssl.SSLContext | None = None, **options) -> pika.URLParameters:
    found = pika.URLParameters(broker.tls.url)
    found.ssl_options = pika.SSLOptions(context or broker.tls.certificates.client_context(), broker.host)
    for name, value in options.items():
        setattr(found, name, value)
    return found


def test_a_client_publishes_and_gets_over_tls(broker: Broker) -> None:
    assert broker.tls.url.startswith(f"amqps://guest:guest@127.0.0.1:{broker.tls.port}")
    with pika.BlockingConnection(parameters(broker)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("orders", durable=True)

        channel.basic_publish("", "orders", b"x")

        assert channel.basic_get("orders", auto_ack=True)[2] == b"x"


def test_both_ports_lead_to_one_broker(broker: Broker) -> None:
    broker.declare_queue("orders")
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        connection.channel().basic_publish("", "orders", b"x")

    with pika.BlockingConnection(parameters(broker)) as connection:
        assert connection.channel().basic_get("orders", auto_ack=True)[2] == b"x"


def test_messages_larger_than_every_buffer_pass_both_ways(broker: Broker) -> None:
    body = bytes(range(256)) * 40_000
    with pika.BlockingConnection(parameters(broker)) as connection:
        channel = connection.channel()
        channel.queue_declare("orders", durable=True)
        for _ in range(3):
            channel.basic_publish("", "orders", body)

        got = [channel.basic_get("orders", auto_ack=True)[2] for _ in range(3)]

    assert got == [body] * 3


def test_a_consumer_gets_what_is_published_while_it_waits(broker: Broker) -> None:
    broker.declare_queue("orders")
    seen: list[bytes] = []
    with pika.BlockingConnection(parameters(broker)) as connection:
        channel = connection.channel()
        channel.basic_consume("orders", lambda *found: seen.append(found[3]), auto_ack=True)

        broker.publish("", "orders", b"x")
        connection.process_data_events(5)

    assert seen == [b"x"]


def test_an_operators_close_is_read_to_its_end(broker: Broker) -> None:
    connection = pika.BlockingConnection(parameters(broker))

    broker.admin.close_all_connections("enough")

    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="CONNECTION_FORCED - enough"):
        connection.process_data_events(5)


def test_an_alarm_blocks_a_publisher_over_tls(broker: Broker) -> None:
    broker.declare_queue("orders")
    with pika.BlockingConnection(parameters(broker)) as connection:
        broker.admin.set_alarm("memory")
        connection.channel().basic_publish("", "orders", b"x")
        assert broker.queue("orders").ready == ()

        broker.admin.clear_alarm("memory")

        assert len(broker.queue("orders").ready) == 1


@pytest.mark.parametrize(
    ("version", "names"),
    [
        # On a server of 4.3, each build of a node has an order of its own.
        ("4.3", ["PLAIN", "AMQPLAIN", "ANONYMOUS"]),
        ("4.0", ["AMQPLAIN", "ANONYMOUS", "PLAIN"]),
        ("3.10", ["PLAIN", "AMQPLAIN"]),
    ],
)
def test_external_is_not_offered_without_its_plugin(version: str, names: list[str]) -> None:
    with Broker(tls=True, rabbitmq=version) as broker:
        assert offered(broker, broker.tls.port) == offered(broker, broker.port) == names


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"plugins": PLUGIN}, ["AMQPLAIN", "ANONYMOUS", "PLAIN"]),
        ({"settings": BOTH}, ["PLAIN"]),
        ({"plugins": PLUGIN, "settings": BOTH}, ["PLAIN", "EXTERNAL"]),
    ],
)
def test_external_is_offered_over_tls_once_plugin_and_settings_name_it(options: dict, names: list[str]) -> None:
    with Broker(tls=True, rabbitmq="4.0", **options) as broker:
        assert offered(broker, broker.tls.port) == names
        assert offered(broker, broker.port) == [name for name in names if name != "EXTERNAL"]


def test_a_client_with_a_password_and_no_certificate_is_let_in(by_certificate: Broker) -> None:
    with amqp.Connection(f"127.0.0.1:{by_certificate.tls.port}", ssl=SOME_TLS, login_method="PLAIN"):
        assert [connection.user for connection in by_certificate.connections] == ["guest"]


def test_a_broker_without_plain_refuses_a_password() -> None:
    with (
        Broker(settings={"auth_mechanisms.1": "ANONYMOUS"}) as broker,
        pytest.raises(pika.exceptions.AuthenticationError, match="PLAIN"),
    ):
        pika.BlockingConnection(pika.URLParameters(broker.url))


def test_the_distinguished_name_is_the_user_unless_the_settings_say_otherwise() -> None:
    subject = (
        (("countryName", "DE"),),
        (("organizationName", ' #Acme, "Inc" '),),
        (("organizationalUnitName", "a;b<c>\\"),),
    )
    subject += ((("streetAddress", "Weg 1"),), (("pseudonym", "p~x"),), (("givenName", "Jörg"),))
    subject += ((("commonName", "x+y"), ("userId", "u1")), (("commonName", "second"),))

    names = names_of({"subject": subject})

    # As 4.3.6, 4.0.5 and 3.10.8 log such a user.
    text = (
        r"CN=second,CN=x\+y+UID=u1,GIVENNAME=J\C3\B6rg,PSEUDONYM=p\7Ex,2.5.4.9=Weg 1,"
        r"OU=a\;b\<c\>\\,O=\ #Acme\, \"Inc\"\ ,C=DE"
    )
    assert names == {"distinguished_name": text, "common_name": "x+y,second"}
    with Broker(tls=True, plugins=PLUGIN, settings=BOTH) as broker:
        context = broker.tls.certificates.client_context("guest")
        credentials = pika.credentials.ExternalCredentials()
        with pytest.raises(pika.exceptions.ProbableAuthenticationError, match="EXTERNAL"):
            pika.BlockingConnection(parameters(broker, context, credentials=credentials))
        refusal = [event for event in broker.events if event.kind == "refused"][-1]
        assert "user 'CN=guest,OU=" in refusal.cause


def test_a_certificate_stands_for_a_login(by_certificate: Broker) -> None:
    broker = by_certificate
    broker.admin.add_user("shop", "secret")
    broker.admin.set_permissions("shop")
    context = broker.tls.certificates.client_context("shop")
    credentials = pika.credentials.ExternalCredentials()

    with pika.BlockingConnection(parameters(broker, context, credentials=credentials)):
        assert [connection.user for connection in broker.connections] == ["shop"]


@pytest.mark.parametrize("user", [None, "nobody"])
def test_a_certificate_of_an_unknown_user_is_refused(by_certificate: Broker, user: str | None) -> None:
    broker = by_certificate
    context = broker.tls.certificates.client_context(user)
    credentials = pika.credentials.ExternalCredentials()

    with pytest.raises(pika.exceptions.ProbableAuthenticationError, match="authentication mechanism EXTERNAL"):
        pika.BlockingConnection(parameters(broker, context, credentials=credentials))


def test_external_is_not_offered_without_tls(broker: Broker) -> None:
    plain = pika.URLParameters(broker.url)
    plain.credentials = pika.credentials.ExternalCredentials()

    with pytest.raises(pika.exceptions.AuthenticationError, match="EXTERNAL"):
        pika.BlockingConnection(plain)


def test_a_client_that_does_not_trust_the_broker_breaks_off_alone(broker: Broker) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        pika.BlockingConnection(parameters(broker, ssl.create_default_context()))

    broker.check()
    assert pika.BlockingConnection(parameters(broker)).is_open


def test_a_client_without_tls_is_hung_up_on(broker: Broker) -> None:
    with socket.create_connection((broker.host, broker.tls.port), timeout=5) as client:
        client.sendall(b"AMQP\x00\x00\x09\x01")
        received = b""
        try:
            while octets := client.recv(4096):
                received += octets
        except ConnectionResetError:
            pass

    # A TLS alert at most, and no AMQP.
    assert received[:1] in (b"", b"\x15")
    broker.check()


def test_a_given_server_context_may_require_certificates() -> None:
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(server)
    authority.configure_trust(server)
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context()
    authority.configure_trust(client)

    with Broker(tls=server) as broker:
        options = pika.SSLOptions(client, "localhost")
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.tls.port, ssl_options=options))
        authority.issue_cert(common_name="shop").configure_cert(client)
        with pika.BlockingConnection(
            pika.ConnectionParameters(broker.host, broker.tls.port, ssl_options=options)
        ) as connection:
            assert connection.is_open


def test_certificates_are_written_for_clients_that_want_paths(broker: Broker, tmp_path: Path) -> None:
    files = broker.tls.certificates.write(tmp_path, "guest")

    context = ssl.create_default_context(cafile=str(files.ca))
    context.load_cert_chain(str(files.certificate), str(files.key))
    with pika.BlockingConnection(parameters(broker, context)) as connection:
        assert connection.is_open


def test_a_restart_keeps_both_ports(broker: Broker) -> None:
    ports = (broker.port, broker.tls.port)

    broker.admin.drain()
    broker.admin.revive()
    broker.restart()

    assert (broker.port, broker.tls.port) == ports
    assert pika.BlockingConnection(parameters(broker)).is_open


def test_a_broker_without_tls_has_no_such_port() -> None:
    with Broker() as broker, pytest.raises(BrokerError, match="tls=True"):
        broker.tls.port  # noqa: B018


def test_ssl_is_imported_only_when_it_is_asked_for() -> None:
    program = "import sys, leveret\nwith leveret.Broker(): assert 'ssl' not in sys.modules, 'ssl'"

    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_broker_without_tls_has_no_url_for_it() -> None:
    with Broker() as broker, pytest.raises(BrokerError, match=r"^this broker has no TLS port; start it with tls=True"):
        broker.url_for(tls=True)
