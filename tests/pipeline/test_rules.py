"""Users' own rules, and cases that rules about the end of a test leave alone.

The tests of built-in rules are in test_kernel and test_engines.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from leveret.pipeline import rules
from leveret.pipeline.computing import own
from leveret.pipeline.exports.frames import read_frame, spark_schema
from leveret.pipeline.exports.sql import query
from leveret.pipeline.incremental import ingest, update
from leveret.pipeline.kernel.schema import COPIES
from leveret.pipeline.rules import Rule
from leveret.pipeline.warehouse.tables import read_table
from leveret.pipeline.warehouse.warehouse import Warehouse
from tests.pipeline.traces import header, text

Row = dict[str, Any]

OWN = Rule("big_message", "size > 100000", "{size} bytes in {queue}: send a reference instead")


OF_END = Rule("never_settled", "settled_at IS NULL AND size > 100000", "nobody wanted {size} bytes", of_end=True)


def _events(*events: Row) -> list[Row]:
    return [{"seq": seq, "ts": seq, "test": "test_it", **event} for seq, event in enumerate(events)]


def _cut() -> list[Row]:
    return [*_big_message(), {"seq": 9, "kind": "test_end", "test": "test_it"}]


def _big_message() -> list[Row]:
    sizes = {1: 100_001, 2: 5}
    events = [{"kind": "enqueued", "queue": "q", "msg": msg, "copy": msg, "size": size} for msg, size in sizes.items()]
    return _events(*events)


def _second_attempt() -> list[Row]:
    copy = {"queue": "q", "vhost": "/"}
    return _events(
        {"kind": "test_start"},
        {"kind": "enqueued", **copy, "msg": 1, "copy": 1},
        {"kind": "test_end"},
        {"kind": "test_start"},
        {"kind": "enqueued", **copy, "msg": 2, "copy": 2},
        {"kind": "got", **copy, "msg": 2, "copy": 2, "redelivered": False},
        {"kind": "acked", **copy, "msg": 2, "copy": 2},
        {"kind": "test_end"},
    )


@pytest.fixture(scope="module")
def violations(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Row]]:
    folder = tmp_path_factory.mktemp("rules")
    for name, events in (("big", _big_message()), ("again", _second_attempt()), ("cut", _cut())):
        lines = text([header(name), *events])
        (folder / f"{name}.jsonl").write_text(lines[:-3] if name == "cut" else lines)
    warehouse = Warehouse(folder / "warehouse")
    ingest(warehouse, [folder], spark=spark)
    for rule in (OWN, OF_END):
        rules.register(rule)
    try:
        update(warehouse, spark=spark)
        rows: list[Row] = read_table(warehouse, "violations").to_pylist()
        by_spark = read_frame(spark, warehouse, "violations").collect()
        assert sorted(map(repr, rows)) == sorted(repr(row.asDict()) for row in by_spark)
        by_duckdb = query(warehouse, "select * from violations").to_pylist()
        assert sorted(map(repr, rows)) == sorted(map(repr, by_duckdb))
        yield rows
    finally:
        rules.RULES.clear()


def test_users_rule_finds_copies_and_lists_their_values(violations: list[Row]) -> None:
    told = [(row["copy"], row["rule"], row["text"]) for row in violations if row["run"] == "big"]

    assert sorted(told) == [
        (1, OWN.name, "100001 bytes in q: send a reference instead"),
        (1, OF_END.name, "nobody wanted 100001 bytes"),
    ]


def test_a_rule_about_the_end_does_not_apply_to_a_test_that_was_cut(violations: list[Row]) -> None:
    assert [row["rule"] for row in violations if row["run"] == "cut"] == [OWN.name]


def test_copy_left_by_a_first_attempt_is_not_lost_in_the_second(violations: list[Row]) -> None:
    assert [row for row in violations if row["run"] == "again"] == []


def test_rule_of_a_taken_name_is_refused() -> None:
    with pytest.raises(ValueError, match="rule 'lost' exists already"):
        rules.register(Rule("lost", "true", "gone"))


def test_rule_about_something_unknown_is_refused() -> None:
    with pytest.raises(KeyError, match=r"unknown table 'sockets'"):
        rules.register(Rule("odd", "true", "odd", about="sockets"))


@pytest.mark.parametrize(
    "wrong",
    [
        Rule("wrong_column", "sizze > 8", "{size} bytes"),
        Rule("wrong_text", "size > 8", "{sizze} bytes"),
        Rule("no_condition", "size", "{size} bytes"),
        Rule("a_sum", "sum(size) > 8", "{size} bytes"),
    ],
    ids=lambda rule: rule.name,
)
def test_a_rule_that_cannot_be_evaluated_is_named(spark: SparkSession, wrong: Rule) -> None:
    copies = spark.createDataFrame([], spark_schema(COPIES))
    with pytest.raises(ValueError, match=f"rule '{wrong.name}' cannot be evaluated on copies: "):
        own.broken(lambda name, of: copies, [OWN, wrong])


def test_rules_of_ones_own_need_spark(tmp_path: Path) -> None:
    alone = Rule("alone", "size > 1", "{size}")
    rules.register(alone)
    try:
        with pytest.raises(ValueError, match=r"rule '\w+' is your own and needs Spark: pass spark="):
            update(Warehouse(tmp_path))
    finally:
        del rules.RULES[alone.name]
