"""What changed over the last runs: each change is reported with the commit since which it is so, and no other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from leveret.cli import main
from leveret.pipeline import Warehouse, ingest, read_table, update
from leveret.pipeline.history import History, history
from leveret.pipeline.reading import Read
from leveret.pipeline.report import report
from leveret.pipeline.report.page import TEMPLATES
from leveret.pipeline.report.subject import choose, up_to
from leveret.pipeline.wording import change_text
from tests.pipeline import shop_history
from tests.pipeline.in_memory import reader_of_files
from tests.pipeline.shop_history import DEAD_LETTERED_FROM, LEAKS_FROM, REDELIVERED_FROM, commit
from tests.pipeline.traces import Line, header, lives, write

TEST = "tests/test_shop.py::test"
LEAK = (
    f"since {commit(LEAKS_FROM)[:12]}, 30 runs ago: audit slowly leaks: run by run, messages left over grew "
    f"from 0 to 31 in {TEST}_audit"
)
REDELIVERED = (
    f"since {commit(REDELIVERED_FROM)[:12]}, 23 runs ago: redeliveries in orders rose from 5 to 20 in {TEST}_orders"
)
PATH = (
    f"since {commit(DEAD_LETTERED_FROM)[:12]}, 15 runs ago: new path from invoices to orders.dead: 1 dead letter "
    f"(rejected) in {TEST}_invoices"
)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    folder = tmp_path_factory.mktemp("history")
    shop_history.record(folder / "traces")
    warehouse = Warehouse(folder / "warehouse")
    ingest(warehouse, folder / "traces", processes=1)
    update(warehouse, processes=1)
    return warehouse


@pytest.fixture
def read(warehouse: Warehouse) -> Read:
    return partial(read_table, warehouse)


def _history(read: Read, name: str | None = None) -> History:
    runs = read("runs")
    return history(read, up_to(runs, choose(runs, name)))


def test_each_change_of_forty_runs_has_its_commit_and_flaky_noise_has_none(read: Read) -> None:
    columns = ("kind", "queue", "measure", "to_queue", "before", "after", "since_commit", "commit_before")

    rows = {tuple(row[name] for name in columns) for row in read("changes").to_pylist()}

    orders, invoices, audit = (
        (commit(run), commit(run - 1)) for run in (REDELIVERED_FROM, DEAD_LETTERED_FROM, LEAKS_FROM)
    )
    assert rows == {
        ("step", "orders", "redeliveries", None, 5, 20, *orders),
        ("step", "invoices", "dead_letters", "orders.dead", 0, 1, *invoices),
        ("growth", "audit", "leaked", None, 0, 31, *audit),
    }


def test_report_begins_with_what_changed_and_since_which_commit(warehouse: Warehouse, read: Read) -> None:
    page = report(read, warehouse.state().files)

    first = page.partition("<section ")[2].partition("</section>")[0]
    text = unescape(re.sub(r"<[^>]*>", " ", first.replace("<wbr>", "")))
    said = re.sub(r" ([,.:])", r"\1", " ".join(text.split()))
    assert said.endswith(
        "What changed over the last 40 runs "
        + " ".join(f"{line[:1].upper()}{line[1:]}." for line in (PATH, LEAK, REDELIVERED))
    )


def test_diff_says_the_same_as_the_report(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    main(["pipeline", "diff", commit(39), commit(40), "-w", warehouse.url])

    assert capsys.readouterr().out.splitlines()[:3] == [PATH, LEAK, REDELIVERED]


def test_older_run_is_reported_with_what_had_changed_by_then(read: Read) -> None:
    causes = _history(read, commit(24)).causes

    assert [cause.commit for cause in causes] == [commit(LEAKS_FROM), commit(REDELIVERED_FROM)]
    assert [cause.runs_ago for cause in causes] == [14, 7]


def _runs(folder: Path, *runs: list[Line], commits: int = 1, branches: Sequence[str] = ("main",)) -> Read:
    """Return a reader of these runs, of which as many as `commits` have the same commit, and which take turns on these
    branches.
    """
    for number, lines in enumerate(runs):
        branch = branches[number % len(branches)]
        about = header(f"run-{number:03}", commit=f"commit-{number // commits:03}", branch=branch)
        write(
            folder / f"{number:03}.jsonl",
            [about | {"started": f"2026-05-{1 + number // 24:02}T{number % 24:02}:00:00Z"}, *lines],
        )
    return reader_of_files(folder)[0]


def test_all_changes_of_one_commit_are_one_cause(tmp_path: Path) -> None:
    few, many = lives(3), lives(9)

    (cause,) = _history(_runs(tmp_path, *[few] * 10, *[many] * 6)).causes

    assert str(cause) == ("since commit-010, 5 runs ago: messages published to orders rose from 3 to 9 in test_it")


def test_change_between_two_runs_of_a_commit_is_that_of_a_run(tmp_path: Path) -> None:
    (cause,) = _history(_runs(tmp_path, *[lives(2)] * 9, *[lives(3)] * 7, commits=2)).causes

    assert str(cause).startswith(
        "since run run-009, 6 runs ago, on the same commit as the run before it (commit-004): "
    )


def test_number_that_always_grew_has_no_commit(tmp_path: Path) -> None:
    (cause,) = _history(_runs(tmp_path, *[lives(number) for number in range(1, 13)])).causes

    assert str(cause) == (
        "in all of the last 12 runs: run by run, messages published to orders grew from 1 to 12 in test_it"
    )


def test_test_that_fails_since_a_commit_comes_first(tmp_path: Path) -> None:
    failing = [
        {**line, "attrs": '{"outcome":"failed","duration":0.1}'} if line["kind"] == "test_end" else line
        for line in lives(9)
    ]

    (cause,) = _history(_runs(tmp_path, *[lives(3)] * 10, *[failing] * 6)).causes

    assert str(cause) == (
        "since commit-010, 5 runs ago: test_it fails, and passed before; "
        "messages published to orders rose from 3 to 9 in test_it"
    )


def test_a_test_that_becomes_flaky_is_said_with_its_rates(tmp_path: Path) -> None:
    fails = [{**line, "attrs": '{"outcome":"failed"}'} if line["kind"] == "test_end" else line for line in lives(3)]

    (cause,) = _history(_runs(tmp_path, *[lives(3)] * 20, *[fails, lives(3)] * 6)).causes

    assert str(cause) == "since commit-020, 11 runs ago: test_it fails in 6 of 12 runs, and in 0 of 20 before"
    assert cause.is_bad


def test_runs_in_which_a_test_was_skipped_count_no_zeros(tmp_path: Path) -> None:
    ends = {"kind": "test_end", "attrs": '{"outcome":"skipped","duration":0.1}'}
    skipped = [{**line, **ends} if line["kind"] == "test_end" else line for line in (*lives(3)[:1], lives(3)[-1])]

    (cause,) = _history(_runs(tmp_path, *[lives(3)] * 10, *[skipped] * 6)).causes

    assert str(cause) == "since commit-010, 5 runs ago: test_it is skipped, and passed before"


def test_change_of_a_test_that_was_removed_is_over(tmp_path: Path) -> None:
    removed = [lives(1, test="test_old")] * 10 + [lives(4, test="test_old")] * 10

    read = _runs(tmp_path, *removed, *[lives(1)] * 10)

    assert len(_history(read, "commit-019").causes) == 1
    assert _history(read).causes == []


def test_only_the_last_hundred_runs_are_looked_at(tmp_path: Path) -> None:
    read = _runs(tmp_path, *[lives(1)] * 20, *[lives(2)] * 101)

    past = _history(read)

    assert (len(past.runs), past.causes) == (100, [])
    assert past.runs[-1] == "run-120"


def test_runs_of_other_branches_do_not_hide_a_change(tmp_path: Path) -> None:
    mixed = [each for messages in (2,) * 8 + (5,) * 8 for each in (lives(9), lives(messages))]

    (cause,) = _history(_runs(tmp_path, *mixed, branches=("feature", "main"))).causes

    assert str(cause) == "since commit-017, 7 runs ago: messages published to orders rose from 2 to 5 in test_it"


def test_young_branch_is_compared_with_the_runs_before_it(tmp_path: Path) -> None:
    branches = ["main"] * 21 + ["feature"] * 3

    (cause,) = _history(_runs(tmp_path, *[lives(2)] * 21, *[lives(5)] * 3, branches=branches)).causes

    assert str(cause) == "since commit-021, 2 runs ago: messages published to orders rose from 2 to 5 in test_it"


def test_refusals_depth_and_order_of_a_commit_are_said(tmp_path: Path) -> None:
    usual = lives(3)
    refused = {"kind": "refused", "test": "test_it", "vhost": "/", "conn": 1, "attrs": '{"code":404,"text":"no queue"}'}
    enqueued = [line for line in usual if line["kind"] == "enqueued"]
    delivered = [line for line in usual if line["kind"] == "delivered"]
    others = [line for line in usual if line["kind"] not in ("enqueued", "delivered", "test_start", "test_end")]
    turned = [usual[0], refused, *enqueued, *delivered[::-1], *others, usual[-1]]
    worse = [{**line, "seq": seq, "ts": seq * 10} for seq, line in enumerate(turned, start=1)]

    (cause,) = _history(_runs(tmp_path, *[usual] * 10, *[worse] * 6)).causes

    assert str(cause) == (
        "since commit-010, 5 runs ago: refusals with code 404 rose from 0 to 1 in test_it; "
        "messages delivered out of order from orders rose from 0 to 2 in test_it; "
        "the depth of orders rose from 1 to 3 in test_it"
    )


STEP = {"kind": "step", "queue": "orders", "reason": None, "to_queue": None, "before": 3, "after": 0, "tests": []}
DEAD = {**STEP, "measure": "dead_letters", "to_queue": "dead", "reason": "maxlen"}
KIND = {"exchange": "shop", "routing_key": "order.paid", "name": "", "field": "body.total"}
SHAPE = {**STEP, **KIND, "measure": "shape", "queue": None, "reason": "number"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {**STEP, "measure": "leaked", "tests": ["a", "b"]},
            "messages left over in orders fell from 3 to 0 in 2 tests",
        ),
        ({**STEP, "measure": "dropped"}, "messages dropped from orders fell from 3 to 0"),
        ({**STEP, "measure": "dropped", "queue": None}, "unroutable messages fell from 3 to 0"),
        (DEAD, "dead letters from orders to dead (queue full) fell from 3 to 0"),
        (
            {**DEAD, "queue": None, "before": 0, "after": 2, "tests": ["a"]},
            "new path from an unknown queue to dead: 2 dead letters (queue full) in a",
        ),
        ({**SHAPE, "before": 0, "after": 1}, "body.total of shop order.paid is number"),
        ({**SHAPE, "before": 1, "exchange": "", "name": "paid"}, "body.total of order.paid (paid) is no longer number"),
    ],
)
def test_each_kind_of_change_has_its_sentence(change: dict[str, Any], said: str) -> None:
    assert change_text(change) == said


def test_names_in_a_sentence_of_the_page_are_never_markup() -> None:
    render = TEMPLATES.from_string('{% from "macros.html" import code %}{{ change|change_text(code) }}').render

    said = render(change={**STEP, "measure": "leaked", "queue": "<b>{before}</b>"})

    assert said == "messages left over in <code>&lt;b&gt;{before}&lt;/b&gt;</code> fell from 3 to 0"


def test_queue_with_a_name_made_by_chance_has_no_line(tmp_path: Path) -> None:
    runs = [[*lives(1), *lives(1, queue=f"amq.gen-{number}")] for number in range(3)]
    told = [[{**line, "seq": seq} for seq, line in enumerate(lines, 1)] for lines in runs]

    page = report(_runs(tmp_path, *told), {})

    lines = page.partition('id="lines"')[2].partition("</section>")[0]
    assert ("orders" in lines, "amq.gen" in lines) == (True, False)
