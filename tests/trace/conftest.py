"""Fixtures for a broker that writes a trace file, and for reading that file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from leveret import Broker
from leveret.engine.harness import Harness
from leveret.trace.jsonl import TraceReader

Row = dict[str, Any]


class Recorded:
    """A broker, its clients, and the rows of its trace file."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._connections: list[pika.BlockingConnection] = []

    def connect(self) -> pika.BlockingConnection:
        connection = pika.BlockingConnection(pika.URLParameters(self.broker.url))
        self._connections.append(connection)
        return connection

    def channel(self) -> pika.adapters.blocking_connection.BlockingChannel:
        return self.connect().channel()

    @property
    def file(self):
        self.broker.sync()
        return Harness(self.broker).trace_file

    @property
    def reader(self) -> TraceReader:
        return TraceReader(self.file.path)

    def rows(self, *kinds: str, **columns: object) -> list[Row]:
        """Return the rows of these kinds whose columns have these values; without kinds, search all rows."""
        found = [row for row in self.reader if not kinds or row["kind"] in kinds]
        return [row for row in found if all(row.get(name) == value for name, value in columns.items())]

    def row(self, *kinds: str, **columns: object) -> Row:
        (row,) = self.rows(*kinds, **columns)
        return row

    def story(self, copy: int) -> list[str]:
        """Return what happened to a copy, in order, with the reason if an event has one."""
        found = self.rows(copy=copy)
        return [f"{row['kind']} ({row['reason']})" if "reason" in row else row["kind"] for row in found]

    def end(self) -> None:
        for connection in self._connections:
            if connection.is_open:
                connection.close()
        file = Harness(self.broker).trace_file
        self.broker.stop()
        if file is not None:
            file.close()


def attrs(row: Row) -> Any:
    """Return the contents of the column attrs."""
    return json.loads(row["attrs"])


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[Recorded]:
    recorded = Recorded(Broker(trace_dir=tmp_path / "traces").start())
    yield recorded
    recorded.end()
