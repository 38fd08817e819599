"""Workloads that ran on a real RabbitMQ, with its answers and the rows of its firehose, as data for a test.

`parity_recorded/VERSION.jsonl.gz` has a line for each. A line holds the steps and not only the seed, so it stays valid
when the generator changes.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

from leveret.trace.jsonl import TraceReader
from leveret.trace.rows import Row
from tests.pipeline.parity_workload import Recorded

Features = set[tuple[str, str]]

PROGRAMS = ".programs.jsonl"
_PLACE = Path(__file__).parent / "parity_recorded"


def load() -> Iterator[tuple[str, Recorded, list[Row]]]:
    """Yield each recorded workload: the version of RabbitMQ, the workload, and the rows of the firehose."""
    for path in sorted(_PLACE.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                told = json.loads(line)
                yield path.name.removesuffix(".jsonl.gz"), Recorded.of(told["workload"]), told["rows"]


def of_campaign(folder: Path) -> list[Recorded]:
    """Return the workloads whose traces are in the folder."""
    return [Recorded.of(line) for path in sorted(folder.glob(f"*{PROGRAMS}")) for line in path.open(encoding="utf-8")]


def save(version: str, folder: Path, count: int) -> Path:
    """Keep this many workloads of a campaign whose traces are in the folder: those with the most features."""
    played = of_campaign(folder)
    rows: dict[str, list[Row]] = {one.name: [] for one in played}
    for path in sorted((folder / "rabbitmq").iterdir()):
        for row in TraceReader(path):
            rows[str(row["test"])].append(row)
    chosen = _most_telling({one.name: _features(one, rows[one.name]) for one in played}, count)
    kept = [one for one in played if one.name in chosen]
    text = "".join(json.dumps({"workload": one.line(), "rows": rows[one.name]}) + "\n" for one in kept)
    _PLACE.mkdir(exist_ok=True)
    path = _PLACE / f"{version}.jsonl.gz"
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    return path


def _most_telling(features: dict[str, Features], count: int) -> set[str]:
    """Choose one workload after the other, each time the one that adds most features to those before."""
    left, chosen, seen = dict(features), set[str](), Features()
    while left and len(chosen) < count:
        name = max(left, key=lambda name: (len(left[name] - seen), name))
        seen |= left.pop(name)
        chosen.add(name)
    return chosen


def _features(workload: Recorded, rows: list[Row]) -> Features:
    """Return a workload's features: its steps with arguments and exchange types, and properties of its messages."""
    found = Features()
    for step in workload.program:
        arguments = step.fields.get("arguments")
        found.add((step.op, str(step.fields.get("type", ""))))
        found |= {(name, str(value)) for name, value in arguments.items()} if isinstance(arguments, dict) else set()
    for row in rows:
        properties = json.loads(str(row.get("attrs", "{}"))).get("properties", {})
        named = [*properties, *properties.get("headers", {}), f"redelivered {row.get('redelivered')}"]
        found |= {(str(row["kind"]), name) for name in named}
    return found
