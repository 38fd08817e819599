"""The generated file is fresh and has exactly the methods, senders and fields of the table in method_table.md."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from leveret.core.wire.methods import CLIENT_METHODS, SERVER_ONLY_IDS, Method

HERE = Path(__file__).parent
GENERATOR = HERE.parents[1] / "tools" / "generate_methods.py"
CELLS = re.compile(r"\s*\|\s*")
# leveret reads a client's reserved fields and drops them.
RESERVED = {"ticket", "capabilities", "insist", "out_of_band"}


def table_rows() -> list[tuple[int, str, str, list[str]]]:
    """Return the id, name, sender and field names of every row; a row of tx stands for a method and its reply."""
    rows: list[tuple[int, str, str, list[str]]] = []
    for line in (HERE / "method_table.md").read_text(encoding="utf-8").splitlines():
        if not re.match(r"\| \d", line):
            continue
        _, ids, name, sender, fields, *_ = CELLS.split(line.replace("*", ""))
        class_id, method_ids = ids.split(",")
        field_names = [field.split(":")[0] for field in re.findall(r"\w+:\w+", fields)]
        for method_id, one_name, one_sender in zip(
            method_ids.split("/"), [name.split(" / ")[0], name.replace(" / ", "")], sender.split(" / "), strict=False
        ):
            rows.append((int(class_id) << 16 | int(method_id), one_name, one_sender, field_names))
    return rows


ROWS = table_rows()


def test_the_generated_file_is_fresh() -> None:
    check = subprocess.run([sys.executable, str(GENERATOR), "--check"], capture_output=True, text=True, check=False)

    assert check.returncode == 0, check.stderr


def test_a_client_may_send_exactly_the_methods_of_the_table() -> None:
    expected = {method_id: name for method_id, name, sender, _ in ROWS if sender in ("C", "both")}

    assert {method_id: method.NAME for method_id, method in CLIENT_METHODS.items()} == expected
    assert all(method_id == method.ID for method_id, method in CLIENT_METHODS.items())


def test_methods_only_the_server_sends_are_known_by_name() -> None:
    expected = {method_id: name for method_id, name, sender, _ in ROWS if sender == "S"}
    credit = {
        (60 << 16) | 200: "basic.credit",
        (60 << 16) | 201: "basic.credit-ok",
        (60 << 16) | 202: "basic.credit-drained",
    }

    assert expected | credit == SERVER_ONLY_IDS


@pytest.mark.parametrize(("method_id", "name", "sender", "fields"), ROWS, ids=[row[1] for row in ROWS])
def test_a_method_has_the_fields_of_its_row(method_id: int, name: str, sender: str, fields: list[str]) -> None:
    method = {each.ID: each for each in Method.__subclasses__()}[method_id]

    expected = [field for field in fields if sender != "C" or field not in RESERVED]
    assert name == method.NAME
    assert list(method.__match_args__) == [{"global": "global_"}.get(field, field) for field in expected]
    assert hasattr(method, "encode") == (sender in ("S", "both"))
    assert hasattr(method, "decode") == (sender in ("C", "both"))
