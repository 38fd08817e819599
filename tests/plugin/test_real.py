"""The same tests on a real RabbitMQ; here leveret with a management API takes its place.

`LEVERET_ORACLES=4.3=amqp://...` runs these tests on that server instead.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from socketserver import TCPServer
from threading import Thread

import pika
import pytest

from leveret import Broker

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def server() -> Iterator[Broker]:
    with Broker(management=True, checks="all=off") as broker:
        yield broker


# Read this before a fixture of this folder hides the environment variables from the runs within.
ORACLE = dict(pair.split("=", 1) for pair in os.environ.get("LEVERET_ORACLES", "").split(",") if pair).get("4.3")


@pytest.fixture
def arguments(server: Broker) -> list[str]:
    if ORACLE is not None:
        return [f"--leveret-real={ORACLE}"]
    return [f"--leveret-real={server.url}", f"--leveret-real-management={server.management_url}"]


@pytest.fixture
def run_real(run: Run, arguments: list[str]) -> Run:
    return lambda source, *more: run(source, *arguments, "-rs", *more)


def test_an_application_that_asks_the_management_api_asks_the_server(run_real: Run) -> None:
    result = run_real(
        """
        import json
        from urllib.request import Request, urlopen
        import pytest

        @pytest.mark.leveret(management=True)
        def test_it(leveret):
            login = {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}
            with urlopen(Request(f"{leveret.management_url}/api/vhosts", headers=login)) as answer:
                names = [vhost["name"] for vhost in json.load(answer)]
            assert leveret.url.rpartition("/")[2] in names
        """
    )

    result.assert_outcomes(passed=1)


def test_each_test_shares_its_own_virtual_host_with_its_clients(run_real: Run) -> None:
    result = run_real(
        """
        from client import connect

        def test_it(leveret):
            leveret.declare_exchange("orders", "topic")
            leveret.declare_queue("work", arguments={"x-max-length": 3})
            leveret.bind_queue("work", "orders", "order.*")
            assert leveret.publish("orders", "order.made", json={"id": 7}, headers={"shop": "Rome"})

            (message,) = leveret.queue("work").ready

            assert (message.json, message.headers, message.routing_key) == ({"id": 7}, {"shop": "Rome"}, "order.made")
            with connect(leveret.url) as connection:
                method, properties, body = connection.channel().basic_get("work", auto_ack=True)
                assert body == b'{"id": 7}'
            leveret.assert_empty("work", timeout=5)

        def test_nothing_is_left_of_it(leveret):
            leveret.declare_queue("work")
        """
    )

    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["leveret: on a real RabbitMQ 4.3.* at *"])


def test_a_test_can_read_the_version_of_the_server(run_real: Run) -> None:
    result = run_real("def test_it(leveret): assert leveret.rabbitmq == '4.3'")

    result.assert_outcomes(passed=1)


@pytest.mark.skipif(ORACLE is not None, reason="looks into the server")
def test_the_virtual_hosts_are_deleted_at_the_end(run_real: Run, server: Broker) -> None:
    result = run_real(
        """
        def test_it(make_leveret, leveret_session):
            assert len({make_leveret().url, make_leveret().url, leveret_session.url}) == 3
        """
    )

    result.assert_outcomes(passed=1)
    assert [vhost["name"] for vhost in server.admin.export_definitions()["vhosts"]] == ["/"]


def test_what_one_ack_on_the_server_settled_is_told_from_what_another_did(run_real: Run) -> None:
    result = run_real(
        """
        from client import connect

        def test_it(leveret):
            leveret.declare_queue("work")
            for body in (b"1", b"2", b"3"):
                leveret.publish("", "work", body)
            with connect(leveret.url) as connection:
                channel = connection.channel()
                tags = [channel.basic_get("work")[0].delivery_tag for _ in range(3)]
                channel.basic_ack(tags[1], multiple=True)
                channel.basic_ack(tags[2])
                leveret.assert_acked("work", body=b"3", timeout=10)
                acked = leveret.events.query("acked")
                assert [event.up_to_tag for event in acked] == [tags[1], tags[1], None]
        """
    )

    result.assert_outcomes(passed=1)


def test_assertions_judge_what_clients_do_on_the_server(run_real: Run) -> None:
    result = run_real(
        """
        import pika
        from client import connect

        def test_it(leveret):
            leveret.declare_queue("dead")
            to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
            leveret.declare_queue("work", arguments=to_dead)
            with connect(leveret.url) as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                for body in (b"good", b"bad", b"again"):
                    channel.basic_publish("", "work", body)
                channel.basic_ack(channel.basic_get("work")[0].delivery_tag)
                channel.basic_reject(channel.basic_get("work")[0].delivery_tag, requeue=False)
                channel.basic_nack(channel.basic_get("work")[0].delivery_tag, requeue=True)
                try:
                    channel.basic_publish("", "nowhere", b"lost", mandatory=True)
                except pika.exceptions.UnroutableError:
                    pass

                leveret.assert_published("", body=b"good", times=1)
                leveret.assert_confirmed("", body=b"good")
                leveret.assert_acked("work", body=b"good")
                letter = leveret.assert_dead_lettered("work", reason="rejected", to="dead", timeout=10)
                assert letter.body == b"bad"
                leveret.assert_requeued("work", body=b"again", reason="nacked")
                leveret.assert_ready("work", body=b"again")
                leveret.assert_returned("", body=b"lost", times=1)
                leveret.assert_not_published("", body=b"other")
            leveret.wait_idle(timeout=10)
            assert [message.body for message in leveret.queue("dead").ready] == [b"bad"]
        """
    )

    result.assert_outcomes(passed=1)


def test_waits_follow_the_consumers_of_the_server(run_real: Run) -> None:
    result = run_real(
        """
        import threading
        from client import connect

        def work(url):
            with connect(url) as connection:
                channel = connection.channel()
                for method, properties, body in channel.consume("work"):
                    channel.basic_ack(method.delivery_tag)
                    if body == b"stop":
                        return

        def test_it(leveret):
            leveret.declare_queue("work")
            worker = threading.Thread(target=work, args=(leveret.url,))
            worker.start()
            leveret.wait_for_consumer("work", timeout=10)
            leveret.publish("", "work", b"go")
            leveret.publish("", "work", b"stop")
            leveret.wait_idle(timeout=10)
            leveret.assert_empty("work")
            assert len(leveret.assert_delivered("work", times=2)) == 2
            worker.join()
        """
    )

    result.assert_outcomes(passed=1)


def test_an_assertion_that_fails_there_explains_it_as_on_leveret(run_real: Run) -> None:
    result = run_real(
        """
        def test_it(leveret):
            leveret.declare_queue("work")
            leveret.publish("", "work", b"hello")
            leveret.assert_acked("work")
        """
    )

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E *assert_acked('work'): expected at least 1 acked, saw none that matches",
            "E *nearest: #1 ('', 'work', 'hello') from the test",
            "*state of the broker on port *",
        ]
    )


def test_a_fault_of_tcp_happens_between_the_client_and_the_server(run_real: Run) -> None:
    result = run_real(
        """
        import pika
        import pytest
        from client import connect

        def test_it(leveret):
            leveret.declare_queue("work")
            leveret.publish("", "work", b"once")
            leveret.faults.reset_peer(on="basic.ack")
            connection = connect(leveret.url)
            channel = connection.channel()
            method, properties, body = channel.basic_get("work")
            channel.basic_ack(method.delivery_tag)
            with pytest.raises(pika.exceptions.AMQPConnectionError):
                connection.process_data_events(time_limit=10)
            leveret.assert_requeued("work", reason="channel_closed", timeout=10)
            leveret.assert_ready("work", body=b"once", redelivered=True, timeout=10)
            with connect(leveret.url) as connection:
                method, properties, body = connection.channel().basic_get("work", auto_ack=True)
                assert method.redelivered
        """
    )

    result.assert_outcomes(passed=1)


def test_a_restart_closes_the_connections_and_keeps_what_is_durable(run_real: Run) -> None:
    result = run_real(
        """
        import pika
        import pytest
        from client import connect

        def test_it(leveret):
            leveret.declare_queue("work")
            leveret.publish("", "work", b"once", delivery_mode=2)
            connection = connect(leveret.url)
            connection.channel().basic_get("work")
            leveret.restart()
            with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="CONNECTION_FORCED"):
                connection.process_data_events(time_limit=10)
            leveret.assert_ready("work", body=b"once", redelivered=True, timeout=10)
            with connect(leveret.url) as again:
                assert again.channel().basic_get("work", auto_ack=True)[2] == b"once"
        """
    )

    result.assert_outcomes(passed=1)


def test_a_restart_that_would_lose_something_skips_the_test(run_real: Run) -> None:
    result = run_real(
        """
        def test_it(leveret):
            leveret.declare_queue("work")
            leveret.publish("", "work", b"transient")
            leveret.restart()
        """
    )

    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*restart() to lose a message in 'work', which is not persistent, and *"])


def test_time_is_waited_for_where_the_server_needs_it(run_real: Run) -> None:
    result = run_real(
        """
        def test_it(leveret):
            leveret.declare_queue("dead")
            to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-message-ttl": 300}
            leveret.declare_queue("work", arguments=to_dead)
            leveret.publish("", "work", b"late")
            leveret.clock.advance(hours=1)
            leveret.assert_dead_lettered("work", reason="expired", to="dead")
            leveret.assert_ready("dead", body=b"late")
        """
    )

    result.assert_outcomes(passed=1)


def test_time_that_would_take_too_long_skips_the_test(run_real: Run) -> None:
    result = run_real(
        """
        def test_it(leveret):
            leveret.declare_queue("work", arguments={"x-message-ttl": 60000})
            leveret.publish("", "work")
            leveret.clock.advance(59)
            leveret.assert_ready("work")
            leveret.clock.advance(1)
        """,
        "--leveret-real-wait=2",
    )

    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*s of real time in clock.advance(), more than --leveret-real-wait=2"])


def test_users_and_virtual_hosts_of_a_test_are_its_own_on_the_server(run_real: Run) -> None:
    result = run_real(
        """
        import pika
        import pytest
        from client import connect

        @pytest.mark.leveret(users={"shop": "secret"}, vhosts=["orders"])
        def test_it(leveret):
            leveret.declare_queue("work", vhost="orders")
            with connect(leveret.url_for("orders", user="shop")) as connection:
                connection.channel().basic_publish("", "work", b"hello")
            leveret.assert_published("", body=b"hello", vhost="orders")
            (message,) = leveret.queue("work", vhost="orders").ready
            assert message.body == b"hello"
            with pytest.raises(pika.exceptions.AMQPConnectionError):
                connect(leveret.url_for("orders", user="shop", password="wrong"))
        """
    )

    result.assert_outcomes(passed=1)


def test_what_definitions_declare_is_on_the_server(run_real: Run) -> None:
    result = run_real(
        """
        import pytest
        from client import connect

        QUEUE = {"name": "work", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}

        @pytest.mark.leveret(definitions={"queues": [QUEUE]})
        def test_it(leveret):
            with connect(leveret.url) as connection:
                connection.channel().queue_declare("work", passive=True)
            leveret.publish("", "work", b"hello")
            leveret.assert_ready("work", body=b"hello")
        """
    )

    result.assert_outcomes(passed=1)


def test_a_reset_leaves_nothing_on_the_server(run_real: Run) -> None:
    result = run_real(
        """
        def test_it(leveret_session):
            leveret_session.declare_queue("work")
            leveret_session.publish("", "work", b"before")
            leveret_session.reset()
            leveret_session.declare_queue("work")
            assert leveret_session.queue("work").ready == ()
        """
    )

    result.assert_outcomes(passed=1)


def test_an_answer_by_direct_reply_comes_from_the_server(run_real: Run) -> None:
    result = run_real(
        """
        import pika
        from client import connect

        def test_it(leveret):
            leveret.declare_queue("prices")
            with connect(leveret.url) as connection:
                shop, service = connection.channel(), connection.channel()
                answers = shop.consume("amq.rabbitmq.reply-to", auto_ack=True, inactivity_timeout=10)
                next(shop.consume("amq.rabbitmq.reply-to", auto_ack=True, inactivity_timeout=0.01))
                asking = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id="7")
                shop.basic_publish("", "prices", b"3", asking)
                method, asked, body = next(service.consume("prices", inactivity_timeout=10))
                service.basic_publish("", asked.reply_to, b'{"price": 3}')
                service.basic_ack(method.delivery_tag)
                assert next(answers)[2] == b'{"price": 3}'
                leveret.wait_idle(timeout=10)
                leveret.assert_acked("prices", times=1)
                leveret.assert_published("", json={"price": 3})
        """
    )

    result.assert_outcomes(passed=1)


def test_what_the_test_declares_binds_and_deletes_is_done_on_the_server(run_real: Run) -> None:
    result = run_real(
        """
        import pika
        import pytest
        from client import connect

        def test_it(leveret):
            assert leveret.declare_exchange("shop", "topic").type == "topic"
            assert leveret.declare_exchange("audit", "fanout").durable
            named = leveret.declare_queue(durable=True).name
            leveret.bind_exchange("audit", "shop", "order.#")
            leveret.bind_queue(named, "audit")
            with connect(leveret.url) as connection:
                channel = connection.channel()
                channel.basic_publish("shop", "order.paid", b"1")
                channel.queue_declare(named, passive=True)
                assert [message.body for message in leveret.queue(named).ready] == [b"1"]
                leveret.unbind_queue(named, "audit")
                leveret.unbind_exchange("audit", "shop", "order.#")
                channel.basic_publish("shop", "order.paid", b"2")
                assert leveret.purge_queue(named) == 1
                leveret.publish("", named, b"3")
                assert leveret.delete_queue(named) == 1
                leveret.delete_exchange("audit")
                with pytest.raises(pika.exceptions.ChannelClosedByBroker):
                    channel.queue_declare(named, passive=True)
            assert named not in leveret.queues
        """
    )

    result.assert_outcomes(passed=1)


def test_awaitable_calls_ask_the_server_too(run_real: Run) -> None:
    result = run_real(
        """
        import asyncio

        def test_it(leveret):
            async def main():
                leveret.declare_queue("work", arguments={"x-message-ttl": 200})
                leveret.publish("", "work", b"hello")
                await leveret.aio.wait_idle()
                await leveret.aio.clock.advance(1)
                await leveret.aio.assert_dropped("work", reason="expired")
            asyncio.run(main())
        """
    )

    result.assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("faults.nack_publishes()", "faults.nack_publishes(), a fault of the broker"),
        ("respond('prices', b'3')", "respond(), which changes leveret's own broker"),
        ("admin.add_user('shop', 'secret')", "add_user(), which changes leveret's own broker"),
    ],
)
def test_a_test_that_needs_leveret_is_skipped_with_the_reason(run_real: Run, call: str, reason: str) -> None:
    result = run_real(f"def test_it(leveret): leveret.{call}")

    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines([f"SKIPPED*a real RabbitMQ cannot run this test: it needs {reason}"])


@pytest.mark.parametrize(
    ("marker", "reason"),
    [
        ("leveret_fault('nack_publishes')", "it needs the marker leveret_fault"),
        ("leveret_explore()", "it needs the marker leveret_explore"),
        ("leveret(rabbitmq='3.10')", "it needs RabbitMQ 3.10, and the server is 4.3.*"),
    ],
)
def test_a_marker_that_a_server_cannot_satisfy_skips_its_test(run_real: Run, marker: str, reason: str) -> None:
    result = run_real(f"import pytest\n@pytest.mark.{marker}\ndef test_it(leveret): pass")

    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines([f"SKIPPED*{reason}"])


def test_an_option_that_a_server_does_not_have_skips_the_test(run_real: Run) -> None:
    result = run_real("def test_it(make_leveret): make_leveret(tls=True)")

    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*it needs tls=True, an option of leveret's own broker"])


def test_the_run_ends_with_what_only_leveret_could_run_and_what_differs(run: Run, arguments: list[str]) -> None:
    source = """
        def test_same(leveret): leveret.declare_queue("work")
        def test_only_there(leveret): leveret.faults.nack_publishes()
        def test_different(leveret): assert "real" not in repr(leveret)
        """
    run(source, "-p", "cacheprovider")

    result = run(source, "-p", "cacheprovider", *arguments)

    result.assert_outcomes(passed=1, skipped=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*leveret: on a real RabbitMQ 4.3.*",
            "2 of 3 tests ran there",
            "only leveret could run:",
            "  *::test_only_there: it needs faults.nack_publishes(), a fault of the broker",
            "different from the last run on leveret:",
            "  *::test_different: passed on leveret, failed on the server",
        ]
    )


def test_a_run_says_that_packages_start_their_own_servers_there(run_real: Run) -> None:
    suite = "def test_it():\n    pass\n"

    result = run_real(suite, "--leveret-replaces=testcontainers")

    line = "leveret: under --leveret-real, leveret replaces nothing: testcontainers starts its own RabbitMQ"
    assert line in result.stdout.lines


def test_a_name_that_leveret_does_not_have_raises_there_too(run_real: Run) -> None:
    result = run_real("def test_it(leveret): leveret.assert_emtpy('q')")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *assert_emtpy*did you mean *assert_empty*"])


def test_a_refusal_by_the_server_raises_with_its_reason(run_real: Run) -> None:
    result = run_real(
        """
        def test_it(leveret):
            leveret.declare_queue("q")
            leveret.declare_queue("q", arguments={"x-max-length": 3})
        """
    )

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *RefusedError: *inequivalent arg 'x-max-length' for queue 'q' in vhost '/'*"])


@pytest.mark.parametrize("url", ["amqp://guest:guest@127.0.0.1:1", "amqp://guest:guest@rabbit..test:5672"])
def test_an_unreachable_server_ends_the_run_with_a_hint(run: Run, url: str) -> None:
    result = run("def test_it(leveret): pass", f"--leveret-real={url}")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    hint = "start RabbitMQ there, or correct host and port"
    shown = url.replace(":guest@", ":***@")
    result.stderr.fnmatch_lines([f"*: --leveret-real: '{shown}' cannot be reached: *; {hint}"])


@pytest.mark.parametrize(
    "url", ["amqp://guest:secret@127.0.0.1:1", "amqps://guest:secret@localhost", "amqps://guest:secret:a@b@localhost"]
)
def test_a_url_that_cannot_be_used_is_shown_without_its_password(run: Run, url: str) -> None:
    result = run("def test_it(leveret): pass", f"--leveret-real={url}")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "secret" not in f"{result.stdout}{result.stderr}"


def test_a_server_without_its_management_api_ends_the_run_with_a_hint(run: Run) -> None:
    with Broker() as server:
        result = run("def test_it(leveret): pass", f"--leveret-real={server.url}")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    hint = "enable its management plugin, or give its URL with --leveret-real-management=http://localhost:15672"
    shown = server.url.replace(":guest@", ":***@")
    start = f"--leveret-real: {shown!r} cannot be used: http://127.0.0.1:{server.port + 10_000} cannot be reached"
    result.stderr.fnmatch_lines([f"*: {start}: *; {hint}"])


def test_a_port_that_does_not_speak_http_is_not_taken_for_the_management_api(run: Run, server: Broker) -> None:
    url = f"http://127.0.0.1:{server.port}"

    result = run("def test_it(leveret): pass", f"--leveret-real={server.url}", f"--leveret-real-management={url}")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*: --leveret-real-management: '{url}' cannot be used: *management plugin, or give*"])


@pytest.mark.parametrize("answer", ["{}", "true"])
def test_another_program_that_answers_json_is_not_taken_for_rabbitmq(
    run: Run, server: Broker, tmp_path: Path, answer: str
) -> None:
    (tmp_path / "api").mkdir()
    for name in ("users", "overview"):
        (tmp_path / "api" / name).write_text(answer)
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with TCPServer(("127.0.0.1", 0), handler) as other:
        url = f"http://127.0.0.1:{other.server_address[1]}"
        thread = Thread(target=other.serve_forever, args=[0.01], daemon=True)
        thread.start()

        result = run("def test_it(leveret): pass", f"--leveret-real={server.url}", f"--leveret-real-management={url}")

        other.shutdown()
        thread.join()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    why = f"{url} is no RabbitMQ: its overview has no rabbitmq_version; enable its management plugin, or give *"
    result.stderr.fnmatch_lines([f"*: --leveret-real-management: '{url}' cannot be used: {why}"])


@pytest.mark.parametrize("login", ["guest:wrong", "auditor:secret"])
def test_a_user_who_is_no_administrator_ends_the_run_with_a_hint(run: Run, server: Broker, login: str) -> None:
    server.admin.add_user("auditor", "secret", tags=["monitoring"])
    url = server.management_url.replace("://", f"://{login}@")

    result = run("def test_it(leveret): pass", f"--leveret-real={server.url}", f"--leveret-real-management={url}")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    hint = "put the name and the password of an administrator into the URL"
    shown = server.management_url.replace("://", f"://{login.partition(':')[0]}:***@")
    result.stderr.fnmatch_lines([f"*: --leveret-real-management: '{shown}' cannot be used: *; {hint}"])


def test_a_binding_that_the_server_refuses_raises_at_the_line_of_the_test(run_real: Run) -> None:
    result = run_real(
        """
        def test_it(leveret):
            leveret.declare_queue("q")
            leveret.bind_queue("q", "nowhere")
        """
    )

    result.stdout.fnmatch_lines(["test_*.py:3: RefusedError"])


@pytest.mark.parametrize(
    "url",
    ["localhost", "http://localhost:5672", "amqp://:5672", *map("amqp://localhost:{}".format, ("99999", "0", "port"))],
)
def test_an_invalid_url_is_refused(run: Run, url: str) -> None:
    result = run("def test_it(leveret): pass", f"--leveret-real={url}")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    valid = "an amqp:// URL with a host and a port from 1 to 65535; write it as in amqp://guest:guest@localhost:5672"
    result.stderr.fnmatch_lines([f"*: --leveret-real: '{url}' is not {valid}"])


def test_a_virtual_host_of_the_server_is_refused(run: Run) -> None:
    result = run("def test_it(leveret): pass", "--leveret-real=amqp://guest:guest@127.0.0.1:5672/shop")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "names a virtual host, but each test gets one of its own there; leave '/shop' out" in str(result.stderr)


def test_an_application_reads_the_url_of_the_virtual_host_of_the_run(
    run_real: Run, pytester: pytest.Pytester, server: Broker
) -> None:
    pytester.makeconftest("import os\n\nAMQP_URL = os.environ['AMQP_URL']")

    result = run_real(
        """
        from client import connect

        def test_it(leveret_session):
            import os
            assert leveret_session.url == os.environ["AMQP_URL"]
            connect(leveret_session.url).close()
        """,
        "--leveret-url-env=AMQP_URL",
    )

    result.assert_outcomes(passed=1)
    assert server.admin.list_vhosts() == ["/"]


def test_clients_may_declare_only_what_the_definitions_have_there_too(run_real: Run) -> None:
    result = run_real(
        """
        import pytest
        from client import connect

        QUEUES = [{"name": name, "vhost": "/", "durable": True} for name in ("orders", "mails")]

        @pytest.mark.leveret(definitions={"vhosts": [{"name": "/"}], "queues": QUEUES}, declare="must_match")
        def test_it(leveret):
            channel = connect(leveret.url).channel()
            channel.queue_declare("orders", durable=True)
            channel.queue_declare("order", durable=True)
        """
    )

    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*queue 'order', from worker: did you mean 'orders'?"])
    result.stdout.fnmatch_lines(["leveret: of the definitions, no test used queue 'mails'"])


def test_what_killed_runs_left_more_than_a_day_ago_is_deleted(run: Run, server: Broker) -> None:
    hour, day = 3600, 24 * 3600
    stamps = [time.strftime("%Y%m%dT%H%M", time.gmtime(time.time() - ago)) for ago in (day + hour, day - hour)]
    old, new = (f"leveret-{stamp}-0123456789ab" for stamp in stamps)
    used = old.replace("ab", "cd")
    theirs = ["shop", f"my-{old}", "leveret-0123456789ab", new, used]
    for name in (old, f"{old}.stock", *theirs):
        server.admin.add_vhost(name)
    for name in (f"{old}.app", f"{used}.app", f"{new}.app"):
        server.admin.add_user(name, "secret")
    server.admin.set_permissions("guest", vhost=used)

    with pika.BlockingConnection(pika.URLParameters(server.url_for(used))):
        result = run(
            "def test_it(leveret): print('its own is', leveret.url.rpartition('/')[2])",
            *(f"--leveret-real={server.url}", f"--leveret-real-management={server.management_url}", "-s"),
        )

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"leveret: on a real RabbitMQ 4.3.* (deleted what killed runs had left: {old}, *"])
    result.stdout.re_match_lines([rf".*its own is leveret-{time.strftime('%Y')}\d{{4}}T\d{{4}}-[0-9a-f]{{12}}$"])
    assert sorted(server.admin.list_vhosts()) == sorted(["/", *theirs])
    assert sorted(server.admin.list_users()) == sorted([f"{new}.app", f"{used}.app", "guest"])


def test_what_the_server_has_refused_was_not_published(run_real: Run) -> None:
    result = run_real(
        """
        import pika
        import pytest
        from client import connect

        def test_it(leveret):
            leveret.declare_queue("orders")
            with connect(leveret.url) as connection:
                channel = connection.channel()
                channel.basic_publish("nowhere", "orders", b"x")
                with pytest.raises(pika.exceptions.ChannelClosedByBroker):
                    channel.queue_declare("orders", passive=True)
                connection.channel().basic_publish("", "orders", b"x")
                leveret.assert_published("", routing_key="orders", times=1, timeout=10)
        """,
        "--leveret-checks=all=off",
    )

    result.assert_outcomes(passed=1)


def test_the_reason_for_which_the_server_drops_a_message_is_seen(run_real: Run) -> None:
    result = run_real(
        """
        def test_a_full_queue(leveret):
            leveret.declare_queue("log", arguments={"x-max-length": 1})
            leveret.publish("", "log", b"1")
            leveret.publish("", "log", b"2")
            leveret.assert_dropped("log", reason="maxlen", timeout=10)
            assert [message.body for message in leveret.queue("log").ready] == [b"2"]

        def test_the_shorter_of_two_times_to_live(leveret):
            leveret.declare_queue("jobs", arguments={"x-message-ttl": 60_000})
            leveret.publish("", "jobs", b"1", expiration="200")
            leveret.clock.advance(1)
            leveret.assert_dropped("jobs", reason="expired")
        """,
        "--leveret-checks=all=off",
    )

    result.assert_outcomes(passed=2)


def test_a_message_that_comes_back_counts_its_deliveries_and_its_failures(run_real: Run) -> None:
    result = run_real(
        """
        from client import connect

        def test_it(leveret):
            leveret.declare_queue("jobs", arguments={"x-queue-type": "quorum"})
            leveret.publish("", "jobs", b"1")
            with connect(leveret.url) as connection:
                channel = connection.channel()
                for _ in range(2):
                    method = next(channel.consume("jobs", inactivity_timeout=10))[0]
                    channel.basic_reject(method.delivery_tag, requeue=True)
                method = next(channel.consume("jobs", inactivity_timeout=10))[0]
                (held,) = leveret.queue("jobs").unacked
                assert (held.redelivered, held.delivery_count) == (True, 2)
                assert [event.count for event in leveret.events if event.kind == "delivered"] == [0, 1, 2]
                channel.basic_ack(method.delivery_tag)
        """
    )

    result.assert_outcomes(passed=1)


def test_confirms_of_several_publishes_at_once_are_all_seen(run_real: Run) -> None:
    result = run_real(
        """
        import asyncio
        import aio_pika

        def test_it(leveret):
            leveret.declare_queue("orders")

            async def publish():
                async with await aio_pika.connect(leveret.url) as connection:
                    channel = await connection.channel()
                    send = channel.default_exchange.publish
                    await asyncio.gather(*(send(aio_pika.Message(b"%d" % number), "orders") for number in range(60)))

            asyncio.run(publish())
            leveret.assert_confirmed("", times=60)
        """
    )

    result.assert_outcomes(passed=1)


def test_a_restart_loses_no_queue_that_goes_with_its_connection_anyway(run_real: Run) -> None:
    result = run_real(
        """
        from client import connect

        def test_it(leveret):
            connection = connect(leveret.url)
            connection.channel().queue_declare("", exclusive=True)
            leveret.restart()
            assert leveret.connections == []
        """
    )

    result.assert_outcomes(passed=1)


def test_a_message_that_only_the_test_has_looked_at_is_delivered_as_new(run_real: Run) -> None:
    result = run_real(
        """
        from client import connect

        def test_it(leveret):
            back = {"x-message-ttl": 100, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "late"}
            leveret.declare_queue("late")
            leveret.declare_queue("jobs", arguments=back)
            leveret.publish("", "jobs", b"1")
            leveret.clock.advance(1)
            leveret.assert_ready("late", timeout=10)
            with connect(leveret.url) as connection:
                channel = connection.channel()
                method = next(channel.consume("late", inactivity_timeout=10))[0]
                assert not method.redelivered
                (held,) = leveret.queue("late").unacked
                assert not held.redelivered
                channel.basic_ack(method.delivery_tag)
        """
    )

    result.assert_outcomes(passed=1)
