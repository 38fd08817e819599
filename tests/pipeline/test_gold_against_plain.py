"""Every table equals an independent computation, and exactly the planted faults are found.

The traces of all scenarios are runs of one table, and the pipeline runs over them once. For more of them, run
`python -m tests.pipeline.campaign`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from leveret.pipeline import gold
from tests.pipeline import frames, plain, random_traces
from tests.pipeline.random_traces import Made

SEED = 20260101
COUNT = 96


@dataclass
class Compared:
    made: list[Made]
    plain: dict[str, list[plain.Row]]
    spark: dict[str, DataFrame]


@pytest.fixture(scope="module")
def compared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Compared:
    folder: Path = tmp_path_factory.mktemp("tables")
    made = random_traces.several(COUNT, seed=SEED)
    traces = [each.trace for each in made]
    return Compared(made, plain.tables(traces), frames.build(spark, frames.sources(spark, traces, folder), folder))


@pytest.mark.parametrize("name", gold.TABLES)
def test_table_equals_the_plain_computation(compared: Compared, name: str) -> None:
    expected = frames.plain_rows(compared.plain[name])

    found = frames.rows_of(compared.spark[name])

    assert expected, f"seed {SEED} makes no rows of {name}"
    assert found == expected


def test_every_planted_fault_is_found_and_nothing_else(compared: Compared) -> None:
    planted = {(made.trace.run, made.trace.worker, *fault) for made in compared.made for fault in made.planted}

    rows = compared.spark["violations"].collect()

    found = {(row.run, row.worker, row.test, row.queue, row.msg, row.copy, row.rule) for row in rows}
    assert found == planted
    assert {rule for *_, rule in planted} == set(random_traces.FAULTS)
