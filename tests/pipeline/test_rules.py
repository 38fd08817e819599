"""Users' own rules, and cases that rules about the end of a test leave alone.

The tests of built-in rules are in test_gold_against_plain.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import pytest
from pyspark.sql import Row as SparkRow
from pyspark.sql import SparkSession

from leveret.pipeline import rules
from leveret.pipeline.rules import Rule
from leveret.pipeline.schema import COPIES
from tests.pipeline import frames
from tests.pipeline.plain import Row, Trace

OWN = Rule("big_message", "size > 100000", "{size} bytes in {queue}: send a reference instead")


def _trace(run: str, *events: Row) -> Trace:
    told = [{"seq": seq, "ts": seq, "test": "test_it", **event} for seq, event in enumerate(events)]
    return Trace(run, "main", date(2026, 1, 1), told)


def _big_message() -> Trace:
    sizes = {1: 100_001, 2: 5}
    events = [{"kind": "enqueued", "queue": "q", "msg": msg, "copy": msg, "size": size} for msg, size in sizes.items()]
    return _trace("big", *events)


def _second_attempt() -> Trace:
    copy = {"queue": "q", "vhost": "/"}
    return _trace(
        "again",
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
def violations(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[SparkRow]]:
    folder = tmp_path_factory.mktemp("rules")
    rules.register(OWN)
    try:
        sources = frames.sources(spark, [_big_message(), _second_attempt()], folder)
        yield frames.build(spark, sources, folder, ["violations"])["violations"].collect()
    finally:
        del rules.RULES[OWN.name]


def test_users_rule_finds_copies_and_lists_their_values(violations: list[SparkRow]) -> None:
    told = [(row.copy, row.rule, row.text) for row in violations if row.run == "big"]

    assert told == [(1, OWN.name, "100001 bytes in q: send a reference instead")]


def test_copy_left_by_a_first_attempt_is_not_lost_in_the_second(violations: list[SparkRow]) -> None:
    assert [row for row in violations if row.run == "again"] == []


def test_rule_of_a_taken_name_is_refused() -> None:
    with pytest.raises(ValueError, match="rule 'lost' exists already"):
        rules.register(Rule("lost", "true", "gone"))


def test_rule_about_something_unknown_is_refused() -> None:
    with pytest.raises(ValueError, match=r"is about 'sockets', which does not exist; use one of copies, messages"):
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
    copies = spark.createDataFrame([], COPIES)
    with pytest.raises(ValueError, match=f"rule '{wrong.name}' cannot be evaluated on copies: "):
        rules._broken(copies, [OWN, wrong])
