"""The bytes of deliveries as columns: every property, alone and together, and bytes that cannot be decoded."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import body, commands, frame, header
from pyspark.sql.types import StructType

from leveret.errors import OptionError
from leveret.spark.amqp.columns import SCHEMA
from leveret.spark.amqp.deliveries import Delivery, DeliveryTap
from leveret.spark.amqp.rows import headers_to_json, record_batches
from leveret.spark.columns import checked_columns

TEXTS = (
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "user_id",
    "app_id",
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(TEXTS, st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)),
        "delivery_mode": st.sampled_from([1, 2]),
        "priority": st.integers(1, 255),
        "headers": st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(0, 99), min_size=1),
        "timestamp": st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1)).map(
            lambda at: at.replace(microsecond=0, tzinfo=UTC)
        ),
    },
)


def delivered(properties: dict[str, Any], octets: bytes = b"x") -> Delivery:
    kept: list[Delivery] = []
    own = {("message_type" if name == "type" else name): value for name, value in properties.items()}
    parts = (
        commands.Basic.Deliver("ctag", 7, True, "shop", "order.new"),
        header.ContentHeader(0, len(octets), commands.Basic.Properties(**own)),
        body.ContentBody(octets),
    )
    DeliveryTap(lambda _: None, kept.extend).feed(b"".join(frame.marshal(part, 1) for part in parts))
    return kept[0]


def rows(deliveries: list[Delivery], columns: list[str] | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for batch in record_batches(deliveries, columns or SCHEMA.fieldNames(), "orders", 5):
        found += batch.to_pylist()
    return found


@settings(deadline=None)
@given(st.lists(MESSAGES, min_size=1, max_size=5))
def test_every_property_is_in_its_column(messages: list[dict[str, Any]]) -> None:
    found = rows([delivered(properties) for properties in messages])

    for row, properties in zip(found, messages, strict=True):
        expected = {name: properties.get(name) for name in (*TEXTS, "delivery_mode", "priority", "timestamp")}
        assert {name: row[name] for name in expected} == expected
        assert (json.loads(row["headers"]) if row["headers"] else None) == properties.get("headers")


@settings(deadline=None)
@given(MESSAGES, st.sets(st.sampled_from(SCHEMA.fieldNames()), min_size=1))
def test_any_choice_of_columns_has_the_values_of_the_full_row(properties: dict[str, Any], columns: set[str]) -> None:
    chosen = sorted(columns)
    delivery = delivered(properties)

    (everything,) = rows([delivery])

    assert rows([delivery], chosen) == [{name: everything[name] for name in chosen}]


def test_the_source_of_a_message_is_in_its_row() -> None:
    (first, second) = rows([delivered({}), delivered({})])

    assert (first["exchange"], first["routing_key"], first["queue"]) == ("shop", "order.new", "orders")
    assert (first["delivery_tag"], first["redelivered"]) == (7, True)
    assert (first["ordinal"], second["ordinal"]) == (5, 6)


def test_properties_that_are_cut_leave_the_others_of_the_batch_alone() -> None:
    method, head, octets = delivered({"content_type": "text/plain", "message_id": "m1"})

    broken, whole = rows([(method, head[:-3], octets), delivered({"message_id": "m2"})])

    assert (broken["content_type"], broken["body"]) == ("text/plain", b"x")
    assert whole["message_id"] == "m2"


def test_invalid_utf_8_becomes_replacement_characters() -> None:
    method, head, octets = delivered({"message_id": "ab"})

    (row,) = rows([(method, head.replace(b"ab", b"a\xff"), octets)])

    assert row["message_id"] == "a\N{REPLACEMENT CHARACTER}"


def test_a_time_beyond_the_calendar_is_none() -> None:
    method, head, octets = delivered({"timestamp": datetime(2026, 1, 1, tzinfo=UTC)})

    (row,) = rows([(method, head[:-8] + b"\xff" * 8, octets)])

    assert row["timestamp"] is None


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (datetime(2026, 1, 1, tzinfo=UTC), '"2026-01-01T00:00:00+00:00"'),
        (b"\xff", '"/w=="'),
        (Decimal("1.5"), "1.5"),
        ({"b": [1, None]}, '{"b": [1, null]}'),
    ],
)
def test_a_header_is_written_as_json_has_it(value: object, written: str) -> None:
    assert headers_to_json({"a": value}) == f'{{"a": {written}}}'


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (StructType().add("text", "string"), "unknown column 'text'; expected one of body, exchange"),
        (
            StructType().add("body", "string"),
            "column 'body' has type binary, not string; read it as binary and cast it later",
        ),
    ],
)
def test_a_schema_that_no_message_has_is_refused(schema: StructType, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        checked_columns(schema, SCHEMA)
