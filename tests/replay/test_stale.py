"""`leveret contract stale`: in what a recording is not what the contract says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from leveret.cli import main

Orders = Callable[..., Path]
LOCK = """
version = 2

[[message]]
exchange = "orders"
routing_key = "order.made"
publishers = ["shop"]
[message.body]
"$" = "object"
id = "integer"
name = "string"
total = "number"
zip = "optional string"
[message.headers]
tenant = "string"
[message.properties]
message_id = "string"
"""


def lines(recording: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    (folder / "messages.lock").write_text(LOCK)
    code = main(["contract", "stale", str(recording), str(folder / "messages.lock")])
    return code, capsys.readouterr().out.splitlines()


def test_a_recording_of_present_messages_is_not_stale(
    orders: Orders, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = orders([{"id": 1, "name": "ann", "total": 1.5}])

    assert lines(recording, tmp_path, capsys) == (0, [])


def test_a_field_that_was_dropped_is_not_missed(
    orders: Orders, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = orders([{"id": 1, "total": 1.5}], dropped=["body.name"])

    assert lines(recording, tmp_path, capsys) == (0, [])


def test_each_field_that_is_missing_new_or_of_another_type_is_named(
    orders: Orders, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = orders([{"id": "1", "name": "ann", "vat": 2}])

    assert lines(recording, tmp_path, capsys) == (
        1,
        [
            "stale: orders 'order.made': `total` is missing",
            "stale: orders 'order.made': `id` is decimal, and was integer",
            "stale: orders 'order.made': `vat` is new: integer",
        ],
    )


def test_a_kind_of_message_that_the_contract_does_not_have_is_named(
    orders: Orders, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = orders([{"id": 1}], key="order.paid")

    code, said = lines(recording, tmp_path, capsys)

    assert (code, said) == (1, ["stale: orders 'order.paid': the contract has no such message"])
