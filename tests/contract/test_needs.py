"""`leveret needs` on small suites. `python -m tests.contract.needs` measures whole services."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from pytest_leveret.contract.lock import Lock, LockedConsumer, LockedMessage, MessageKey, read
from pytest_leveret.contract.meeting import meet
from pytest_leveret.needs.bodies import (
    NULL,
    REMOVED,
    RETYPED,
    FieldChange,
    MessageKind,
    changed,
    fields_of,
    retyped,
)
from pytest_leveret.needs.effects import (
    BREAKS,
    CHANGES,
    ERROR,
    FIELD,
    NOTHING,
    PUBLISHED,
    SENT,
    TEST,
    Effects,
    expected_of,
)
from pytest_leveret.needs.findings import FieldNeed, Findings, MessageNeeds, WorstEffect
from pytest_leveret.needs.locking import need_text
from pytest_leveret.needs.reading import noted_reads
from pytest_leveret.needs.report import lines_of

from leveret.story.facts import CountedFact
from leveret.trace.shapes import add_message
from leveret.trace.shapes.leaves import Path as Path_
from leveret.trace.shapes.leaves import path_text
from tests.house.blocks import blocks_of

ORDERS = MessageKind("", "orders", "orders")
ORDERS_KEY = MessageKey("/", "", "orders", "")
GETTING = """
import json

import pika
import pytest


def take(url, queue):
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        method, _, body = channel.basic_get(queue)
        order = json.loads(body)
        channel.basic_ack(method.delivery_tag)
        return order

"""
DEAF = f"""{GETTING}
def test_an_order_is_taken(leveret):
    leveret.declare_queue("deaf")
    leveret.publish("", "deaf", json={{"number": 7, "sum": 5}})
    take(leveret.url, "deaf").get("sum")
"""
ONCE = f"""{GETTING}
PRICES = []

def test_a_price_is_noted_once(leveret):
    leveret.declare_queue("prices")
    leveret.publish("", "prices", json={{"cents": 5, "since": "May"}})
    PRICES.append(take(leveret.url, "prices").get("cents"))
    assert PRICES == [5]
"""
WRONG = """
import pytest

def test_wrong(leveret):
    assert leveret.queues

@pytest.mark.skip
def test_skipped(leveret):
    pass
"""
ONE_PORT = f"""{GETTING}
import os

URL = os.environ["AMQP_URL"]

def test_a_price(leveret_session):
    leveret_session.declare_queue("prices")
    leveret_session.publish("", "prices", json={{"cents": 5, "since": "May"}})
    assert take(URL, "prices")["cents"] == 5
"""


# It passes on what it got, with all headers, until the third attempt.
RETRIES = """
import json
import threading

import pika


def serve(amqp_url, stopping):
    with pika.BlockingConnection(pika.URLParameters(amqp_url)) as connection:
        channel = connection.channel()
        for method, properties, body in channel.consume("parcels", inactivity_timeout=0.02):
            if method is not None:
                headers = properties.headers or {}
                attempt = headers.get("x-attempt", 1)
                if attempt < 3:
                    headers["x-attempt"] = attempt + 1
                    later = pika.BasicProperties(headers=headers, expiration="60000")
                    channel.basic_publish("", "parcels.retry", body, later)
                else:
                    channel.basic_publish("", "labels", json.dumps({"label": json.loads(body)["weight"]}))
                channel.basic_ack(method.delivery_tag)
            if stopping.is_set():
                return


def test_a_parcel_is_sent_at_the_third_attempt(leveret):
    leveret.declare_queue("parcels")
    back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "parcels"}
    leveret.declare_queue("parcels.retry", arguments=back)
    leveret.declare_queue("labels")
    stopping = threading.Event()
    service = threading.Thread(target=serve, args=(leveret.url, stopping))
    service.start()
    leveret.wait_for_consumer("parcels")
    with leveret.clock.autojump():
        leveret.publish("", "parcels", json={"weight": 7, "colour": "red"})
        leveret.assert_ready("labels", json={"label": 7}, timeout=5)
    stopping.set()
    service.join()
"""


def needs(folder: Path, sources: Mapping[str, str], *arguments: str, ini: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command on test files, in a process with as few plugins as it needs."""
    for name, source in sources.items():
        (folder / f"test_{name}.py").write_text(source, encoding="utf-8")
    (folder / "pytest.ini").write_text(f"[pytest]\n{ini}", encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "LEVERET_"))}
    plugins = ["-p", "pytest_leveret.plugin", "-p", "no:cacheprovider"]
    return subprocess.run(
        [sys.executable, "-m", "leveret", "needs", *arguments, ".", *plugins],
        cwd=folder,
        env=environment | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def verdicts(text: str) -> dict[str, str]:
    """Return the verdict of each field in the tables."""
    words = "unnoticed|required|used|typed|never read|no effect|not measured"
    return dict(re.findall(rf"^  (\S+) +[a-z ]+? +({words})\b", text, re.MULTILINE))


@dataclass
class Measured:
    """What the command says about a suite, and its contract before and after."""

    text: str
    code: int
    before: Lock
    after: Lock


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """Measure one suite for several tests."""
    folder = tmp_path_factory.mktemp("suite")
    page = next(block.code for block in blocks_of("docs/how-to/needs.md") if block.language == "python")
    own = lock_of(sent={"id": "o-1", "price": 5, "quantity": 2, "coupon": "TEA"}, publisher="shop")
    own.messages[ORDERS_KEY].consumers["orders", "billing"] = LockedConsumer("orders", "billing", {"acked"})
    (folder / "messages.lock").write_text(own.text())
    before = read(folder / "messages.lock")
    sources = {"billing": page, "deaf": DEAF, "once": ONCE, "wrong": WRONG, "retries": RETRIES}
    done = needs(folder, sources, ini="leveret_contract = messages.lock\n")
    return Measured(done.stdout + done.stderr, done.returncode, before, read(folder / "messages.lock"))


def lock_of(sent: dict[str, object], publisher: str) -> Lock:
    """Return the lock of a service that sends orders."""
    message = LockedMessage({publisher})
    add_message(message.shape, json.dumps(sent).encode(), {})
    return Lock({ORDERS_KEY: message})


# The tests of one worker share the measured suite.
SHARED = pytest.mark.xdist_group("needs")


@SHARED
def test_the_consumer_of_the_page_needs_what_the_page_says(measured: Measured) -> None:
    blocks = blocks_of("docs/how-to/needs.md")
    table = next(block.code for block in blocks if "what billing needs" in block.code)

    assert table.strip() in measured.text


@SHARED
def test_a_test_that_asserts_nothing_learns_that(measured: Measured) -> None:
    found = verdicts(measured.text)

    assert (found["number"], found["sum"]) == ("no effect", "unnoticed")
    assert "no effect seen: 'sum' is read, but no test would notice." in measured.text


@SHARED
def test_a_test_that_passes_once_in_a_process_gets_a_process_for_each_run(measured: Measured) -> None:
    found = verdicts(measured.text)

    assert (found["cents"], found["since"]) == ("used", "never read")


@SHARED
def test_a_test_that_fails_as_it_is_is_left_out(measured: Measured) -> None:
    text = "test_wrong.py::test_wrong was left out: as it is, AssertionError: assert [] at test_wrong.py:5"

    assert text in measured.text
    assert "test_skipped" not in measured.text
    assert measured.code == 1


@SHARED
def test_the_needs_of_a_consumer_go_into_its_entry_in_the_lock(measured: Measured) -> None:
    assert measured.after.messages[ORDERS_KEY].consumers["orders", "billing"].needs == {
        "body.id": "string",
        "body.price": "integer",
        "body.quantity": "optional integer",
        "body.coupon": "any",
    }
    assert "messages.lock has the needs for 1 of 5 kinds of messages" in measured.text


@SHARED
def test_a_field_that_the_consumer_does_not_need_breaks_no_contract_once_it_is_measured(measured: Measured) -> None:
    shop = lock_of(sent={"id": "o-1", "price": 5}, publisher="shop")

    assert len(meet({"shop": shop, "billing": measured.before}).breaking) == 2
    assert meet({"shop": shop, "billing": measured.after}).breaking == []


@SHARED
def test_what_a_consumer_passes_on_as_it_got_it_is_no_need(measured: Measured) -> None:
    tables = measured.text.partition("'parcels.retry' -> parcels: what its consumer needs, by 1 test\n")

    assert {name: verdicts(measured.text)[name] for name in ("weight", "colour")} == {
        "weight": "required",
        "colour": "never read",
    }
    assert verdicts(tables[2]).get("colour") == "never read"


@SHARED
def test_a_log_has_few_lines_about_the_way(measured: Measured) -> None:
    seconds = re.search(r"with a changed message, ([\d.]+) s", measured.text)

    assert seconds is not None
    assert measured.text.count(" runs done, ") <= float(seconds[1]) // 20


def test_code_that_has_read_its_url_is_measured_on_that_port(tmp_path: Path) -> None:
    done = needs(tmp_path, {"prices": ONE_PORT}, ini="leveret_url_env = AMQP_URL\n")

    assert verdicts(done.stdout) == {"cents": "required", "since": "never read"}
    assert done.returncode == 0


def test_a_test_that_shares_its_broker_runs_again_in_one_process(tmp_path: Path) -> None:
    noted = 'with open("pids.txt", "a") as file:\n        file.write(f"{os.getpid()}\\n")\n    leveret_session.declare'
    source = ONE_PORT.replace('os.environ["AMQP_URL"]', '""').replace("URL,", "leveret_session.url,")

    done = needs(tmp_path, {"it": source.replace("leveret_session.declare", noted)})

    pids = (tmp_path / "pids.txt").read_text(encoding="utf-8").split()
    assert verdicts(done.stdout) == {"cents": "required", "since": "never read"}
    # Each process of the first runs runs the test twice, and goes on if nothing breaks.
    assert len(pids) >= 2 * len(set(pids[:4])) == 4


def test_a_survey_of_skipped_tests_alone_has_measured_nothing(tmp_path: Path) -> None:
    done = needs(tmp_path, {"it": "import pytest\n\ndef test_it(leveret):\n    pytest.skip('no')\n"})

    assert "left out as skipped: 1 test" in done.stdout
    assert "no consumer received" not in done.stdout


def test_a_survey_that_saw_no_broker_has_measured_nothing(tmp_path: Path) -> None:
    source = "from leveret import Broker\n\ndef test_it():\n    Broker().start().stop()\n"

    done = needs(tmp_path, {"it": source})

    assert "nothing was measured, because these tests use no broker of leveret's fixtures" in done.stdout
    assert "no consumer received" not in done.stdout


def test_a_budget_that_is_over_says_what_it_left(tmp_path: Path) -> None:
    done = needs(tmp_path, {"deaf": DEAF}, "--seconds=0.000001")

    assert "--seconds=1e-06 was over before 2 runs" in done.stdout


@pytest.mark.parametrize("arguments", ["--seconds=0", "test_billing.py --seconds=0", ". -k invoice --seconds 0 -x"])
def test_a_budget_of_nothing_is_refused_before_and_after_the_tests(tmp_path: Path, arguments: str) -> None:
    done = needs(tmp_path, {}, *arguments.split())

    assert done.stderr.strip() == "leveret: --seconds=0 is not a number above 0"
    assert done.returncode == 2


# Bodies.


def test_a_field_is_removed_from_each_object_of_an_array() -> None:
    body = b'{"items": [{"sku": "a", "qty": 1}, {"sku": "b"}]}'

    assert changed(body, [FieldChange(ORDERS, ("items", None, "sku"), REMOVED)])[0] == b'{"items": [{"qty": 1}, {}]}'


def test_a_change_that_does_not_find_its_field_is_not_made() -> None:
    change = FieldChange(ORDERS, ("total",), NULL)

    assert changed(b'{"id": 7}', [change])[1] == []


def test_changes_within_one_another_are_made_from_within() -> None:
    changes = [FieldChange(ORDERS, ("a",), NULL), FieldChange(ORDERS, ("a", "b"), REMOVED)]

    body, applied = changed(b'{"a": {"b": 1}}', changes)

    assert body == b'{"a": null}'
    assert sorted(applied) == sorted(changes)


@pytest.mark.parametrize(
    ("value", "other"),
    [(5, "5"), (1.5, "1.5"), (True, "true"), ("tea", 7), ("12", 12), ({}, []), ([], {}), (None, "text")],
)
def test_a_value_of_another_type_is_the_nearest(value: object, other: object) -> None:
    assert retyped(value) == other


def test_the_fields_of_a_celery_task_are_its_arguments() -> None:
    body = [["o-1", {"net": 5}], {"dry": False}, {"callbacks": None}]

    fields = [path_text(path) for path in fields_of(body, {"task": "charge"})]

    assert fields == ["args.arg0", "args.arg1", "args.arg1.net", "kwargs.dry"]


@pytest.mark.parametrize(
    "head",
    [
        {"actor_name": "charge", "options": {}, "message_id": "1"},
        {"task_name": "charge", "task_id": "1", "labels": {}, "labels_types": {}},
        {},
    ],
    ids=["dramatiq", "taskiq", "nameko"],
)
def test_the_fields_of_a_task_are_its_arguments_as_the_lock_names_them(head: dict[str, object]) -> None:
    body = {**head, "args": ["o-1"], "kwargs": {"dry": False}}
    message = LockedMessage()
    add_message(message.shape, json.dumps(body).encode(), {})

    fields = [path_text(path) for path in fields_of(body, ())]

    assert fields == ["args.arg0", "kwargs.dry"]
    assert {f"body.{field}" for field in fields} <= {*message.fields()}


# Effects.

ACKED = CountedFact("acked", "orders")
SENDS = CountedFact(SENT, "orders")
INVOICE = CountedFact(PUBLISHED, "invoices")


def effects(*facts: CountedFact) -> Effects:
    return Effects(Counter(facts))


def total(value: str) -> CountedFact:
    return CountedFact(FIELD, "invoices", "total", value)


def number(value: str) -> CountedFact:
    return CountedFact(FIELD, "invoices", "id", value)


PLAIN = [effects(SENDS, ACKED, INVOICE, total("5"), number(value)) for value in "ab"]


def test_a_value_that_differs_between_plain_runs_is_no_difference() -> None:
    facts = effects(SENDS, ACKED, INVOICE, total("5"), number("c")).facts

    assert expected_of(PLAIN).difference(facts).severity == NOTHING


def test_another_value_of_what_is_published_is_a_change() -> None:
    facts = effects(SENDS, ACKED, INVOICE, total("0"), number("c")).facts

    assert expected_of(PLAIN).difference(facts).severity == CHANGES


def test_a_message_that_is_not_published_is_a_failure() -> None:
    assert expected_of(PLAIN).difference(effects(SENDS, ACKED).facts).severity == BREAKS


def test_an_error_that_is_logged_is_a_failure() -> None:
    error = CountedFact(ERROR, "", value="KeyError: 'total'")

    assert expected_of(PLAIN).difference(effects(*PLAIN[0].facts, error).facts).severity == BREAKS


def test_what_a_test_does_not_send_because_it_ended_early_is_no_failure_of_the_consumer() -> None:
    whole = effects(SENDS, ACKED, INVOICE, SENDS, ACKED, INVOICE)
    failed = CountedFact(TEST, "", value="the test fails: AssertionError")

    assert expected_of([whole]).difference(effects(SENDS, ACKED, INVOICE, failed).facts).severity == CHANGES


# Locks.


def need(types: set[str], **severities: str) -> FieldNeed:
    return FieldNeed(types, {variant: WorstEffect(severity) for variant, severity in severities.items()})


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (need({"string"}, removed=BREAKS, null=BREAKS, retyped=BREAKS), "string"),
        (need({"integer"}, removed=BREAKS, null=BREAKS, retyped=NOTHING), "decimal | integer"),
        (need({"string"}, removed=CHANGES, null=CHANGES, retyped=BREAKS), "optional string | null"),
        (need({"string"}, removed=BREAKS, null=CHANGES, retyped=BREAKS), "string"),
        (need({"string"}, removed=NOTHING, null=NOTHING, retyped=BREAKS), "optional string | null"),
        (need({"string"}, removed=NOTHING, null=NOTHING, retyped=NOTHING), "any"),
        (need({"string"}, removed=NOTHING), ""),
    ],
)
def test_a_lock_says_what_a_consumer_accepts(field: FieldNeed, text: str) -> None:
    assert need_text(field) == text


@pytest.mark.parametrize(
    ("removed", "verdict", "text"),
    [(NOTHING, "not measured", ""), (CHANGES, "used", ""), (BREAKS, "required", "string")],
)
def test_a_field_with_runs_left_has_no_need_but_one_that_is_certain(removed: str, verdict: str, text: str) -> None:
    field = need({"string"}, removed=removed, null=removed, retyped=removed)
    field.is_open = True

    assert (field.verdict, need_text(field)) == (verdict, text)


def test_a_lock_that_is_none_is_refused_before_any_test_runs(tmp_path: Path) -> None:
    (tmp_path / "messages.lock").write_text("no toml", encoding="utf-8")

    done = needs(tmp_path, {}, "--lock=messages.lock")

    assert done.stderr.startswith("leveret: messages.lock is no lock: ")
    assert done.returncode == 2


# Reports.


def test_a_long_error_leaves_its_table_narrow() -> None:
    error = WorstEffect(
        BREAKS, ["ValidationError: 1 validation error for order: Input should be a valid string [type=string]"]
    )
    field = FieldNeed({"string"}, dict.fromkeys((REMOVED, NULL, RETYPED), error))

    lines = [*lines_of(Findings({ORDERS: MessageNeeds(ORDERS, {("id",): field})}), 120)]

    assert max(map(len, lines)) < 220
    assert any("ValidationError: 1 validation error for order" in line for line in lines)


def test_a_change_that_was_not_measured_to_the_end_is_ok_so_far() -> None:
    field = need({"string"}, removed=NOTHING, null=NOTHING, retyped=NOTHING)
    field.is_open = True

    lines = [*lines_of(Findings({ORDERS: MessageNeeds(ORDERS, {("id",): field})}), 120)]

    (line,) = (line for line in lines if "not measured" in line and "ok" in line)
    assert line.split("  ", 3)[-1].count("ok so far") == 3


# Reading.


def test_what_the_code_looks_up_in_a_body_is_noted() -> None:
    reads: dict[MessageKind, set[Path_]] = {}
    body = '{"id": 7, "lines": [{"sku": "tea", "note": ""}], "total": 5}'

    with noted_reads({body: (ORDERS, {})}, reads):
        order = json.loads(body)
        for line in order["lines"]:
            line.get("sku")
        assert "id" in order
        assert json.loads('{"other": 1}')["other"] == 1

    assert reads == {ORDERS: {("lines",), ("lines", None, "sku"), ("id",)}}
    assert json.loads(body) == order


def test_what_the_code_looks_up_in_an_argument_of_a_task_is_noted_at_its_place() -> None:
    reads: dict[MessageKind, set[Path_]] = {}
    body = '[[{"name": "cat.png"}], {"picture": {"width": 5}}, {}]'

    with noted_reads({body: (ORDERS, {"task": "make"})}, reads):
        arguments, words, _ = json.loads(body)
        assert (arguments[0]["name"], words["picture"]["width"]) == ("cat.png", 5)

    assert reads == {ORDERS: {(0, 0, "name"), (1, "picture", "width")}}
