"""The shapes of messages in a trace file: each once, and no value of a message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pika
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret import Broker
from leveret.core.model.message import Message
from leveret.core.wire.properties import Properties
from leveret.core.wire.values import Table
from leveret.trace.jsonl import TraceReader
from leveret.trace.rows import Row
from leveret.trace.run import close_files
from leveret.trace.shapes import KEYS_MAX, REPEATS_MIN, WORDS_MAX
from leveret.trace.shapes.file_shapes import FileShapes
from tests.properties.test_shapes import LEAVES, NAMES

KEYS = NAMES | st.sampled_from(["key1", "key2", "content_type", "actor_name", "actor_name1", "7", "späte3"])
BODIES = st.recursive(
    LEAVES | st.sampled_from(["1999-12-31", "12:30", "1.5", "ab12", "application/json", "11", "x1@y2.example"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


def recorded(folder: Path, *bodies: object, name: str = "shop", **options: Any) -> list[Row]:
    """Return the rows of a trace in which a client publishes these bodies, each to a broker of its own."""
    for body in bodies:
        with Broker(trace_dir=folder, checks="unroutable=off", **options) as broker:
            parameters = pika.URLParameters(broker.url)
            parameters.client_properties = {"connection_name": name}
            with pika.BlockingConnection(parameters) as connection:
                for each in body if isinstance(body, list) else [body]:
                    connection.channel().basic_publish("", "orders.created", json.dumps(each).encode())
            broker.sync()
    close_files()
    (path,) = folder.iterdir()
    return list(TraceReader(path))


def shapes_of(rows: list[Row]) -> list[dict[str, Any]]:
    return [json.loads(str(row["attrs"])) for row in rows if row["kind"] == "shape"]


def test_a_published_event_names_the_shape_of_its_message(tmp_path: Path) -> None:
    rows = recorded(tmp_path, {"id": 7, "lines": [{"sku": "a", "n": 1}, {"sku": None}], "to": "ada@example.com"})

    (published,) = [row for row in rows if row["kind"] == "published"]
    (shape,) = [row for row in rows if row["kind"] == "shape"]
    assert published["shape"] == shape["shape"]
    assert (shape["exchange"], shape["routing_key"]) == ("", "orders.created")
    assert json.loads(str(shape["attrs"])) == {
        "name": "",
        "fields": {
            "headers.$": ["object"],
            "properties.$": ["object"],
            "body.$": ["object"],
            "body.id": ["integer"],
            "body.lines": ["array"],
            "body.lines[]": ["object"],
            "body.lines[].n": ["integer", "absent"],
            "body.lines[].sku": ["string", "null"],
            "body.to": ["email"],
        },
    }


def test_a_trace_with_bodies_has_shapes_too(tmp_path: Path) -> None:
    (published, shape) = (
        row for row in recorded(tmp_path, {"id": 7}, trace_bodies=True) if row["kind"] in ("published", "shape")
    )

    assert published["shape"] == shape["shape"]
    assert json.loads(str(published["attrs"]))["body"] == '{"id": 7}'


def test_brokers_of_one_run_write_a_shape_once(tmp_path: Path) -> None:
    rows = recorded(tmp_path, *({"id": number, "to": f"{number}@example.com"} for number in range(3)))

    assert len({row["shape"] for row in rows if row["kind"] == "published"}) == 1
    assert len(shapes_of(rows)) == 1


def test_no_value_of_a_body_is_in_the_trace(tmp_path: Path) -> None:
    body = {"name": "Ada", "born": "1815-12-10", "mail": "ada@example.com", "status": "widowed", "n": 271_828}
    body |= {"by_name": {"Ada Lovelace": 1, "ada@example.com": 2}, "password": "HUNTER"}

    text = json.dumps(recorded(tmp_path, body))

    for value in ("Ada", "1815", "ada@", "widowed", "271828", "HUNTER", "Lovelace"):
        assert value not in text


def test_words_that_came_often_are_written_once_apart_from_their_messages(tmp_path: Path) -> None:
    rows = recorded(tmp_path, [{"status": status} for status in ("open", "paid") * REPEATS_MIN])

    assert {row["shape"] for row in rows if row["kind"] == "published"} == {rows_of_shape(rows)[0]["shape"]}
    assert shapes_of(rows)[-1] == {"name": "", "words": {"body.status": {"open": REPEATS_MIN, "paid": REPEATS_MIN}}}
    assert "paid" not in json.dumps(rows[:-1])


def rows_of_shape(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["kind"] == "shape"]


def test_words_are_not_written_if_they_are_too_many_or_hidden_or_those_of_a_test(tmp_path: Path) -> None:
    many = [{"status": "abcdefghijklm"[number:][:2]} for number in range(WORDS_MAX + 1)] * REPEATS_MIN
    often = [{"status": "paid"}] * (REPEATS_MIN + 1)

    for number, (bodies, options) in enumerate(
        [(many, {}), (often, {"trace_redact": ["status"]}), (often, {"name": "test-shop"})]
    ):
        shapes = shapes_of(recorded(tmp_path / str(number), bodies, **options))
        assert ["words" in shape for shape in shapes] == [False]


def message(body: object, headers: dict[str, object] | None = None) -> Message:
    table = None if headers is None else Table.from_python(headers)
    content = json.dumps(body).encode()
    return Message(1, "orders", "order.created", Properties(headers=table), b"", content, ("order.created",))


def test_keys_that_turn_out_to_be_data_leave_the_shapes() -> None:
    shapes, new = FileShapes(), list[Row]()

    for number in range(3 * KEYS_MAX):
        shapes.hash_of("/", message({"users": {f"user{chr(97 + number % 26)}{chr(97 + number // 26)}": 1}}), None, new)

    assert len(new) == KEYS_MAX + 1
    assert "body.users.{key}" in json.loads(str(new[-1]["attrs"]))["fields"]


def test_large_bodies_that_differ_in_digits_only_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []
    loads = json.loads

    def parse(body: bytes) -> object:
        parsed.append(body)
        return loads(body)

    monkeypatch.setattr(json, "loads", parse)
    shapes = FileShapes()
    hashes = {
        shapes.hash_of("/", message({"id": number, "note": "please ring twice " * 100}), None, [])
        for number in range(100, 200)
    }

    assert (len(hashes), len(set(parsed))) == (1, 1)


@given(st.lists(st.tuples(BODIES, st.none() | st.dictionaries(NAMES, LEAVES, max_size=2)), max_size=8))
def test_a_message_has_the_shape_that_it_has_alone(values: list[tuple[object, dict[str, object] | None]]) -> None:
    shapes = FileShapes()

    for body, headers in [*values, *values]:
        of_file = shapes.hash_of("/", message(body, headers), None, [])
        assert of_file == FileShapes().hash_of("/", message(body, headers), None, [])
