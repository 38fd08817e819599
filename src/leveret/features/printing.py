"""The table of features as text for a terminal, as Markdown for the documentation, and as JSON for programs."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from leveret import features
from leveret.features import ABSENT, DOCUMENTED, NOT_THERE, PROVEN, RECORDED, VERSIONS, Row

_INDENT: Final = " " * 6
_HEADING: Final = """\
# Features of RabbitMQ

<!-- Printed by `python -m leveret features --format markdown`. -->

Each feature of RabbitMQ over AMQP 0-9-1, and the proof that leveret has it. `python -m leveret features` also
prints the names of the scenarios. Add `--version 4.0` for one version, or `--format json` for programs: it has the
behaviours that a feature consists of, and the scenarios that prove each.

- A number: proven. This many scenarios of the feature were recorded from a real RabbitMQ of that version, and leveret
  answers each of them line for line ([how](../explanation/semantics.md)).
- proof: the areas of these scenarios (`tests/semantics/scenarios/AREA.py`), and tests.
- documented: follows RabbitMQ's documents, release notes or neighbouring versions, and is tested, but was not recorded.
  Nothing was recorded from 4.2 and 3.13 ([Versions](../explanation/fidelity.md#versions)).
- `-`: that version of RabbitMQ does not have it.
- no: leveret does not have it, and the remark says what happens instead. If a client asks for it by name, leveret
  refuses with 540 and `leveret does not have ...`.
"""


def text(versions: Sequence[str]) -> str:
    """Return the table for a terminal: a line a feature, with its proof and remark below it."""
    lines = [_legend(versions)]
    for area, found in _by_area(versions):
        lines += ["", f"{area:<48}" + "".join(f"{version:>12}" for version in versions)]
        for row in found:
            cells = "".join(f"{_cell(row, version):>12}" for version in versions)
            name = textwrap.shorten(row.name, 45, placeholder="...")
            lines.append(f"  {name:<46}{cells}")
            lines += [*_wrapped(", ".join(row.proof)), *_wrapped(row.remark and f"! {row.remark}")]
    return "\n".join(lines) + "\n"


def markdown(versions: Sequence[str]) -> str:
    """Return the table for the documentation: tables by area, and the number of scenarios of each."""
    lines = [_HEADING, "## Summary", "", *_summary(versions), "", "## Scenarios", "", *scenario_counts(versions)]
    for area, found in _by_area(versions):
        lines += ["", f"## {area}", "", *_table_head(("feature", *versions, "proof", "remark"))]
        for row in found:
            proofs = ", ".join(f"`{place}`" for place in _places(row))
            cells = (row.name, *(_cell(row, version) for version in versions), proofs, row.remark)
            lines.append(_table_line(cells))
    return "\n".join(lines) + "\n"


def as_json(versions: Sequence[str]) -> str:
    """Return the table for programs: a list of rows, each with its state and number of scenarios by version."""
    found = [
        {
            "area": row.area,
            "feature": row.name,
            "versions": {
                version: {"state": row.state(version), "scenarios": _proving(row, version)} for version in versions
            },
            "proof": list(row.proof),
            "behaviours": {behaviour.name: behaviour.reason or list(behaviour.proof) for behaviour in row.behaviours},
            "differs": row.differs,
            "instead": row.instead,
        }
        for _, rows in _by_area(versions)
        for row in rows
    ]
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


FORMATS: Final[dict[str, Callable[[Sequence[str]], str]]] = {"text": text, "markdown": markdown, "json": as_json}


def print_table(version: str | None, format_name: str) -> str:
    """Return the table in one of `FORMATS`, for one version or all. Raises ValueError for an unknown version."""
    if version is not None:
        features.refuse_unknown(version)
    return FORMATS[format_name](VERSIONS if version is None else (version,))


def _by_area(versions: Sequence[str]) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows that apply to these versions, by area."""
    found = [row for row in features.rows() if not set(versions) <= set(row.absent)]
    for area, rows in groupby(found, key=lambda row: row.area):
        yield area, list(rows)


def _proving(row: Row, version: str) -> int:
    return row.count(version) if row.state(version) == PROVEN else 0


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


def _legend(versions: Sequence[str]) -> str:
    return (
        "Features of RabbitMQ " + ", ".join(versions) + ".\n"
        "  a number     proven: this many scenarios were recorded from that version, and leveret answers each alike\n"
        "  documented   tested, but not recorded from that version\n"
        "  -            that version lacks it\n"
        "  no           leveret does not have it; the line marked ! says what happens instead"
    )


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, 110, initial_indent=_INDENT, subsequent_indent=_INDENT, break_long_words=False)


def _summary(versions: Sequence[str]) -> list[str]:
    lines = _table_head(("features", *versions))
    found = features.rows()
    for state, words in (
        (PROVEN, "proven"),
        (DOCUMENTED, "documented"),
        (NOT_THERE, "not there"),
        (ABSENT, "not in that version"),
    ):
        counts = [str(sum(row.state(version) == state for row in found)) for version in versions]
        lines.append(_table_line((words, *counts)))
    return lines


def scenario_counts(versions: Sequence[str] = VERSIONS) -> list[str]:
    """Return the lines of a Markdown table: how many scenarios each area has for each recorded version."""
    shown = [version for version in versions if version in RECORDED]
    lines = _table_head(("area", *shown))
    found = {each.area: dict(each.counts) for each in features.recorded()}
    for area, counts in found.items():
        lines.append(_table_line((f"`{area}`", *(str(counts.get(version, 0)) for version in shown))))
    totals = [str(sum(counts.get(version, 0) for counts in found.values())) for version in shown]
    return [*lines, _table_line(("all", *totals))]


def _table_head(cells: Iterable[str]) -> list[str]:
    names = tuple(cells)
    return [_table_line(names), _table_line(("---",) * len(names))]


def _table_line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
