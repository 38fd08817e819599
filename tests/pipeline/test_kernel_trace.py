"""Trace files as tables of events without Spark: whole files, cut ones, and lines that are no events.

tests/pipeline/test_ingested_traces.py covers the files that a warehouse ingests.
"""

from __future__ import annotations

import gzip
import json
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leveret.pipeline.kernel import trace
from leveret.pipeline.kernel.schema import EVENTS
from leveret.trace import jsonl
from tests.pipeline.traces import Line, header, lives, read_trace, text, write

WHOLE = lives(40)


def told(path: Path) -> list[Line]:
    """Return the events of a file in the form of lines: without nulls and without the columns of the header."""
    left_out = ("day", "run", "worker", "started")
    return [
        {name: value for name, value in row.items() if value is not None and name not in left_out}
        for row in read_trace(path).events.to_pylist()
    ]


@pytest.mark.parametrize("name", ["whole.jsonl", "whole.jsonl.gz"])
def test_every_event_is_read_as_it_was_written(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, [header("run", "gw0", commit="abc"), *WHOLE])

    found = read_trace(path)

    assert told(path) == WHOLE
    assert found.events.schema == EVENTS
    assert (found.file.run, found.file.worker, found.file.is_truncated) == ("run", "gw0", False)
    first = found.events.slice(0, 1).to_pylist()[0]
    assert (first["run"], first["worker"], first["day"].isoformat()) == ("run", "gw0", "2026-05-01")


@pytest.mark.parametrize("mark", [b"", BOM_UTF8])
@pytest.mark.parametrize("packed", [bytes, gzip.compress])
def test_a_file_that_a_program_of_windows_rewrote_holds_the_same_events(
    tmp_path: Path, mark: bytes, packed: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / ("windows.jsonl" if packed is bytes else "windows.jsonl.gz")
    path.write_bytes(packed(mark + text([header("run", "gw0"), *WHOLE]).encode().replace(b"\n", b"\r\n")))

    found = read_trace(path)

    assert told(path) == WHOLE
    assert (found.file.run, found.file.worker, found.file.problem, found.file.is_truncated) == (
        "run",
        "gw0",
        None,
        False,
    )


@pytest.mark.parametrize("name", ["small.jsonl", "small.jsonl.gz"])
def test_pieces_of_any_size_give_the_same_events(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / name, [header("run"), *WHOLE])

    for size in (1, 7, 100, 1000):
        monkeypatch.setattr(jsonl, "_PIECE_BYTES", size)
        assert told(path) == WHOLE


def test_a_cut_file_keeps_its_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl"
    path.write_text(text([header("run"), *WHOLE])[:-20])

    assert told(path) == WHOLE[:-1]
    assert read_trace(path).file.is_truncated


def test_a_last_line_without_its_end_is_an_event_if_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl"
    path.write_text(text([header("run"), *WHOLE])[:-1])

    assert told(path) == WHOLE
    assert read_trace(path).file.is_truncated


def test_a_cut_compressed_file_keeps_its_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(gzip.compress(text([header("run"), *lives(400)]).encode())[:-3000])

    content = zlib.decompressobj(31).decompress(path.read_bytes())

    assert told(path) == [json.loads(line) for line in content.split(b"\n")[1:-1]]
    assert read_trace(path).file.is_truncated


def test_a_damaged_compressed_file_keeps_the_lines_before_the_damage(tmp_path: Path) -> None:
    path = tmp_path / "damaged.jsonl.gz"
    events = lives(4000)
    content = bytearray(gzip.compress(text([header("run"), *events]).encode()))
    content[len(content) // 2 :] = bytes(len(content) // 2)
    path.write_bytes(content)

    found = told(path)

    assert len(found) > len(events) // 3
    assert found == events[: len(found)]
    assert read_trace(path).file.is_truncated


def test_several_compressed_members_are_one_file(tmp_path: Path) -> None:
    path = tmp_path / "members.jsonl.gz"
    members = [[header("run"), *WHOLE[:50]], WHOLE[50:90], WHOLE[90:]]
    path.write_bytes(b"".join(gzip.compress(text(lines).encode()) for lines in members) + bytes(40))

    assert told(path) == WHOLE
    assert not read_trace(path).file.is_truncated


def test_a_plain_file_that_is_named_as_a_compressed_one_is_read(tmp_path: Path) -> None:
    path = tmp_path / "plain.jsonl.gz"
    path.write_text(text([header("run"), *WHOLE]))

    assert told(path) == WHOLE


def test_a_header_without_events_gives_no_rows(tmp_path: Path) -> None:
    found = read_trace(write(tmp_path / "started.jsonl", [header("run")]))

    assert (found.file.problem, found.file.is_truncated, len(found.events)) == (None, False, 0)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("empty.jsonl", "", "it is empty"),
        ("foreign.jsonl", "null\n", "its first line is not the header of a leveret trace"),
        ("head.jsonl", '{"leveret":"trace","v":1,"ru', "its first line is cut off"),
        ("newer.jsonl", text([header("run") | {"v": 2}]), "it has version 2 of the trace format"),
    ],
)
def test_a_refused_file_has_its_reason_and_no_events(tmp_path: Path, name: str, content: str, problem: str) -> None:
    path = tmp_path / name
    path.write_text(content)

    found = read_trace(path)

    assert (found.file.problem or "").startswith(problem)
    assert found.events.num_rows == 0


@pytest.mark.parametrize(
    "line",
    [
        *("null", " null", "{}", "1", '"a"', "[1]", "{", '{"seq":1', '{"kind":"qos"}', '{"seq":1,"kind":null}', "\0"),
        *('{"seq":null,"kind":"qos"}', '{"seq":"1","kind":"qos"}', '{"seq":9223372036854775808,"kind":"qos"}', " "),
        pytest.param('{"x":' * 100_000, id="deep"),
        pytest.param('{"attrs":' + "[" * 100_000, id="deep list"),
    ],
)
def test_a_damaged_line_costs_that_line(tmp_path: Path, line: str) -> None:
    for place in (0, 30, len(WHOLE)):
        path = tmp_path / "gap.jsonl"
        path.write_text(text([header("run"), *WHOLE[:place]]) + line + "\n" + text(WHOLE[place:]))

        assert told(path) == WHOLE
        assert read_trace(path).file.is_truncated


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ('"conn":1.5,"chan":2', {"chan": 2}),
        ('"conn":2147483648,"count":-2147483648', {"count": -2147483648}),
        ('"redelivered":"true","multiple":false', {"multiple": False}),
        ('"queue":5,"reason":{"a": [1, true]}', {"queue": "5", "reason": '{"a":[1,true]}'}),
        ('"test":"\\ud800","queue":"\\ud83d\\udc30"', {"test": "?", "queue": "🐰"}),
        ('"colour":"red","more":{"a": 1}', {"_extra": '{"colour":"red","more":"{\\"a\\":1}"}'}),
    ],
)
def test_a_value_of_another_type_is_text_or_null(tmp_path: Path, columns: str, expected: dict[str, Any]) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text(text([header("run")]) + f'{{"seq":1,"kind":"qos",{columns}}}\n')

    assert told(path) == [{"seq": 1, "kind": "qos", **expected}]
    assert not read_trace(path).file.is_truncated


def test_bytes_that_are_not_utf8_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "bytes.jsonl"
    path.write_bytes(text([header("run")]).encode() + b'{"seq":1,"kind":"qos","queue":"\xff"}\n')

    assert told(path) == [{"seq": 1, "kind": "qos", "queue": "�"}]


def test_both_ways_of_reading_give_the_same_rows() -> None:
    lines = text(WHOLE).encode()

    by_arrow, (by_line, has_damage) = trace._parsed_by_arrow(lines), trace._parsed_by_line(lines)

    assert by_arrow is not None
    assert by_arrow.to_pylist() == by_line.to_pylist()
    assert not has_damage
