"""The tables across runs equal plain Python, whether they are computed at once or in parts by their key."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from leveret.pipeline.kernel.subjects.across import ACROSS
from leveret.pipeline.kernel.tables import tables_of
from tests.pipeline import plain, random_traces
from tests.pipeline.kernel_campaign import EVENTS, tables_of_runs, texts
from tests.pipeline.plain import Trace

SEED = 20260102
COUNT = 24


def _repeated(traces: list[Trace]) -> list[Trace]:
    """Return the traces, and copies of some under other runs, without a few events.

    So the tests of a commit ran several times, and not always alike.
    """
    dice = random.Random(SEED)
    more = []
    for trace in traces[: COUNT // 2]:
        events = [event for event in trace.events if event["kind"] != "acked" or dice.random() < 0.9]
        commit = None if trace.run.endswith("1") else trace.commit
        more.append(Trace(f"{trace.run}-again", trace.worker, trace.day, events, commit, trace.truncated))
    return [*traces, *more]


@pytest.fixture(scope="module")
def traces() -> list[Trace]:
    made = [made.trace for made in random_traces.several(COUNT, seed=SEED)]
    return [*_repeated(made), *random_traces.history(SEED)]


@pytest.fixture(scope="module")
def expected(traces: list[Trace]) -> dict[str, list[dict[str, Any]]]:
    return plain.tables(traces)


@pytest.fixture(scope="module")
def sources(traces: list[Trace]) -> dict[str, pa.Table]:
    of_runs = tables_of_runs(traces)
    return {across.reads: pa.concat_tables([of[across.reads] for of in of_runs]) for across in ACROSS.values()}


@pytest.mark.parametrize("name", ACROSS)
def test_table_across_runs_equals_the_plain_computation(
    name: str, sources: dict[str, pa.Table], expected: dict[str, list[dict[str, Any]]]
) -> None:
    across = ACROSS[name]

    found = across.build(sources[across.reads].select(list(across.needs)))

    assert found.schema == across.columns
    assert texts(found.to_pylist()) == texts(expected[name])
    assert len(expected[name]) > 3


@pytest.mark.parametrize("name", ACROSS)
def test_table_is_the_same_in_any_order_of_rows(
    name: str, sources: dict[str, pa.Table], expected: dict[str, list[dict[str, Any]]]
) -> None:
    across = ACROSS[name]
    rows = sources[across.reads].to_pylist()
    random.Random(SEED).shuffle(rows)
    plain_strings = pa.schema(
        [
            pa.field(field.name, pa.string() if pa.types.is_dictionary(field.type) else field.type)
            for field in sources[across.reads].schema
        ]
    )

    found = across.build(pa.Table.from_pylist(rows, plain_strings)).to_pylist()

    assert texts(found) == texts(expected[name])


def test_some_numbers_of_the_traces_change_and_some_grow(expected: dict[str, list[dict[str, Any]]]) -> None:
    assert {row["kind"] for row in expected["changes"]} == {"step", "growth", "rate"}


def test_some_tests_of_the_traces_are_flaky(expected: dict[str, list[dict[str, Any]]]) -> None:
    assert any(row["behaviours"] > 1 and row["first_differing_queue"] is not None for row in expected["flaky"])


@pytest.mark.parametrize("name", ACROSS)
def test_no_rows_give_no_rows(name: str) -> None:
    across = ACROSS[name]

    found = across.build(tables_of(EVENTS.empty_table())[across.reads])

    assert found.num_rows == 0
    assert found.schema == across.columns
