"""The same tests on a real RabbitMQ; here leveret with a management API takes its place.

`LEVERET_ORACLES=4.3=amqp://...` runs these tests on that server instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from leveret import Broker

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def server() -> Iterator[Broker]:
    with Broker(management=True) as broker:
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


@pytest.mark.parametrize("power", ["clock", "faults", "wait_idle", "assert_acked", "restart", "events"])
def test_a_test_that_needs_leveret_is_skipped_with_the_feature_named(run_real: Run, power: str) -> None:
    result = run_real(f"def test_it(leveret): leveret.{power}")

    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines([f"SKIPPED*needs leveret: a real RabbitMQ does not support leveret.{power}"])


@pytest.mark.parametrize(
    ("marker", "reason"),
    [
        ("leveret_fault('nack_publishes')", "needs leveret: a real RabbitMQ does not support faults"),
        ("leveret_explore()", "needs leveret: a real RabbitMQ does not support exploration"),
        ("leveret(rabbitmq='3.10')", "needs RabbitMQ 3.10; the server is 4.3.*"),
    ],
)
def test_a_marker_that_a_server_cannot_satisfy_skips_its_test(run_real: Run, marker: str, reason: str) -> None:
    result = run_real(f"import pytest\n@pytest.mark.{marker}\ndef test_it(leveret): pass")

    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines([f"SKIPPED*{reason}"])


def test_a_name_that_leveret_does_not_have_raises_there_too(run_real: Run) -> None:
    result = run_real("def test_it(leveret): leveret.assert_emtpy('q')")

    result.assert_outcomes(failed=1)
    # From 3.13 on, Python adds its own guess.
    result.stdout.fnmatch_lines(["E *leveret.assert_emtpy does not exist*; did you mean 'assert_empty'[?]*"])


def test_a_refusal_by_the_server_raises_with_its_reason(run_real: Run) -> None:
    result = run_real(
        """
        def test_it(leveret):
            leveret.declare_queue("q")
            leveret.declare_queue("q", arguments={"x-max-length": 3})
        """
    )

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *BrokerError: *inequivalent arg 'x-max-length' for queue 'q' in vhost *"])


def test_an_unreachable_server_ends_the_run_with_a_hint(run: Run) -> None:
    result = run("def test_it(leveret): pass", "--leveret-real=amqp://guest:guest@127.0.0.1:1")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*cannot be reached*enable its management plugin, or give its URL with *"])


def test_an_invalid_url_is_refused(run: Run) -> None:
    result = run("def test_it(leveret): pass", "--leveret-real=localhost")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*'localhost' is not an AMQP URL; write it as in amqp://guest:guest@localhost:5672*"])


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
