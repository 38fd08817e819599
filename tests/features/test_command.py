"""The output of `python -m leveret features`."""

from __future__ import annotations

import json

import pytest

from leveret.cli import main
from leveret.features import VERSIONS, rows
from leveret.features.printing import print_table
from tests.features.count import TABLE_OF_FEATURES
from tests.features.test_table import COUNT_ANEW


def printed(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert main(["features", *options]) == 0
    return capsys.readouterr().out


def test_the_documentation_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    written = TABLE_OF_FEATURES.read_text(encoding="utf-8")

    assert written == printed(capsys, "--format", "markdown"), COUNT_ANEW


def test_every_feature_is_printed_with_its_proof_and_remark(capsys: pytest.CaptureFixture[str]) -> None:
    words = " ".join(printed(capsys).split())

    assert [row.name for row in rows() if ", ".join(row.proof) not in words or row.remark not in words] == []


def test_one_version_leaves_out_what_it_never_had(capsys: pytest.CaptureFixture[str]) -> None:
    said = printed(capsys, "--version", "3.10")

    assert "delayed retry" not in said
    assert "basic.credit " in said


def test_json_has_states_and_scenario_counts(capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(printed(capsys, "--format", "json"))

    found = {(row["area"], row["feature"]): row for row in told}
    assert len(told) == len(rows())
    assert found["Exchange types", "topic"]["versions"]["4.2"] == {"state": "documented", "scenarios": 0}
    assert found["Exchange types", "topic"]["versions"]["4.3"]["state"] == "proven"
    assert found["Exchange types", "x-jms-topic"]["versions"]["4.3"]["state"] == "not there"
    assert found["Exchange types", "x-modulus-hash"]["versions"]["4.0"]["state"] == "absent"


def test_an_unknown_version_is_named_in_the_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["features", "--version", "4.1"]) == 2

    error = capsys.readouterr().err
    assert error == f"leveret: unknown RabbitMQ version '4.1'; expected one of {', '.join(VERSIONS)}\n"


@pytest.mark.parametrize("format_name", ["text", "markdown", "json"])
def test_everything_printed_is_ascii(format_name: str) -> None:
    assert print_table(None, format_name).isascii()
