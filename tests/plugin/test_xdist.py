"""Three runs of a user's suite with pytest-xdist, and what each of their reports, traces, pages and contracts shows.

Each of these runs starts three processes, so the tests of one run share it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from leveret.trace.jsonl import TraceReader
from tests.plugin.conftest import CLIENT, NO_COROUTINES, NO_LEFTOVERS
from tests.plugin.test_contract import WRITE
from tests.plugin.test_documents import DOCUMENT, SHOP, UNUSED_CHANNELS
from tests.plugin.test_pages import pages_in
from tests.plugin.test_rehearsal_report import BOTH, DECLARING, section
from tests.plugin.test_topology import DEFINITIONS, INI, unused
from tests.plugin.test_url_env import APPLICATION

# The form of the name of a run.
FORM = re.compile(r"\d{8}T\d{6}-[0-9a-f]{8}")
_DEAD_LETTERS = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "failed"}
# What production defines, with what the shop of the document declares.
_PRODUCTION = {
    **DEFINITIONS,
    "exchanges": [*DEFINITIONS["exchanges"], {"name": "orders", "vhost": "/", "type": "topic", "durable": False}],
    "queues": [
        *DEFINITIONS["queues"],
        {"name": "billing", "vhost": "/", "arguments": _DEAD_LETTERS},
        {"name": "failed", "vhost": "/"},
    ],
    "bindings": [
        *DEFINITIONS["bindings"],
        {
            "source": "orders",
            "vhost": "/",
            "destination": "billing",
            "destination_type": "queue",
            "routing_key": "order.*",
        },
    ],
}
# A suite with production's definitions, a document and a lock, and tests that use a part of each.
_CONTRACTS = {
    "pytest.ini": f"{INI}leveret_contract =\n asyncapi.json\n messages.lock",
    "production.json": json.dumps(_PRODUCTION),
    "asyncapi.json": json.dumps(DOCUMENT),
    "shop.py": SHOP,
    "test_orders.py": """
        from shop import *

        def test_order(shop, billing):
            shop.order()
            billing.work()

        def test_other(shop):
            shop.order("invoice.created")
    """,
    "test_exchanges.py": """
        import pytest
        from client import connect

        @pytest.mark.parametrize("exchange", ["dead", "unused", "lost", "mails"])
        def test_it(leveret, exchange):
            connect(leveret.url).channel().basic_publish(exchange, "user.created", b"")
    """,
}


@dataclass
class Spread:
    """A run on two workers: its folder, and its outcome."""

    folder: Path
    result: pytest.RunResult


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in {"client.py": CLIENT, **files}.items():
        (folder / name).write_text(dedent(text).lstrip(), encoding="utf-8", newline="\n")


def spread(folder: Path, files: dict[str, str], *arguments: str) -> Spread:
    """Run a suite in two workers."""
    write(folder, files)
    # The run is its own, even if this test is part of one with workers or with options of leveret.
    ours = ("LEVERET_", "PYTEST_", "AMQP_URL", "GITHUB_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)} | {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": "pytest_leveret.plugin",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH")))),
    }
    options = ("-p", "xdist", "-n2", "--dist=load", "-p", "no:cacheprovider", f"--basetemp={folder / 'tmp'}")
    command = [sys.executable, "-m", "pytest", *options, *NO_COROUTINES, *arguments]
    ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, encoding="utf-8")
    return Spread(folder, pytest.RunResult(ran.returncode, ran.stdout.splitlines(), ran.stderr.splitlines(), 0))


def headers(spread: Spread) -> list[dict[str, Any]]:
    return [TraceReader(path).header for path in sorted((spread.folder / "traces").iterdir())]


def notes(result: pytest.RunResult) -> list[str]:
    """Return the section about the lock."""
    start = next(index for index, line in enumerate(result.outlines) if "messages.lock" in line)
    end = next(
        index
        for index in range(start + 1, len(result.outlines))
        if result.outlines[index].startswith(("===", "leveret: "))
    )
    return result.outlines[start:end]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Spread:
    """A run of an application that reads its URL when the conftest imports it, and of failing tests with pages."""
    return spread(
        tmp_path_factory.mktemp("shop"),
        {
            "pytest.ini": "[pytest]\nleveret_url_env = AMQP_URL AMQP_PORT=port\nleveret_checks = unroutable=off",
            "shop.py": APPLICATION,
            "conftest.py": "import shop",
            # The first four tests: each worker begins with two of them.
            "test_a_session.py": """
                import os
                import pytest
                import shop

                @pytest.mark.parametrize("turn", range(4))
                def test_it(leveret_session, turn, request):
                    assert os.environ["AMQP_URL"] == shop.AMQP_URL == leveret_session.url
                    shop.ship(b"7")
                    seen = request.config.rootpath / f"{leveret_session.port}-{os.environ['PYTEST_XDIST_WORKER']}"
                    seen.touch()
            """,
            "test_of_queues.py": """
                import pytest
                from client import connect

                @pytest.mark.parametrize("turn", range(4))
                def test_of_the_same_queue(leveret, leveret_session, turn):
                    with connect(leveret.url) as connection:
                        connection.channel().queue_declare("orders", durable=True)
                    assert [queue.name for queue in leveret.queues] == ["orders"]

                @pytest.mark.parametrize("number", range(6))
                def test_that_fails(leveret, number):
                    assert "as RabbitMQ 4.0>" not in repr(leveret)
            """,
        },
        "--leveret-rabbitmq=4.0",
        "--leveret-trace-dir=traces",
        "--leveret-pages-dir=pages",
        "--leveret-pages-limit=4",
    )


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Spread:
    """A run on two versions of RabbitMQ, which is recorded."""
    folder = tmp_path_factory.mktemp("rehearsal")
    return spread(folder, {"test_it.py": DECLARING}, BOTH, "--leveret-trace-dir=traces", "--leveret-pages=off")


@pytest.fixture(scope="module")
def contracts(tmp_path_factory: pytest.TempPathFactory) -> Spread:
    """A run that has production's definitions, checks a document and writes a lock, and has a name."""
    options = (WRITE, "--leveret-trace-dir=traces", "--testrunuid=build-7")
    return spread(tmp_path_factory.mktemp("contracts"), _CONTRACTS, *options)


def test_workers_have_their_own_brokers_options_and_reports(shop: Spread) -> None:
    shop.result.assert_outcomes(passed=8, failed=6)
    shop.result.stdout.fnmatch_lines(["*- leveret: state of the broker on port *, RabbitMQ 4.0 -*"])


def test_each_worker_has_a_broker_of_its_own_at_the_url_of_the_environment(shop: Spread) -> None:
    seen = [path.name.split("-") for path in shop.folder.glob("[0-9]*-gw*")]
    assert len({port for port, _ in seen}) == len({worker for _, worker in seen}) == 2
    shop.result.stdout.fnmatch_lines(["leveret: *AMQP_URL, AMQP_PORT for each worker (ini option leveret_url_env)*"])


def test_workers_share_the_limit_of_pages_and_the_controller_writes_the_index(shop: Spread) -> None:
    folder = shop.folder / "pages"
    assert len(pages_in(folder)) == 4
    index = (folder / "index.html").read_text(encoding="utf-8")
    assert index.count("<a href=") == 4
    assert {path.suffix for path in folder.iterdir()} == {".html", ".json"}
    shop.result.stdout.fnmatch_lines(["leveret: 2 tests have no page, because --leveret-pages-limit=4 was reached"])


def test_the_trace_of_a_worker_whose_application_has_the_url_is_named_as_any_run_is(shop: Spread) -> None:
    (run,) = {header["run"] for header in headers(shop)}
    assert FORM.fullmatch(run)


def test_workers_send_their_fingerprints(rehearsal: Spread) -> None:
    rehearsal.result.assert_outcomes(passed=3, failed=2)
    told = [line for line in section(rehearsal.result) if not line.startswith("leveret: ")]
    assert sorted(told[-2:])[0].endswith("::test_ordering")
    assert told[3].startswith("  order worker is refused: 541 ")
    assert told[4].endswith(".py:5 in declare")


def test_each_worker_has_a_file_of_the_same_run(rehearsal: Spread) -> None:
    assert [header["worker"] for header in headers(rehearsal)] == ["gw0", "gw1"]
    (run,) = {header["run"] for header in headers(rehearsal)}
    assert FORM.fullmatch(run)
    rehearsal.result.stdout.fnmatch_lines([f"leveret: this run's trace is in {rehearsal.folder / 'traces'}"])


def test_a_run_with_workers_keeps_the_name_that_the_user_gave(contracts: Spread) -> None:
    assert [header["run"] for header in headers(contracts)] == ["build-7", "build-7"]


def test_workers_write_the_lock_that_one_process_writes(contracts: Spread, suite: pytest.Pytester) -> None:
    write(suite.path, _CONTRACTS)
    alone = suite.runpytest_inprocess(WRITE, *NO_COROUTINES, *NO_LEFTOVERS)

    for result in (alone, contracts.result):
        result.assert_outcomes(passed=6)
        result.stdout.fnmatch_lines(["*messages.lock, * notes: changed*", "  orders 'order.created': is new"])
    assert notes(contracts.result) == notes(alone)
    assert (contracts.folder / "messages.lock").read_text() == (suite.path / "messages.lock").read_text()


def test_the_end_of_a_run_with_workers_lists_unused_channels_and_unknown_messages(contracts: Spread) -> None:
    contracts.result.stdout.fnmatch_lines(UNUSED_CHANNELS)


def test_the_reports_of_workers_say_what_their_tests_used(contracts: Spread) -> None:
    assert unused(contracts.result).startswith("exchange 'shop', queue 'orders'")
