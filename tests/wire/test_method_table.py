"""The methods have exactly the ids, names, senders and fields of the table in method_table.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from leveret.core.wire.methods import METHODS, REFUSED_NAMES

HERE = Path(__file__).parent
CELLS = re.compile(r"\s*\|\s*")
# Methods do not carry these, except the ticket of access.request-ok.
RESERVED = {"ticket", "capabilities", "insist", "out_of_band", "known_hosts", "channel_id", "cluster_id"}


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


def test_there_are_exactly_the_methods_of_the_table() -> None:
    assert {each.ID: each.NAME for each in METHODS.values()} == {method_id: name for method_id, name, *_ in ROWS}


def test_the_methods_that_rabbitmq_refuses_are_known_by_name() -> None:
    assert list(REFUSED_NAMES.values()) == ["basic.credit", "basic.credit-ok", "basic.credit-drained"]
    assert [divmod(number, 1 << 16) for number in REFUSED_NAMES] == [(60, 200), (60, 201), (60, 202)]


@pytest.mark.parametrize(("method_id", "name", "sender", "fields"), ROWS, ids=[row[1] for row in ROWS])
def test_a_method_has_the_sender_and_the_fields_of_its_row(
    method_id: int, name: str, sender: str, fields: list[str]
) -> None:
    method = METHODS[method_id]

    expected = [field for field in fields if field not in RESERVED or name == "access.request-ok"]
    assert list(method.__match_args__) == [{"global": "global_"}.get(field, field) for field in expected]
    assert {"both": "CS"}.get(sender, sender) == method.SENDERS
