"""The same tests on a real RabbitMQ; here a broker of ours with a management API stands for it, or one that is named.

`LEVERET_ORACLES=4.3=amqp://...` runs these on that server instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from leveret import Broker
from tests.plugin.management_double import management_of

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def server() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


# Asked before a fixture of this folder hides them from the runs within.
ORACLE = dict(pair.split("=", 1) for pair in os.environ.get("LEVERET_ORACLES", "").split(",") if pair).get("4.3")


@pytest.fixture
def arguments(server: Broker) -> Iterator[list[str]]:
    if ORACLE is not None:
        yield [f"--leveret-real={ORACLE}"]
        return
    with management_of(server) as url:
        yield [f"--leveret-real={server.url}", f"--leveret-real-management={url}"]


@pytest.fixture
def run_real(run: Run, arguments: list[str]) -> Run:
    return lambda source, *more: run(source, *arguments, "-rs", *more)


def test_clients_and_tests_meet_in_a_virtual_host_of_the_test(run_real: Run) -> None:
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


def test_a_test_can_ask_for_the_version_of_the_server(run_real: Run) -> None:
    result = run_real("def test_it(leveret): assert leveret.rabbitmq == '4.3'")

    result.assert_outcomes(passed=1)


@pytest.mark.skipif(ORACLE is not None, reason="looks into the server")
def test_the_virtual_hosts_are_deleted_again(run_real: Run, server: Broker) -> None:
    result = run_real(
        """
        def test_it(make_leveret, leveret_session):
            assert len({make_leveret().url, make_leveret().url, leveret_session.url}) == 3
        """
    )

    result.assert_outcomes(passed=1)
    assert [vhost["name"] for vhost in server.admin.export_definitions()["vhosts"]] == ["/"]


@pytest.mark.parametrize("power", ["clock", "faults", "wait_idle", "assert_acked", "restart", "events"])
def test_a_test_that_needs_leverets_powers_is_skipped_and_the_power_named(run_real: Run, power: str) -> None:
    result = run_real(f"def test_it(leveret): leveret.{power}")

    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(
        [f"SKIPPED*needs leveret: leveret.{power} is nothing a test can ask of a real RabbitMQ"]
    )


@pytest.mark.parametrize(
    ("marker", "reason"),
    [
        ("leveret_fault('nack_publishes')", "needs leveret: faults *"),
        ("leveret_explore()", "needs leveret: exploration *"),
        ("leveret(rabbitmq='3.10')", "this test is about RabbitMQ 3.10; the server is 4.3.*"),
    ],
)
def test_a_marker_that_no_server_can_follow_skips_its_test(run_real: Run, marker: str, reason: str) -> None:
    result = run_real(f"import pytest\n@pytest.mark.{marker}\ndef test_it(leveret): pass")

    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines([f"SKIPPED*{reason}"])


def test_a_name_that_leveret_has_not_is_an_error_there_too(run_real: Run) -> None:
    result = run_real("def test_it(leveret): leveret.assert_emtpy('q')")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *leveret.assert_emtpy: there is no such name*"])


def test_what_the_server_refuses_is_raised_with_its_reason(run_real: Run) -> None:
    result = run_real(
        """
        def test_it(leveret):
            leveret.declare_queue("q")
            leveret.declare_queue("q", arguments={"x-max-length": 3})
        """
    )

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *BrokerError: *inequivalent arg 'x-max-length' for queue 'q' in vhost *"])


def test_a_server_that_cannot_be_asked_ends_the_run_and_says_what_to_do(run: Run) -> None:
    result = run("def test_it(leveret): pass", "--leveret-real=amqp://guest:guest@127.0.0.1:1")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*cannot be reached*enable the management plugin there, or name its place with *"])


def test_a_url_that_is_none_is_refused(run: Run) -> None:
    result = run("def test_it(leveret): pass", "--leveret-real=localhost")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*'localhost' is no URL of a RabbitMQ, as amqp://guest:guest@localhost:5672*"])
