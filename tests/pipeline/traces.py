"""Small traces, as the recorder writes them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from leveret.pipeline.kernel.schema import EVENTS
from leveret.pipeline.kernel.trace import TraceTables
from leveret.pipeline.sources import InspectedFile

Line = dict[str, Any]


class ReadTrace(NamedTuple):
    """A trace file and its events. A refused file has no events."""

    file: InspectedFile
    events: pa.Table


def read_trace(path: Path) -> ReadTrace:
    """Read a whole trace file."""
    reader = TraceTables(path)
    parts = list(reader.tables())
    return ReadTrace(reader.file, pa.concat_tables(parts) if parts else EVENTS.empty_table())


def header(run: str, worker: str = "main", **told: Any) -> Line:
    return {"leveret": "trace", "v": 1, "run": run, "worker": worker, "started": "2026-05-01T23:30:00Z", **told}


def lives(messages: int, *, queue: str = "orders", test: str = "test_it") -> list[Line]:
    """Return events of messages published, delivered and acked in turn; every third is dead-lettered instead."""
    where = {"vhost": "/", "conn": 1, "chan": 1}
    events: list[Line] = [{"kind": "test_start", "test": test}]
    for number in range(1, messages + 1):
        copy = {"vhost": "/", "queue": queue, "msg": number, "copy": number}
        dies = number % 3 == 0
        events += [
            {"kind": "published", **where, "exchange": "", "routing_key": queue, "msg": number, "size": 7},
            {"kind": "enqueued", **copy},
            {"kind": "delivered", **where, **copy, "consumer": "ctag", "tag": number, "redelivered": False, "count": 0},
            {"kind": "dead_lettered", **copy, "exchange": "", "routing_key": "dead", "reason": "rejected"}
            if dies
            else {"kind": "acked", **where, **copy, "tag": number, "multiple": False},
        ]
    events.append({"kind": "test_end", "test": test, "attrs": '{"outcome":"passed","duration":0.1}'})
    return [{"seq": number, "ts": number * 10, "test": test, **event} for number, event in enumerate(events, start=1)]


def text(lines: Iterable[Line]) -> str:
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def write(path: Path, lines: Iterable[Line]) -> Path:
    """Write a whole trace file, compressed if its name says so; it gets its name once it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = text(lines).encode()
    draft = path.with_name(f".{path.name}")
    draft.write_bytes(gzip.compress(content) if path.name.endswith(".gz") else content)
    draft.replace(path)
    return path
