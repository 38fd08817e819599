"""The kernel's tables equal an independent computation, on random traces with planted faults. No Spark is needed.

For more traces, run `python -m tests.pipeline.kernel_campaign`.
"""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from leveret.pipeline.kernel.columns import NEVER, NO_ROW, NULL
from leveret.pipeline.kernel.groups import Segments, identified, in_order, numbered
from leveret.pipeline.kernel.schema import TABLES
from leveret.pipeline.kernel.subjects.coverage import TypedBinding
from leveret.pipeline.kernel.subjects.runs import RunFacts
from leveret.pipeline.kernel.tables import tables_of
from tests.pipeline import plain, random_traces
from tests.pipeline.kernel_campaign import EVENTS, NAMES, Compared, compare, events_of, tables_of_runs, texts
from tests.pipeline.plain import Trace
from tests.pipeline.random_traces import Made

SEED = 20260101
COUNT = 120
DISTURBED_COUNT = 60
# A trace with two workers and one with violations of several kinds.
FEW = [made.trace for made in random_traces.several(12, seed=7)]


@pytest.fixture(scope="module")
def made() -> list[Made]:
    return random_traces.several(COUNT, seed=SEED)


@pytest.fixture(scope="module")
def compared(made: list[Made]) -> Compared:
    return compare(made)


@pytest.fixture(scope="module")
def compared_disturbed() -> Compared:
    made = random_traces.several(DISTURBED_COUNT, seed=SEED + 1)
    for number, each in enumerate(made):
        each.trace = random_traces.disturbed(each.trace, number)
    return compare(made)


@pytest.fixture(scope="module")
def tables_of_few() -> list[dict[str, pa.Table]]:
    return tables_of_runs(FEW)


@pytest.fixture(scope="module")
def tables_of_first() -> dict[str, pa.Table]:
    return tables_of(events_of(FEW[:1]))


def rows_of(tables: list[dict[str, pa.Table]], name: str) -> list[dict[str, Any]]:
    return [row for of_run in tables for row in of_run[name].to_pylist(maps_as_pydicts="strict")]


def all_texts(tables: list[dict[str, pa.Table]]) -> dict[str, list[str]]:
    return {name: texts(rows_of(tables, name)) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_table_equals_the_plain_computation(compared: Compared, name: str) -> None:
    expected, found = compared.expected[name], compared.found[name]

    assert expected, f"seed {SEED} makes no rows of {name}"
    assert found == expected


@pytest.mark.parametrize("name", NAMES)
def test_table_of_disturbed_traces_equals_the_plain_computation(compared_disturbed: Compared, name: str) -> None:
    expected, found = compared_disturbed.expected[name], compared_disturbed.found[name]

    assert expected, f"seed {SEED + 1} makes no rows of {name}"
    assert found == expected


def test_every_planted_fault_is_found_and_nothing_else(made: list[Made], compared: Compared) -> None:
    planted = {(each.trace.run, each.trace.worker, *fault) for each in made for fault in each.planted}

    assert compared.violations == planted
    assert {rule for *_, rule in planted} == set(random_traces.FAULTS)


def test_the_tables_have_the_columns_of_the_schema(tables_of_first: dict[str, pa.Table]) -> None:
    assert list(tables_of_first) == list(TABLES)
    assert {name: table.schema for name, table in tables_of_first.items()} == TABLES


def test_order_repetition_and_encoding_of_the_events_do_not_matter(tables_of_few: list[dict[str, pa.Table]]) -> None:
    found = []
    for run in dict.fromkeys(trace.run for trace in FEW):
        traces = [trace for trace in FEW if trace.run == run]
        rows = [{**event, **trace.file} for trace in traces for event in trace.events]
        rows += rows[: len(rows) // 3]
        random.Random(run).shuffle(rows)
        pieces = [pa.Table.from_pylist(rows[begin : begin + 40], EVENTS) for begin in range(0, len(rows), 40)]
        coded = [
            piece.set_column(piece.schema.get_field_index(name), name, piece[name].dictionary_encode())
            for piece in pieces
            for name in ["queue"]
        ]
        cut = [trace.worker for trace in traces if trace.truncated]
        facts = {run: RunFacts(traces[0].commit, traces[0].began, frozenset(cut))}
        found.append(tables_of(pa.concat_tables(coded), facts))

    assert all_texts(found) == all_texts(tables_of_few)


def test_a_run_without_events_has_tables_without_rows() -> None:
    found = tables_of(EVENTS.empty_table())

    assert {name: table.num_rows for name, table in found.items()} == dict.fromkeys(NAMES, 0)


def test_a_run_without_messages_has_its_tests() -> None:
    events = [{"kind": "test_start", "test": "t"}, {"kind": "test_end", "test": "t", "attrs": '{"outcome": "passed"}'}]

    found = tables_of(_events_of(events))

    assert [(row["test"], row["outcome"]) for row in found["tests"].to_pylist()] == [("t", "passed")]
    assert found["copies"].num_rows == 0


@pytest.mark.parametrize(
    "attrs",
    [
        "[]",
        '{"name":',
        '{"fields": 1, "words": []}',
        '{"name": {}, "fields": {"body.$": 1}, "words": {"body.$": {"x": "y"}}}',
    ],
)
def test_a_damaged_shape_adds_no_rows(attrs: str) -> None:
    shape = {"exchange": "", "routing_key": "q", "shape": "s"}
    published = {"kind": "published", "msg": 1, "vhost": "/", "conn": 1, **shape}
    opened = {"kind": "conn_open", "vhost": "/", "conn": 1, "attrs": '{"client": "shop"}'}

    found = tables_of(_events_of([opened, {"kind": "shape", **shape, "attrs": attrs}, published]))

    assert found["run_shapes"].num_rows == 0
    assert found["messages"].num_rows == 1


def test_a_holder_is_the_consumer_that_got_the_copy(tables_of_few: list[dict[str, pa.Table]]) -> None:
    first: dict[Any, int] = {}
    taken: dict[Any, list[int]] = {}
    for trace in FEW:
        for event in trace.events:
            if event["kind"] == "delivered":
                who = (trace.run, trace.worker, event["test"], *(event[name] for name in ("queue", "conn", "chan")))
                holder = first.setdefault((*who, event["vhost"], event["consumer"]), event["seq"])
                taken.setdefault((trace.run, trace.worker, event["copy"]), []).append(holder)

    rows = rows_of(tables_of_few, "copies")

    held = {(row["run"], row["worker"], row["copy"]): row["holder"] for row in rows if row["holder"] is not None}
    assert held
    assert all(holder in taken[key] for key, holder in held.items())
    by_consumer = {row["holder"] for row in rows_of(tables_of_few, "consumers")}
    assert set(held.values()) <= by_consumer


@pytest.mark.parametrize(
    ("arguments", "priority", "rules"),
    [
        ({}, None, ["lost"]),
        ({"x-max-priority": 5}, None, []),
        ({"x-queue-type": "quorum"}, None, ["lost"]),
        # From RabbitMQ 4.0 on, a younger message of higher priority goes first in a quorum queue.
        ({"x-queue-type": "quorum"}, 7, []),
        ({"x-queue-type": "classic"}, 7, ["lost"]),
        # A queue that another test declared.
        (None, 7, []),
        (None, None, ["lost"]),
    ],
)
def test_a_queue_that_goes_by_priority_loses_nothing(
    arguments: dict[str, Any] | None, priority: int | None, rules: list[str]
) -> None:
    copy = {"vhost": "/", "queue": "q", "conn": 1, "chan": 1}
    declared = [{"kind": "queue_declare", "vhost": "/", "queue": "q", "attrs": json.dumps({"arguments": arguments})}]
    attrs = {} if priority is None else {"attrs": json.dumps({"properties": {"priority": priority}})}
    events = [
        *([] if arguments is None else declared),
        {"kind": "published", "vhost": "/", "exchange": "", "routing_key": "q", "msg": 1},
        {"kind": "enqueued", **copy, "msg": 1, "copy": 1},
        {"kind": "published", "vhost": "/", "exchange": "", "routing_key": "q", "msg": 2, **attrs},
        {"kind": "enqueued", **copy, "msg": 2, "copy": 2},
        {"kind": "got", **copy, "msg": 2, "copy": 2, "redelivered": False},
        {"kind": "acked", **copy, "msg": 2, "copy": 2},
    ]

    found = tables_of(_events_of([{**event, "test": "t"} for event in events]))

    assert [row["rule"] for row in found["violations"].to_pylist()] == rules


def _events_of(events: list[dict[str, Any]]) -> pa.Table:
    numbered_events = [{"seq": number, "ts": number * 10, **event} for number, event in enumerate(events, start=1)]
    return events_of([Trace("run", "main", None, numbered_events)])


@pytest.mark.parametrize(
    "attrs",
    [
        *("null", "5", "[1]", "{", '"x"', "[" * 100_000, '{"a":' * 100_000, "\0", "{}", '{"outcome": {"a": [1]}}'),
        *('{"outcome": "\\ud800", "duration": true}', '{"duration": ' + "9" * 5000 + "}", '{"duration": 1e999}'),
        *('{"duration": ' + "9" * 400 + "}", '{"prefetch_count": ' + "9" * 30 + "}", '{"prefetch_count": "1"}'),
        *('{"arguments": 5}', '{"arguments": {"x-max-priority": null, "x-dead-letter-exchange": 7}}'),
        *('{"type": 5, "destination": 5}', '{"fault": null, "on": [1]}', '{"arguments": {"x-delayed-type": [1]}}'),
    ],
    ids=lambda attrs: attrs[:40],
)
def test_attributes_of_any_form_cost_only_themselves(tables_of_first: dict[str, pa.Table], attrs: str) -> None:
    trace = FEW[0]
    odd = [{**event, "attrs": attrs} if "attrs" in event else event for event in trace.events]

    found = tables_of(events_of([Trace(trace.run, trace.worker, trace.day, odd)]))

    for name in ("copies", "messages", "consumers", "routes", "test_queues", "run_lineage"):
        assert texts(found[name].to_pylist()) == texts(tables_of_first[name].to_pylist())
    assert found["tests"].num_rows == tables_of_first["tests"].num_rows
    assert found["control"].num_rows == tables_of_first["control"].num_rows


def test_topics_match_as_in_plain_python() -> None:
    dice = random.Random(1)
    keys = [".".join(dice.choices(["a", "b", "*", "#", ""], k=dice.randrange(6))) for _ in range(3000)]
    words = [".".join(dice.choices(["a", "b", ""], k=dice.randrange(6))) for _ in range(3000)]

    for key, routing_key in zip(keys, words, strict=True):
        binding = TypedBinding("topic", key, "q", None, "name")
        assert binding.matches(routing_key) == plain._matches("topic", key, routing_key), (key, routing_key)


def test_a_topic_of_many_hashes_is_matched_at_once() -> None:
    binding = TypedBinding("topic", "#.a." * 40 + "#.b", "q", None, "name")

    assert not binding.matches(".".join("a" * 120))


@pytest.mark.parametrize("spread", [1, 3, 1 << 40])
def test_rows_with_equal_keys_get_equal_numbers_in_the_order_of_keys(spread: int) -> None:
    dice = np.random.default_rng(spread)
    keys = [dice.integers(-3, 5, 500) * spread for _ in range(3)]
    rows = list(zip(*(key.tolist() for key in keys), strict=True))

    found = numbered(*keys)

    distinct = sorted(set(rows))
    assert found.number.tolist() == [distinct.index(row) for row in rows]
    assert found.first.tolist() == [rows.index(key) for key in distinct]


@pytest.mark.parametrize("spread", [1, 1 << 40])
def test_sorted_rows_keep_their_order_if_their_keys_are_equal(spread: int) -> None:
    dice = np.random.default_rng(spread)
    keys = [dice.integers(-3, 5, 500) * spread for _ in range(2)]

    order = in_order(*keys).tolist()

    assert order == sorted(range(500), key=lambda row: (keys[0][row], keys[1][row], row))


@pytest.mark.parametrize("distance", [1, 1 << 61])
def test_ids_of_different_files_stay_apart(distance: int) -> None:
    file, number = np.array([0, 1, 0, 1]), np.array([1, 1, 1 + distance, 1 - distance])

    first, second = (each.tolist() for each in identified(file, number, np.array([1, 1 - distance, 1, NULL])))

    assert len(set(first)) == 4
    assert second == [first[0], first[3], first[0], NO_ROW]


def test_what_follows_in_a_group_does_not_leak_into_another() -> None:
    groups = Segments.between(np.array([0, 0, 0, 1, 1, 2]))
    values = np.array([5, 2, 7, 1, -1, 0])

    assert groups.least_after(values).tolist() == [2, 7, NEVER, NEVER, NEVER, NEVER]
    assert groups.greatest_after(values).tolist() == [7, 7, -1, -1, -1, -1]
