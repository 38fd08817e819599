"""A broker that writes a trace file, and that file as it stands."""

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
    """This is a broker, clients of it, and the rows of its trace file."""

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
        """The rows of these kinds with these columns, all kinds when none is named."""
        found = [row for row in self.reader if not kinds or row["kind"] in kinds]
        return [row for row in found if all(row.get(name) == value for name, value in columns.items())]

    def row(self, *kinds: str, **columns: object) -> Row:
        (row,) = self.rows(*kinds, **columns)
        return row

    def story(self, copy: int) -> list[str]:
        """What happened to a copy, in order, with the reason where there is one."""
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
    """What the column attrs holds."""
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
