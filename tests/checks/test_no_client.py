"""A test that asks for a broker to which no client comes."""

from __future__ import annotations

import pytest

from leveret import Broker
from leveret.engine.harness import Harness
from tests.plugin.conftest import no_options_of_ours, run, suite

__all__ = ["no_options_of_ours", "run", "suite"]

WARNED = ["*LeveretWarning: no_client: 1 broker to which no client came*"]


def test_a_test_that_reads_the_url_and_gets_no_client_is_warned(run) -> None:
    result = run("""
        def test_it(leveret, monkeypatch):
            monkeypatch.setenv("MISSPELT_URL", leveret.url)
    """)

    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines([*WARNED, "*the test read the broker's url and did nothing else with the broker*"])


def test_the_level_error_fails_the_test(run) -> None:
    result = run("def test_it(leveret): leveret.port", "--leveret-checks=no_client=error")

    result.assert_outcomes(passed=1, errors=1)


def test_a_client_that_connects_to_another_broker_is_named_with_its_line(run) -> None:
    # Whether something listens there does not matter.
    result = run("""
        import contextlib, socket

        def place_order():
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", 5673), 5).close()

        def test_it(leveret):
            place_order()
            leveret.assert_not_published()
    """)

    result.assert_outcomes(passed=1, warnings=1)
    finding = "*instead, this process tried to connect to 127.0.0.1:5673, at *.py:5 in place_order*"
    result.stdout.fnmatch_lines([*WARNED, finding])


# Each opens a connection to the port `elsewhere` of 127.0.0.1, where nothing listens: no container needs to run.
CLIENTS = {
    "pika": "pika.BlockingConnection(pika.ConnectionParameters('127.0.0.1', elsewhere))",
    "aio-pika": "asyncio.run(aio_pika.connect(f'amqp://127.0.0.1:{elsewhere}'))",
    "kombu": "kombu.Connection(f'amqp://127.0.0.1:{elsewhere}').connect()",
    "amqpstorm": "amqpstorm.Connection('127.0.0.1', 'guest', 'guest', port=elsewhere)",
}


@pytest.mark.parametrize("call", CLIENTS.values(), ids=CLIENTS)
def test_a_client_that_asks_for_another_broker_is_named_whatever_the_port(run, call) -> None:
    result = run(f"""
        import asyncio, contextlib, socket
        import aio_pika, amqpstorm, kombu, pika

        def place_order(elsewhere):
            with contextlib.suppress(Exception):
                {call}

        def test_it(leveret):
            with socket.socket() as free:
                # No port that the system gives away: an earlier broker of this process may have had it.
                for port in range(20_000, 30_000):
                    with contextlib.suppress(OSError):
                        free.bind(("127.0.0.1", port))
                        break
                place_order(free.getsockname()[1])
            leveret.declare_queue("orders")
    """)

    result.assert_outcomes(passed=1, warnings=1)
    finding = "*instead, this process tried to connect to 127.0.0.1:*, at *.py:6 in place_order*: give that code*"
    result.stdout.fnmatch_lines([*WARNED, finding])


def test_a_server_that_is_no_broker_is_not_named(run) -> None:
    result = run("""
        import http.client, socket, threading

        def test_it(leveret):
            leveret.declare_queue("orders")
            with socket.create_server(("127.0.0.1", 0)) as database:
                port = database.getsockname()[1]
                socket.create_connection(("127.0.0.1", port), 5).close()
                connection = http.client.HTTPConnection("127.0.0.1", port)
                connection.connect()
                connection.close()
    """)

    assert "no_client" not in result.stdout.str()


def test_a_client_that_looks_for_the_broker_of_an_earlier_test_is_not_named(run) -> None:
    result = run("""
        import contextlib
        import pika, pytest

        @pytest.fixture(scope="module")
        def urls():
            return []

        def test_first(leveret, urls):
            urls.append(leveret.url)
            pika.BlockingConnection(pika.URLParameters(leveret.url)).close()

        def test_second(leveret, urls):
            leveret.declare_queue("orders")
            with contextlib.suppress(pika.exceptions.AMQPConnectionError):
                pika.BlockingConnection(pika.URLParameters(urls[0]))
    """)

    assert "no_client" not in result.stdout.str()


def test_sockets_are_as_they_were_once_the_test_has_ended(run) -> None:
    result = run("""
        import socket
        import pytest

        @pytest.fixture
        def before():
            methods = socket.socket.connect, socket.socket.connect_ex
            yield
            assert (socket.socket.connect, socket.socket.connect_ex) == methods

        def test_one(before, leveret):
            leveret.declare_queue("orders")

        def test_two(before, leveret, make_leveret):
            make_leveret()

        def test_with_a_method_of_its_own(before, leveret, monkeypatch):
            monkeypatch.setattr(socket.socket, "connect", lambda *_: None)
            leveret.declare_queue("orders")
    """)

    result.assert_outcomes(passed=3)


def test_no_audit_hook_slows_the_process(suite) -> None:
    suite.makepyfile("""
        import sys

        added = []
        sys.addaudithook(lambda event, arguments: added.append(event) if event == "sys.addaudithook" else None)

        def test_it(leveret):
            leveret.declare_queue("orders")
            assert added == []
    """)

    suite.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    "test",
    [
        # It uses leveret's own calls.
        "def test_it(leveret): leveret.url; leveret.declare_queue('mails'); leveret.publish('', 'mails', b'1')",
        "def test_it(leveret): leveret.url; leveret.respond('prices', b'1')",
        "def test_it(leveret): leveret.assert_not_published(); connect(leveret.url).close()",
        # The test itself publishes, which may have consequences.
        "def test_it(leveret):\n    leveret.declare_queue('mails'); leveret.publish('', 'mails', b'1')\n"
        "    leveret.assert_dead_lettered('mails', times=0)",
        "def test_it(leveret): leveret.url; leveret.admin.add_user('ann', 'secret')",
        # A client comes.
        "def test_it(leveret): connect(leveret.url).close()",
        # A client comes and is refused.
        "def test_it(leveret):\n    with pytest.raises(Exception): connect(leveret.url_for('/', 'guest', 'wrong'))",
        # Fixtures read the url for every test.
        "@pytest.fixture(autouse=True)\n"
        "def url(leveret, monkeypatch): monkeypatch.setenv('AMQP_URL', leveret.url)\n"
        "def test_it(): pass",
        "@pytest.fixture\ndef app(leveret): return leveret.url\ndef test_it(app): pass",
        "@pytest.mark.usefixtures('leveret')\ndef test_it(): pass",
        # The broker serves several tests.
        "def test_it(leveret_session): leveret_session.url",
        # It has several brokers.
        "def test_it(leveret, make_leveret): leveret.url; connect(make_leveret().url).close()",
        # It fails anyway, or is skipped.
        "def test_it(leveret): leveret.url; pytest.skip()",
        "@pytest.mark.leveret(checks='no_client=off')\ndef test_it(leveret): leveret.url",
        "def test_it(leveret): leveret.allow('no_client'); leveret.url",
    ],
)
def test_no_false_alarm(run, test) -> None:
    result = run("from client import connect\nimport pytest\n" + test)

    assert "no_client" not in result.stdout.str()
    assert result.ret == 0


def test_the_finding_is_known_to_the_judge(found) -> None:
    with Broker() as broker:
        Harness(broker).expect_client()
        assert broker.url
        Harness(broker).end_expecting()

        assert "does the code under test use it?" in found(broker)["no_client"]


def test_a_client_with_tls_that_failed_is_named(run) -> None:
    result = run("""
        import pika, ssl, pytest

        def test_it(leveret):
            parameters = pika.URLParameters(leveret.url)
            parameters.ssl_options = pika.SSLOptions(ssl.create_default_context())
            with pytest.raises(ssl.SSLError):
                pika.BlockingConnection(parameters)
    """)

    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines([*WARNED, "*a TLS hello arrived on the port without TLS*"])


def test_a_test_that_does_nothing_with_its_broker_is_warned(run) -> None:
    result = run("def test_it(leveret): pass")

    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines([*WARNED, "*the test did nothing with the broker: leave the argument out*"])


@pytest.mark.parametrize(
    "assertion",
    [
        *("assert_not_published()", "assert_published(times=0)", "assert_acked('mails', times=0)"),
        *("assert_ready('mails', times=0)", "assert_empty('mails')"),
    ],
)
def test_an_assertion_of_absence_without_a_client_is_warned_of_with_its_line(run, assertion) -> None:
    result = run(f"""
        def test_it(leveret):
            leveret.declare_queue("mails")
            leveret.{assertion}
    """)

    result.assert_outcomes(passed=1, warnings=1)
    finding = f"*{assertion.partition('(')[0]} at *.py:3 in test_it passed, but without a client nothing could happen*"
    result.stdout.fnmatch_lines([*WARNED, finding])
