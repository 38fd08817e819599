"""The contract of a suite: what a run writes to the lock, what it checks, and what it says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

SHOP = """
import json
import os
import uuid

import pytest
from client import connect

import pika


class Shop:
    def __init__(self, url):
        self.channel = connect(url, "shop").channel()
        self.channel.confirm_delivery()
        self.channel.exchange_declare("orders", "topic")

    def order(self, **fields):
        body = {"id": str(uuid.uuid4()), "total": "10.50", "status": "open"} | fields
        body = {name: value for name, value in body.items() if value != "left out"}
        properties = pika.BasicProperties(content_type="application/json", headers={"tenant": "acme"})
        self.channel.basic_publish("orders", "order.created", json.dumps(body).encode(), properties)


class Billing:
    def __init__(self, url):
        self.channel = connect(url, "billing").channel()
        self.channel.exchange_declare("orders", "topic")
        self.channel.queue_declare("billing", durable=True, arguments={"x-message-ttl": 60000})
        self.channel.queue_bind("billing", "orders", "order.*")

    def work(self, is_good=True):
        method, properties, body = self.channel.basic_get("billing")
        if is_good:
            self.channel.basic_ack(method.delivery_tag)
        else:
            self.channel.basic_reject(method.delivery_tag, requeue=False)


@pytest.fixture
def billing(leveret):
    return Billing(leveret.url)


@pytest.fixture
def shop(leveret, billing):
    return Shop(leveret.url)
"""
TESTS = """
from shop import *

def test_order(shop, billing):
    shop.order(**json.loads(os.environ.get("ORDER", "{}")))
    billing.work()

def test_paid(shop, billing):
    for _ in range(6):
        shop.order(status="paid", note="leave at the door")
        billing.work()
"""
TIMEOUT = ("-p", "pytest_timeout", "-o", "timeout=8", "-o", "timeout_method=signal")
WRITE, REWRITE, CHECK = ("--leveret-contract=write", "--leveret-contract=rewrite", "--leveret-contract=check")


@pytest.fixture
def lock(suite: pytest.Pytester) -> Path:
    """The path of the lock of a suite that has one."""
    suite.makeini("[pytest]\nleveret_contract = messages.lock\n")
    suite.makepyfile(shop=SHOP)
    return suite.path / "messages.lock"


def test_a_run_writes_what_publishers_send_and_consumers_receive(run, lock: Path):
    result = run(TESTS, WRITE)

    result.assert_outcomes(passed=2)
    assert lock.read_text() == (
        """\
# The messages that the tests have shown. `pytest --leveret-contract=write` writes it; keep it in git.
version = 2

[[message]]
exchange = "orders"
routing_key = "order.created"
publishers = ["shop"]

[message.body]
"$" = "object"
id = "uuid"
note = "optional string"
status = "enum(open, paid)"
total = "decimal"

[message.headers]
tenant = "string"

[message.properties]
content_type = "application/json"

[[message.consumer]]
queue = "billing"
client = "billing"
settled = ["acked"]

[[exchange]]
name = "orders"
type = "topic"

[[queue]]
name = "billing"
arguments = { x-message-ttl = 60000 }

[[binding]]
exchange = "orders"
to_queue = "billing"
routing_key = "order.*"
"""
    )


def test_a_test_that_sends_what_can_break_a_consumer_fails_at_its_line(
    run, lock: Path, monkeypatch: pytest.MonkeyPatch
):
    run(TESTS, WRITE)

    monkeypatch.setenv("ORDER", '{"total": 10.5}')
    result = run(TESTS)

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "test_a_test_that_sends_*.py:3: this test sends what can break a consumer, by messages.lock:",
            "  orders 'order.created': `total` is number, and was decimal; billing has received `total` as decimal",
        ]
    )


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n2")], ids=["alone", "in two workers"])
def test_what_fails_many_tests_is_one_line_a_field_at_the_end(
    run, lock: Path, workers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    run(TESTS, WRITE)
    monkeypatch.setenv("PYTHONPATH", str(lock.parent))
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_TESTRUNUID", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(name, raising=False)

    result = run(
        """
        from shop import *

        @pytest.mark.parametrize("total", [1.5, None])
        def test_order(shop, total):
            shop.order(total=total, id=7)
        """,
        *workers,
    )

    result.assert_outcomes(failed=2)
    lines = result.stdout.lines
    (title,) = [line for line in lines if "messages.lock, 2 breaks: sent in 2 tests" in line]
    _, identifier, total, advice, *_ = lines[lines.index(title) :]
    assert identifier == "  orders 'order.created': `id` is integer, and was uuid; billing has received `id` as uuid"
    assert total.startswith("  orders 'order.created': `total` is ")
    assert advice.startswith("If that is intended, accept it with pytest --leveret-contract=write")
    assert lines.count(advice) == 1


# Plugins that rerun failed tests do the same.
RERUNS = """
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    runtestprotocol(item, nextitem=nextitem, log=False)
    item._initrequest()
    for report in runtestprotocol(item, nextitem=nextitem, log=False):
        item.ihook.pytest_runtest_logreport(report=report)
    return True
"""


def test_the_end_lists_nothing_that_a_test_no_longer_sent_when_it_ran_again(run, lock: Path, suite: pytest.Pytester):
    run(TESTS, WRITE)
    suite.makeconftest(RERUNS)

    result = run(
        """
        from shop import *

        totals = iter([1.5, "1.50"])

        def test_order(shop):
            shop.order(total=next(totals))
        """
    )

    result.assert_outcomes(passed=1)
    assert "messages.lock" not in result.stdout.str()


def test_a_change_that_cannot_break_a_consumer_is_a_note(run, lock: Path, monkeypatch: pytest.MonkeyPatch):
    run(TESTS, WRITE)

    monkeypatch.setenv("ORDER", '{"weight": 7}')
    result = run(TESTS)

    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["*messages.lock, 1 note*", "  orders 'order.created': `weight` is new: optional integer"]
    )


def test_a_run_without_changes_says_nothing(run, lock: Path):
    run(TESTS, WRITE)

    result = run(TESTS)

    result.assert_outcomes(passed=2)
    assert "messages.lock" not in result.stdout.str()


def test_a_queue_declared_in_another_way_fails_the_test(run, lock: Path):
    run(TESTS, WRITE)

    result = run(TESTS + '\nShop.__init__.__globals__["Billing"].__init__.__code__ = ' + _OTHER_TTL)

    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["  queue 'billing': *; RabbitMQ refuses to declare it anew"])


_OTHER_TTL = (
    "Billing.__init__.__code__.replace(co_consts=tuple(\n"
    "    30000 if const == 60000 else const for const in Billing.__init__.__code__.co_consts))\n"
)


def test_a_part_of_the_tests_removes_nothing_until_the_lock_is_rewritten(run, lock: Path):
    run(TESTS, WRITE)
    whole = lock.read_text()

    run(TESTS, WRITE, "-k", "test_order")
    assert lock.read_text() == whole

    run(TESTS, REWRITE, "-k", "test_order")
    assert "note" not in lock.read_text()
    assert 'total = "decimal"' in lock.read_text()


def test_a_run_that_fails_does_not_rewrite_the_lock(run, lock: Path):
    run(TESTS, WRITE)
    whole = lock.read_text()

    result = run(TESTS + "\ndef test_bug():\n    assert False\n", REWRITE, "-k", "test_order or test_bug")

    assert lock.read_text() == whole
    result.stdout.fnmatch_lines(["leveret: messages.lock was not rewritten, because the run failed"])


def test_a_run_whose_tests_make_their_own_brokers_says_that_it_wrote_no_lock(run, lock: Path):
    result = run(
        """
        from shop import *
        from leveret import Broker

        def test_order():
            with Broker() as broker:
                billing = Billing(broker.url)
                Shop(broker.url).order()
                billing.work()
        """,
        WRITE,
    )

    result.assert_outcomes(passed=1)
    assert not lock.exists()
    why = "no test that passed has shown a message on a broker of leveret's fixtures"
    result.stdout.fnmatch_lines([f"leveret: messages.lock was not written, because {why}"])


def test_a_test_that_fails_shows_nothing(run, lock: Path):
    run(TESTS + "\ndef test_bug(shop, billing):\n    shop.order(secret_plan='x')\n    assert False\n", WRITE)

    assert "secret_plan" not in lock.read_text()


def test_what_the_test_itself_sends_counts_once_a_consumer_has_accepted_it(run, lock: Path):
    run(
        TESTS
        + """
def test_of_billing_alone(leveret, billing):
    leveret.publish("orders", "refund.wanted", json={"id": 1, "total": "1.00"})
    leveret.publish("", "billing", json={"id": 1, "total": "1.00"})
    leveret.publish("", "billing", b"no order")
    billing.work()
    billing.work(is_good=False)
""",
        WRITE,
    )

    text = lock.read_text()
    assert "refund.wanted" not in text
    message = text.partition('exchange = ""')[2].partition("[[message]]")[0]
    assert 'publishers = []\n\n[message.body]\n"$" = "object"\nid = "integer"\ntotal = "decimal"\n' in message
    assert 'settled = ["acked", "rejected"]' in message


def test_a_consumer_that_accepts_less_in_its_own_test_breaks_nothing(run, lock: Path):
    run(TESTS, WRITE)

    result = run(
        """
        from shop import *

        def test_of_billing_alone(leveret, billing):
            leveret.publish("orders", "order.created", json={"id": 1})
            billing.work()
        """
    )

    result.assert_outcomes(passed=1)


def test_needs_that_were_measured_stay_in_a_lock_that_is_rewritten_and_decide(
    run, lock: Path, monkeypatch: pytest.MonkeyPatch
):
    run(TESTS, WRITE)
    lock.write_text(
        lock.read_text().replace(
            'settled = ["acked"]\n', 'settled = ["acked"]\n\n[message.consumer.needs]\n"body.total" = "any"\n'
        )
    )
    run(TESTS, REWRITE)
    assert '"body.total" = "any"' in lock.read_text()

    monkeypatch.setenv("ORDER", '{"total": "left out"}')
    run(TESTS).assert_outcomes(passed=2)
    monkeypatch.setenv("ORDER", '{"id": "left out"}')
    run(TESTS).assert_outcomes(passed=1, failed=1)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "leveret_contract: *messages.lock does not exist; write it with pytest --leveret-contract=write*"),
        (
            ("--leveret-contract=wirte",),
            "*--leveret-contract: 'wirte' is unknown; expected check, write, rewrite or off",
        ),
    ],
)
def test_a_run_that_cannot_check_is_refused(run, lock: Path, arguments: tuple[str, ...], reason: str):
    result = run(TESTS, *arguments)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{reason}"])


@pytest.mark.parametrize("mode", [CHECK, WRITE, REWRITE])
def test_a_file_that_a_merge_has_left_is_refused_and_stays(run, lock: Path, mode: str):
    lock.write_text("<<<<<<< ours\n")

    result = run(TESTS, mode)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*messages.lock is no lock: line 1 is a mark of a conflict in git; take one side *"])
    assert lock.read_text() == "<<<<<<< ours\n"


def test_a_file_that_is_no_lock_is_rewritten_on_request(run, lock: Path):
    lock.write_text("nonsense\n")

    run(TESTS, REWRITE).assert_outcomes(passed=2)

    assert "order.created" in lock.read_text()


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("pytest.ini", "[pytest]\n", "leveret_contract = messages.lock in pytest.ini"),
        ("pyproject.toml", "[tool.pytest.ini_options]\n", 'leveret_contract = "messages.lock" in pyproject.toml'),
    ],
)
def test_a_lock_that_no_run_checks_is_written_with_the_line_that_checks_it(
    run, suite: pytest.Pytester, name: str, text: str, line: str
):
    suite.makepyfile(shop=SHOP)
    (suite.path / name).write_text(text)

    result = run(TESTS, WRITE)

    assert "order.created" in (suite.path / "messages.lock").read_text()
    result.stdout.fnmatch_lines([f"leveret: no run checks messages.lock yet; set {line}"])


def test_a_lock_that_runs_check_needs_no_line(run, lock: Path):
    assert "no run checks" not in run(TESTS, WRITE).stdout.str()


def test_a_missing_folder_of_a_lock_is_named_before_the_tests(run, suite: pytest.Pytester):
    suite.makeini("[pytest]\nleveret_contract = contracts/messages.lock\n")
    suite.makepyfile(shop=SHOP)

    result = run(TESTS, WRITE)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*the folder of *messages.lock does not exist; create it, or correct the path"])


def test_a_lock_that_cannot_be_written_is_one_line_at_the_end(run, lock: Path):
    # The lock file of another run would be there.
    lock.with_name(".messages.lock.lock").mkdir()

    result = run(TESTS, WRITE)

    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["leveret: messages.lock was not written: Is a directory"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR


UNBOUND = """
from client import connect


def test_bindings(leveret):
    channel = connect(leveret.url, "reports").channel()
    for exchange in "orders", "copies":
        channel.exchange_declare(exchange, "topic")
    channel.queue_declare("reports", durable=True)
    for key in "order.*", "parcel.*":
        channel.queue_bind("reports", "orders", key)
        channel.exchange_bind("copies", "orders", key)
    channel.queue_unbind("reports", "orders", "order.*")
    channel.exchange_unbind("copies", "orders", "parcel.*")
"""


def test_a_binding_that_is_gone_at_the_end_of_a_test_is_not_in_the_lock(run, lock: Path):
    run(UNBOUND, WRITE).assert_outcomes(passed=1)

    found = re.findall(r'to_(\w+) = "\w+"\nrouting_key = "(.*)"', lock.read_text())
    assert found == [("exchange", "order.*"), ("queue", "parcel.*")]


HEADERS = """
from client import connect

import pika


def test_reports(leveret):
    channel = connect(leveret.url, "reports").channel()
    channel.confirm_delivery()
    channel.exchange_declare("inbox", "topic")
    channel.exchange_declare("h", "headers")
    channel.exchange_bind("h", "inbox", "#")
    channel.queue_declare("pdf", durable=True)
    channel.queue_bind("pdf", "h", "", {"x-match": "all", "format": "pdf", "secret": "x"})
    for headers in {"format": "pdf", "user": "ada"}, {"format": "csv", "urgent": True}:
        channel.basic_publish("inbox", "a", b"{}", pika.BasicProperties(headers=headers))
        channel.basic_publish("", "pdf", b"{}", pika.BasicProperties(headers=headers))
"""


def test_a_lock_has_the_headers_by_which_brokers_route(run, lock: Path):
    run(HEADERS, WRITE).assert_outcomes(passed=1)

    text = lock.read_text()
    assert [line for line in text.splitlines() if line.startswith(("headers_sent", "arguments"))] == [
        'headers_sent = { format = "csv", urgent = true }',
        'headers_sent = { format = "pdf", user = "(redacted)" }',
        'arguments = { format = "pdf", secret = "(redacted)", x-match = "all" }',
    ]
    assert 'routing_key = "pdf"\npublishers' in text


def test_more_sets_of_headers_than_a_lock_keeps_are_one_message(run, lock: Path):
    many = HEADERS.replace(
        '{"format": "pdf", "user": "ada"}, {"format": "csv", "urgent": True}',
        '[{"format": "pdf", "h" + "abcdefghijklmnopqr"[n]: n} for n in range(17)]',
    )

    run(many, WRITE).assert_outcomes(passed=1)

    assert "headers_sent" not in lock.read_text()
    assert lock.read_text().count('exchange = "inbox"\nrouting_key = "a"') == 1
    whole = lock.read_text()
    run(HEADERS, WRITE).assert_outcomes(passed=1)
    assert "headers_sent" not in lock.read_text()
    assert "csv" not in whole


def test_another_set_of_headers_is_another_message(run, lock: Path):
    run(HEADERS, WRITE)

    result = run(HEADERS.replace('"csv"', '"xml"'))

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(['  inbox \'a\' with {"format": "xml", "urgent": true}: is new*'])


def test_a_run_without_a_contract_imports_nothing_for_it_and_records_the_same_events(run_apart, lock: Path):
    source = TESTS + (
        """
import sys

@pytest.fixture(autouse=True)
def count(leveret):
    yield
    print("events:", sorted(event.kind for event in leveret.events))
    ours = ("leveret.trace.shapes", "jsonschema_rs")
    print("modules:", [name for name in sys.modules if ".contract." in name or name in ours])
"""
    )
    with_contract, without = (run_apart(source, mode, "-s") for mode in (WRITE, "--leveret-contract=off"))

    events = [re.findall("events: .*", result.stdout.str()) for result in (with_contract, without)]
    assert events[0] == events[1] != []
    assert "contract.run" in with_contract.stdout.str()
    without.stdout.fnmatch_lines(["*modules: [[]'pytest_leveret.contract.beginning']"])


SECRETS = (
    *("hunter2", "correct horse battery", "sk_live_4eC39HqLyjWDarjtT1zdp7dc", "eyJhbGciOiJIUzI1NiJ9.e30.Et9HFtf9R3"),
    *(
        "Ada Lovelace",
        "ADALOVELACE",
        "ada",
        "ada@example.com",
        "+49 30 1234567",
        "DE89370400440532013000",
        "4111111111111111",
    ),
    *(
        "1815-12-10",
        "Bergstrasse 7",
        "10115",
        "192.0.2.17",
        "SUMMERSALE",
        "tok-aaaabbbb",
        "AKIAIOSFODNNEXAMPLE",
        "4711",
    ),
)
NAMES = (
    *(
        "password",
        "api_key",
        "token",
        "name",
        "customer",
        "email",
        "phone",
        "iban",
        "card",
        "born_on",
        "address",
        "zip",
    ),
    *("ip", "voucher_code", "comment", "value", "x", "user_name", "owner", "Authorization", "key", "status", "type"),
)


def test_no_secret_and_nothing_about_people_gets_into_a_lock(run, lock: Path, monkeypatch: pytest.MonkeyPatch):
    secrets = json.dumps(SECRETS)
    monkeypatch.setenv("SECRETS", secrets)
    monkeypatch.setenv("NAMES", json.dumps([name for name in NAMES if name not in ("status", "type")]))

    result = run(
        """
        from shop import *

        def test_secrets(shop, billing, leveret):
            secrets = json.loads(os.environ["SECRETS"])
            names = json.loads(os.environ["NAMES"])
            for number, secret in enumerate(secrets):
                kind = chr(ord("a") + number)
                fields = {name: secret for name in names}
                digits = {name: secret for name in ("status", "type") if not secret.replace("-", "").isalpha()}
                body = {**fields, **digits, "nested": [fields], f"{secret}@example.com": 1, "list": [secret, secret]}
                for _ in range(10):
                    properties = pika.BasicProperties(
                        headers=fields, message_id=secret, correlation_id=secret, app_id=secret, reply_to="billing")
                    shop.channel.basic_publish("orders", f"order.{kind}", json.dumps(body).encode(), properties)
                    shop.channel.basic_publish("orders", f"order.{kind}-text", secret.encode(), properties)
                    billing.work()
                    billing.work()
        """,
        WRITE,
    )

    result.assert_outcomes(passed=1)
    text = lock.read_text()
    values = re.findall(r'= "(.*)"', text)
    assert [secret for secret in SECRETS if len(secret) > 3 and secret in text] == []
    assert [value for value in values if value in SECRETS] == []
    assert text.count("voucher_code") > len(SECRETS)


@pytest.mark.parametrize(("strict", "when"), [(True, "in the test"), (False, "in the test"), (False, "in its fixture")])
def test_a_break_is_not_the_failure_that_a_test_marked_xfail_expects(run, lock: Path, strict: bool, when: str):
    run(TESTS, WRITE)
    order = "shop.order(total=10.5)"

    result = run(
        f"""
        from shop import *

        @pytest.fixture
        def late(shop):
            yield
            {order if when != "in the test" else "pass"}

        @pytest.mark.xfail(strict={strict})
        def test_order(shop, late):
            {order if when == "in the test" else "assert True"}
        """
    )

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*: this test sends what can break a consumer, by messages.lock:"])


def test_a_test_marked_xfail_that_fails_by_itself_is_an_expected_failure(run, lock: Path):
    run(TESTS, WRITE)

    result = run(
        """
        from shop import *

        @pytest.mark.xfail(strict=True)
        def test_order(shop):
            shop.order(total=10.5)
            assert False
        """
    )

    result.assert_outcomes(xfailed=1)


@pytest.mark.parametrize("mode", [WRITE, REWRITE])
def test_a_run_that_has_seen_no_message_says_that_the_lock_stays(run, lock: Path, mode: str):
    run(TESTS, WRITE)
    whole = lock.read_text()

    result = run("import pytest\n\n@pytest.mark.skip\ndef test_it(leveret):\n    pass\n", mode)

    result.assert_outcomes(skipped=1)
    assert lock.read_text() == whole
    why = "no test that passed has shown a message on a broker of leveret's fixtures"
    result.stdout.fnmatch_lines([f"leveret: messages.lock stays as it was, because {why}"])


# The test has replaced what leveret reads bodies with. It is as before once it was called.
UNREADABLE = """
from shop import *
import threading

loads = json.loads

def act(*_, **__):
    json.loads = loads
    {act}

readers = iter((loads, act))

def test_order(shop, billing):
    shop.order()
    billing.work()
    json.loads = act

def test_next(shop):
    pass
"""


@pytest.mark.parametrize("mode", [WRITE, CHECK])
def test_an_error_while_leveret_reads_what_a_test_has_sent_is_a_line_and_shows_nothing(run, lock: Path, mode: str):
    run(TESTS, WRITE)
    whole = lock.read_text()

    result = run(UNREADABLE.format(act="raise RuntimeError('on purpose')"), mode)

    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["*::test_order: leveret could not read what the test has sent: RuntimeError: on purpose"]
    )
    assert lock.read_text() == whole


def test_a_lock_is_not_rewritten_if_the_messages_of_a_test_could_not_be_read(run, lock: Path):
    run(TESTS, WRITE)
    whole = lock.read_text()

    result = run(TESTS + UNREADABLE.format(act="raise RuntimeError('on purpose')"), REWRITE)

    assert lock.read_text() == whole
    result.stdout.fnmatch_lines(["leveret: messages.lock was not rewritten, because not all messages could be read"])


def test_a_time_out_while_leveret_reads_what_a_test_has_sent_ends_that_test_only(run, lock: Path):
    run(TESTS, WRITE)

    result = run(UNREADABLE.format(act="threading.Event().wait()"), *TIMEOUT)

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*Timeout (>8.0s) from pytest-timeout.*"])


def test_fixtures_end_although_a_time_out_comes_before(run, suite: pytest.Pytester, lock: Path):
    run(TESTS, WRITE)
    suite.makeconftest(
        """
        import pytest

        @pytest.hookimpl(wrapper=True, tryfirst=True)
        def pytest_runtest_teardown(item):
            if item.name == "test_order":
                item.function(item.funcargs["shop"], item.funcargs["billing"])
            return (yield)
        """
    )
    source = UNREADABLE.format(act="threading.Event().wait()")

    result = run(source.replace("json.loads = act", "json.loads = next(readers)"), *TIMEOUT)

    result.assert_outcomes(passed=2, errors=1)


def test_a_run_that_cannot_write_its_lock_for_an_odd_reason_says_so_and_fails(run_apart, lock: Path):
    result = run_apart(
        TESTS
        + """
def replace(*_, **__):
    raise RuntimeError("on purpose")

@pytest.fixture(autouse=True, scope="session")
def replaced():
    yield
    os.replace = replace
""",
        WRITE,
    )

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["leveret could not write the contract: RuntimeError: on purpose"])
