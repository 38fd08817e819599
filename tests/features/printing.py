"""The page of the table of features: tables in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from typing import Final

from tests.features.table import (
    ABSENT,
    DOCUMENTED,
    NOT_THERE,
    PROVEN,
    RECORDED,
    SCENARIOS,
    VERSIONS,
    Row,
    recorded_among,
    rows,
)

_HEADING: Final = """\
# Features of RabbitMQ

<!-- Written by `python -m tests.features`. -->

leveret is one node, in memory, that speaks AMQP 0-9-1 and answers the management API. It has no cluster, no federation
or shovel, no data on a disk, and no other protocol. The first table lists all that is missing. The tables after it list
each feature of RabbitMQ over AMQP 0-9-1, with the proof that leveret has it. Open the table of the area you need.

## What is missing

If a client asks for such a feature by name, leveret refuses with 540 and `leveret does not have ...`, unless the table
says otherwise. RabbitMQ itself lacks a feature in the versions in brackets.
"""
_LEGEND: Final = """\
## What leveret has

A cell of the tables below is one of these:

- A number: proven. This many scenarios of the feature were recorded from a real RabbitMQ of that version, and leveret
  answers each of them line for line ([how](../explanation/semantics.md)).
- documented: follows RabbitMQ's documents, release notes or neighbouring versions, and is tested, but was not recorded.
  Nothing was recorded from 4.2 and 3.13 ([Versions](../explanation/fidelity.md#versions)).
- `-`: that version of RabbitMQ does not have it.
- no: leveret does not have it.

The column "proof" names the areas of the scenarios (`tests/semantics/scenarios/AREA.py`), and tests.
`tools/features.toml` names the behaviours that a feature consists of, and the scenarios that prove each.
"""


def page() -> str:
    """Return the page: what is missing, tables by area, and the number of scenarios of each."""
    lines = [_HEADING, *_missing(), "", _LEGEND, *_summary()]
    for area, found in groupby(rows(), key=lambda row: row.area):
        table = _table_head(("feature", *VERSIONS, "proof", "remark"))
        rows_of_area = [*found]
        for row in rows_of_area:
            proofs = ", ".join(f"`{place}`" for place in _places(row))
            cells = (row.name, *(_cell(row, version) for version in VERSIONS), proofs, row.remark)
            table.append(_table_line(cells))
        lines += ["", f"## {area}", "", *_folded(_count_of(rows_of_area), table)]
    lines += ["", "## Scenarios", "", *_scenario_counts()]
    return "\n".join(lines) + "\n"


def _missing() -> list[str]:
    lines = _table_head(("feature", "area", "instead"))
    for row in rows():
        if row.instead:
            lacking = f" (not in {', '.join(row.absent)})" if row.absent else ""
            lines.append(_table_line((f"{row.name}{lacking}", row.area, row.instead)))
    return lines


def _folded(summary: str, table: list[str]) -> list[str]:
    """Return a table that the reader opens. All tables at once would make the page ninety screens of a phone long."""
    return ["<details markdown>", f"<summary>{summary}</summary>", "", *table, "", "</details>"]


def _count_of(found: list[Row]) -> str:
    lacking = sum(bool(row.instead) for row in found)
    count = f"{len(found)} feature{'s' * (len(found) > 1)}"
    return f"{count}; leveret lacks {lacking}" if lacking else count


def _cell(row: Row, version: str) -> str:
    state = row.state(version)
    if state == PROVEN:
        return str(row.count(version))
    return {DOCUMENTED: "documented", ABSENT: "-", NOT_THERE: "no"}[state]


def _places(row: Row) -> list[str]:
    """Return where the proofs stand: the areas of the scenarios, and the tests."""
    return list(dict.fromkeys(_place(proof) for proof in row.proof))


def _place(proof: str) -> str:
    return proof if proof.startswith("tests/") else proof.partition("/")[0]


def _summary() -> list[str]:
    lines = _table_head(("features", *VERSIONS))
    states = {version: Counter(row.state(version) for row in rows()) for version in VERSIONS}
    for state, words in (
        (PROVEN, "proven"),
        (DOCUMENTED, "documented"),
        (NOT_THERE, "not there"),
        (ABSENT, "not in that version"),
    ):
        lines.append(_table_line((words, *(str(states[version][state]) for version in VERSIONS))))
    return lines


def _scenario_counts() -> list[str]:
    lines = _table_head(("area", *RECORDED))
    for area, found in groupby(sorted(SCENARIOS.values(), key=lambda it: it.area), key=lambda it: it.area):
        lines.append(_counts_line(f"`{area}`", [it.id for it in found]))
    return [*lines, _counts_line("all", SCENARIOS)]


def _counts_line(name: str, scenarios: Iterable[str]) -> str:
    counts = recorded_among(scenarios)
    return _table_line((name, *(str(counts[version]) for version in RECORDED)))


def _table_head(cells: Iterable[str]) -> list[str]:
    names = tuple(cells)
    return [_table_line(names), _table_line(("---",) * len(names))]


def _table_line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
